"""Catastrophic commands that no mode runs without asking, and git commands that throw work away for good."""

from __future__ import annotations

import itertools
import os
import posixpath
import re

from buddy.agent.tool import ToolError
from buddy.safety.git_programs import starts_program
from buddy.safety.paths import Boundary, is_beneath, locate
from buddy.safety.shell.fallback_scan import inner_commands, scavenge, targets_in_text
from buddy.safety.shell.programs.names import SHELLS, word_list, words
from buddy.safety.shell.result import UNRESOLVED, display_word
from buddy.safety.shell.write_targets import targets_of, unpacks_into

_EVERYTHING = frozenset({".", "./", ":/", ":", "*", "./*", ":/*", ":(top)"})
_VALUED = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path"})
_KEY = re.compile(r"[A-Za-z][\w-]*\..+")


def git_loss(rest: tuple[str, ...]) -> str:
    """Why no mode runs a git command without asking, "" for most. `rest`: the words behind `git`."""
    name, words = _subcommand(rest)
    flags = "".join(word[1:] for word in words if re.fullmatch(r"-[A-Za-z]+", word))
    match name:
        case "clean" if ("f" in flags or "--force" in words) and "x" in flags.lower() and "d" in flags:
            return "git clean removes everything git does not know"
        case "reset" if "--hard" in words:
            return "git reset --hard throws away every change that is not committed"
        case "checkout" | "restore" if _EVERYTHING & set(words) and "--staged" not in words:
            return f"git {name} throws away the changes of the whole folder"
        case "checkout" | "switch" if "f" in flags or "--force" in words or "--discard-changes" in words:
            return f"git {name} --force throws away every change that is not committed"
        case "stash" if words[:1] == ["clear"]:
            return "git stash clear throws away every stash"
        case "push" if "f" in flags or any(re.match(r"--force\Z|--mirror|\+", word) for word in words):
            return "git push --force replaces commits on the server"
        case "reflog" if words[:1] in (["expire"], ["delete"]):
            return "git reflog expire makes lost commits unreachable"
        case "filter-branch" | "filter-repo":
            return f"git {name} rewrites the history"
        case "config":
            return _config(words)
        case _:
            return ""


def _subcommand(rest: tuple[str, ...]) -> tuple[str, list[str]]:
    """Return the subcommand and the words behind it."""
    words = list(rest)
    while words and words[0].startswith("-"):
        if words.pop(0) in _VALUED and words:
            words.pop(0)
    return (words[0], words[1:]) if words else ("", [])


def _config(words: list[str]) -> str:
    """Return a setting of git that starts programs, when it is targets_in_text."""
    operands = [word for word in words if not word.startswith("-")]
    if operands[:1] == ["set"]:
        operands.pop(0)
    if len(operands) < 2 or any(word.startswith(("--get", "--unset")) for word in words):
        return ""
    at = next((at for at, word in enumerate(operands) if _KEY.fullmatch(word)), -1)
    if at < 0 or operands[0] in ("get", "unset", "list"):
        return ""
    value = operands[at + 1] if at + 1 < len(operands) else None
    return (
        f"git config sets {operands[at]}, which starts programs"
        if starts_program(operands[at], value)
        else ""
    )


MAX_LOCATED = 100
_STREAMS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"})
_STOPS = words("shutdown reboot halt poweroff telinit init")
_FORMATS = re.compile(
    r"mkfs(?:\..+)?|mke2fs|mkswap|wipefs|fdisk|sfdisk|cfdisk|gdisk|sgdisk|parted|blkdiscard|hdparm|badblocks"
)
_DEVICE = re.compile(r"/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|disk|rdisk|loop|dm-|mapper/|md|mem|kmem|port|zram)")
_WRITERS = word_list("writers")
_RECURSIVE = re.compile(r"-[A-Za-z]*[rR][A-Za-z]*|--r(?:e(?:c.*)?)?")
_DELETES_IN_TEXT = re.compile(r"(?:\A|[/\s;&|(])(?:rm|shred|unlink)(?:\s|\Z)")
_FORK_BOMB = re.compile(r"([\w:.]{1,20})\s{0,9}\(\s{0,9}\)\s{0,9}\{[^}]{0,80}?\1\s{0,9}\|\s{0,9}\1\s{0,9}&")
_DANGEROUS_TEXT = re.compile(
    r"\brm\b[^;&|\n]{0,200}\s-[A-Za-z-]*[rR]|\bmkfs|\bdd\b[^;&|\n]{0,200}\bof=|>\s*/dev/(?:sd|nvme|hd|vd|disk)|\b(?:shutdown|reboot|"
    r"poweroff|halt)\b|-delete\b"
)


