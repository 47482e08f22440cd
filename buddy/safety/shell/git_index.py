"""The names of tracked files and submodules, read from git's index without running git."""

from __future__ import annotations

import mmap
import os
import struct

from buddy.safety.git_files import read_regular

MAX_INDEX_BYTES = 50_000_000
_ENTRY_HEAD = 62
"""Bytes of an entry before its name: ten numbers (the seventh is the mode), a hash, 16 bits of flags."""
_NAME_LENGTH = 0xFFF
"""The bits of the flags that tell how long the name is; all of them: so long or longer."""
_SUBMODULE = 0o160000


def tracked_paths(root: str) -> frozenset[str] | None:
    """Absolute paths of all tracked files of the repository at `root`, None without a readable index."""
    found = _entries(read_regular(os.path.join(root, ".git", "index"), MAX_INDEX_BYTES + 1))
    return None if found is None else frozenset(os.path.join(root, os.fsdecode(name)) for _, name in found)


def submodules(git_dir: str) -> tuple[str, ...] | None:
    """The paths of a repository's submodules, relative to its working tree; None when its index does not
    tell for certain. Most indexes are only looked through for one number."""
    try:
        names = os.listdir(git_dir)
    except OSError:
        return ()
    # An index in parts: how they go together is not followed.
    if any(_holds_submodules(f"{git_dir}/{name}") for name in names if name.startswith("sharedindex.")):
        return None
    if not _holds_submodules(f"{git_dir}/index"):
        return ()
    found = _entries(read_regular(f"{git_dir}/index", MAX_INDEX_BYTES + 1))
    return None if found is None else tuple(os.fsdecode(name) for mode, name in found if mode == _SUBMODULE)


def tracked_by_name(git_dir: str, name: str) -> tuple[str, ...] | None:
    """The tracked paths that end with a file's name, relative to the working tree; None when the index does
    not tell for certain. Most indexes are only looked through for the name's end: in version 4 a name stands
    there without what it shares with the one before."""
    try:
        files = [one for one in os.listdir(git_dir) if one == "index" or one.startswith("sharedindex.")]
    except OSError:
        return ()
    found: list[str] = []
    for file in files:
        path = f"{git_dir}/{file}"
        head = read_regular(path, 12)
        if head[4:8] != b"\0\0\0\4" and not _holds(path, name.encode()):
            continue
        entries = _entries(read_regular(path, MAX_INDEX_BYTES + 1))
        if entries is None:
            return None
        paths = (os.fsdecode(entry) for _, entry in entries)
        found.extend(one for one in paths if one.rpartition("/")[2] == name)
    return tuple(found)


def _holds_submodules(index: str) -> bool:
    """Tell whether an index holds the mode of submodules, which is the same bytes in every version."""
    return _holds(index, _SUBMODULE.to_bytes(4, "big"))


def _holds(index: str, sought: bytes) -> bool:
    """Tell whether some bytes are in a file. Never waits: a pipe may stand in the file's place."""
    try:
        descriptor = os.open(index, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        try:
            with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as data:
                return data.find(sought) >= 0
        finally:
            os.close(descriptor)
    except (OSError, ValueError):  # there is none, or an empty one
        return False


def _entries(data: bytes) -> list[tuple[int, bytes]] | None:
    """Mode and name of every entry; None where the bytes are no index, or one of another kind."""
    if len(data) > MAX_INDEX_BYTES or len(data) < 12 or data[:4] != b"DIRC":
        return None
    version, count = struct.unpack(">II", data[4:12])
    if version not in (2, 3, 4):
        return None
    found: list[tuple[int, bytes]] = []
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
        if flags & _NAME_LENGTH != min(len(before), _NAME_LENGTH):
            return None  # with longer hashes everything stands elsewhere
        found.append((int.from_bytes(data[at + 24 : at + 28], "big"), before))
        at = end + 1 if version == 4 else at + (end - at + 8) // 8 * 8
    return found


def _offset(data: bytes, at: int) -> tuple[int, int]:
    """A variable-length number and where it ends."""
    value = data[at] & 0x7F
    while data[at] & 0x80 and at + 1 < len(data):
        at += 1
        value = ((value + 1) << 7) | (data[at] & 0x7F)
    return value, at + 1
