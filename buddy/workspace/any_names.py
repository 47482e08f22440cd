"""Records as JSON with names of files in them, which need not be text and must come back as they were."""

from __future__ import annotations

import json
from typing import Any

import msgspec


def encode(record: msgspec.Struct) -> bytes:
    """One line of JSON. Bytes of a name that are no text are written as escapes."""
    try:
        return msgspec.json.encode(record)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(record), ensure_ascii=True).encode()


def decode(data: bytes, kind: Any) -> Any:
    """The record that was encoded. Raises `msgspec.MsgspecError`, `ValueError`."""
    try:
        return msgspec.json.decode(data, type=kind)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _decoded_slowly(data, kind)


def _decoded_slowly(data: bytes, kind: Any) -> Any:
    try:
        return msgspec.convert(json.loads(data), kind)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
