"""Recognise commands of the person that need the terminal for themselves. Pure.

A `!command` runs with its output on a pipe and nothing to read: an editor would fail there with a riddle, or
fill the screen with control sequences. Programs that print when nobody is there (less, man, top -b) are none
of them.
"""

from __future__ import annotations

import os
import shlex

from buddy.agent.pattern import pattern

_FULL_SCREEN = pattern(
    r"vi|n?vim|view|vimdiff|nano|pico|micro|emacs|hx|helix|kak|joe|mc|[hba]?top|tig|lazygit|gitui|ncdu|ranger"
    r"|nnn|lf|yazi|fzf|tmux|screen|k9s|watch"
)
_MESSAGE = ("-m", "-F", "-C", "--message", "--file", "--reuse-message", "--no-edit", "--fixup", "--dry-run")
_PRINTS = {
    "top": ("-b",),
    "tmux": ("ls", "list-sessions", "-V"),
    "fzf": ("-f", "--filter"),
    "screen": ("-ls",),
}


def terminal_program(command: str) -> str:
    """Name the program of a simple command that needs the terminal; "" where it needs none, and where the
    command is more than one program."""
    try:
        words = shlex.split(command)
    except ValueError:
        return ""
    if any(sign in command for sign in "|&;<>`\n") or "$(" in command:
        return ""
    while words and (words[0] in ("sudo", "env") or _is_assignment(words[0])):
        words = words[1:]
    if not words:
        return ""
    name, arguments = os.path.basename(words[0]), words[1:]
    if name == "git":
        return _git(arguments)
    if not _FULL_SCREEN().fullmatch(name) or any(one in ("--version", "--help") for one in arguments):
        return ""
    batch = any(one.startswith(_PRINTS.get(name, ())) for one in arguments)
    return "" if batch else name


def _git(arguments: list[str]) -> str:
    """Name the git command when it would open an editor."""
    match arguments:
        case ["commit", *rest]:
            short = any(one.startswith("-") and not one.startswith("--") and "m" in one[1:] for one in rest)
            return "" if short or any(one.startswith(_MESSAGE) for one in rest) else "git commit"
        case ["rebase", *rest]:
            return "git rebase -i" if "-i" in rest or "--interactive" in rest else ""
        case ["add" | "checkout" | "restore" | "stash" as verb, *rest]:
            return f"git {verb} -p" if "-p" in rest or "--patch" in rest else ""
        case _:
            return ""


def _is_assignment(word: str) -> bool:
    name, sign, _value = word.partition("=")
    return bool(sign) and name.isidentifier()