def catastrophe(argv: tuple[str, ...], boundary: Boundary) -> str:
    """Why a command may destroy far more than a project can lose, "" when it does not look like it."""
    if not argv:
        return ""
    name, rest = argv[0].rpartition("/")[2], argv[1:]
    if name in _STOPS or (name == "systemctl" and any(word in _STOPS | {"kexec"} for word in rest)):
        return f"{name} stops the machine"
    if _FORMATS.fullmatch(name):
        return f"{name} rewrites disks"
    if name == "dd" and any(word.startswith("of=") and _DEVICE.match(word[3:]) for word in rest):
        return "dd writes over a disk"
    if name in ("shred", "tee", "cp", "mv", "cat") and any(_DEVICE.match(word) for word in rest):
        return f"{name} touches a disk"
    if name == "kill" and "-1" in rest[1:]:
        return "kill -1 ends everything"
    if name in ("rm", "chmod", "chown", "chgrp", "mv", "shred", "unlink", "rmdir"):
        return _hits_too_much(name, rest, boundary)
    if name == "find" and ("-delete" in rest or _executes_rm(rest)):
        found = _finds_too_much(rest, boundary)
        return f"find deletes in {found}" if found else ""
    if name == "crontab" and any(word != "-l" for word in rest):
        return "crontab changes what is started without anybody watching"
    if name == "git":
        return git_loss(rest)
    return _fills_or_empties(name, rest, boundary)


def catastrophe_across(commands: list[tuple[str, ...]], boundary: Boundary) -> str:
    """Do the same for effects of several commands together: a text piped into a shell, a list of names piped
    into a delete."""
    texts: list[str] = []
    for position, argv in enumerate(commands):
        if _reads_commands(argv):
            texts = [word for earlier in commands for word in earlier[1:] if re.search(r"\s", word)]
        if argv and posixpath.basename(argv[0]) == "xargs" and any(map(_deletes_trees, inner_commands(argv))):
            lister = commands[position - 1] if position else ()
            found = _lists_too_much(lister, boundary)
            if found:
                return f"xargs rm -r deletes {found}"
    for text in texts:
        for target in targets_in_text(text):
            reason = unknown_target(target, boundary)
            if reason:
                return f"a shell is given the text {text[:60]!r}: {reason}"
        for argv in scavenge(text):
            for command in (argv, *inner_commands(argv)):
                reason = catastrophe(command, boundary) or protected_write(command, boundary)
                if reason:
                    return f"a shell is given the text {text[:60]!r}: {reason}"
    return ""


def _reads_commands(argv: tuple[str, ...]) -> bool:
    """Tell whether a command is a shell that reads its commands from a pipe."""
    names = [posixpath.basename(word) for word in argv]
    shells = [at for at, name in enumerate(names) if name in SHELLS]
    return bool(shells) and all(word.startswith("-") for word in argv[shells[-1] + 1 :]) and "-c" not in argv


def _deletes_trees(argv: tuple[str, ...]) -> bool:
    return posixpath.basename(argv[0]) == "rm" and any(map(_RECURSIVE.fullmatch, argv[1:]))


def _lists_too_much(lister: tuple[str, ...], boundary: Boundary) -> str:
    name = posixpath.basename(lister[0]) if lister else ""
    if name == "find":
        return _finds_too_much(lister[1:], boundary)
    if name == "ls":
        operands = [word for word in lister[1:] if not word.startswith("-")] or ["."]
        return next(filter(None, (_too_much(operand, boundary) for operand in operands)), "")
    if name in ("git", "rg", "fd", "fdfind", "grep"):
        return ""
    return "names that are only known when it runs"


def _finds_too_much(rest: tuple[str, ...], boundary: Boundary) -> str:
    """Return the place that holds everything which a find goes through; of the workspace, only all of it
    counts."""
    starts = _before_expression(rest) or ["."]
    narrowed = any(word in ("-name", "-iname", "-path", "-ipath", "-regex", "-empty") for word in rest)
    for start in starts:
        found = _too_much(start, boundary)
        if found and not (narrowed and found.startswith("the whole workspace")):
            return found
    return ""


def _fills_or_empties(name: str, rest: tuple[str, ...], boundary: Boundary) -> str:
    """Judge unpacking an archive or copying a tree over a place that contains everything."""
    for target, verb in unpacks_into(name, rest):
        if UNRESOLVED in target:
            continue
        found = _too_much(target, boundary)
        if found and (verb == "empties" or not found.startswith("the whole workspace")):
            return f"{name} {verb} {found}"
    return ""


