"""One line of a journal: ASCII JSON that carries its number, a checksum of itself, and what happened.

    {"crc":"1c291ca3","n":12,"kind":"message","task":1,"at":1764000000.5,"data":{…}}

The checksum covers every byte behind it, so it is checked without decoding anything.
"""

from __future__ import annotations

import functools
import json
import zlib
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
_START = b'{"crc":"'
_BODY = len(_START) + 8 + len('",')
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


def encode(number: int, kind: str, task_id: int, at: float, data: object) -> bytes:
    """A line with its line feed. The standard library writes the JSON, because lone surrogates, which model
    and tool output contains, must come back as they were."""
    record = {"n": number, "kind": kind, "task": task_id, "at": at, "data": msgspec.to_builtins(data)}
    body = _JSON.encode(record).encode("ascii")[1:]
    return b'{"crc":"%08x",%s\n' % (zlib.crc32(body), body)


def checksum(line: bytes) -> str:
    """The checksum a whole line carries."""
    return line[len(_START) : len(_START) + 8].decode("ascii", "replace")


def decode(line: bytes) -> Line:
    """A line without its line feed. Raises `LineError`."""
    if not line.startswith(_START) or len(line) <= _BODY:
        raise LineError("not a journal line")
    body = line[_BODY:]
    if checksum(line) != f"{zlib.crc32(body):08x}":
        raise LineError("the checksum does not fit")
    try:
        found: _Envelope = _decoder(_Envelope).decode(line)
    except (ValueError, RecursionError):
        return _decode_slowly(line)
    return Line(found.n, found.kind, found.task, found.at, found.data)


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
