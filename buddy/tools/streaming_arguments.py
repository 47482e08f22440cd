"""The part of a call that can be shown while its JSON arguments still arrive. For previews only: calls run
from their whole arguments.

Pieces are collected, and read when something is to be shown: at most once a frame. Text that is no JSON shows
as it is. Imported before the first frame, so it knows no tool: a test holds its names against theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple, cast

from buddy.agent.lazy_regex import pattern

KEPT_CHARS = 4_000
MAX_PATH_CHARS = 1_000

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

_PATCHED = pattern(r"(?m)^\*\*\* (?:Add|Update|Delete) File: (.+)\n")


class _Read(NamedTuple):
    """A path ("" until it is known), the part that arrives (None where nothing known has begun), its text."""

    path: str
    part: Part | None
    text: str


class ArgumentsSoFar:
    """One call's arguments. `chars` counts all that came."""

    def __init__(self) -> None:
        self.chars = 0
        self._pieces: list[str] = []
        self._known: _Read | None = None

    def feed(self, piece: str) -> None:
        """Take what arrived."""
        self.chars += len(piece)
        self._pieces.append(piece)
        self._known = None

    @property
    def path(self) -> str:
        """Return the file the call is about, "" while unknown."""
        return self._read().path

    @property
    def part(self) -> Part | None:
        """Return the part whose text is arriving, None before a known one has started."""
        return self._read().part

    def end(self) -> str:
        """Return the end of the arriving text, or of the raw arguments if there is none."""
        return self._read().text[-KEPT_CHARS:]

    def lines(self) -> int:
        """Return the number of lines of that text so far; a line end alone does not start a new one."""
        text = self._read().text
        return text.count("\n") + (text != "" and not text.endswith("\n"))

    def _read(self) -> _Read:
        if self._known is None:
            self._pieces = ["".join(self._pieces)]
            self._known = _known(self._pieces[0])
        return self._known


def _known(arguments: str) -> _Read:
    import jiter  # here: no call arrives before the first frame

    found = _Read("", None, arguments)
    try:
        value = jiter.from_json(
            arguments.encode("utf-8", "replace"), partial_mode="trailing-strings", cache_mode="none"
        )
    except ValueError:
        return found
    for key, text in _strings(value, ""):
        match NAMES.get(key):
            case "path":
                found = found._replace(path=text[:MAX_PATH_CHARS])
            case None:
                pass
            case part:
                found = found._replace(part=part, text=text)
    named = _PATCHED().findall(found.text) if found.part == "patch" else ()
    return found._replace(path=named[-1].strip()[:MAX_PATH_CHARS]) if named else found


def _strings(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """Yield all strings, in order, with their keys."""
    match value:
        case str():
            yield key, value
        case dict():
            for name, inner in cast("dict[str, Any]", value).items():
                yield from _strings(inner, name)
        case list():
            for inner in cast("list[Any]", value):
                yield from _strings(inner, key)
        case _:
            pass
