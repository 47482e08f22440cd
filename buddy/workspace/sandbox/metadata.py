"""Changes of modes, owners, times and attributes that buddy makes for a command, with the command's rights.

Landlock has no right for them. A filter sees pointers only, and a call that continues after it was judged is
carried out with whatever its path, its link or its descriptor means by then. So the file is opened first
(`O_PATH`), its place is read from the descriptor and judged, and the change is made through that descriptor.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
import struct
from collections.abc import Callable, Generator
from typing import NoReturn

import msgspec

from buddy.workspace.sandbox.caller import (
    AT_FDCWD,
    NO_FILE,
    PATH_MAX,
    read_memory,
    read_path,
    resolve_path,
)
from buddy.workspace.sandbox.landlock_thread import without_capabilities

_NOFOLLOW, _EMPTY_PATH = 0x100, 0x1000
_MAX_ATTRIBUTE_BYTES = 65_536
_MAX_NAME_BYTES = 256
_MICROSECONDS = 1_000_000
_TIMES = struct.Struct("=4q")


class _Change(msgspec.Struct, frozen=True):
    """One system call: the positions of its arguments. Without `path`, the descriptor is the file; `operand`
    is the first argument after the file; `follows` is False for a call that changes a link itself."""

    kind: str
    operand: int
    folder: int | None = None
    path: int | None = None
    flags: int | None = None
    follows: bool = True
    path_may_be_null: bool = False


CHANGES = {
    "chmod": _Change("mode", 1, path=0),
    "fchmod": _Change("mode", 1, folder=0),
    "fchmodat": _Change("mode", 2, folder=0, path=1),
    "fchmodat2": _Change("mode", 2, folder=0, path=1, flags=3),
    "chown": _Change("owner", 1, path=0),
    "lchown": _Change("owner", 1, path=0, follows=False),
    "fchown": _Change("owner", 1, folder=0),
    "fchownat": _Change("owner", 2, folder=0, path=1, flags=4),
    "utime": _Change("seconds", 1, path=0),
    "utimes": _Change("microseconds", 1, path=0),
    "futimesat": _Change("microseconds", 2, folder=0, path=1, path_may_be_null=True),
    "utimensat": _Change("nanoseconds", 2, folder=0, path=1, flags=3, path_may_be_null=True),
    "setxattr": _Change("attribute", 1, path=0),
    "lsetxattr": _Change("attribute", 1, path=0, follows=False),
    "fsetxattr": _Change("attribute", 1, folder=0),
    "removexattr": _Change("no attribute", 1, path=0),
    "lremovexattr": _Change("no attribute", 1, path=0, follows=False),
    "fremovexattr": _Change("no attribute", 1, folder=0),
}
"""The calls that are answered here (`seccomp.METADATA`)."""


def change_metadata(pid: int, name: str, arguments: list[int], may_change: Callable[[str], bool]) -> None:
    """Make the change that a process asked for if `may_change` allows it for the file's real path. Raises
    `OSError` with the number that answers the call."""
    change = CHANGES[name]
    with _target(pid, change, arguments) as descriptor:
        place = os.readlink(f"/proc/self/fd/{descriptor}")
        if not place.startswith(NO_FILE) and not may_change(place):
            _fail(errno.EROFS)
        act = _action(pid, change, arguments)
        with without_capabilities():
            act(f"/proc/self/fd/{descriptor}")


@contextlib.contextmanager
def _target(pid: int, change: _Change, arguments: list[int]) -> Generator[int]:
    """Open the file that is to be changed, without a right to its content."""
    path, follow = _path_of(pid, change, arguments)
    with without_capabilities():
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
        except FileNotFoundError as error:
            if follow:  # a descriptor that is not open
                raise OSError(errno.EBADF, os.strerror(errno.EBADF)) from error
            raise
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _path_of(pid: int, change: _Change, arguments: list[int]) -> tuple[str, bool]:
    """Return the path to open, and True for the link of a descriptor, which is to be followed."""
    base = arguments[change.folder] & 0xFFFFFFFF if change.folder is not None else AT_FDCWD
    flags = arguments[change.flags] if change.flags is not None else 0
    if flags & ~(_NOFOLLOW | _EMPTY_PATH) & 0xFFFFFFFF:
        _fail(errno.EINVAL)
    own = f"/proc/{pid}/cwd" if base == AT_FDCWD else f"/proc/{pid}/fd/{base}"
    if change.path is None or (change.path_may_be_null and arguments[change.path] == 0):
        return own, True
    if not read_memory(pid, arguments[change.path], 1):
        _fail(errno.EFAULT)
    text = read_path(pid, arguments[change.path])
    if not text:
        if not flags & _EMPTY_PATH:
            _fail(errno.ENOENT)
        return own, True
    if len(os.fsencode(text)) >= PATH_MAX:
        _fail(errno.ENAMETOOLONG)
    if not text.startswith("/") and not os.path.lexists(own):
        _fail(errno.EBADF)
    follow = change.follows and not flags & _NOFOLLOW
    place = resolve_path(pid, base, text, follow=follow or text.endswith("/"))
    return (f"{place.rstrip('/')}/." if text.endswith("/") else place), False


def _action(pid: int, change: _Change, arguments: list[int]) -> Callable[[str], None]:
    """Read the operands of a call; return the function that makes the change at a path."""
    first, *rest = arguments[change.operand :]
    match change.kind:
        case "mode":
            return lambda path: os.chmod(path, stat.S_IMODE(first))
        case "owner":
            owner, group = _identity(first), _identity(rest[0])
            return lambda path: os.chown(path, owner, group)
        case "attribute":
            name = _attribute_name(pid, first)
            value = _attribute_value(pid, rest[0], rest[1])
            return lambda path: os.setxattr(path, name, value, rest[2] & 0xFFFFFFFF)
        case "no attribute":
            name = _attribute_name(pid, first)
            return lambda path: os.removexattr(path, name)
        case _:
            times = _times(pid, change.kind, first)
            return lambda path: _set_times(path, times)


def _identity(value: int) -> int:
    """Return a user or group as Python writes it: -1 for no change."""
    value &= 0xFFFFFFFF
    return -1 if value == 0xFFFFFFFF else value


def _attribute_name(pid: int, pointer: int) -> bytes:
    data, end, _ = read_memory(pid, pointer, _MAX_NAME_BYTES, until_zero=True).partition(b"\0")
    if not end or not data:
        _fail(errno.ERANGE)
    return data


def _attribute_value(pid: int, pointer: int, size: int) -> bytes:
    if size > _MAX_ATTRIBUTE_BYTES:
        _fail(errno.E2BIG)
    return _memory_of(pid, pointer, size) if size else b""


def _times(pid: int, kind: str, pointer: int) -> bytes:
    """Return both times as two `struct timespec`, nothing for the current time."""
    if not pointer:
        return b""
    if kind == "seconds":
        accessed, modified = struct.unpack("=2q", _memory_of(pid, pointer, 16))
        return _TIMES.pack(accessed, 0, modified, 0)
    data = _memory_of(pid, pointer, _TIMES.size)
    if kind == "nanoseconds":
        return data
    accessed, fraction, modified, other = _TIMES.unpack(data)
    if not (0 <= fraction < _MICROSECONDS and 0 <= other < _MICROSECONDS):
        _fail(errno.EINVAL)
    return _TIMES.pack(accessed, fraction * 1000, modified, other * 1000)


def _set_times(path: str, times: bytes) -> None:
    """Set times with the special values of `utimensat`, which `os.utime` does not have."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.utimensat(ctypes.c_int(AT_FDCWD), path.encode(), times or None, 0) != 0:
        _fail(ctypes.get_errno())


def _memory_of(pid: int, pointer: int, size: int) -> bytes:
    data = read_memory(pid, pointer, size)
    if len(data) < size:
        _fail(errno.EFAULT)
    return data


def _fail(number: int) -> NoReturn:
    raise OSError(number, os.strerror(number))
