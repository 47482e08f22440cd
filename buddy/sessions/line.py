"""One line of a journal: ASCII JSON that carries its number, a checksum of itself, and what happened.

    {"crc":"1c291ca3","n":12,"kind":"message","task":1,"at":1764000000.5,"data":{…},"mac":"…"}

The checksum covers every byte behind it, so it is checked without decoding anything. The seal at the end
(`mac`) covers everything between the two; only the session's own key makes it. Lines of format 1 have none.

Seals are not chained over the lines before. The number is sealed with its line, so a line that was taken
out, moved or doubled is seen without a chain. A journal cut back to an earlier end is valid either way: to
see that, the newest number would have to be kept outside the project, and a backup that the person puts back
would be refused. What an earlier end brings back is what this person said and granted themselves.
"""

from __future__ import annotations

import functools
import json
import zlib
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
    """A decoded line. `data` is not looked into yet (see `payload`). `at` is wall time, `task_id` 0 when it
    concerns the whole session."""

    number: int
    kind: str
    task_id: int
    at: float
    data: Any


class LineError(ValueError):
    """A line that is damaged. The message says how."""


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
    """Made at the first use: all of them together cost the start of the program 4 ms."""
    return msgspec.json.Decoder(record)


def encode(number: int, kind: str, task_id: int, at: float, data: object, seal: Seal | None = None) -> bytes:
    """A line with its line feed, sealed where there is a seal. The standard library writes the JSON, because
    lone surrogates, which model and tool output contains, must come back as they were."""
    record = {"n": number, "kind": kind, "task": task_id, "at": at, "data": msgspec.to_builtins(data)}
    return complete(_JSON.encode(record).encode("ascii")[1:-1], seal)


def complete(fields: bytes, seal: Seal | None = None) -> bytes:
    """The line whose fields behind the checksum are these, without the closing brace."""
    mac = b'%s%s"' % (_MAC, seal.of(fields).encode("ascii")) if seal is not None else b""
    body = b"%s%s}" % (fields, mac)
    return b'{"crc":"%08x",%s\n' % (zlib.crc32(body), body)


def checksum(line: bytes) -> str:
    """The checksum a whole line carries."""
    return line[len(_START) : len(_START) + 8].decode("ascii", "replace")


def decode(line: bytes, seal: Seal | None = None) -> Line:
    """A line without its line feed. Raises `LineError`, also where `seal` is given and does not hold."""
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
    """msgspec refuses lone surrogates and NaN; the standard library takes them."""
    try:
        found = msgspec.convert(json.loads(line), _LooseEnvelope)
    except (ValueError, RecursionError) as error:
        raise LineError(f"not a journal line: {str(error)[:200]}") from error
    return Line(found.n, found.kind, found.task, found.at, found.data)


def payload(line: Line, record: type[T]) -> T:
    """The data of a line as a record of this type. Raises `LineError` where it is not one."""
    try:
        if not isinstance(line.data, msgspec.Raw):
            return msgspec.convert(line.data, record)
        return _decoder(record).decode(line.data)
    except (ValueError, RecursionError) as error:
        raise LineError(f"record {line.number} ({line.kind}): {str(error)[:200]}") from error


def raw_data(line: Line) -> object:
    """The data of a line as plain JSON values, to be written again."""
    return json.loads(bytes(line.data)) if isinstance(line.data, msgspec.Raw) else line.data
