"""Reading and replacing regular files by their real path.

A real path has no links in it, so any link met on the way was put there since the path was judged: it is
refused, never followed. Every function takes such a path (`Located.real`) and blocks; callers run them in a
thread. Raises `ToolError` for what is refused here and `OSError` for what the system refuses.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import cached_property

import msgspec

from buddy.agent.cancel import on_failure
from buddy.agent.lazy_regex import pattern
from buddy.agent.tool import ToolError
from buddy.safety.sanitise import visible
from buddy.workspace.files.atomic_replace import (
    DISK,
    Disk,
    FileContent,
    TargetName,
    take_away,
    take_place,
    write_all,
)

MAX_EDIT_BYTES = 50_000_000
_GROWN_BYTES = 65_536
"""How much more is read than a file's size says: what asks for the limit sets that much memory aside."""
ACTS_AS_OWNER = stat.S_ISUID | stat.S_ISGID
_CAPABILITIES = "security.capability"
_KERNEL_ROOTS = ("/proc/", "/sys/", "/dev/")
_KINDS = (
    (stat.S_ISLNK, "a link that was not there before"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISDIR, "a folder"),
)


class Stamp(msgspec.Struct, frozen=True):
    """Identity, size and times of a file; equal stamps mean the content was not touched."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int


class LoadedFile(msgspec.Struct, frozen=True, dict=True):
    """A file's bytes, with what must survive replacing it. `links`: how many names the file has."""

    data: bytes
    mode: int
    stamp: Stamp
    links: int

    @cached_property
    def digest(self) -> str:
        """Return the hash of the bytes, computed once: 0.2 ms for 100 kB."""
        return digest_of(self.data)


def digest_of(data: bytes) -> str:
    """Return the hash that tells versions of a file apart."""
    return hashlib.sha256(data).hexdigest()


def stamp_of(status: os.stat_result) -> Stamp:
    """Return the outside of a file as `stat` tells it."""
    return Stamp(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


@contextmanager
def explain_errors(doing: str) -> Generator[None]:
    """Turn errors of the system into messages a model can use. `doing`: "read src/a.py"."""
    try:
        yield
    except OSError as error:
        raise ToolError(f"cannot {doing}: {_reason(error)}") from error


def _reason(error: OSError) -> str:
    match error.errno:
        case errno.EACCES | errno.EPERM:
            return "permission denied"
        case errno.ENOSPC | errno.EDQUOT:
            return "the disk is full; nothing was changed"
        case errno.EROFS:
            return "the file system is read-only"
        case errno.ENOENT:
            return "there is no such file or folder"
        case errno.ENOTEMPTY | errno.EEXIST:
            return "something is already there"
        case _:
            return error.strerror or str(error)


@contextmanager
def folder_of(real: str, *, create: bool = False) -> Generator[tuple[int, str]]:
    """Open the folder of a file; return its descriptor and the file's name. `create` makes missing
    folders."""
    folder, name = os.path.split(real)
    descriptor = _open_folder(folder, create=create)
    try:
        yield descriptor, name
    finally:
        os.close(descriptor)


def _open_folder(folder: str, *, create: bool) -> int:
    flags = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
    current = os.open("/", flags)
    for part in folder.split("/"):
        if not part:
            continue
        try:
            following = _step(current, part, flags, create=create)
        except OSError as error:
            if error.errno in {errno.ELOOP, errno.ENOTDIR, errno.EMLINK}:
                _refuse_plain_file(current, part, folder)
                raise ToolError(
                    f"{visible(part)} in {visible(folder)} is a link or no folder (it may have been swapped "
                    "since the path was checked); nothing was touched"
                ) from error
            raise
        finally:
            os.close(current)
        current = following
    return current


def _refuse_plain_file(parent: int, name: str, folder: str) -> None:
    """Raise `ToolError` where simply a file stands where a folder was meant."""
    with suppress(OSError):
        if stat.S_ISREG(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            raise ToolError(f"{visible(name)} in {visible(folder)} is a file; expected a folder")


def _step(parent: int, name: str, flags: int, *, create: bool) -> int:
    try:
        return os.open(name, flags, dir_fd=parent)
    except FileNotFoundError:
        if not create:
            raise
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=parent)
    return os.open(name, flags, dir_fd=parent)


def status_of(real: str) -> os.stat_result | None:
    """Return the status of a real path, not following links; None when nothing exists there."""
    try:
        return os.stat(real, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None


def refuse_irregular(mode: int, shown: str) -> None:
    """Raise `ToolError` for anything but a regular file."""
    if not stat.S_ISREG(mode):
        kind = next((kind for test, kind in _KINDS if test(mode)), "something special")
        raise ToolError(f"{shown} is {kind}; only regular files can be read or written")


def open_to_read(real: str, shown: str) -> int:
    """Return a descriptor on a regular file, never waiting; the caller closes it."""
    if real.startswith(_KERNEL_ROOTS):
        raise ToolError(f"{shown} is made by the kernel, not a regular file; it is not read")
    with folder_of(real) as (folder, name):
        refuse_irregular(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode, shown)
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
        descriptor = os.open(name, flags, dir_fd=folder)
    try:
        refuse_irregular(os.fstat(descriptor).st_mode, shown)
    except ToolError:
        os.close(descriptor)
        raise
    return descriptor


def load(real: str, shown: str, *, max_bytes: int = MAX_EDIT_BYTES) -> LoadedFile | None:
    """Return a file's bytes, None when there is no such file."""
    try:
        descriptor = open_to_read(real, shown)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        if status.st_size > max_bytes:
            raise ToolError(
                f"{shown} has {status.st_size:,} bytes; at most {max_bytes:,} can be handled. "
                "Use a shell command."
            )
        data = file.read(min(status.st_size + _GROWN_BYTES, max_bytes + 1))
        if len(data) > max_bytes:
            raise ToolError(f"{shown} grew past {max_bytes:,} bytes while it was read")
        return LoadedFile(data, stat.S_IMODE(status.st_mode), stamp_of(status), status.st_nlink)


class Replacement(msgspec.Struct, frozen=True):
    """New bytes for a file. `was`: what it held when they were worked out (None: there was no file); the
    write is refused when that is no longer true. `mode`: None keeps the old one. `temporary`: the name of the
    file that is written first. `read_only_too`: a file that may not be written is replaced all the same."""

    real: str
    shown: str
    data: bytes
    was: LoadedFile | None
    mode: int | None = None
    temporary: str = ""
    read_only_too: bool = False


TEMPORARY_NAME = pattern(r"\.buddy-[0-9a-f]{12}\.tmp")


def temporary_name() -> str:
    """Return a name for a file that is about to take another's place."""
    return f".buddy-{os.urandom(6).hex()}.tmp"


def replace(new: Replacement, disk: Disk = DISK) -> Stamp:
    """Write a temporary file beside the target, make it last, move it into place: the target is the old or
    the new file at every instant. A hard link gets a file of its own; the other names keep the old
    content."""
    with folder_of(new.real, create=new.was is None) as (folder, name):
        temporary = new.temporary or temporary_name()
        if new.was is not None and not new.read_only_too and not os.access(new.real, os.W_OK):
            raise PermissionError(errno.EACCES, "the file is read-only", new.real)
        return _write_beside(folder, name, temporary, new, disk)


def _write_beside(folder: int, name: str, temporary: str, new: Replacement, disk: Disk) -> Stamp:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o666 if new.was is None else 0o600, dir_fd=folder)
    try:
        with on_failure(_unlink_own, temporary, folder, descriptor):
            if new.was is not None:
                _keep_outside(folder, name, descriptor, new)
            elif new.mode is not None:
                os.fchmod(descriptor, new.mode & 0o777)
            write_all(disk, descriptor, new.data)
            place = TargetName(folder, name, temporary, new.shown)
            _put_in_place(place, stat.S_IMODE(os.fstat(descriptor).st_mode), new, disk)
            return stamp_of(os.fstat(descriptor))
    finally:
        os.close(descriptor)


def _unlink_own(name: str, folder: int, descriptor: int) -> None:
    """Delete only the file that was written: what changed places with it is somebody's."""
    with suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(descriptor), os.stat(name, dir_fd=folder, follow_symlinks=False)):
            os.unlink(name, dir_fd=folder)


