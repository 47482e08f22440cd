"""A model of a terminal's screen: bytes in, lines out. The only module that knows pyte."""

from __future__ import annotations

import re

import pyte

from buddy.agent.tool import ToolError
from buddy.workspace.processes.launch import TerminalSize

APPLICATION_CURSOR_KEYS = 1 << 5
"""DECCKM as pyte numbers private modes: arrow keys then send ESC O instead of ESC [."""

ARROWS = {"Up": "A", "Down": "B", "Right": "C", "Left": "D", "Home": "H", "End": "F"}
NAMED = {
    "Enter": "\r",
    "Return": "\r",
    "Tab": "\t",
    "BTab": "\x1b[Z",
    "Escape": "\x1b",
    "Esc": "\x1b",
    "Space": " ",
    "Backspace": "\x7f",
    "BSpace": "\x7f",
    "Delete": "\x1b[3~",
    "Insert": "\x1b[2~",
    "PageUp": "\x1b[5~",
    "PageDown": "\x1b[6~",
    "F1": "\x1bOP",
    "F2": "\x1bOQ",
    "F3": "\x1bOR",
    "F4": "\x1bOS",
    **{
        f"F{n}": f"\x1b[{code}~"
        for n, code in zip(range(5, 13), (15, 17, 18, 19, 20, 21, 23, 24), strict=True)
    },
}


class _AnsweringScreen(pyte.Screen):
    """pyte's screen, keeping what it would answer to the program. (pyte offers this by overriding only.)"""

    def __init__(self, columns: int, lines: int) -> None:
        self.answers: list[str] = []
        super().__init__(columns, lines)

    def write_process_input(self, data: str) -> None:
        self.answers.append(data)


class ScreenModel:
    """Emulated terminal screen of a fixed size."""

    def __init__(self, size: TerminalSize) -> None:
        self._screen = _AnsweringScreen(size.columns, size.rows)
        self._stream = pyte.ByteStream(self._screen)

    def feed(self, data: bytes) -> None:
        """Take output of the program. Sequences pyte cannot take are skipped, never raised."""
        try:
            self._stream.feed(data)
        except (TypeError, ValueError, LookupError, NameError, AttributeError, AssertionError):
            # pyte raises these for parameters its handlers do not know; its parser is then in no state.
            self._stream = pyte.ByteStream(self._screen)

    def take_answers(self) -> tuple[bytes, ...]:
        """Return the terminal's pending answers to the program (cursor reports), and forget them."""
        answers = tuple(answer.encode() for answer in self._screen.answers[:16])
        self._screen.answers.clear()
        return answers

    def lines(self) -> tuple[str, ...]:
        """Return the screen's lines without blanks at their ends, and without empty lines at the bottom."""
        return tuple("\n".join(line.rstrip() for line in self._screen.display).rstrip("\n").split("\n"))

    def key(self, name: str) -> bytes:
        """Return the bytes of one key: a name (`Enter`, `Up`, `F5`), `C-x` with control, `M-x` with Alt, or a
        single character for itself. Raises `ToolError`."""
        if name in NAMED:
            return NAMED[name].encode()
        if name in ARROWS:
            prefix = "\x1bO" if APPLICATION_CURSOR_KEYS in self._screen.mode else "\x1b["
            return (prefix + ARROWS[name]).encode()
        if name[:2] == "M-" and len(name) > 2 and name[2:4] != "M-":
            return b"\x1b" + self.key(name[2:])
        if name[:2] == "C-" and len(name) == 3 and name.isascii() and "@" <= name[2].upper() <= "_":
            return bytes([ord(name[2].upper()) & 0x1F])
        if len(name) == 1:
            return name.encode()
        if meant := _canonical_key(name):
            return self.key(meant)
        names = ", ".join([*NAMED, *ARROWS])
        raise ToolError(
            f"expected a key name ({names}, C-c, M-x) or one character, found {name[:40]!r}; "
            "send longer text with write_job"
        )


def _canonical_key(name: str) -> str:
    """Return the key's name for "enter", "ctrl-c", "Ctrl+C", "^C", "alt-x"; "" for anything else."""
    held = re.fullmatch(r"(?:(ctrl|control|c)|(alt|meta|m))[-+](.)|\^(.)", name, re.IGNORECASE)
    if held is not None:
        meant = f"M-{held[3]}" if held[2] else f"C-{held[3] or held[4]}"
        return meant if meant != name and meant.isascii() else ""
    return next((known for known in (*NAMED, *ARROWS) if known.lower() == name.lower() != known), "")
