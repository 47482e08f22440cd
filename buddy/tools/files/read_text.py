"""Lines of a text file with their numbers, within limits; big files by seeking."""

from __future__ import annotations

import os
from typing import BinaryIO

import msgspec

from buddy.agent.formatting import format_count

MAX_LINES = 2000
MAX_BYTES = 50_000
MAX_LINE_CHARS = 2000
MAX_WHOLE_BYTES = 8_000_000
"""Larger files are read by seeking and not held."""
_CHUNK = 1 << 20
_MAX_TAIL_BYTES = 64 * _CHUNK
MAX_COUNTED_BYTES = 2_000_000_000
"""Lines of larger files are not counted to the end: that takes seconds."""


class FilePage(msgspec.Struct, frozen=True):
    """Some lines of a file. `first` is the number of the first one (0 when that is not known, or there are
    none); `total` is None when it was not counted. `cut`: lines were too long to be shown whole."""

    lines: tuple[str, ...]
    first: int
    total: int | None
    cut: int

    @property
    def last(self) -> int:
        """Return the number of the last line."""
        return self.first + len(self.lines) - 1


def page_of_text(text: str, offset: int, limit: int) -> FilePage:
    """Return lines of a text that is in memory. `offset` counts from 1; a negative one from the end."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    total = len(lines)
    start = max(0, total + offset) if offset < 0 else max(0, offset - 1)
    return _page(lines[start : start + limit], start + 1, total)


def _page(lines: list[str], first: int, total: int | None, *, broken_off: bool = False) -> FilePage:
    """`broken_off`: of the last one of these lines there is more than was read."""
    kept: list[str] = []
    size = cut = 0
    for number, line in enumerate(lines, 1):
        shown = line
        if len(line) > MAX_LINE_CHARS:
            more = "more than " if broken_off and number == len(lines) else ""
            shown = f"{line[:MAX_LINE_CHARS]}… (cut: the line has {more}{len(line):,} characters)"
            cut += 1
        size += len(shown.encode("utf-8", "replace")) + 8
        if size > MAX_BYTES and kept:
            break
        kept.append(shown)
    return FilePage(tuple(kept), first if kept else 0, total, cut)


def page_of_file(file: BinaryIO, size: int, offset: int, limit: int) -> FilePage:
    """Return lines of a file too big to hold: only the wanted part is kept in memory."""
    page = _tail(file, size, -offset, limit) if offset < 0 else _from_start(file, size, offset, limit)
    if page.first == 1 and page.lines[0].startswith("\ufeff"):
        return msgspec.structs.replace(page, lines=(page.lines[0][1:], *page.lines[1:]))
    return page


def _from_start(file: BinaryIO, size: int, offset: int, limit: int) -> FilePage:
    start = max(0, offset - 1)
    file.seek(0)
    position = _skip_lines(file, start)
    if position is None:
        return FilePage((), 0, _count_lines(file, size), 0)
    file.seek(position)
    lines, broken_off = _take_lines(file, limit)
    return _page(lines, start + 1, _count_lines(file, size), broken_off=broken_off)


def _skip_lines(file: BinaryIO, count: int) -> int | None:
    """Return the position after this many lines, None when there are fewer."""
    position = 0
    while count:
        chunk = file.read(_CHUNK)
        if not chunk:
            return None
        here = chunk.count(b"\n")
        if here < count:
            count -= here
            position += len(chunk)
            continue
        at = -1
        for _ in range(count):
            at = chunk.find(b"\n", at + 1)
        return position + at + 1
    return position


def _take_lines(file: BinaryIO, limit: int) -> tuple[list[str], bool]:
    """Return the next lines, as many as could be shown. Of a line longer than that, which is the last one
    then, only the start is kept; whether that is so."""
    most = MAX_BYTES + MAX_LINE_CHARS * 4
    lines: list[str] = []
    taken = 0
    while len(lines) < limit and taken < most:
        line = file.readline(most)
        if not line:
            break
        taken += len(line)
        lines.append(_decode(line))
        if len(line) == most and not line.endswith(b"\n"):
            return lines, file.read(1) not in {b"", b"\n"}
    return lines, False


def _decode(line: bytes) -> str:
    return line.rstrip(b"\r\n").decode("utf-8", "replace")


def _count_lines(file: BinaryIO, size: int) -> int | None:
    if size > MAX_COUNTED_BYTES:
        return None
    file.seek(0)
    count, last = 0, b"\n"
    while chunk := file.read(_CHUNK):
        count += chunk.count(b"\n")
        last = chunk[-1:]
    return count + (last != b"\n")


def _tail(file: BinaryIO, size: int, wanted: int, limit: int) -> FilePage:
    """Return the last lines, found from the end where that is not too far."""
    file.seek(max(0, size - 1))
    ends = file.read(1) == b"\n"
    needed = wanted + ends
    position, buffer = size, b""
    pieces: list[bytes] = []
    newlines = 0
    while position > 0 and newlines < needed and size - position < _MAX_TAIL_BYTES:
        step = min(_CHUNK, position)
        position -= step
        file.seek(position, os.SEEK_SET)
        buffer = file.read(step)
        newlines += buffer.count(b"\n")
        pieces.append(buffer)
    data = b"".join(reversed(pieces))
    total = _count_lines(file, size)
    if position > 0 and newlines < needed and total is not None:
        return _from_start(file, size, total - wanted + 1, limit)
    lines = data.split(b"\n")
    if ends:
        lines.pop()
    if position > 0:
        lines = lines[1:] or lines  # of the first one there is only a part
    if total is None:  # they get no numbers, so that they have to be the very last ones
        wanted = min(wanted, limit)
    kept = [_decode(line) for line in lines[-wanted:][:limit]]
    return _page(kept, 0 if total is None else max(1, total - wanted + 1), total)


def number_lines(page: FilePage) -> str:
    """Return the lines as the model reads them: number, tab, text."""
    if not page.first:
        return "\n".join(f"     ?\t{line}" for line in page.lines)
    return "\n".join(f"{page.first + at:>6}\t{line}" for at, line in enumerate(page.lines))


def position(page: FilePage, shown: str, offset: int) -> str:
    """Describe the lines' position in the file, and how to get the next ones."""
    total = "many" if page.total is None else f"{page.total:,}"
    if not page.lines:
        if page.total == 0:
            return f"{shown} is empty"
        lines = "many lines" if page.total is None else format_count(page.total, "line")
        return f"{shown} has {lines}; offset {offset} is past its end"
    where = (
        f"lines {page.first}–{page.last} of {total}"
        if page.first
        else f"last {format_count(len(page.lines), 'line')}"
    )
    more = ""
    if page.first and (page.total is None or page.last < page.total):
        more = f"; offset={page.last + 1} for more"
    cut = f"; {format_count(page.cut, 'line')} cut at {MAX_LINE_CHARS:,} characters" if page.cut else ""
    return f"[{shown}: {where}{more}{cut}]"
