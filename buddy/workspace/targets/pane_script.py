"""The text that a pane's shell reads for one command. Pure.

The command runs in a subshell of the person's shell: it has their aliases, functions and variables, and its
`cd`, `exit` and `set -e` end with it. Two marks in the output, which no terminal shows, say where it begins
and ends, and with which exit code."""

from __future__ import annotations

from collections.abc import Mapping

from buddy.agent.lazy_regex import pattern
from buddy.agent.tool import ToolError
from buddy.safety.sanitise import one_line
from buddy.workspace.targets.supervisor import quote

MARK = "7791"
"""The number of the escape sequence (OSC) of the marks; terminals ignore those that they don't know."""
POSIX_SHELLS = frozenset({"bash", "zsh", "dash", "sh", "ash", "ksh", "ksh93", "mksh", "busybox"})
SHELLS = frozenset({*POSIX_SHELLS, "fish"})
MAX_TITLE_CHARS = 120
_PLAIN = pattern(r"[A-Za-z0-9_./-]+")

_POSIX = r"""\command printf '%s\n' {title}
(
\export {variables}
\trap 'exit 130' INT
\command sh -c 'printf "\033]{mark};%s;begin;%s\007" {tag} "$PPID"' && \cd {folder} && \. {command}
)
\command printf '\033]{mark};%s;end;%s\007' {tag} "$?"
"""
# Neither an alias nor a function of the person may take the place of what brings the marks; without the first
# one nothing runs.
# A shell whose subshell dies of C-c gives up the rest of this file, and with it the mark of the end: so the
# subshell exits instead.

_FISH = r"""printf '%s\n' {title}
env {variables} fish -c 'printf "\033]{mark};%s;begin;%s\007" {tag} $fish_pid
builtin cd $argv[1]; and source $argv[2]' {folder} {command}
printf '\033]{mark};%s;end;%s\007' {tag} $status
"""


def command_script(
    shell: str, *, tag: str, title: str, folder: str, command: str, variables: Mapping[str, str]
) -> str:
    """Return the text for a shell. `command` is the path of the file with the command, `variables` are set
    for it alone; `title` is what a person reads above its output; `tag` is for the marks, and none of the
    variables may give it away to the command."""
    is_fish = shell == "fish"
    quoted = quote_for_fish if is_fish else quote
    return (_FISH if is_fish else _POSIX).format(
        mark=MARK,
        tag=tag,
        title=quoted(f"buddy: {one_line(title, MAX_TITLE_CHARS)}"),
        folder=quoted(folder),
        command=quoted(command),
        variables=" ".join(f"{name}={quoted(value)}" for name, value in variables.items()),
    )


def typed_line(shell: str, path: str) -> str:
    """Return the line that is typed: with a blank before it, so that shells that are told to keep it out of
    their history do."""
    quoted = quote_for_fish(path) if shell == "fish" else quote(path)
    word = path if _PLAIN().fullmatch(path) else quoted  # a person reads it
    return f" source {word}" if shell == "fish" else f" . {word}"


def check_command(command: str) -> None:
    """Raise `ToolError` for a command that no shell can read."""
    if "\0" in command:
        raise ToolError("the command holds a NUL character, which no command line can")


def quote_for_fish(text: str) -> str:
    """Return a text as one word of fish."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
