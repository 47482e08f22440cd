"""The bytes of a journal as lines: what is good, what is damaged, and where the good part ends.

Lines end at `\\n` and nowhere else (text may contain U+2028 and its kin). A byte order mark, `\\r\\n` and
empty lines are tolerated: editors and file transfers leave them.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from buddy.safety.seal import Seal
from buddy.sessions.line import Line, LineError, decode

_START = b'{"crc":"'


class JournalLine(msgspec.Struct, frozen=True):
    """A good line and the offsets between which it stands, its line feed included when it has one."""

    line: Line
    raw: bytes
    start: int
    end: int


class Scan(msgspec.Struct, frozen=True):
    """The records and problems found in a journal's bytes. `end` is the offset behind the last good line:
    what follows is a torn tail. `unterminated`: that line has no line feed yet. `problems` says what is
    damaged before it, a sentence each; `torn` how many bytes follow."""

    lines: tuple[JournalLine, ...]
    problems: tuple[str, ...]
    end: int
    unterminated: bool
    torn: int


def scan(data: bytes, offset: int = 0, after: int = 0, seal: Seal | None = None) -> Scan:
    """The lines of a journal from byte `offset` on; `data` begins there. Numbers must grow beyond `after`. A
    line that `seal` does not fit counts as damaged."""
    lines: list[JournalLine] = []
    problems: list[str] = []
    open_problems: list[str] = []
    last = after
    for start, raw, end in _split(data):
        try:
            found = _decoded(raw, offset + start, offset + end, seal)
        except LineError as error:
            open_problems.append(f"bytes {offset + start} to {offset + end} are damaged: {error}")
            continue
        problems += open_problems
        open_problems.clear()
        if found.line.number <= last:
            problems.append(f"record {found.line.number} stands behind record {last}; it is left out")
            continue
        if found.line.number > last + 1:
            problems.append(f"{_missing(last + 1, found.line.number - 1)} missing")
        last = found.line.number
        lines.append(found)
    end = lines[-1].end if lines else offset
    unterminated = bool(lines) and data[end - offset - 1 : end - offset] != b"\n"
    return Scan(tuple(lines), tuple(problems), end, unterminated, offset + len(data) - end)


def first_line(data: bytes) -> Line | None:
    """The first good line; the others are not looked at."""
    for start, raw, end in _split(data):
        with suppress(LineError):
            return _decoded(raw, start, end).line
    return None


def last_line(data: bytes) -> Line | None:
    """The last good line of bytes that may begin within one; the others are not looked at."""
    for raw in reversed(data.split(b"\n")):
        with suppress(LineError):
            return _decoded(raw.rstrip(b"\r"), 0, 0).line
    return None


def _split(data: bytes) -> Iterator[tuple[int, bytes, int]]:
    start = len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0
    while start < len(data):
        feed = data.find(b"\n", start)
        end = len(data) if feed < 0 else feed + 1
        raw = data[start:end].rstrip(b"\r\n")
        if raw:
            yield start, raw, end
        start = end


def _decoded(raw: bytes, start: int, end: int, seal: Seal | None = None) -> JournalLine:
    """A line, or the good line at the end of a damaged one: what a dying process began and a later one
    appended to. Nothing inside a JSON text can look like a line's start, because its quotes are escaped."""
    try:
        return JournalLine(decode(raw, seal), raw, start, end)
    except LineError:
        at = raw.rfind(_START)
        if at <= 0:
            raise
        return JournalLine(decode(raw[at:], seal), raw[at:], start + at, end)


def _missing(first: int, last: int) -> str:
    return f"record {first} is" if first == last else f"records {first} to {last} are"
