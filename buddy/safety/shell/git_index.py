"""The names of tracked files, read from git's index without running git."""

from __future__ import annotations

import os
import struct

MAX_INDEX_BYTES = 50_000_000
_ENTRY_HEAD = 62
"""Bytes of an entry before its name: ten numbers, a hash, 16 bits of flags."""


def tracked_paths(root: str) -> frozenset[str] | None:
    """Absolute paths of all tracked files of the repository at `root`, None without a readable index."""
    try:
        with open(os.path.join(root, ".git", "index"), "rb") as file:
            data = file.read(MAX_INDEX_BYTES + 1)
    except OSError:
        return None
    if len(data) > MAX_INDEX_BYTES or len(data) < 12 or data[:4] != b"DIRC":
        return None
    version, count = struct.unpack(">II", data[4:12])
    if version not in (2, 3, 4):
        return None
    names = _names(data, version, count)
    if names is None:
        return None
    return frozenset(os.path.join(root, os.fsdecode(name)) for name in names)


def _names(data: bytes, version: int, count: int) -> list[bytes] | None:
    found: list[bytes] = []
    at, before = 12, b""
    for _ in range(count):
        if at + _ENTRY_HEAD > len(data):
            return None
        flags = int.from_bytes(data[at + 60 : at + 62], "big")
        start = at + _ENTRY_HEAD + (2 if version >= 3 and flags & 0x4000 else 0)
        kept = b""
        if version == 4:  # the name is what differs from the one before
            cut, start = _offset(data, start)
            kept = before[: max(len(before) - cut, 0)]
        end = data.find(b"\0", start)
        if end < 0:
            return None
        before = kept + data[start:end]
        found.append(before)
        at = end + 1 if version == 4 else at + (end - at + 8) // 8 * 8
    return found


def _offset(data: bytes, at: int) -> tuple[int, int]:
    """A variable-length number and where it ends."""
    value = data[at] & 0x7F
    while data[at] & 0x80 and at + 1 < len(data):
        at += 1
        value = ((value + 1) << 7) | (data[at] & 0x7F)
    return value, at + 1
