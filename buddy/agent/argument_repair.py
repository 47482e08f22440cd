"""Repair of tool arguments whose meaning is certain although they do not fit the schema.

Weak models write null for what they leave out, one text where a list is wanted, a list as a JSON text, "5s"
for seconds, Make for make. An ambiguous value is left alone and fails the validation, and so does anything in
place of a text, because it may be a path.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal, cast, get_args, get_origin

import msgspec

from buddy.agent.lazy_regex import pattern

_SECONDS = pattern(
    r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*(ms|s|sec|secs|seconds?|min|mins|minutes?)\s*", re.IGNORECASE
)
Parse = Callable[[str], Any]
"""Strict JSON; raises `ValueError`."""


@lru_cache(256)
def fields_of(record: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """Return the fields of a record. Looked up once: msgspec needs 0.1 ms for it, at every tool call."""
    return msgspec.structs.fields(record)


def fit_arguments(given: dict[str, Any], record: type[msgspec.Struct], parse: Parse) -> None:
    """Change values in place where their meaning is certain."""
    for field in fields_of(record):
        if field.name not in given:
            continue
        value = given[field.name]
        if value is None and not field.required and type(None) not in _union_members(field.type):
            del given[field.name]
        else:
            given[field.name] = _fit_value(value, field.type, parse)


def synonyms(kind: Any) -> Mapping[str, str]:
    """Return the synonyms of a type's values: `Annotated[Literal["a"], Meta(extra={"also": {"b": "a"}})]`."""
    for side in (kind, *get_args(kind)):
        for note in get_args(side)[1:] if get_origin(side) is Annotated else ():
            if isinstance(note, msgspec.Meta) and note.extra:
                return cast("Mapping[str, str]", note.extra.get("also", {}))
    return {}


def choices(kind: Any) -> tuple[str, ...]:
    """Return the words a type allows; none when it is no choice."""
    found = (get_args(side) for side in _union_members(kind) if get_origin(side) is Literal)
    return next(found, ())


def _union_members(kind: Any) -> list[Any]:
    """Return the members of a union, or the type itself, without annotations."""
    if get_origin(kind) is Annotated:
        return _union_members(get_args(kind)[0])
    if get_origin(kind) in (None, list, dict, tuple, Literal):
        return [kind]
    return [member for side in get_args(kind) for member in _union_members(side)]


def _fit_value(value: Any, kind: Any, parse: Parse) -> Any:
    sides = _union_members(kind)
    lists = [side for side in sides if get_origin(side) is list]
    if lists and str not in sides:
        return _as_list(value, get_args(lists[0])[0], parse)
    if isinstance(value, str):
        return _from_text(value, kind, sides)
    return cast(object, value)


def _as_list(value: Any, item: Any, parse: Parse) -> Any:
    sides = _union_members(item)
    record = next(
        (side for side in sides if isinstance(side, type) and issubclass(side, msgspec.Struct)), None
    )
    required = [field.name for field in fields_of(record) if field.required] if record else []
    if isinstance(value, str):
        spelled = _parse_container(value, parse, "[{" if record else "[")
        wrapped = str in sides or (len(required) == 1 and not value.lstrip().startswith(("[", "{")))
        value = spelled if spelled is not None else [value] if wrapped else value
    if isinstance(value, dict):
        value = [value]
    if record is None or not isinstance(value, list):
        return value
    items: list[Any] = []
    for one in cast("list[Any]", value):
        one = {required[0]: one} if isinstance(one, str) and len(required) == 1 else one
        if isinstance(one, dict):
            fit_arguments(cast("dict[str, Any]", one), record, parse)
        items.append(one)
    return items


def _parse_container(text: str, parse: Parse, opening: str) -> Any:
    """Parse a text that begins with one of these brackets as JSON; None where it is none."""
    if not text.lstrip().startswith(tuple(opening)):
        return None
    try:
        return parse(text)
    except ValueError:
        return None


def _from_text(value: str, kind: Any, sides: list[Any]) -> Any:
    words = choices(kind)
    if words and value not in words:
        plain = value.strip().lower().replace("-", "_")
        return plain if plain in words else synonyms(kind).get(plain, value)
    seconds = _SECONDS().fullmatch(value) if float in sides and str not in sides else None
    if seconds is None:
        return value
    unit = seconds[2].lower()
    return float(seconds[1]) * (0.001 if unit == "ms" else 60 if unit.startswith("m") else 1)
