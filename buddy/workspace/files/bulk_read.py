"""Reading many files quickly: what is no regular file is left alone, links are not followed, and bytes become
text. Only the standard library, because a search in a bare child process needs it too.
"""

from __future__ import annotations

import os
import stat
from typing import Literal, NamedTuple

from buddy.workspace.files.content import legacy_encoding

MAX_FILE_BYTES = 64_000_000
PROBE_BYTES = 8192
UTF_16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
UTF_32 = (b"\xff\xfe\0\0", b"\0\0\xfe\xff")
_CAREFULLY = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def file_bytes(path: str) -> bytes | Literal["large", "unreadable"]:
    """Read a regular file; return the reason when it is too large or cannot be read."""
    try:
        descriptor = os.open(path, _CAREFULLY)
        try:
            size = _quick_size(descriptor)
            if not 0 < size <= MAX_FILE_BYTES:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode):
                    return "unreadable"
                size = status.st_size
            return _all(descriptor, size) if size <= MAX_FILE_BYTES else "large"
        finally:
            os.close(descriptor)
    except OSError:
        return "unreadable"


def _quick_size(descriptor: int) -> int:
    """Return a file's size, five times faster than `fstat`; 0, or an implausible size, for most things that
    are not regular files."""
    try:
        return os.lseek(descriptor, 0, os.SEEK_END)
    except OSError:  # some of /proc, a pipe
        return 0


def regular_bytes(path: str, limit: int) -> bytes | None:
    """Return a regular file's content, at most so much; None when it is gone or something else, a link
    too."""
    try:
        with open(path, "rb", opener=lambda name, _flags: os.open(name, _CAREFULLY)) as file:
            return file.read(limit) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None
    except OSError:
        return None


def _all(descriptor: int, size: int) -> bytes:
    data = os.pread(descriptor, max(size, PROBE_BYTES) + 1, 0)
    while size < MAX_FILE_BYTES and len(data) > size:  # it grew, or /proc says 0
        more = os.pread(descriptor, 1 << 20, len(data))
        if not more or len(data) > MAX_FILE_BYTES:
            break
        data += more
    return data


class DecodedText(NamedTuple):
    """A file's content as UTF-8 bytes with newlines only; a binary file is read as latin-1."""

    data: bytes
    ascii: bool
    binary: bool


def text_of(data: bytes) -> DecodedText:
    """Return the text of a file. Invalid UTF-8 is read as `content.decode` reads it."""
    if data.isascii() and data.find(0, 0, PROBE_BYTES) < 0:
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return DecodedText(data, True, False)  # by place: this is done for every file of a search
    text = decode_text(data)
    if text is None:
        return DecodedText(data.decode("latin-1").encode(), data.isascii(), binary=True)
    return DecodedText(text.encode(), text.isascii(), binary=False)


def decode_text(data: bytes) -> str | None:
    """Return the text with newlines only; None when it is binary. Invalid UTF-8 is read as `content.decode`
    reads it."""
    encoding = UTF_16.get(data[:2])
    if encoding is None or data.startswith(UTF_32):
        if b"\0" in data[:PROBE_BYTES]:
            return None
        data, encoding = data.removeprefix(b"\xef\xbb\xbf"), "utf-8"
    else:
        data = data[2:]
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        if encoding != "utf-8":
            return None
        text = data.decode(legacy_encoding(data))
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