def _keep_outside(folder: int, name: str, descriptor: int, new: Replacement) -> None:
    """Owner, extended attributes (access lists live there) and mode, in the order in which they do not undo
    each other. What this user may not set is left: a file of somebody else becomes ours. What lets a file
    act as its owner is lost, as with any write: the content it was given for is no longer there."""
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    mine = os.fstat(descriptor)
    if (status.st_uid, status.st_gid) != (mine.st_uid, mine.st_gid):
        with suppress(OSError):
            os.fchown(descriptor, status.st_uid, status.st_gid)
    _copy_attributes(new.real, descriptor)
    mode = stat.S_IMODE(status.st_mode) if new.mode is None else new.mode
    os.fchmod(descriptor, mode & ~ACTS_AS_OWNER)


def _copy_attributes(real: str, descriptor: int) -> None:
    if not hasattr(os, "listxattr"):
        return
    with suppress(OSError):
        names = os.listxattr(real, follow_symlinks=False)
        for attribute in (name for name in names if name != _CAPABILITIES):
            with suppress(OSError):
                os.setxattr(descriptor, attribute, os.getxattr(real, attribute, follow_symlinks=False))


def _put_in_place(place: TargetName, mode: int, new: Replacement, disk: Disk) -> None:
    if new.was is None:
        _put_where_nothing_is(place, disk)
        return
    gone = f"{new.shown} was deleted while it was being edited; nothing was written"
    try:
        now = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
        if stamp_of(now) != new.was.stamp:
            raise ToolError(
                f"{new.shown} was changed by something else while it was being edited; nothing was written. "
                "Read it again."
            )
        take_place(place, FileContent(new.was.data, new.was.mode), FileContent(new.data, mode), disk)
    except FileNotFoundError as error:
        raise ToolError(gone) from error


def _put_where_nothing_is(place: TargetName, disk: Disk) -> None:
    """Put a new file in its place without replacing one that appeared meanwhile: a link is refused then, a
    rename is not."""
    folder, name, temporary = place.folder, place.name, place.temporary
    appeared = f"{place.shown} appeared while it was being written; read it first"
    try:
        os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError as error:
        raise ToolError(appeared) from error
    except OSError:  # a file system without hard links
        with suppress(FileNotFoundError):
            os.stat(name, dir_fd=folder, follow_symlinks=False)
            raise ToolError(appeared) from None
        disk.rename(temporary, name, folder)
        return
    os.unlink(temporary, dir_fd=folder)


def remove(real: str, shown: str, was: LoadedFile, disk: Disk = DISK, *, temporary: str = "") -> None:
    """Delete a file that still is what it was. `temporary`: its name while it goes."""
    with folder_of(real) as (folder, name):
        if stamp_of(os.stat(name, dir_fd=folder, follow_symlinks=False)) != was.stamp:
            raise ToolError(f"{shown} was changed by something else meanwhile; it was not deleted")
        take_away(
            TargetName(folder, name, temporary or temporary_name(), shown),
            FileContent(was.data, was.mode),
            disk,
        )
