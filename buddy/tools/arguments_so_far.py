"""What can be shown of a call while its JSON arguments still arrive. For previews only: calls run from their
whole arguments.

Pure, and linear in what arrives: a piece is looked at once, and only the end of a text is kept. Any
fragmentation of the same text shows the same; text that is no JSON shows as it is. Imported before the first
frame, so it knows no tool: a test holds its names against theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from buddy.agent.pattern import pattern

KEPT_CHARS = 4_000
MAX_PATH_CHARS = 1_000
MAX_DEPTH = 64

Part = Literal["path", "content", "old", "new", "patch", "command"]
"""What a string of the arguments is."""

NAMES: Mapping[str, Part] = {
    **dict.fromkeys(("path", "file_path", "filename", "filePath"), "path"),
    **dict.fromkeys(("content", "contents", "text", "file_text"), "content"),
    **dict.fromkeys(("old", "old_string", "oldString", "old_str", "oldText", "old_text"), "old"),
    **dict.fromkeys(("new", "new_string", "newString", "new_str", "newText", "new_text"), "new"),
    **dict.fromkeys(("patch", "input", "patch_text", "patchText", "diff"), "patch"),
    **dict.fromkeys(("command", "cmd", "script", "code"), "command"),
}

_OUTSIDE = pattern(r'["{}\[\],:]')
_INSIDE = pattern(r'[^"\\]+')
_HEX = pattern(r"[0-9a-fA-F]{4}")
_HEX_BEGUN = pattern(r"[0-9a-fA-F]{0,3}\Z")
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_PATCHED = pattern(r"^\*\*\* (?:Add|Update|Delete) File: (.+)")


class ArgumentsSoFar:
    """One call's arguments. `path` is "" until it is known, `part` says what `end` is the end of (None where
    nothing known has begun), `chars` counts all that came."""

    def __init__(self) -> None:
        self.path = ""
        self.part: Part | None = None
        self.chars = 0
        self._key = ""
        self._open: list[str] = []
        self._wants_key = False
        self._string: Part | Literal["key", "other", ""] = ""
        self._rest = ""
        self._line = ""
        self._newlines = 0
        self._kept = _End()
        self._raw = _End()

    def feed(self, piece: str) -> None:
        """Take what arrived."""
        self.chars += len(piece)
        self._raw.add(piece)
        text, self._rest = self._rest + piece, ""
        at = 0
        while at < len(text):
            at = self._inside(text, at) if self._string else self._outside(text, at)

    def end(self) -> str:
        """The end of the text that is arriving, or of the arguments as they are where none was found."""
        return self._raw.text() if self.part is None else self._kept.text()

    def lines(self) -> int:
        """How many lines the text that is arriving has so far; one that was only begun by a line end does not
        count."""
        text = self.end()
        return self._newlines + (1 if text and not text.endswith("\n") else 0)

    def _outside(self, text: str, at: int) -> int:
        found = _OUTSIDE().search(text, at)
        if found is None:
            return len(text)
        match found.group():
            case '"':
                self._begin_string()
            case "{" | "[" as sign:
                self._open.append(sign)
                del self._open[MAX_DEPTH:]
                self._wants_key = sign == "{"
            case "}" | "]":
                if self._open:
                    self._open.pop()
                self._wants_key = False
            case ",":
                self._wants_key = self._open[-1:] == ["{"]
            case _:
                self._wants_key = False
        return found.end()

    def _begin_string(self) -> None:
        if self._wants_key:
            self._string, self._key = "key", ""
            return
        part = NAMES.get(self._key)
        self._string = part or "other"
        if part == "path":
            self.path = ""
        elif part is not None:
            self.part, self._newlines, self._line = part, 0, ""
            self._kept = _End()

    def _inside(self, text: str, at: int) -> int:
        run = _INSIDE().match(text, at)
        if run is not None:
            self._take(run.group())
            return run.end()
        if text[at] == '"':
            self._string = ""
            return at + 1
        sign, after = _escape(text, at)
        if after > len(text):
            self._rest = text[at:]
            return len(text)
        self._take(sign)
        return after

    def _take(self, text: str) -> None:
        match self._string:
            case "key":
                self._key = (self._key + text)[:MAX_PATH_CHARS]
            case "path":
                self.path = (self.path + text)[:MAX_PATH_CHARS]
            case "content" | "old" | "new" | "patch" | "command":
                self._newlines += text.count("\n")
                self._kept.add(text)
                if self.part == "patch":
                    self._look_for_file(text)
            case "other" | "":
                pass

    def _look_for_file(self, text: str) -> None:
        """A patch names its files in lines of their own."""
        first, *more = text.split("\n")
        self._line = (self._line + first)[:MAX_PATH_CHARS]
        for line in more:
            named = _PATCHED().fullmatch(self._line.rstrip("\r"))
            self.path = named[1].strip() if named else self.path
            self._line = line[:MAX_PATH_CHARS]


class _End:
    """The last characters of a text that grows."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._chars = 0

    def add(self, piece: str) -> None:
        self._pieces.append(piece)
        self._chars += len(piece)
        if self._chars > 2 * KEPT_CHARS:
            kept = "".join(self._pieces)[-KEPT_CHARS:]
            self._pieces, self._chars = [kept], len(kept)

    def text(self) -> str:
        joined = "".join(self._pieces)
        self._pieces = [joined]
        return joined[-KEPT_CHARS:]


def _escape(text: str, at: int) -> tuple[str, int]:
    """The escape that begins at `at`, and where it ends; past the end of `text` while it is incomplete. What
    is no escape stands for itself."""
    incomplete = "", len(text) + 1
    sign = text[at + 1 : at + 2]
    if not sign:
        return incomplete
    if sign != "u":
        return _SIMPLE.get(sign, sign), at + 2
    code = _code(text, at)
    if code is None:
        return incomplete
    if code < 0:
        return "u", at + 2
    if not 0xD800 <= code < 0xDC00:
        return ("\ufffd" if 0xDC00 <= code < 0xE000 else chr(code)), at + 6
    if not "\\u".startswith(text[at + 6 : at + 8]):
        return "\ufffd", at + 6
    low = _code(text, at + 6)
    if low is None:
        return incomplete
    if not 0xDC00 <= low < 0xE000:
        return "\ufffd", at + 6
    return chr(0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)), at + 12


def _code(text: str, at: int) -> int | None:
    r"""The number of the `\uXXXX` at `at`; None while it is incomplete, -1 when it is none."""
    found = _HEX().match(text, at + 2)
    if found is not None:
        return int(found.group(), 16)
    return None if _HEX_BEGUN().match(text, at + 2) else -1
