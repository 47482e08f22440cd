"""The text of one instruction file and of what it imports, read as if an enemy had written it: regular files
below one folder only, no secrets, so many of them, so many bytes, nothing that waits.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right

from buddy.agent.pattern import pattern
from buddy.agent.tool import ToolError
from buddy.safety.descriptors import read_beneath
from buddy.safety.paths import is_beneath
from buddy.safety.protected import ProtectedPlaces, secret_reason

MAX_FILE_BYTES = 128 * 1024
MAX_IMPORT_DEPTH = 5
MAX_IMPORTS = 50
MAX_NAMES = 1000  # different names looked up on the disk
_IMPORT = pattern(r"(?m)^[ \t]*@([^\s@]+)[ \t]*$")
_MENTION = pattern(r"(?m)(?:(?<=[\s(\[\"'])|^)@([^\s@`]+)")
_CODE = pattern(r"(?ms)^[ \t]*(```|~~~).*?(?:^[ \t]*\1[^\n]*$|\Z)|(`{1,3})[^`\n]+\2")
_TRAILING = ".,;:!?)]}'\""


class Unreadable(Exception):
    """Why a file is not taken, in words."""


def instruction_text(path: str, *, root: str, home: str) -> str:
    """Return the text of a file beneath `root` with what it imports. An `@path` alone on its line is replaced
    by the file; one inside a sentence has the file behind the text, under its name; in code it is text.
    Raises `Unreadable`."""
    return _InstructionReader(os.path.realpath(root), home).read(path, [])


class _InstructionReader:
    """One instruction file being read: what may be read at all, and how much of it is left."""

    def __init__(self, root: str, home: str) -> None:
        self._root = root
        self._places = ProtectedPlaces(home)
        self._imports_left = MAX_IMPORTS
        self._found: dict[str, str] = {}

    def read(self, path: str, chain: list[str]) -> str:
        """A file and what it imports; `chain` are the files that are being read already."""
        real = os.path.realpath(path)
        text = without_comments(self._bytes(real).decode("utf-8", "replace").removeprefix("\ufeff"))
        inside = [*chain, real]

        code = _CodeRanges(text)
        alone: set[int] = set()

        def replaced(match: re.Match[str]) -> str:
            if match.start(1) in code:
                return match[0]
            alone.add(match.start(1))
            return self._imported(match[1], real, inside)[1] or match[0]

        body = _IMPORT().sub(replaced, text).strip()
        behind: dict[str, str] = {}
        for match in _MENTION().finditer(text):
            name = match[1].rstrip(_TRAILING)
            if not name or match.start(1) in alone or match.start(1) in code:
                continue
            target, content = self._imported(name, real, inside)
            if content and target not in behind:
                behind[target] = f"## {name}\n\n{content}"
        return "\n\n".join(piece for piece in (body, *behind.values()) if piece)

    def _imported(self, name: str, importer: str, inside: list[str]) -> tuple[str, str]:
        """The file of a name and its text, two empty strings where there is nothing to import."""
        if len(inside) > MAX_IMPORT_DEPTH or self._imports_left == 0:
            return "", ""
        target = self._find(os.path.join(os.path.dirname(importer), name))
        if not target or target in inside:
            return "", ""
        self._imports_left -= 1
        try:
            return target, self.read(target, inside)
        except Unreadable:
            return "", ""

    def _find(self, name: str) -> str:
        """The file behind a name; "" where there is none, and for every new name once too many were seen."""
        if name not in self._found:
            if "\0" in name or len(self._found) >= MAX_NAMES:
                return ""
            self._found[name] = os.path.realpath(name) if os.path.isfile(name) else ""
        return self._found[name]

    def _bytes(self, real: str) -> bytes:
        if not is_beneath(real, self._root):
            raise Unreadable("it lies outside the folder it belongs to")
        secret = secret_reason(real, self._places)
        if secret:
            raise Unreadable(f"it is not sent to a model unasked: {secret}")
        try:
            return read_beneath(self._root, os.path.relpath(real, self._root), MAX_FILE_BYTES)
        except ToolError as error:
            raise Unreadable(str(error)) from error
        except OSError as error:
            raise Unreadable(error.strerror or type(error).__name__) from error


class _CodeRanges:
    """Code blocks and code spans of a text: `position in ranges`."""

    def __init__(self, text: str) -> None:
        found = [code.span() for code in _CODE().finditer(text)]
        self._starts = [start for start, _ in found]
        self._ends = [end for _, end in found]

    def __contains__(self, position: int) -> bool:
        index = bisect_right(self._starts, position) - 1
        return index >= 0 and position < self._ends[index]


def without_comments(text: str) -> str:
    """The text without `<!-- … -->`. By searching, as a pattern takes minutes where many are never closed."""
    pieces: list[str] = []
    at = 0
    while (start := text.find("<!--", at)) >= 0 and (end := text.find("-->", start + 4)) >= 0:
        pieces.append(text[at:start])
        at = end + 3
    return "".join([*pieces, text[at:]])
