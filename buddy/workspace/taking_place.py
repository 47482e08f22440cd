"""A file that was written takes the place of another one, or a file goes: what somebody saves at that very
moment is not lost.

Between a look at a file and the step that replaces it anybody may save it. So the two change places in one
step, what came out is looked at once more, and goes back when it is not what was expected. (Who has the file
open and goes on writing into it after that look writes into a file without a name; nothing can be done about
that.)
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

import msgspec

from buddy.agent.cleanup import on_failure
from buddy.agent.tool import ToolError
from buddy.safety.sanitise import visible
from buddy.workspace.disk import Disk
from buddy.workspace.swap import rename_to_free


class FileContent(msgspec.Struct, frozen=True):
    """Content of a directory entry: bytes and permissions, or a link's target and `stat.S_IFLNK`."""

    data: bytes
    mode: int


class TargetName(msgspec.Struct, frozen=True):
    """A name in an open folder, and the name of what is to stand there. `shown`: how a person names it."""

    folder: int
    name: str
    temporary: str
    shown: str


def aside_of(temporary: str) -> str:
    """The name under which what was there is kept for a moment, where names cannot change places."""
    return f"{temporary.removesuffix('.tmp')}.old"


def take_place(place: TargetName, was: FileContent, made: FileContent, disk: Disk) -> None:
    """Put what was made (it is there, under the temporary name) in the place of what was there. Raises
    `ToolError` when something else was there by then: it still is."""
    if not disk.exchange(place.temporary, place.name, place.folder):
        _rename_over(place, was, disk)
    elif is_still(place.folder, place.temporary, was):
        _gone(place.temporary, place.folder)
    else:
        _put_back(place, made, disk)
        raise _changed(place.shown)


def take_away(place: TargetName, was: FileContent, disk: Disk) -> None:
    """Delete a file or link. Raises `ToolError` when something else was there by then: it still is."""
    try:
        disk.rename(place.name, place.temporary, place.folder)
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT} or not is_still(place.folder, place.name, was):
            raise
        os.unlink(place.name, dir_fd=place.folder)  # no room for another name: the look has to do
        return
    if is_still(place.folder, place.temporary, was):
        _gone(place.temporary, place.folder)
        return
    try:
        rename_to_free(place.temporary, place.folder, place.name, place.folder)
    except OSError as error:
        raise _kept(place) from error
    raise _changed(place.shown)


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
    """The bytes of a regular file in a folder. Raises `OSError`."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, dir_fd=folder), "rb") as file:
        return file.read()


def content_or_target(folder: int, name: str) -> bytes:
    """The same, and of a link where it leads. Raises `OSError`."""
    if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        return os.fsencode(os.readlink(name, dir_fd=folder))
    return content(folder, name)


def _put_back(place: TargetName, made: FileContent, disk: Disk) -> None:
    try:
        disk.exchange(place.temporary, place.name, place.folder)
        if not is_still(place.folder, place.temporary, made):
            # Saved once more, over what was made: that is the newest, and what it replaced was its own.
            disk.exchange(place.temporary, place.name, place.folder)
    except OSError as error:
        raise _kept(place) from error
    _gone(place.temporary, place.folder)


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
    with on_failure(_gone, aside, folder):
        disk.rename(place.temporary, place.name, folder)
    if is_still(folder, aside, was):
        _gone(aside, folder)
        return
    disk.rename(aside, place.name, folder)
    raise _changed(place.shown)


def _gone(name: str, folder: int) -> None:
    """Remove a temporary name. A failure is ignored: the new file is in place, and the next program removes
    leftovers."""
    with suppress(OSError):
        os.unlink(name, dir_fd=folder)


def _changed(shown: str) -> ToolError:
    return ToolError(
        f"{shown} was changed by something else while it was being edited; nothing was written. "
        "Read it again."
    )


def _kept(place: TargetName) -> ToolError:
    return ToolError(
        f"{place.shown} was changed by something else while it was being edited. What was saved then is in "
        f"{visible(place.temporary)} beside it, and could not be put back."
    )
