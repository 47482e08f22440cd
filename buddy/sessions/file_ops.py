"""The file operations of sessions as a record of functions, which tests replace to make a disk fail or a
process die."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Callable, Generator

import msgspec

try:
    import fcntl
except ImportError:  # Windows: nothing may fail at import there; locks then use the link(2) way
    fcntl = None

_FLAGS = os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
Identity = tuple[int, int]
"""Device and inode: whether a path still names the file that was opened."""


def _open(path: str, flags: int) -> int:
    """Open a regular file, created 0600. Symbolic links, pipes and devices are refused, not waited for: a
    cloned repository may have planted them."""
    descriptor = os.open(path, flags | _FLAGS, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"expected a regular file at {path}, found something else; move it away")
    if flags & os.O_CREAT:
        os.fchmod(descriptor, 0o600)
    return descriptor


def _sync(descriptor: int) -> None:
    """Wait until the bytes are on the medium. On macOS `fsync` returns when they are in the drive's cache."""
    if fcntl is not None and sys.platform == "darwin":
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    elif sys.platform == "linux":
        os.fdatasync(descriptor)
    else:
        os.fsync(descriptor)


def _sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _identity(target: str | int) -> Identity:
    """Return the identity of a path (a link is not followed) or of an open file."""
    found = os.fstat(target) if isinstance(target, int) else os.lstat(target)
    return found.st_dev, found.st_ino


def _flock(descriptor: int) -> None:
    """Take an exclusive lock that ends with the process. Raises `BlockingIOError` when another process holds
    it."""
    if fcntl is None:
        raise OSError("this system has no flock")
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


class JournalFiles(msgspec.Struct, frozen=True):
    """All disk operations of sessions."""

    open: Callable[[str, int], int] = _open
    read: Callable[[int, int, int], bytes] = os.pread
    write: Callable[[int, bytes | memoryview, int], int] = os.pwrite
    sync: Callable[[int], None] = _sync
    truncate: Callable[[int, int], None] = os.ftruncate
    close: Callable[[int], None] = os.close
    identity: Callable[[str | int], Identity] = _identity
    rename: Callable[[str, str], None] = os.replace
    link: Callable[[str, str], None] = os.link
    unlink: Callable[[str], None] = os.unlink
    sync_directory: Callable[[str], None] = _sync_directory
    flock: Callable[[int], None] = _flock

    @contextlib.contextmanager
    def open_file(self, path: str, flags: int) -> Generator[int]:
        """Open a file for a `with` block."""
        descriptor = self.open(path, flags)
        try:
            yield descriptor
        finally:
            self.close(descriptor)

    def write_all(self, descriptor: int, data: bytes, offset: int) -> None:
        """Write all bytes; the operating system may accept fewer in one call."""
        view = memoryview(data)
        while view:
            written = self.write(descriptor, view, offset)
            if written == 0:
                raise OSError(f"expected to write {len(view)} bytes, wrote none")
            view, offset = view[written:], offset + written

    def read_all(self, path: str, start: int = 0, end: int | None = None) -> bytes:
        """Return the bytes of a file between two offsets, the whole of it by default."""
        with self.open_file(path, os.O_RDONLY) as descriptor:
            return self.read_open(descriptor, start, end)

    def read_open(self, descriptor: int, start: int = 0, end: int | None = None) -> bytes:
        """Do the same as `read_all`, for an open file."""
        wanted = (os.fstat(descriptor).st_size if end is None else end) - start
        pieces: list[bytes] = []
        while wanted > 0 and (piece := self.read(descriptor, wanted, start)):
            pieces.append(piece)
            wanted, start = wanted - len(piece), start + len(piece)
        return b"".join(pieces)

    def replace(self, path: str, data: bytes) -> None:
        """Replace a file atomically: write a private temporary file beside it, sync, rename, sync the
        directory."""
        temporary = f"{path}.{os.urandom(6).hex()}.tmp"
        try:
            with self.open_file(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as descriptor:
                self.write_all(descriptor, data, 0)
                self.sync(descriptor)
            self.rename(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):
                self.unlink(temporary)
            raise
        self.sync_directory(os.path.dirname(path))
