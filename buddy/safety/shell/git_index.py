"""The names of tracked files and submodules, read from git's index without running git."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Generator
from contextlib import contextmanager

from buddy.safety.git_files import read_regular

MAX_INDEX_BYTES = 50_000_000
_ENTRY_HEAD = 62
"""Bytes of an entry before its name: ten numbers (the seventh is the mode), a hash, 16 bits of flags."""
_NAME_LENGTH = 0xFFF
"""The bits of the flags that tell how long the name is; all of them: so long or longer."""
_SUBMODULE = 0o160000
_PLAIN_VERSIONS = (b"\0\0\0\2", b"\0\0\0\3")
"""Versions in which every name stands in full."""

_SPARSE = b"sdir\0\0\0\0"
"""Marks an index in which a folder may stand for all files beneath it."""

_COMPRESSED_VERSION = b"\0\0\0\4"
"""A name stands there without what it shares with the one before."""


def tracked_paths(root: str) -> frozenset[str] | None:
    """Absolute paths of all tracked files of the repository at `root`, None without a readable index."""
    found = _entries(read_regular(os.path.join(root, ".git", "index"), MAX_INDEX_BYTES + 1))
    return None if found is None else frozenset(os.path.join(root, os.fsdecode(name)) for _, name in found)


def may_be_tracked(git_dir: str, path: str) -> bool:
    """Tell whether a repository's index holds a path relative to the working tree; True also where there is
    no index, or one that can't be read."""
    name = os.fsencode(path)
    files = _index_files(git_dir)
    return f"{git_dir}/index" not in files or any(_may_hold(file, name) for file in files)


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
    not tell for certain."""
    found: list[str] = []
    for file in _index_files(git_dir):
        names = _ending_with(file, name.encode())
        if names is None:
            entries = _entries(read_regular(file, MAX_INDEX_BYTES + 1))
            if entries is None:
                return None
            names = [entry for _, entry in entries]
        if _holds(file, _SPARSE):
            return None
        found.extend(one for one in map(os.fsdecode, names) if one.rpartition("/")[2] == name)
    return tuple(found)


def _index_files(git_dir: str) -> tuple[str, ...]:
    """The index of a repository, and its parts."""
    try:
        names = os.listdir(git_dir)
    except OSError:
        return ()
    return tuple(f"{git_dir}/{one}" for one in names if one == "index" or one.startswith("sharedindex."))


def _may_hold(index: str, name: bytes) -> bool:
    """Tell whether an index holds an entry of this name; True for an index of another kind."""
    with _opened(index) as data:
        if data is None or data[:4] != b"DIRC" or data.find(_SPARSE) >= 0:
            return True
        if data[4:8] in _PLAIN_VERSIONS:
            at = data.find(name + b"\0")
            while at >= 0 and not _begins_entry(data, at, len(name)):
                at = data.find(name + b"\0", at + 1)
            return at >= 0
    entries = _entries(read_regular(index, MAX_INDEX_BYTES + 1))
    return entries is None or any(entry == name for _, entry in entries)


def _begins_entry(data: mmap.mmap, at: int, length: int) -> bool:
    """Tell whether flags that tell a name's length stand before it, directly or before more flags."""
    flags, more_flags = (int.from_bytes(data[at - back : at - back + 2], "big") for back in (2, 4))
    told = min(length, _NAME_LENGTH)
    return flags & _NAME_LENGTH == told or (more_flags & 0x4000 > 0 and more_flags & _NAME_LENGTH == told)


def _ending_with(index: str, ending: bytes) -> list[bytes] | None:
    """The names in an index that end so, found without reading every entry; None where only that tells. A
    name holds no NUL and follows its length, which below 256 begins with one."""
    found: list[bytes] = []
    with _opened(index) as data:
        if data is None:
            return []
        if data[4:8] == _COMPRESSED_VERSION:
            return None
        end = data.find(ending + b"\0") + len(ending)
        while end >= len(ending):
            start = data.rfind(b"\0", 0, end) + 2
            if start < 14 or data[start - 1] != end - start:
                return None
            found.append(data[start:end])
            end = data.find(ending + b"\0", end) + len(ending)
    return found


def _holds_submodules(index: str) -> bool:
    """Tell whether an index holds the mode of submodules, which is the same bytes in every version."""
    return _holds(index, _SUBMODULE.to_bytes(4, "big"))


def _holds(index: str, sought: bytes) -> bool:
    with _opened(index) as data:
        return data is not None and data.find(sought) >= 0


@contextmanager
def _opened(index: str) -> Generator[mmap.mmap | None]:
    """The bytes of a file; None where there is none, or an empty one. Never waits: a pipe may stand in the
    file's place."""
    try:
        descriptor = os.open(index, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        try:
            data = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
        finally:
            os.close(descriptor)
    except (OSError, ValueError):
        yield None
        return
    with data:
        yield data


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
