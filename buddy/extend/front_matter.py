"""Front matter of skills, command files and subagent files: YAML between two lines of dashes.

The files are other people's, so the parser gets little to work with: bounded text, no aliases (a few lines of
them unfold into gigabytes), no deep nesting, plain values only. Front matter that is no YAML still gives the
fields that can be read line by line, with a warning: much of what is published holds an unquoted colon.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from buddy.agent.lazy_regex import pattern

MAX_FRONT_CHARS = 32 * 1024
MAX_EVENTS = 4_000
MAX_DEPTH = 12
_FENCE = pattern(r"\A---[ \t]*\r?\n(?P<front>.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_LINE = pattern(r"(?P<key>[A-Za-z][\w-]*)[ \t]*:[ \t]*(?P<value>.*)")


class FrontMatter(msgspec.Struct, frozen=True):
    """A file's fields and its body. `warning` says what was wrong with the front matter, "" for nothing."""

    fields: Mapping[str, Any]
    body: str
    warning: str = ""


def split_front_matter(text: str) -> FrontMatter:
    """Return the fields and the body of a file; a file without front matter is all body."""
    text = text.removeprefix("\ufeff")
    if not text.startswith("---"):
        return FrontMatter({}, text.strip())
    found = _FENCE().match(text)
    if found is None:
        return FrontMatter({}, text.strip(), "its front matter has no closing line of dashes")
    front, body = found["front"], text[found.end() :].strip()
    if len(front) > MAX_FRONT_CHARS:
        return FrontMatter({}, body, f"its front matter is over {MAX_FRONT_CHARS // 1024} KiB; ignored")
    try:
        fields = _load(front)
    except _WrongFrontMatter as error:
        return FrontMatter(_line_by_line(front), body, f"its front matter is no valid YAML ({error})")
    return FrontMatter(fields, body)


class _WrongFrontMatter(Exception):
    """The reason why front matter can't be used, in words."""


def _load(front: str) -> dict[str, Any]:
    import yaml as pyyaml  # here: 15 ms that only people with such files pay

    yaml: Any = pyyaml
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        depth = 0
        for count, event in enumerate(yaml.parse(front, loader)):
            if isinstance(event, yaml.AliasEvent):
                raise _WrongFrontMatter("aliases are not allowed")
            depth += isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent)
            depth -= isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent)
            if depth > MAX_DEPTH or count > MAX_EVENTS:
                raise _WrongFrontMatter("it is nested too deeply or too long")
        loaded: object = yaml.load(front, loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 2}: " if mark is not None else ""
        raise _WrongFrontMatter(f"{where}{getattr(error, 'problem', None) or 'unreadable'}") from error
    except (ValueError, RecursionError, OverflowError) as error:  # dates and numbers that are none
        raise _WrongFrontMatter(str(error)[:100]) from error
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise _WrongFrontMatter("expected fields, like `name: value`")
    return {str(key): value for key, value in cast(dict[object, Any], loaded).items()}


def _line_by_line(front: str) -> dict[str, str]:
    """Return the fields that stand in lines of their own; indented lines go on with the one above."""
    fields: dict[str, str] = {}
    key = ""
    for line in front.splitlines():
        if key and line[:1] in (" ", "\t") and line.strip():
            fields[key] = f"{fields[key]} {line.strip()}".strip()
        elif found := _LINE().fullmatch(line):
            key, value = found["key"], found["value"].strip()
            fields[key] = "" if value in ("|", ">", "|-", ">-") else _unquote(value)
    return fields


def _unquote(value: str) -> str:
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if is_quoted else value


def text_field(fields: Mapping[str, Any], *names: str) -> str:
    """Return the first of these fields that has a value, as text; a list becomes `[a] [b]`."""
    for name in names:
        value = fields.get(name)
        if isinstance(value, list):
            return " ".join(f"[{item}]" for item in cast(list[object], value))
        if value is not None and not isinstance(value, dict):
            return str(value).strip()
    return ""


def list_field(fields: Mapping[str, Any], *names: str) -> tuple[str, ...] | None:
    """Return the first of these fields that is there as a list of words: a YAML list, a mapping of names to
    true (opencode), or text with commas or blanks, which may stand in parentheses; None for none of them."""
    for name in names:
        value = fields.get(name)
        if isinstance(value, list):
            return tuple(str(item).strip() for item in cast(list[object], value) if str(item).strip())
        if isinstance(value, dict):
            return tuple(str(key) for key, on in cast(dict[object, object], value).items() if on is True)
        if value is not None:
            return _words(str(value))
    return None


def _words(text: str) -> tuple[str, ...]:
    words, depth = [""], 0
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        if depth <= 0 and sign in ", \t\n":
            words.append("")
        else:
            words[-1] += sign
    return tuple(word for word in words if word)


def flag_field(fields: Mapping[str, Any], name: str, *, default: bool) -> bool:
    """Return a yes or no; the default where it is neither."""
    value = fields.get(name, default)
    if isinstance(value, str):
        return {"true": True, "yes": True, "false": False, "no": False}.get(value.strip().lower(), default)
    return value if isinstance(value, bool) else default