def _executes_rm(rest: tuple[str, ...]) -> bool:
    return any(word in rest for word in ("-exec", "-execdir", "-ok", "-okdir")) and any(
        _DELETES_IN_TEXT.search(word) for word in rest
    )


def _before_expression(rest: tuple[str, ...]) -> list[str]:
    words_ = (word for word in rest if word not in ("-H", "-L", "-P"))
    return list(itertools.takewhile(lambda word: not word.startswith("-") and word not in ("(", "!"), words_))


def _hits_too_much(name: str, rest: tuple[str, ...], boundary: Boundary) -> str:
    flags = [word for word in rest if word.startswith("-")]
    recursive = any(map(_RECURSIVE.fullmatch, flags))
    if name in ("chmod", "chown", "chgrp", "rm") and not recursive:
        return ""
    operands = [word for word in rest if not word.startswith("-")]
    for operand in operands[:-1] if name == "mv" and len(operands) > 1 else operands:
        if recursive and name == "rm" and UNRESOLVED in operand:
            return "rm -r of something that is only known when it runs"
        found = _too_much(operand, boundary)
        if found:
            return f"{name} of {found}"
    return ""


def _too_much(operand: str, boundary: Boundary) -> str:
    """Name the place an operand means if deleting it would delete everything (workspace, home, system folder,
    .git); "" for any other."""
    text, operand = operand, display_word(operand)
    stem = re.sub(r"(?:/|\A)(?:\*|\.\*|\.\[!\.\]\*|\{[^}]*\*[^}]*\})\Z", "", text) if text != "/" else text
    if stem != text:
        text = stem or ("/" if operand.startswith("/") else ".")
    if text.startswith("~") and not re.fullmatch(r"~(?:/.*)?", text):
        return f"the home folder {text}"
    if text == "~" or text.startswith("~/"):
        text = boundary.home + text[1:]
    # By the text alone: deleting a link deletes the link, and this runs for every word of long commands.
    real = posixpath.normpath(posixpath.join(boundary.cwd, text))
    if is_beneath(boundary.root, real):
        return (
            f"the whole workspace ({operand})"
            if real == boundary.root
            else f"{real}, which holds the workspace"
        )
    if is_beneath(boundary.home, real):
        return f"the home folder ({operand})"
    if os.path.dirname(real) == "/" and real != "/tmp":  # noqa: S108 - the one top-level folder meant to be emptied
        return f"the system folder {real}"
    if real in (os.path.join(tree, ".git") for tree in (boundary.root, boundary.main) if tree):
        return "the repository itself (.git)"
    return ""


def protected_write(argv: tuple[str, ...], boundary: Boundary) -> str:
    """Why a command that writes would touch a protected file, "" when it would not."""
    name = argv[0].rpartition("/")[2] if argv else ""
    for target in targets_of(name, argv[1:MAX_LOCATED]):
        reason = protected_target(target, boundary)
        if reason:
            return f"{name} writes a file: {reason}"
    if name not in _WRITERS:
        return ""
    if name in ("sed", "perl") and not any(re.match(r"-\w*i|--in", word) for word in argv):
        return ""
    for word in argv[1:MAX_LOCATED]:
        value = word.partition("=")[2] if word.startswith(("of=", "--")) else word
        judge = unknown_target if name == "tee" else protected_target
        reason = judge(value, boundary) if value and not value.startswith("-") else ""
        if reason:
            return reason
    return ""


def unknown_target(path: str, boundary: Boundary, as_written: str = "") -> str:
    """Do the same for the target of a redirection: one that only the running shell knows may be any file.
    `as_written` is the target in the command."""
    reason = protected_target(path, boundary)
    if reason or UNRESOLVED not in path:
        return reason
    return (
        f"it writes {as_written or display_word(path)}, which is only known when it runs and may be protected"
    )


def protected_target(path: str, boundary: Boundary) -> str:
    """Why a path must not be targets_in_text without asking, "" when it may."""
    if path in _STREAMS:
        return ""
    if _DEVICE.match(path):
        return f"{path} is a disk"
    try:
        located = locate(boundary, display_word(path))
    except ToolError:
        return ""
    return f"{located.shown} is protected: {located.protected}" if located.protected else ""


def bomb(text: str) -> str:
    """Why a text looks like a function that starts itself without end, "" when it does not."""
    return "it starts itself without end" if _FORK_BOMB.search(text) else ""


def suspicious_text(text: str) -> str:
    """For a text that could not be parsed: why it looks as if it could destroy everything."""
    return "it could not be parsed and may delete recursively" if _DANGEROUS_TEXT.search(text) else ""
