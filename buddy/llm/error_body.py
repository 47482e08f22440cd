"""Extraction of the message from an error body of any shape: JSON of many dialects, JSON inside JSON, text, a
web page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from buddy.llm.loose_json import items, loads, mapping

TEXT_KEYS = ("message", "msg", "status_msg", "detail", "error_description", "error", "title", "reason")
NESTED_KEYS = (
    "error",
    "base_resp",
    "errors",
    "detail",
    "details",
    "metadata",
    "innererror",
    "inner_error",
    "raw",
    "response",
)
TYPE_KEYS = ("type", "code", "status_code", "status", "error_code", "errorCode", "reason", "@type", "__type")
MAX_DEPTH = 6
PAGE = r"\s*(?:<!doctype html|<html|<head|<\?xml|<body)"
GATEWAY = r"litellm\.\w+: "
BYTES = r"""\bb(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
TITLE = r"<(title|h1)[^>]*>(.*?)</\1>"


class Told(msgspec.Struct, frozen=True):
    """`text` for the person; `types` the machine words; `searched` everything in which words are looked for;
    `status` the HTTP status a body states, 0 when it states none; `delay` a wait it states as a duration."""

    text: str
    types: tuple[str, ...]
    searched: str
    status: int
    delay: str


NOTHING = Told("", (), "", 0, "")


def read_body(body: object) -> Told:
    """Extract the message of an error body. Never raises."""
    if isinstance(body, bytes | bytearray):
        return _read_text(bytes(body[:200_000]).decode("utf-8", "replace"))
    if isinstance(body, str):
        return _read_text(body[:200_000])
    if isinstance(body, dict | list):
        return told_by(body)
    return NOTHING


def told_by(value: Any) -> Told:
    """Extract the message of a decoded JSON body."""
    texts: list[str] = []
    types: list[str] = []
    numbers: list[int] = []
    delays: list[str] = []
    for key, found in _walk(value, "", 0):
        if isinstance(found, bool):
            continue
        if isinstance(found, int | float):
            if key in ("code", "status", "statusCode", "status_code", "http_code") and 400 <= found < 600:
                numbers.append(int(found))
            elif key in TYPE_KEYS:
                types.append(str(found))
        elif key == "retryDelay":
            delays.append(found)
        elif key in TYPE_KEYS:
            types.append(found)
            if key == "code" and found.isdigit() and 400 <= int(found) < 600:
                numbers.append(int(found))
        elif key in TEXT_KEYS or not key:
            texts.append(found)
    text = next((text for text in texts if text.strip()), "")
    return Told(
        text=text,
        types=tuple(types),
        searched="\n".join([*types, *texts])[:20_000],
        status=numbers[0] if numbers else 0,
        delay=delays[0] if delays else "",
    )


def _read_text(text: str) -> Told:
    stripped = text.strip()
    if stripped.startswith(("{", "[")):
        try:
            return told_by(loads(stripped.encode("utf-8", "surrogatepass")))
        except ValueError:
            pass
    if re.match(PAGE, text, re.IGNORECASE):
        return _read_page(text)
    return Told(stripped, (), stripped[:20_000], 0, "")


def _read_page(text: str) -> Told:
    """A web page: only its title is told, and its words are not evidence of anything else."""
    found = re.search(TITLE, text, re.IGNORECASE | re.DOTALL)
    title = " ".join(re.sub(r"<[^>]*>", " ", found[2]).split())[:120] if found else ""
    said = (
        f'a web page came instead of an answer ("{title}")'
        if title
        else "a web page came instead of an answer"
    )
    return Told(said, (), title, 0, "")


def _walk(value: Any, key: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Every interesting leaf, outermost first; strings that hold JSON are opened."""
    if depth > MAX_DEPTH:
        return
    if isinstance(value, list):
        for item in items(value)[:20]:
            yield from _walk(item, key, depth + 1)
        return
    if isinstance(value, dict):
        fields: Mapping[str, Any] = mapping(value)
        for name, item in fields.items():
            if isinstance(item, str | int | float):
                yield from _leaf(name, item, depth)
        for name in NESTED_KEYS:
            if isinstance(fields.get(name), dict | list):
                yield from _walk(fields[name], name, depth + 1)
        return
    if isinstance(value, str | int | float):
        yield from _leaf(key if key in TEXT_KEYS else "", value, depth)


def _leaf(key: str, value: str | float, depth: int) -> Iterator[tuple[str, Any]]:
    opened = _opened(value) if isinstance(value, str) and (key in TEXT_KEYS or key == "raw") else None
    if opened is None:
        inner = _inner_body(value) if isinstance(value, str) and key in TEXT_KEYS else None
        if inner is not None:
            yield from _walk(inner, "", depth + 1)
        yield key, value
    else:
        yield from _walk(opened, "", depth + 1)


def _inner_body(text: str) -> Any:
    """The body of an upstream error that a gateway wrote into its own sentence, as JSON or as the `repr` of
    bytes; None where there is none."""
    if not re.match(GATEWAY, text):
        return None
    written = re.search(BYTES, text)
    if written:
        import ast  # only for errors of gateways

        text = ast.literal_eval(written[0]).decode("utf-8", "replace")
    start = text.find("{")
    try:
        return json.JSONDecoder(strict=False).raw_decode(text, start)[0] if start >= 0 else None
    except ValueError:
        return None


def _opened(text: str) -> Any:
    """The JSON a string holds (upstream errors passed on as text), None when it holds none."""
    stripped = text.strip()
    if not stripped.startswith("{"):
        return None
    try:
        return loads(stripped.encode("utf-8", "surrogatepass"))
    except ValueError:
        return None
