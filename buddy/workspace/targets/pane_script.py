"""The text that a pane's shell reads for one command. Pure.

The command runs in a subshell of the person's shell: it has their aliases, functions and variables, and its
`cd`, `exit` and `set -e` end with it. Two marks in the output, which no terminal shows, say where it begins
and ends, and with which exit code."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.agent.tool import ToolError
from buddy.safety.sanitise import one_line
from buddy.workspace.targets.supervisor import quote

MARK = "7791"
"""The number of the escape sequence (OSC) of the marks; terminals ignore those that they don't know."""
POSIX_SHELLS = frozenset({"bash", "zsh", "dash", "sh", "ash", "ksh", "ksh93", "mksh", "busybox"})
MODES = r"\033[?1000;1002;1003;1004;1005;1006l\033[?25h\033[?7h\033[4l\033[>4;0m\033[0m\033(B\017"
"""What puts the terminal back as a shell wants it: no reports of the mouse and of focus, a cursor, lines that
wrap, no insert mode, plain keys, no colour, letters. Shells care for bracketed paste themselves. Leaving the
alternate screen would move the cursor of a terminal that does not show it."""
SHELLS = frozenset({*POSIX_SHELLS, "fish"})
MAX_TITLE_CHARS = 120
_PLAIN = pattern(r"[A-Za-z0-9_./-]+")

_RUN = r"""case $- in
*e*) \set +e; \. {body}; \set -e;;
*) \. {body};;
esac
"""
"""A person's shell with `set -e` would end with the first command that fails."""

_BODY = r"""\command printf '%s\n' {title}
(
\trap : INT
buddy_modes=$(\command stty -g 2>/dev/null)
(
\export {variables}
\unset buddy_modes
\trap 'exit 130' INT
\command sh {begin} && \cd {folder} && \. {command}
)
buddy_code=$?
[ -z "$buddy_modes" ] || \command stty "$buddy_modes" 2>/dev/null
\exit $buddy_code
)
\command printf '\033]{mark};%s;end;%s\007{modes}' {tag} "$?"
"""
# Neither an alias nor a function of the person may take the place of what brings the marks; without the first
# one nothing runs.
# A shell whose subshell dies of C-c gives up the rest of this file, and with it the mark of the end: so the
# subshells go on and exit instead. The outer one gives the terminal its modes back: a shell that finds echo
# off leaves it off.

_FISH = r"""printf '%s\n' {title}
env {variables} fish -c 'command sh $argv[1]
and builtin cd $argv[2]; and source $argv[3]' {begin} {folder} {command}
printf '\033]{mark};%s;end;%s\007{modes}' {tag} $status
"""

_BEGIN = r"""printf '\033]{mark};%s;begin;%s\007' {tag} "$PPID"
rm -f {files}
"""
"""It takes away what names the tag of the marks: the command must not read it and tell an end."""


class CommandFiles(msgspec.Struct, frozen=True):
    """The paths of the files for one command: the command itself, and what the shell reads to run it."""

    command: str
    run: str
    body: str
    begin: str


def command_files(folder: str) -> CommandFiles:
    """Return the paths in a folder for one command."""
    return CommandFiles(*(posixpath.join(folder, name) for name in ("command", "run", "body", "begin")))


def command_scripts(
    shell: str, files: CommandFiles, *, tag: str, title: str, folder: str, variables: Mapping[str, str]
) -> dict[str, str]:
    """Return the text of each file for a shell but that of the command. `variables` are set for it alone;
    `title` is what a person reads above its output; `tag` is for the marks, and none of the variables may
    give it away to the command."""
    is_fish = shell == "fish"
    quoted = quote_for_fish if is_fish else quote
    values = {
        "mark": MARK,
        "modes": MODES,
        "tag": tag,
        "title": quoted(f"buddy: {one_line(title, MAX_TITLE_CHARS)}"),
        "folder": quoted(folder),
        "command": quoted(files.command),
        "body": quoted(files.body),
        "begin": quoted(files.begin),
        "variables": " ".join(f"{name}={quoted(value)}" for name, value in variables.items()),
    }
    with_tag = " ".join(quote(path) for path in (files.run, files.body, files.begin))
    scripts = {files.begin: _BEGIN.format(mark=MARK, tag=tag, files=with_tag)}
    if is_fish:
        return {**scripts, files.run: _FISH.format_map(values)}
    return {**scripts, files.run: _RUN.format_map(values), files.body: _BODY.format_map(values)}


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
