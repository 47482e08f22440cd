"""JSON of providers, and JSON of records whose file names may hold undecodable bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import msgspec

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def loads(data: bytes) -> Any:
    """Parse JSON. Raises `ValueError`."""
    try:
        return _decode(data)
    except (ValueError, RecursionError):
        pass
    try:
        return json.loads(data.decode("utf-8", "replace"), strict=False)
    except RecursionError as error:
        raise ValueError("JSON nested too deeply") from error


def dumps(value: Any) -> bytes:
    """Compact JSON in UTF-8. Halves of surrogate pairs are joined, lone ones replaced."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(_clean(value))


def mapping(value: Any) -> Mapping[str, Any]:
    """Return the value if it is an object, an empty one otherwise."""
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """Return the value if it is a list, an empty one otherwise."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_list(value: Any) -> list[Any]:
    """Return the value if it is a list, else a list of it."""
    return items(value) if isinstance(value, list) else [value]


def string(value: Any) -> str:
    """Return the value if it is a string, "" otherwise."""
    return value if isinstance(value, str) else ""


def count(value: Any) -> int:
    """Return the value if it is a number that counts something, 0 otherwise."""
    return int(value) if isinstance(value, int | float) and 0 <= value < float("inf") else 0


def dollars(value: Any) -> float | None:
    """Return the value if it is an amount of money, None otherwise."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        return None
    return float(value)


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value)
        return {_clean(key): _clean(item) for key, item in pairs.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in cast("list[Any]", value)]
    return value


def encode(record: msgspec.Struct) -> bytes:
    """Return one line of JSON. Undecodable bytes of a file name are escaped."""
    try:
        return msgspec.json.encode(record)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(record), ensure_ascii=True).encode()


def decode(data: bytes, kind: Any) -> Any:
    """Return the record that was encoded. Raises `msgspec.MsgspecError`, `ValueError`."""
    try:
        return msgspec.json.decode(data, type=kind)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _decode_slowly(data, kind)


def _decode_slowly(data: bytes, kind: Any) -> Any:
    try:
        return msgspec.convert(json.loads(data), kind)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
