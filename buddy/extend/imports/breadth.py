"""Rules that allow more than a person who imports them would expect."""

from __future__ import annotations

import ntpath
import os

from buddy.agent.lazy_regex import pattern
from buddy.safety.policy.rules import Rule

_REASONS = {
    "shell": "it allows every command; mode auto runs commands in the sandbox unasked",
    "edit": "it allows every edit; that is mode edit",
    "read": "reads in the workspace need no rule",
    "fetch": "it allows every address",
}
_ANY_FILE = "it allows every file there is"
_ANY_COMMAND = "what may follow is any command or code; name the command itself in a rule"
_WORD = pattern(r"\w")
_RUNNERS = frozenset(
    {
        *("sh", "bash", "zsh", "dash", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "busybox", "pwsh"),
        *("env", "xargs", "sudo", "doas", "su", "nohup", "time", "nice", "ionice", "timeout", "setsid"),
        *("stdbuf", "chrt", "taskset", "watch", "parallel", "exec", "eval", "command", "builtin", "source"),
        *(".", "node", "nodejs", "deno", "bun", "perl", "ruby", "php", "lua", "osascript", "awk", "gawk"),
        *(
            "npx",
            "pnpx",
            "bunx",
            "uvx",
            "ipython",
            "powershell",
            "cmd",
            "script",
            "strace",
            "unshare",
            "chroot",
        ),
    }
)
_JOINERS = frozenset({"powershell", "pwsh", "cmd", "eval", "watch"})
_PYTHON = pattern(r"(?:python|pypy)[0-9.]*")
_SETTING = pattern(r"-.*|\+.*|[A-Za-z_][A-Za-z0-9_]*=.*|[0-9.]+[smhd]?")
_BEFORE_VALUE = frozenset({"-u", "-g", "-I", "-L", "-P", "-k", "-s", "-C"})
"""Options of runners whose next word is their value, such as `sudo -u NAME`."""


_RUNS = "it runs any command that is named behind it"
_OPTIONS_RUN = "options of it run any command"
_INSTALLS = "what it installs brings code that runs"
_CHANGES = "it changes any file, outside of the project too"
_SHOWS = "it shows any file, secret ones too"
_SENDS = "it sends anything to any host"
_LAUNCHERS = (
    "uv run|uv tool run|poetry run|pipx run|pdm run|hatch run|rye run|pixi run|conda run|mamba run|npm exec"
    "|npm x|yarn exec|yarn dlx|pnpm exec|pnpm dlx|bundle exec|go run|mise exec|direnv exec|dotenv"
    "|systemd-run|rlwrap|entr|uv|poetry|npm|yarn|pnpm|make|gmake|just|docker|podman|kubectl|nix"
)
"""Programs that run what is named behind them: a rule that names it is judged by that."""
_WITH_SUBCOMMANDS = ((_OPTIONS_RUN, "git"), (_SENDS, "aws|gcloud"))
"""Programs of which a rule with a subcommand means that alone."""
_ALWAYS: tuple[tuple[str, str], ...] = (
    (
        _RUNS,
        "docker run|docker exec|docker compose|podman run|podman exec|kubectl exec|kubectl run|nix run"
        "|nix develop|nix shell|nix-shell|ssh|tmux|screen|at|batch|crontab|gdb|lldb|expect",
    ),
    (
        _OPTIONS_RUN,
        "find|fd|tar|sed|vim|vi|nvim|emacs|ed|ex|less|more|man|sqlite3|psql|mysql|rsync|zip|sort|rg",
    ),
    (
        _INSTALLS,
        "pip install|pip3 install|uv pip install|uv add|poetry add|npm install|npm i|yarn add|pnpm add"
        "|pnpm install|bun add|bun install|gem install|cargo install|go install|brew install|apt install"
        "|apt-get install",
    ),
    (_CHANGES, "rm|mv|cp|tee|dd|ln|chmod|chown|chgrp|truncate|install|shred"),
    (_SHOWS, "cat|head|tail|bat|grep|egrep|fgrep|jq|strings|xxd|od|base64|tac|nl|cut"),
    (_SENDS, "curl|wget|scp|sftp|ftp|nc|ncat|netcat|telnet|socat|http|gh api"),
)
"""Commands that mean more than their words with anything behind them, whatever stands before that."""

