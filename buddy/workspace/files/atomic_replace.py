"""Replace or delete a file atomically without losing a concurrent save."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable
from contextlib import suppress

import msgspec

from buddy.agent.cancel import on_failure
from buddy.agent.tool import ToolError
from buddy.safety.sanitise import visible

_CALLS = {"linux": ("renameat2", 2, 1), "darwin": ("renameatx_np", 2, 4)}
"""By platform: the system call, its exchange flag, its no-replace flag."""
_CANNOT = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM}
"""Errors for a call unknown to the system, to the file system, or to a system call filter."""


def exchange(one: str, other: str, folder: int) -> bool:
    """Exchange two names in a folder atomically. Returns False if unsupported; then nothing is changed.
    Raises `OSError`."""
    _, flag, _ = _CALLS.get(sys.platform, ("", 0, 0))
    return _try_rename(one, folder, other, folder, flag)


def rename_to_free(old: str, old_folder: int, new: str, new_folder: int) -> None:
    """Rename without replacing an existing target, where the system supports that. Raises `OSError`."""
    _, _, flag = _CALLS.get(sys.platform, ("", 0, 0))
    if not _try_rename(old, old_folder, new, new_folder, flag):
        os.rename(old, new, src_dir_fd=old_folder, dst_dir_fd=new_folder)


def _try_rename(old: str, old_folder: int, new: str, new_folder: int, flag: int) -> bool:
    if not flag:
        return False
    import ctypes  # 5 ms, only needed when files are changed

    try:
        call = getattr(ctypes.CDLL(None, use_errno=True), _CALLS[sys.platform][0])
    except (OSError, AttributeError):  # an older C library
        return False
    call.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    if call(old_folder, os.fsencode(old), new_folder, os.fsencode(new), flag) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number), old, None, new)


class Disk(msgspec.Struct, frozen=True):
    """Replaceable disk operations: write bytes to a descriptor, flush it, rename a file over another one
    (source name, target name, folder descriptor), exchange two names (False: not supported here)."""

    write: Callable[[int, memoryview], int]
    sync: Callable[[int], None]
    rename: Callable[[str, str, int], None]
    exchange: Callable[[str, str, int], bool]


def _rename(source: str, target: str, folder: int) -> None:
    os.rename(source, target, src_dir_fd=folder, dst_dir_fd=folder)


DISK = Disk(os.write, os.fsync, _rename, exchange)


def write_all(disk: Disk, descriptor: int, data: bytes) -> None:
    """Write all bytes and flush them to disk."""
    rest = memoryview(data)
    while rest:
        rest = rest[disk.write(descriptor, rest) :]
    disk.sync(descriptor)


class FileContent(msgspec.Struct, frozen=True):
    """Content of a directory entry: bytes and permissions, or a link's target and `stat.S_IFLNK`."""

    data: bytes
    mode: int


class TargetName(msgspec.Struct, frozen=True):
    """A name in an open folder, and the name of the file that should replace it. `shown` is the name for
    people."""

    folder: int
    name: str
    temporary: str
    shown: str


def aside_of(temporary: str) -> str:
    """Return the temporary name for the old file, where names cannot be exchanged."""
    return f"{temporary.removesuffix('.tmp')}.old"


def take_place(place: TargetName, was: FileContent, made: FileContent, disk: Disk) -> None:
    """Replace the old file by the new one, which has the temporary name. Raises `ToolError` when something
    else was there by then, which stays."""
    if not disk.exchange(place.temporary, place.name, place.folder):
        _rename_over(place, was, disk)
    elif is_still(place.folder, place.temporary, was):
        _remove_temporary(place.temporary, place.folder)
    else:
        _put_back(place, made, disk)
        raise _changed_error(place.shown)


def take_away(place: TargetName, was: FileContent, disk: Disk) -> None:
    """Delete a file or link. Raises `ToolError` when something else was there by then, which stays."""
    try:
        disk.rename(place.name, place.temporary, place.folder)
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT} or not is_still(place.folder, place.name, was):
            raise
        os.unlink(place.name, dir_fd=place.folder)  # no space for another name: the comparison has to suffice
        return
    if is_still(place.folder, place.temporary, was):
        _remove_temporary(place.temporary, place.folder)
        return
    try:
        rename_to_free(place.temporary, place.folder, place.name, place.folder)
    except OSError as error:
        raise _saved_beside_error(place) from error
    raise _changed_error(place.shown)


def is_still(folder: int, name: str, was: FileContent) -> bool:
    """Tell whether a name still has this content and these permissions."""
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        return was == FileContent(os.fsencode(os.readlink(name, dir_fd=folder)), stat.S_IFLNK)
    if (status.st_mode, status.st_size) != (stat.S_IFREG | was.mode, len(was.data)):
        return False
    with suppress(OSError):
        return content(folder, name) == was.data
    return False


def content(folder: int, name: str) -> bytes:
    """Return the bytes of a regular file in a folder. Raises `OSError`."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, dir_fd=folder), "rb") as file:
        return file.read()


def content_or_target(folder: int, name: str) -> bytes:
    """Return the bytes of a file, or the target of a link. Raises `OSError`."""
    if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        return os.fsencode(os.readlink(name, dir_fd=folder))
    return content(folder, name)


def _put_back(place: TargetName, made: FileContent, disk: Disk) -> None:
    try:
        disk.exchange(place.temporary, place.name, place.folder)
        if not is_still(place.folder, place.temporary, made):
            # Another save replaced the new file: that save is the newest, and it replaced only buddy's own.
            disk.exchange(place.temporary, place.name, place.folder)
    except OSError as error:
        raise _saved_beside_error(place) from error
    _remove_temporary(place.temporary, place.folder)


def _rename_over(place: TargetName, was: FileContent, disk: Disk) -> None:
    """Replace a file on systems that cannot exchange names: keep a second hard link to the old file and
    compare it afterwards. A concurrent write to the file is noticed, a concurrent rename onto its name is
    not."""
    aside, folder = aside_of(place.temporary), place.folder
    try:
        os.link(place.name, aside, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except OSError:  # no hard links either
        disk.rename(place.temporary, place.name, folder)
        return
    with on_failure(_remove_temporary, aside, folder):
        disk.rename(place.temporary, place.name, folder)
    if is_still(folder, aside, was):
        _remove_temporary(aside, folder)
        return
    disk.rename(aside, place.name, folder)
    raise _changed_error(place.shown)


def _remove_temporary(name: str, folder: int) -> None:
    """Remove a temporary name. A failure is ignored: the new file is in place, and the next program removes
    leftovers."""
    with suppress(OSError):
        os.unlink(name, dir_fd=folder)


def _changed_error(shown: str) -> ToolError:
    return ToolError(
        f"{shown} was changed by something else while it was being edited; nothing was written. "
        "Read it again."
    )


def _saved_beside_error(place: TargetName) -> ToolError:
    return ToolError(
        f"{place.shown} was changed by something else while it was being edited. What was saved then is in "
        f"{visible(place.temporary)} beside it, and could not be put back."
    )
