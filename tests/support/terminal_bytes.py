"""The output of a terminal, taken apart: the sequences a program wrote, and the text between them.

Written from ECMA-48, not from the sanitiser: a sequence that nobody but the hostile text can have sent is
found even where it looks harmless.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tests.support.hostile_characters import ALL_CHARACTERS
from tests.support.hostile_terminals import ALL_BYTES, EVERY_ENDING
from tests.support.hostile_text import HOSTILE, SECRET_WORDS, harm

FRESH: tuple[bytes, ...] = (*ALL_BYTES, *EVERY_ENDING, *ALL_CHARACTERS)
EVERYTHING: tuple[bytes, ...] = (
    *(data.replace(SECRET_WORDS, b"INSIDE") for data in HOSTILE.values()),
    *FRESH,
)
"""With those of `hostile_text`, whose PAYLOAD may be seen where nothing is dropped (approvals, paths)."""

_SEQUENCE = re.compile(
    "\x1b\\[[0-?]*[ -/]*[@-~]"  # control sequences
    "|\x1b[]PX^_k][^\x07\x1b\x9c]*(?:\x07|\x1b\\\\|\x9c)?"  # control strings
    "|\x1b[ -/]*[0-~]?"
)
_MOVES = re.compile("\x1b\\[[0-9;]*[ABCDGHd]")

_ONE_MARK = re.compile(
    "(?<=[\u0300-\u0489\u20d0-\u20ff])[\u0300-\u0489\u20d0-\u20ff](?![\u0300-\u0489\u20d0-\u20ff])"
)
"""prompt_toolkit repeats the last mark of a wide character in the last column."""


def sequences(written: bytes) -> set[str]:
    """Every sequence in the bytes; moves of the cursor without their numbers."""
    found = _SEQUENCE.findall(written.decode("utf-8", "backslashreplace"))
    return {re.sub("[0-9;]+", "n", one) if _MOVES.fullmatch(one) else one for one in found}


def foreign(written: bytes, own: Iterable[str]) -> list[str]:
    """Return the parts of the bytes that are neither inert text nor a sequence of `own`."""
    text = _SEQUENCE.sub("", written.decode("utf-8", "backslashreplace"))
    text = _ONE_MARK.sub("", text.replace("\r\n", "\n").replace("\r", "").replace("\b", ""))
    lines = {why for line in text.split("\n") if (why := harm(line))}
    return sorted({*(repr(one) for one in sequences(written) - set(own)), *lines})


def text_forms(data: bytes) -> tuple[str, str]:
    """The bytes as a decoder that replaces and one that takes every byte for a character hand them on."""
    return data.decode("utf-8", "replace"), data.decode("latin-1")