Argv = tuple[tuple[str, ...], ...]


def wide_meaning(rule: Rule) -> str:
    """Return what a rule that allows means beyond its words; "" where it is no more than they say."""
    if not rule.open_end:
        return ""
    return _RUNS if _joins_words(rule.argv) else _meaning(rule.argv)


def _joins_words(argv: Argv) -> bool:
    """Tell whether a program runs all its words as one line of a shell, those after the script too."""
    launchers = argv[: len(argv) - len(_behind_runners(argv))] if argv else ()
    names = {ntpath.basename(word).lower().removesuffix(".exe") for words in launchers for word in words}
    return not _JOINERS.isdisjoint(names)


def _meaning(argv: Argv) -> str:
    argv = _behind_runners(argv) if argv else ()
    for meaning, commands in _ALWAYS:
        if any(_rest(argv, command) is not None for command in commands.split("|")):
            return meaning
    for meaning, commands in _WITH_SUBCOMMANDS:
        if any(_is_open(_rest(argv, command)) for command in commands.split("|")):
            return meaning
    for command in _LAUNCHERS.split("|"):
        rest = _rest(argv, command)
        if rest is not None and (_is_open(rest) or _is_runner(rest) or _meaning(rest)):
            return _RUNS
    return ""


def _rest(argv: Argv, command: str) -> Argv | None:
    """Return the words of a rule behind a command, None where it is for another one."""
    words = command.split()
    is_for_it = len(words) <= len(argv) and all(
        word in map(os.path.basename, choice) for word, choice in zip(words, argv, strict=False)
    )
    return argv[len(words) :] if is_for_it else None


def _is_open(rest: Argv | None) -> bool:
    """Tell whether anything, or an option, follows."""
    return rest is not None and (not rest or any(word.startswith("-") for word in rest[0]))


def reason_too_wide(rule: Rule) -> str:
    """Return why a rule that allows is too wide, "" where it is not."""
    if rule.tool.startswith("mcp:"):
        return ""
    if rule.path and not _WORD().search(rule.path):
        is_anywhere = rule.path.startswith(("/", "~", ".."))
        return _ANY_FILE if is_anywhere else _REASONS.get(rule.tool, _ANY_FILE)
    if rule.host and (not _WORD().search(rule.host) or _is_top_level(rule.host)):
        return _REASONS["fetch"]
    if rule.argv:
        return _ANY_COMMAND if rule.open_end and _is_runner(rule.argv) else ""
    return "" if rule.path or rule.host else _REASONS.get(rule.tool, "it allows every call")


def _is_top_level(host: str) -> bool:
    return host.startswith(".") and "." not in host.strip(".")


def _is_runner(argv: Argv) -> bool:
    """Tell whether the words are only programs that run another one, and their options."""
    return not _behind_runners(argv)


def _behind_runners(argv: Argv) -> Argv:
    """Return the words behind programs that run another one, and their options."""
    has_values = not any(_PYTHON().fullmatch(os.path.basename(word)) for word in argv[0])
    before: tuple[str, ...] = ()
    for at, words in enumerate(argv):
        is_value = has_values and at > 1 and not _BEFORE_VALUE.isdisjoint(before)
        if not is_value and not any(_runs_others(word, first=at == 0) for word in words):
            return argv[at:]
        before = words
    return ()


def _runs_others(word: str, *, first: bool) -> bool:
    """Tell whether a word runs what follows it, or only sets how."""
    name = ntpath.basename(word)
    if name.lower().removesuffix(".exe") in _RUNNERS or _PYTHON().fullmatch(name):
        return True
    return _SETTING().fullmatch(word) is not None and (not first or "=" in word)
