"""A client of the SFTP protocol, version 3, over the pipes of `ssh -s … sftp`. Blocks; used in threads.

Own code because the libraries that speak it (paramiko, asyncssh) bring their own ssh, which reads neither
the person's configuration nor shares their connection. Format: draft-ietf-secsh-filexfer-02; the extensions
are those of OpenSSH's PROTOCOL file.
"""

from __future__ import annotations

import errno
import os
import posixpath
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from io import BufferedReader
from typing import IO

from buddy.workspace.elsewhere import RemoteStatus
from buddy.workspace.targets.pipes import ChannelPipes
from buddy.workspace.targets.transport import Cancellation, TargetError

_INIT, _OPEN, _CLOSE, _READ, _WRITE = 1, 3, 4, 5, 6
_LSTAT, _FSETSTAT, _OPENDIR, _READDIR, _REMOVE = 7, 10, 11, 12, 13
_MKDIR, _RMDIR, _REALPATH, _RENAME, _READLINK, _EXTENDED = 14, 15, 16, 18, 19, 200
_VERSION, _STATUS, _HANDLE, _DATA, _NAME, _ATTRS = 2, 101, 102, 103, 104, 105
_OK, _EOF = 0, 1
_ERRNO = {2: errno.ENOENT, 3: errno.EACCES, 8: errno.EOPNOTSUPP}
READ, WRITE, CREATE, EXCLUSIVE = 0x01, 0x02, 0x08, 0x20
_HAS_SIZE, _HAS_OWNER, _HAS_MODE, _HAS_TIMES, _HAS_MORE = 0x1, 0x2, 0x4, 0x8, 0x80000000
CHUNK_BYTES = 32_768
"""What every server accepts in one request."""
MOST_WAITING = 16
"""Requests that are sent before the first answer is read: a far machine is not waited for each time."""
MAX_PACKET_BYTES = 1_000_000
MAX_ENTRIES = 100_000
"""Entries of one folder."""
MAX_NAMES_BYTES = 40_000_000
"""All names of one folder."""
MAX_HANDLE_BYTES = 256
MAX_PATH_BYTES = 16_384
MAX_REASON_CHARS = 1_000
MAX_SHORT_ANSWERS = 1_000
"""Answers to one read that held less than was asked for."""
ANSWER_LIMIT_S = 30.0
"""A disk over there may take its time; a call that waits for ever could not even be cancelled."""


class _Packet:
    """A received packet, read from its start. `malformed` makes the error for one that ends too early."""

    def __init__(self, kind: int, data: bytes, malformed: Callable[[], TargetError]) -> None:
        self.kind, self._data, self._at = kind, data, 0
        self._malformed = malformed

    @property
    def is_read(self) -> bool:
        """Tell whether nothing of it is left."""
        return self._at >= len(self._data)

    def number(self) -> int:
        """Read a 32 bit number."""
        self._at += 4
        if self._at > len(self._data):
            raise self._malformed()
        return int.from_bytes(self._data[self._at - 4 : self._at])

    def text(self, most: int = MAX_PACKET_BYTES) -> bytes:
        """Read a text with its length, which is at most so long."""
        size = self.number()
        self._at += size
        if self._at > len(self._data) or size > most:
            raise self._malformed()
        return self._data[self._at - size : self._at]

    def attributes(self) -> RemoteStatus:
        """Read the attributes of a file; 0 where the server does not tell."""
        flags = self.number()
        size = mode = modified = 0
        owner: tuple[int, int] | None = None
        if flags & _HAS_SIZE:
            size = self.number() << 32 | self.number()
        if flags & _HAS_OWNER:
            owner = self.number(), self.number()
        if flags & _HAS_MODE:
            mode = self.number()
        if flags & _HAS_TIMES:
            self.number()
            modified = self.number()
        if flags & _HAS_MORE:
            for _ in range(self.number()):
                self.text()
                self.text()
        return RemoteStatus(size, mode, modified, owner)


def _text(data: bytes | str) -> bytes:
    raw = os.fsencode(data) if isinstance(data, str) else data
    return struct.pack(">I", len(raw)) + raw


