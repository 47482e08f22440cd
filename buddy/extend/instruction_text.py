"""The text of one instruction file and of what it imports, read as if an enemy had written it: regular files
below one folder only, no secrets, so many of them, so many bytes, nothing that waits.
"""

from __future__ import annotations

import os
import re

from buddy.agent.pattern import pattern
from buddy.agent.tool import ToolError
from buddy.safety.descriptors import read_beneath
from buddy.safety.paths import is_beneath
from buddy.safety.protected import Places, secret_reason

MAX_FILE_BYTES = 128 * 1024
MAX_IMPORT_DEPTH = 5
MAX_IMPORTS = 50
MAX_NAMES = 1000  # different names looked up on the disk
_IMPORT = pattern(r"(?m)^[ \t]*@([^\s@]+)[ \t]*$")


class Unreadable(Exception):
    """Why a file is not taken, in words."""


def instruction_text(path: str, *, root: str, home: str) -> str:
    """The text of a file beneath `root`, `@path` lines replaced by files they name. Raises `Unreadable`."""
    return _Reader(os.path.realpath(root), home).read(path, [])


class _Reader:
    """One instruction file being read: what may be read at all, and how much of it is left."""

    def __init__(self, root: str, home: str) -> None:
        self._root = root
        self._places = Places(home)
        self._imports_left = MAX_IMPORTS
        self._found: dict[str, str] = {}

    def read(self, path: str, chain: list[str]) -> str:
        """A file and what it imports; `chain` are the files that are being read already."""
        real = os.path.realpath(path)
        text = without_comments(self._bytes(real).decode("utf-8", "replace").removeprefix("\ufeff"))
        inside = [*chain, real]

        def imported(match: re.Match[str]) -> str:
            if len(inside) > MAX_IMPORT_DEPTH or self._imports_left == 0:
                return match[0]
            target = self._find(os.path.join(os.path.dirname(real), match[1]))
            if not target or target in inside:
                return match[0]
            self._imports_left -= 1
            try:
                return self.read(target, inside)
            except Unreadable:
                return match[0]

        return _IMPORT().sub(imported, text).strip()

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


def without_comments(text: str) -> str:
    """The text without `<!-- … -->`. By searching, as a pattern takes minutes where many are never closed."""
    pieces: list[str] = []
    at = 0
    while (start := text.find("<!--", at)) >= 0 and (end := text.find("-->", start + 4)) >= 0:
        pieces.append(text[at:start])
        at = end + 3
    return "".join([*pieces, text[at:]])
