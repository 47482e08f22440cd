"""Terminal escape sequences, removed whole, from text that arrives in pieces.

The grammar is ECMA-48 as xterm reads it: ESC with two bytes, control sequences (CSI), control strings (OSC,
DCS, APC, PM, SOS), and the one-character C1 forms of each. A control string ends at ST, BEL, CAN or SUB, at
another ESC, and also at a line end, so that a sequence nobody closes hides one line at most.

Only what is shown depends on this grammar, not safety: ESC and C1 characters are never passed on in any
state.
"""

from __future__ import annotations

from typing import Literal

from buddy.agent.pattern import pattern

State = Literal["ground", "escape", "intermediate", "csi", "string", "string_escape"]
NOTED_CHARS = 200
"""A control string longer than this is replaced by a note of its length: it may be meant to hide text."""

_SEQUENCE = pattern("(?:\x1b\\[|\x9b)[ -?]*[@-~]|[\x1b\x90\x98\x9b\x9d\x9e\x9f]")
"""A whole control sequence (by far the commonest, so taken in one step) or the start of anything."""
_STRING_END = pattern("[\x07\x18\x1a\x1b\x9c\n]")
_CSI_BODY = pattern("[ -?]*")
_STRING_INTRODUCERS = frozenset("]PX^_k")  # k: the title of screen and tmux


class EscapeRemover:
    """Takes text in pieces, gives it back without escape sequences. One stream, one remover."""

    def __init__(self) -> None:
        self._state: State = "ground"
        self._hidden = 0
        self._pieces: list[str] = []

    @property
    def between_sequences(self) -> bool:
        """Tell whether no sequence is open; text without control characters then passes unchanged."""
        return self._state == "ground"

    def feed(self, text: str) -> str:
        """The piece without the sequences in it, and without what continues one from earlier pieces."""
        at = 0
        while at < len(text):
            at = self._step(text, at)
        return self._taken()

    def finish(self) -> str:
        """Return the text due at the end: the note about a long string that was never closed."""
        self._close_string()
        self._state = "ground"
        return self._taken()

    def _taken(self) -> str:
        pieces, self._pieces = self._pieces, []
        return "".join(pieces)

    def _step(self, text: str, at: int) -> int:
        """Consume at least one character in the present state, or change the state."""
        match self._state:
            case "ground":
                return self._ground(text, at)
            case "escape" | "intermediate":
                return self._escape(text, at)
            case "csi":
                return self._csi(text, at)
            case "string":
                return self._string(text, at)
            case "string_escape":  # pragma: no branch - the last of them
                return self._string_escape(text, at)

    def _ground(self, text: str, at: int) -> int:
        for found in _SEQUENCE().finditer(text, at):
            self._pieces.append(text[at : found.start()])
            at = found.end()
            sign = found.group()
            if len(sign) == 1:
                self._state = "escape" if sign == "\x1b" else "csi" if sign == "\x9b" else "string"
                return at
        self._pieces.append(text[at:])
        return len(text)

    def _escape(self, text: str, at: int) -> int:
        sign = text[at]
        if self._state == "escape" and sign in _STRING_INTRODUCERS:
            self._state = "string"
        elif self._state == "escape" and sign == "[":
            self._state = "csi"
        elif " " <= sign <= "/":
            self._state = "intermediate"
        else:
            self._state = "ground"
            return at + 1 if "0" <= sign <= "~" else at
        return at + 1

    def _csi(self, text: str, at: int) -> int:
        body = _CSI_BODY().match(text, at)
        at = at if body is None else body.end()
        if at == len(text):
            return at
        self._state = "ground"
        return at + 1 if "@" <= text[at] <= "~" else at

    def _string(self, text: str, at: int) -> int:
        found = _STRING_END().search(text, at)
        if found is None:
            self._hidden += len(text) - at
            return len(text)
        self._hidden += found.start() - at
        if found.group() == "\x1b":
            self._state = "string_escape"
            return found.end()
        self._close_string()
        self._state = "ground"
        return found.start() if found.group() == "\n" else found.end()

    def _string_escape(self, text: str, at: int) -> int:
        self._close_string()
        self._state = "ground" if text[at] == "\\" else "escape"
        return at + 1 if text[at] == "\\" else at

    def _close_string(self) -> None:
        if self._hidden > NOTED_CHARS:
            self._pieces.append(f"⟨{self._hidden} characters in an escape sequence⟩")
        self._hidden = 0
