"""A call whose arguments still arrive, as it is shown in the live region: what is being written, how much of
it there is, its last lines. Pure.

One row a line of the text, so that the height only grows until it is full, and nothing jumps.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from buddy.agent.counting import counted
from buddy.repl import words
from buddy.repl.style import Line, Look
from buddy.repl.view_state import Calling
from buddy.repl.width import cells, fit_line
from buddy.safety.sanitise import clean, one_line
from buddy.tools.arguments_so_far import ArgumentsSoFar

Colour = Callable[[str, str], Line]
"""A line of code in a language, with styles."""

PATH_CHARS = 60
_LANGUAGES = {"h": "c", "hpp": "cpp", "kt": "kotlin", "yml": "yaml", "mjs": "js", "cjs": "js", "pyi": "py"}
_SIGNS = {"old": ("removed", "- "), "new": ("added", "+ ")}
_DIFF_STYLES = {"+": "added", "-": "removed", "@": "hunk", "*": "bold"}


def uncoloured(code: str, _language: str) -> Line:
    """A line without colours."""
    return [("", code)]


def arriving_words(phase: Calling) -> str:
    """Describe the file that is being written, and how much of it has arrived."""
    so_far = phase.so_far
    lines = counted(so_far.lines(), "line")
    path = one_line(so_far.path, PATH_CHARS)
    match phase.name, so_far.part:
        case "write_file", "content":
            return f"writing {path or 'a file'}, {lines}"
        case "edit_file", "old":
            return f"editing {path or 'a file'}, {lines} out"
        case "edit_file", "new":
            return f"editing {path or 'a file'}, {lines} in"
        case "apply_patch", "patch":
            return f"patching {path or 'files'}, {lines}"
        case "run_shell", "command":
            return f"writing a command, {lines}"
        case name, _:
            tool = one_line(name, 40) or "a tool"
            return f"writing a call to {tool}, {words.tokens(so_far.chars)} characters"


def arriving_lines(so_far: ArgumentsSoFar, rows: int, width: int, look: Look, colour: Colour) -> list[Line]:
    """The last lines of what is being written, at most `rows`, a row each."""
    style, sign = _SIGNS.get(so_far.part or "", ("", ""))
    room = max(width - len(sign), 1)
    end = so_far.end().removesuffix("\n")
    if not end.strip():
        return []
    texts = clean("\n".join(end.rsplit("\n", rows)[-rows:]), blank_lines=0).split("\n")[-rows:]
    texts[-1] = _growing(texts[-1], room, look.glyphs.ellipsis)
    if so_far.part == "patch":
        lines: list[Line] = [[(_DIFF_STYLES.get(text[:1], ""), text)] for text in texts]
    elif so_far.part in ("content", "command"):
        lines = [colour(text, _language(so_far)) for text in texts]  # one by one: all but the last are known
    else:
        lines = [[(style or "muted", sign + text)] for text in texts]
    return [fit_line(line, width, look.glyphs.ellipsis) for line in lines[:rows]]


def _language(so_far: ArgumentsSoFar) -> str:
    if so_far.part == "command":
        return "sh"
    return language_of(so_far.path)


def language_of(path: str) -> str:
    """The language of a file, by the ending of its name; "" where that says nothing."""
    ending = os.path.splitext(path)[1].lower().removeprefix(".")
    return _LANGUAGES.get(ending, ending) if ending.isascii() else ""


def _growing(text: str, width: int, ellipsis: str) -> str:
    """Of a line that is too long while it grows, its end."""
    return text if cells(text) <= width else ellipsis + text[-max(width // 2, 1) :]
