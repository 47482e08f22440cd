"""What can be shown of a file-writing call while its arguments still arrive. Pure; for previews only: calls
run from their whole arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from buddy.tools import edit, patch, write

MAX_PARSED_CHARS = 200_000
MAX_REPAIRED_CHARS = 20_000
"""Repairing is slow (milliseconds per kilobyte) and only needed for malformed text."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|"|[\[\]{}]', re.DOTALL)
_PARTIAL_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*(\\(?:u[0-9a-fA-F]{0,3})?)$")
_HALF_VALUE = re.compile(r',?\s*"[^"\\]{0,40}"\s*:\s*[a-z0-9.+-]{0,8}$')
_ALIASES: dict[str, Mapping[str, str]] = {
    "write_file": write.ALIASES,
    "edit_file": edit.ALIASES,
    "apply_patch": patch.ALIASES,
}


class SoFar(msgspec.Struct, frozen=True):
    """What has arrived: the path ("" when not yet), the old text (edits), the new text or content."""

    path: str
    old: str
    new: str


def arguments_so_far(tool: str, text: str) -> SoFar | None:
    """What can be shown of the arguments of `write_file`, `edit_file` or `apply_patch`, None while there is
    nothing yet, for other tools, and past a length at which showing it live costs too much."""
    aliases = _ALIASES.get(tool)
    if aliases is None or len(text) > MAX_PARSED_CHARS:
        return None
    given = _parsed(text)
    if given is None:
        return None
    named = {aliases.get(key, key): value for key, value in given.items()}
    edits = named.get("edits")
    if isinstance(edits, list) and edits and isinstance(edits[-1], dict):
        last = cast(dict[str, Any], edits[-1])
        named |= {aliases.get(key, key): value for key, value in last.items()}
    found = SoFar(
        _text(named, "path"),
        _text(named, "old"),
        _text(named, "content") or _text(named, "new") or _text(named, "patch"),
    )
    return found if any((found.path, found.old, found.new)) else None


def _text(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    return value if isinstance(value, str) else ""


def _parsed(text: str) -> dict[str, Any] | None:
    for candidate in _closed(text):
        try:
            value = json.loads(candidate, strict=False)
        except (ValueError, RecursionError):
            continue
        return cast(dict[str, Any], value) if isinstance(value, dict) else None
    return _repaired(text)


def _closed(text: str) -> tuple[str, ...]:
    """The text with its open string and brackets closed; also with the last, unfinished member dropped."""
    open_brackets: list[str] = []
    open_string = -1
    for token in _TOKEN.finditer(text):
        sign = token.group()
        if sign == '"':
            open_string = token.start()
            break
        if sign in "[{":
            open_brackets.append("]" if sign == "[" else "}")
        elif sign in "]}" and open_brackets:
            open_brackets.pop()
    closing = "".join(reversed(open_brackets))
    if open_string >= 0:
        body = _PARTIAL_ESCAPE.sub(_without_escape, text)
        return (f'{body}"{closing}', f'{body}":""{closing}')
    trimmed = text.rstrip().rstrip(",:").rstrip()
    return (
        f"{text}{closing}",
        f"{trimmed}{closing}",
        f'{trimmed}:""{closing}',
        f"{_HALF_VALUE.sub('', text)}{closing}",
    )


def _without_escape(match: re.Match[str]) -> str:
    return match.group()[: -len(match.group(1))]


def _repaired(text: str) -> dict[str, Any] | None:
    if len(text) > MAX_REPAIRED_CHARS:
        return None
    import json_repair

    value = cast(object, json_repair.loads(text))
    return cast(dict[str, Any], value) if isinstance(value, dict) else None