class SftpClient:
    """One channel. Every method raises `OSError` for what the server refuses and `lost(reason)` when the
    channel ends, when nothing comes for `limit_s` seconds, and for an answer that breaks the protocol; after
    that the client is of no use any more."""

    def __init__(
        self,
        to: IO[bytes],
        back: BufferedReader,
        lost: Callable[[str], TargetError],
        *,
        limit_s: float = ANSWER_LIMIT_S,
    ) -> None:
        silent = "its sftp server did not answer for {}"
        self._pipes = ChannelPipes(to, back, lost, silent=silent, limit_s=limit_s)
        self._lock = threading.RLock()
        self._last = 0
        self._early: dict[int, _Packet] = {}
        self._extensions: set[bytes] = set()
        with self._lock:
            self._send_raw(bytes((_INIT,)) + struct.pack(">I", 3))
            packet = self._receive()
            if packet.kind != _VERSION:
                raise self._malformed()
            packet.number()
            while not packet.is_read:
                self._extensions.add(packet.text())
                packet.text()

    @property
    def is_usable(self) -> bool:
        """Tell whether the channel still works."""
        return self._pipes.is_usable

    def begin(self, cancellation: Cancellation | None) -> None:
        """Begin a request, of a call that may be cancelled."""
        self._pipes.begin(cancellation)

    def real_path(self, path: str) -> str:
        """Return a path with its links resolved."""
        packet = self._ask(_REALPATH, _text(path), _NAME)
        packet.number()
        real = os.fsdecode(packet.text(MAX_PATH_BYTES))
        if not real.startswith("/") or "\0" in real or real != posixpath.normpath(real):
            raise self._malformed()
        return real

    def status(self, path: str) -> RemoteStatus:
        """Return the attributes of a file; of a link its own."""
        return self._ask(_LSTAT, _text(path), _ATTRS).attributes()

    def read_link(self, path: str) -> str:
        """Return the target of a link."""
        packet = self._ask(_READLINK, _text(path), _NAME)
        packet.number()
        return os.fsdecode(packet.text(MAX_PATH_BYTES))

    def read(self, path: str, max_bytes: int, expected: int) -> bytes:
        """Return a file's bytes, at most so many; about as many as `expected`."""
        with self._lock:
            handle = self._ask(_OPEN, _text(path) + struct.pack(">II", READ, 0), _HANDLE).text(
                MAX_HANDLE_BYTES
            )
            try:
                return self._read_all(handle, max_bytes, expected // CHUNK_BYTES + 1)
            finally:
                self._close(handle)

    def write_new(self, path: str, data: bytes, mode: int, owner: tuple[int, int] | None) -> None:
        """Write a file that must not exist yet, and have it flushed to the disk. What was begun stays when
        it fails. An owner that this user may not set is left out."""
        with self._lock:
            flags = WRITE | CREATE | EXCLUSIVE
            opened = _text(path) + struct.pack(">III", flags, _HAS_MODE, 0o600)
            handle = self._ask(_OPEN, opened, _HANDLE).text(MAX_HANDLE_BYTES)
            try:
                waiting: list[int] = []
                for at in range(0, len(data), CHUNK_BYTES):
                    piece = _text(handle) + struct.pack(">Q", at) + _text(data[at : at + CHUNK_BYTES])
                    waiting.append(self._send(_WRITE, piece))
                    if len(waiting) >= MOST_WAITING:
                        self._expect_ok(waiting)
                self._expect_ok(waiting)
                if owner is not None:
                    with suppress(OSError):
                        self._ask(_FSETSTAT, _text(handle) + struct.pack(">III", _HAS_OWNER, *owner), _STATUS)
                self._ask(_FSETSTAT, _text(handle) + struct.pack(">II", _HAS_MODE, mode), _STATUS)
                if b"fsync@openssh.com" in self._extensions:
                    self._ask(_EXTENDED, _text(b"fsync@openssh.com") + _text(handle), _STATUS)
            finally:
                self._close(handle)

    def replace(self, old: str, new: str) -> None:
        """Rename a file over another one, atomically."""
        if b"posix-rename@openssh.com" not in self._extensions:
            raise OSError(errno.EOPNOTSUPP, "the server can't replace a file atomically", new)
        self._ask(_EXTENDED, _text(b"posix-rename@openssh.com") + _text(old) + _text(new), _STATUS)

    def rename(self, old: str, new: str) -> None:
        """Rename a file to a name that is free; a server of version 3 replaces nothing."""
        self._ask(_RENAME, _text(old) + _text(new), _STATUS)

    def remove(self, path: str) -> None:
        """Delete a file or a link."""
        self._ask(_REMOVE, _text(path), _STATUS)

    def make_folder(self, path: str) -> None:
        """Make a folder."""
        self._ask(_MKDIR, _text(path) + struct.pack(">I", 0), _STATUS)

    def remove_folder(self, path: str) -> None:
        """Remove an empty folder."""
        self._ask(_RMDIR, _text(path), _STATUS)

    def list(self, path: str) -> list[tuple[str, RemoteStatus]]:
        """Return the entries of a folder. A name that no file can have is left out."""
        with self._lock:
            handle = self._ask(_OPENDIR, _text(path), _HANDLE).text(MAX_HANDLE_BYTES)
            entries: list[tuple[str, RemoteStatus]] = []
            size = 0
            try:
                while (packet := self._ask_or_end(_READDIR, _text(handle), _NAME)) is not None:
                    count = packet.number()
                    if not count:  # without it, a server could answer so for ever
                        raise self._malformed()
                    for _ in range(count):
                        name = os.fsdecode(packet.text(MAX_PATH_BYTES))
                        size += len(name)
                        packet.text()
                        attributes = packet.attributes()
                        if name not in ("", ".", "..") and "/" not in name and "\0" not in name:
                            entries.append((name, attributes))
                    if len(entries) > MAX_ENTRIES or size > MAX_NAMES_BYTES:
                        raise OSError(errno.EFBIG, f"it has more than {MAX_ENTRIES:,} entries")
            finally:
                self._close(handle)
            return entries

    def free_bytes(self, path: str) -> int | None:
        """Return the free space around a path, None where the server does not tell."""
        if b"statvfs@openssh.com" not in self._extensions:
            return None
        packet = self._ask(_EXTENDED, _text(b"statvfs@openssh.com") + _text(path), 201)
        numbers = [packet.number() << 32 | packet.number() for _ in range(5)]
        return numbers[1] * numbers[4]

    # -- packets

    def _read_all(self, handle: bytes, max_bytes: int, ahead: int) -> bytes:
        pieces: dict[int, bytes] = {}
        at, done, short = 0, False, 0
        asked: list[tuple[int, int, int]] = []
        while not done or asked:
            while not done and len(asked) < min(MOST_WAITING, ahead) and at < max_bytes:
                size = min(CHUNK_BYTES, max_bytes - at)
                asked.append((at, size, self._send(_READ, _text(handle) + struct.pack(">QI", at, size))))
                at += size
            if not asked:
                break
            start, size, number = asked.pop(0)
            packet = self._answer(number, _DATA, may_end=True)
            if packet is None:
                done = True
                continue
            data = packet.text()
            short += len(data) < size
            if not 0 < len(data) <= size or short > MAX_SHORT_ANSWERS:
                raise self._malformed()
            pieces[start] = data
            if len(data) < size:  # a short answer is no end: the rest is asked for again
                rest = size - len(data)
                again = self._send(_READ, _text(handle) + struct.pack(">QI", start + len(data), rest))
                asked.insert(0, (start + len(data), rest, again))
        return b"".join(pieces[start] for start in sorted(pieces))

    def _expect_ok(self, numbers: list[int]) -> None:
        """Read the answers of all requests, also after a refusal; raise the first one."""
        problem: OSError | None = None
        for number in numbers:
            try:
                self._answer(number, _STATUS)
            except OSError as error:
                problem = problem or error
        numbers.clear()
        if problem is not None:
            raise problem

    def _close(self, handle: bytes) -> None:
        if self.is_usable:
            self._ask(_CLOSE, _text(handle), _STATUS)

    def _ask(self, kind: int, data: bytes, wanted: int) -> _Packet:
        with self._lock:
            packet = self._answer(self._send(kind, data), wanted)
            assert packet is not None
            return packet

    def _ask_or_end(self, kind: int, data: bytes, wanted: int) -> _Packet | None:
        return self._answer(self._send(kind, data), wanted, may_end=True)

    def _send(self, kind: int, data: bytes) -> int:
        self._last += 1
        self._send_raw(bytes((kind,)) + struct.pack(">I", self._last) + data)
        return self._last

    def _send_raw(self, data: bytes) -> None:
        self._pipes.send(struct.pack(">I", len(data)) + data)

    def _answer(self, number: int, wanted: int, *, may_end: bool = False) -> _Packet | None:
        """Read the answer to a request; servers may answer in another order."""
        while number not in self._early:
            packet = self._receive()
            self._early[packet.number()] = packet
            if len(self._early) > 2 * MOST_WAITING:
                raise self._malformed()
        packet = self._early.pop(number)
        if packet.kind != _STATUS:
            if packet.kind != wanted:
                raise self._malformed()
            return packet
        code = packet.number()
        if code == _OK and wanted == _STATUS:
            return packet
        if code == _EOF and may_end:
            return None
        said = packet.text().decode("utf-8", "replace")
        raise OSError(_ERRNO.get(code, errno.EIO), said[:MAX_REASON_CHARS])

    def _receive(self) -> _Packet:
        head = self._pipes.exactly(5)
        size = int.from_bytes(head[:4])
        if not 1 <= size <= MAX_PACKET_BYTES:  # a start-up file over there that prints something, say
            raise self._malformed()
        return _Packet(head[4], self._pipes.exactly(size - 1), self._malformed)

    def _malformed(self) -> TargetError:
        return self._pipes.broken(
            "its sftp server does not keep to the protocol, or something is printed before it"
        )
