"""Rules that allow more than a person who imports them would expect."""

from __future__ import annotations

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
        *("npx", "pnpx", "bunx", "uvx", "ipython", "powershell", "script", "strace", "unshare", "chroot"),
    }
)
_PYTHON = pattern(r"(?:python|pypy)[0-9.]*")
_SETTING = pattern(r"-.*|\+.*|[A-Za-z_][A-Za-z0-9_]*=.*|[0-9.]+[smhd]?")
_BEFORE_VALUE = frozenset({"-u", "-g", "-I", "-L", "-P", "-k", "-s", "-C"})
"""Options of runners whose next word is their value, such as `sudo -u NAME`."""


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


def _is_runner(argv: tuple[tuple[str, ...], ...]) -> bool:
    """Tell whether the words are only programs that run another one, and their options."""
    has_values = not any(_PYTHON().fullmatch(os.path.basename(word)) for word in argv[0])
    before: tuple[str, ...] = ()
    for at, words in enumerate(argv):
        is_value = has_values and at > 1 and not _BEFORE_VALUE.isdisjoint(before)
        if not is_value and not any(_runs_others(word, first=at == 0) for word in words):
            return False
        before = words
    return True


def _runs_others(word: str, *, first: bool) -> bool:
    """Tell whether a word runs what follows it, or only sets how."""
    name = os.path.basename(word)
    if name in _RUNNERS or _PYTHON().fullmatch(name):
        return True
    return _SETTING().fullmatch(word) is not None and (not first or "=" in word)
