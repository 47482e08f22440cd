"""Lines of a journal: ASCII JSON with a number and a checksum, and the scan for damaged ones."""

from __future__ import annotations

import codecs
import functools
import json
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from buddy.safety.seal import SEAL_LENGTH, Seal

T = TypeVar("T")
_START = b'{"crc":"'
_BODY = len(_START) + 8 + len('",')
_MAC = b',"mac":"'
_MAC_LENGTH = len(_MAC) + SEAL_LENGTH + len('"}')
_JSON = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"))


class Line(msgspec.Struct, frozen=True):
    """A decoded line. `data` is not decoded yet (see `payload`). `at` is wall time, `task_id` 0 when it
    concerns the whole session."""

    number: int
    kind: str
    task_id: int
    at: float
    data: Any


class LineError(ValueError):
    """A damaged line. The message says why."""


class _Envelope(msgspec.Struct):
    n: int
    kind: str
    task: int
    at: float
    data: msgspec.Raw


class _LooseEnvelope(msgspec.Struct):
    n: int
    kind: str
    task: int
    at: float
    data: Any


@functools.cache
def _decoder(record: Any) -> msgspec.json.Decoder[Any]:
    """Return a cached decoder, made at its first use: all of them together would add 4 ms to the start."""
    return msgspec.json.Decoder(record)


def encode(number: int, kind: str, task_id: int, at: float, data: object, seal: Seal | None = None) -> bytes:
    """Return a line with its line feed, sealed where there is a seal. The standard library writes the JSON,
    because lone surrogates in model and tool output must survive."""
    record = {"n": number, "kind": kind, "task": task_id, "at": at, "data": msgspec.to_builtins(data)}
    return complete(_JSON.encode(record).encode("ascii")[1:-1], seal)


def complete(fields: bytes, seal: Seal | None = None) -> bytes:
    """Return a line from its fields after the checksum, which come without the closing brace."""
    mac = b'%s%s"' % (_MAC, seal.of(fields).encode("ascii")) if seal is not None else b""
    body = b"%s%s}" % (fields, mac)
    return b'{"crc":"%08x",%s\n' % (zlib.crc32(body), body)


def checksum(line: bytes) -> str:
    """Return the checksum a whole line carries."""
    return line[len(_START) : len(_START) + 8].decode("ascii", "replace")


def decode(line: bytes, seal: Seal | None = None) -> Line:
    """Return a line without its line feed. Raises `LineError`, also where `seal` is given and does not
    hold."""
    if not line.startswith(_START) or len(line) <= _BODY:
        raise LineError("not a journal line")
    body = line[_BODY:]
    if checksum(line) != f"{zlib.crc32(body):08x}":
        raise LineError("the checksum does not fit")
    if seal is not None and not is_sealed(line, seal):
        raise LineError("its seal does not fit: this session did not write it")
    try:
        found: _Envelope = _decoder(_Envelope).decode(line)
    except (ValueError, RecursionError):
        return _decode_slowly(line)
    return Line(found.n, found.kind, found.task, found.at, found.data)


def is_sealed(line: bytes, seal: Seal) -> bool:
    """Tell whether a line without its line feed was written with this seal."""
    fields, end = line[_BODY:-_MAC_LENGTH], line[-_MAC_LENGTH:]
    return end.startswith(_MAC) and seal.holds(fields, end[len(_MAC) : -len('"}')])


def _decode_slowly(line: bytes) -> Line:
    """Decode with the standard library, which accepts lone surrogates and NaN; msgspec refuses them."""
    try:
        found = msgspec.convert(json.loads(line), _LooseEnvelope)
    except (ValueError, RecursionError) as error:
        raise LineError(f"not a journal line: {str(error)[:200]}") from error
    return Line(found.n, found.kind, found.task, found.at, found.data)


def payload(line: Line, record: type[T]) -> T:
    """Return the data of a line as a record of this type. Raises `LineError` where it is not one."""
    try:
        if not isinstance(line.data, msgspec.Raw):
            return msgspec.convert(line.data, record)
        return _decoder(record).decode(line.data)
    except (ValueError, RecursionError) as error:
        raise LineError(f"record {line.number} ({line.kind}): {str(error)[:200]}") from error


def raw_data(line: Line) -> object:
    """Return the data of a line as plain JSON values, to be written again."""
    return json.loads(bytes(line.data)) if isinstance(line.data, msgspec.Raw) else line.data


_SCAN_START = b'{"crc":"'


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
    """Return the lines of a journal from byte `offset` on; `data` begins there. Numbers must grow beyond
    `after`. A line that `seal` does not fit counts as damaged."""
    lines: list[JournalLine] = []
    problems: list[str] = []
    open_problems: list[str] = []
    last = after
    for start, raw, end in _split(data):
        try:
            found = _decode_line(raw, offset + start, offset + end, seal)
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
    """Return the first good line; the others are not looked at."""
    for start, raw, end in _split(data):
        with suppress(LineError):
            return _decode_line(raw, start, end).line
    return None


MAX_TRIED = 1_000


def last_line(data: bytes, seal: Seal | None = None) -> Line | None:
    """Return the last good line of bytes that may begin within one, and that `seal` fits where it is given;
    the others are not looked at, nor what stands before `MAX_TRIED` damaged ones."""
    for raw in reversed(data.rsplit(b"\n", MAX_TRIED)):
        with suppress(LineError):
            return _decode_line(raw.rstrip(b"\r"), 0, 0, seal).line
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


def _decode_line(raw: bytes, start: int, end: int, seal: Seal | None = None) -> JournalLine:
    """Decode a line, or the good line at the end of a damaged one, which a dying process began and a later
    one appended to. No text inside JSON looks like the start of a line, because its quotes are escaped."""
    try:
        return JournalLine(decode(raw, seal), raw, start, end)
    except LineError:
        at = raw.rfind(_SCAN_START)
        if at <= 0:
            raise
        return JournalLine(decode(raw[at:], seal), raw[at:], start + at, end)


def _missing(first: int, last: int) -> str:
    return f"record {first} is" if first == last else f"records {first} to {last} are"
