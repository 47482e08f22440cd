"""Programs that start the command among their arguments: the inner command is judged instead, or the whole
asked about."""

from __future__ import annotations

import re
from collections.abc import Callable

from buddy.safety.shell.context import FOUND_NAME, Feed, JudgedCommand, RefusedError
from buddy.safety.shell.programs.names import ONLY_PRINT, word_list, words
from buddy.safety.shell.programs.options import parse, table
from buddy.safety.shell.secret_search import check_dashes, check_links, check_names

Judge = Callable[[JudgedCommand], None]
HARMLESS_ASSIGNMENTS = word_list("harmless assignments")
"""Variables that may be set for a command: they change how it prints, not what it does."""

_HARDENED = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
"""What a command that only reads has in its environment anyway."""

_PAGERS = words("PAGER GIT_PAGER MANPAGER SYSTEMD_PAGER BAT_PAGER AWS_PAGER")
"""Variables that name a program; cat is no pager at all."""

_HARMLESS_VALUE = re.compile(r"(?!.*\.\.)[A-Za-z0-9_.:@/+-]{0,64}")

_SPLIT_NAMES_DO_NO_HARM = words(
    "grep egrep fgrep wc cat head ls stat du md5sum sha1sum sha256sum sha512sum cksum basename dirname "
    "echo nl realpath readlink"
)
"""Programs that may be given names without NULs between them."""

_LOOKS_ONLY = words("ls stat du realpath readlink")


def check_assignment(name: str, value: str) -> None:
    """Refuse a variable that could change what a command does."""
    if (name in _PAGERS and value in ("", "cat")) or _HARDENED.get(name) == value:
        return
    if (
        name not in HARMLESS_ASSIGNMENTS
        or not _HARMLESS_VALUE.fullmatch(value)
        or value.startswith(("/", "..", ":"))
    ):
        raise RefusedError(f"it sets {name}")


def env_with(judge: Judge) -> Judge:
    """env: harmless assignments and another command; alone it prints the environment. No options: -i and -u
    take away what keeps git and npm from starting programs."""

    def env(judged: JudgedCommand) -> None:
        rest = list(judged.argv[1:])
        while rest and re.fullmatch(r"[A-Za-z_]\w*=.*", rest[0], re.DOTALL):
            name, _, value = rest.pop(0).partition("=")
            check_assignment(name, value)
        if not rest:
            raise RefusedError("env prints the environment")
        if rest[0].startswith("-"):
            raise RefusedError(f"env {rest[0]} changes the environment that keeps a command harmless")
        _inner(judged, rest, judge)

    return env


def _inner(judged: JudgedCommand, rest: list[str], judge: Judge) -> None:
    """Judge what is left of a wrapper's words."""
    if not rest or rest[0].startswith("-") or "=" in rest[0]:
        raise RefusedError(f"{judged.argv[0]} {rest[0] if rest else 'without a command'}")
    inner = judged.again(tuple(rest))
    judge(inner)
    judged.lists = inner.lists


def timeout_with(judge: Judge) -> Judge:
    """timeout."""

    def timeout(judged: JudgedCommand) -> None:
        given = parse(judged, table("timeout").options, stop_at_operand=True)
        if not given.operands or not re.fullmatch(r"\d+(?:\.\d+)?[smhd]?", given.operands[0]):
            raise RefusedError("timeout without a time")
        _inner(judged, list(given.operands[1:]), judge)

    return timeout


def prefix_with(judge: Judge, options: str) -> Judge:
    """Make the judge of a wrapper with options first and the command as first operand."""

    def prefix(judged: JudgedCommand) -> None:
        given = parse(judged, options, stop_at_operand=True)
        _inner(judged, list(given.operands), judge)

    return prefix


def command_with(judge: Judge) -> Judge:
    """command: -v and -V only look names up."""

    def command(judged: JudgedCommand) -> None:
        if len(judged.argv) > 1 and judged.argv[1] in ("-v", "-V"):
            return
        _inner(judged, list(judged.argv[1:]), judge)

    return command


def time_with(judge: Judge) -> Judge:
    """time: to bash it is a word of its own, which knows only -p."""

    def time(judged: JudgedCommand) -> None:
        rest = list(judged.argv[1:])
        if rest[:1] == ["-p"]:
            rest.pop(0)
        _inner(judged, rest, judge)

    return time


def shell_with(judge_text: Callable[[JudgedCommand, str], None]) -> Judge:
    """bash -c and sh -c: the text is judged as a command line of its own."""

    def shell(judged: JudgedCommand) -> None:
        if len(judged.argv) != 3 or judged.argv[1] != "-c":
            raise RefusedError(f"{judged.argv[0]} runs what it is given")
        text = judged.argv[2]
        if judged.argv[0] == "sh" and re.search(r"\$'|[{}~]|&>|<<<|\[!|\[\^", text):
            raise RefusedError("sh may read this differently from bash")
        judged.widen(f"{judged.argv[0]} -c")
        judge_text(judged, text)

    return shell


def xargs_with(judge: Judge) -> Judge:
    """Judge xargs: names from a known source, passed to a command that may read them."""

    def xargs(judged: JudgedCommand) -> None:
        given = parse(judged, table("xargs").options, stop_at_operand=True)
        words_ = list(given.operands) or ["echo"]
        judged.widen("xargs")
        if judged.feed is None and words_[0] not in ONLY_PRINT:
            raise RefusedError("xargs takes words that are not known to be names of files in the workspace")
        if judged.feed is not None and words_[0] not in ONLY_PRINT:
            _check_source(judged, judged.feed, words_, given.value("-d"), nul=given.has("-0", "--null"))
        judged.stands_for = judged.feed or Feed((), anchored=False)
        mark = given.value("-I")
        name = FOUND_NAME
        if mark is None:
            _inner(judged, [*words_, name, name, name], judge)
            return
        if not re.fullmatch(r"\{\}|[%@]|FILE", mark) or words_[0] == mark:
            raise RefusedError(f"xargs -I {mark}")
        if any(mark in word and word != mark for word in words_):
            raise RefusedError("xargs puts a name inside another word")
        _inner(judged, [name if word == mark else word for word in words_], judge)

    return xargs


def _check_source(
    judged: JudgedCommand, feed: Feed, words_: list[str], delimiter: str | None, *, nul: bool
) -> None:
    """Refuse names that are split in another way than they are given, or may pass for options."""
    program = words_[0]
    if nul != feed.nul or delimiter not in (None, "\\n", "\n"):
        raise RefusedError("xargs splits names in another way than they are given")
    if program not in _SPLIT_NAMES_DO_NO_HARM and not (feed.anchored and nul):
        raise RefusedError(f"a name may look like an option to {program}")
    if not feed.anchored and "--" not in words_:
        check_dashes(judged, program)
    if program in _LOOKS_ONLY:
        return
    if not nul:
        check_names(judged, feed.roots, r"\n" if delimiter else r"[\s'\"\\]")
    if not feed.no_links:
        check_links(judged, feed.roots, feed.filters)
