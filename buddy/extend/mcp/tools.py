"""Tools of servers as tools of buddy: names, cleaned declarations, arguments, calls."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

import msgspec

from buddy.agent.display import Display, Plain
from buddy.agent.schema import ArgumentsError, parse_json
from buddy.agent.tool import ForeignArguments, Tool, ToolContext, ToolResult, any_access
from buddy.extend.mcp.definitions import kind_of
from buddy.extend.mcp.listings import MAX_DEPTH, PROBLEM_KEY, PROBLEMS
from buddy.extend.mcp.records import MAX_DESCRIPTION_CHARS, MAX_SCHEMA_BYTES, ToolInfo
from buddy.safety.sanitise import clean

_FITS: Mapping[str, tuple[type, ...]] = {
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
Run = Callable[[ToolInfo, dict[str, Any], ToolContext], Awaitable[ToolResult]]


class UnusableTool(ValueError):
    """A tool that cannot be offered; the message says why."""


def make_tool(info: ToolInfo, name: str, server: str, run: Run, agent: str = "") -> Tool:
    """Return a tool that models may call, only the subagent `agent` where that is named. Its risk is high
    whatever the server says of it. Raises `UnusableTool`."""
    schema = clean_schema(info.schema)

    def decode(text: str) -> ForeignArguments:
        return ForeignArguments(decode_values(text, schema))

    async def call(ctx: ToolContext, arguments: msgspec.Struct) -> ToolResult:
        return await run(info, cast(ForeignArguments, arguments).values, ctx)

    def preview(_ctx: ToolContext, arguments: Any) -> Display:
        values = json.dumps(cast(ForeignArguments, arguments).values, ensure_ascii=False, indent=2)
        return Plain(f"MCP server {server}, tool {clean(info.name)[:80]}", values)

    return Tool(
        name=name,
        description=describe(info, server),
        risk="high",
        category="other",
        schema=lambda: schema,
        arguments=ForeignArguments,
        run=call,
        access=any_access,
        preview=preview,
        source=f"mcp:{server}",
        subject=lambda arguments: _subject(cast(ForeignArguments, arguments).values),
        decoder=decode,
        agent=agent,
    )


def describe(info: ToolInfo, server: str) -> str:
    """Return the description that models read: the server's own words, marked as such."""
    words = clean(info.description or info.title or info.name).strip()
    cut = words if len(words) <= MAX_DESCRIPTION_CHARS else f"{words[: MAX_DESCRIPTION_CHARS - 1]}…"
    return f"(MCP server {server}) {cut}"


def _subject(values: Mapping[str, Any]) -> str:
    first = next((value for value in values.values() if isinstance(value, str) and value.strip()), "")
    line = clean(first).strip().split("\n", 1)[0]
    return line if len(line) <= 80 else f"{line[:79]}…"


def clean_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema that every provider takes: an object, with cleaned words. Raises `UnusableTool`."""
    problem = PROBLEMS.get(str(schema.get(PROBLEM_KEY)))
    if problem is not None:
        raise UnusableTool(problem)
    cleaned = cast("dict[str, Any]", _clean(dict(schema), 0))
    for key in ("$schema", "$id", "title"):
        if not isinstance(cleaned.get(key), dict):
            cleaned.pop(key, None)
    cleaned["type"] = "object"
    properties = cleaned.setdefault("properties", {})
    if not isinstance(properties, dict):
        raise UnusableTool("its properties are no object")
    if "required" in cleaned:
        cleaned["required"] = [name for name in cleaned["required"] if name in properties]
    if len(json.dumps(cleaned)) > MAX_SCHEMA_BYTES:
        raise UnusableTool(f"its schema is longer than {MAX_SCHEMA_BYTES // 1000} kB")
    return cleaned


def _clean(node: object, depth: int) -> object:
    if depth > MAX_DEPTH:
        raise UnusableTool(PROBLEMS["deep"])
    if isinstance(node, dict):
        table = cast("dict[Any, object]", node)
        return {clean(str(key)): _clean(value, depth + 1) for key, value in table.items()}
    if isinstance(node, list):
        return [_clean(one, depth + 1) for one in cast("list[object]", node)]
    return clean(node)[:MAX_DESCRIPTION_CHARS] if isinstance(node, str) else node


def decode_values(text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments a model wrote. Names are checked here, everything else by the server, which knows
    better. Raises `ArgumentsError`."""
    values = parse_json(text if text.strip() else "{}")
    if not isinstance(values, dict):
        raise ArgumentsError(f"expected one JSON object with {_expected(schema)}, found {kind_of(values)}")
    given = cast("dict[str, Any]", values)
    properties = cast("dict[str, Any]", schema["properties"])
    required = schema.get("required")
    names = cast("list[object]", required) if isinstance(required, list) else []
    missing = [str(name) for name in names if name not in given]
    if missing:
        raise ArgumentsError(f"{', '.join(missing)} is missing; expected {_expected(schema)}")
    unknown = sorted(set(given) - set(properties))
    if unknown and schema.get("additionalProperties") is False:
        raise ArgumentsError(f"unknown argument {unknown[0][:80]!r}; expected {_expected(schema)}")
    fitted = {name: _fit(value, properties.get(name)) for name, value in given.items()}
    if not _is_text(fitted):
        raise ArgumentsError("the arguments hold half a character (a lone surrogate), which no text does")
    return fitted


def _is_text(values: dict[str, Any]) -> bool:
    """Tell whether values hold no lone surrogates, which cannot be sent."""
    try:
        json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _fit(value: object, schema: object) -> object:
    """Return a number, flag, list or object that a model wrote as a text as what it is."""
    kind = cast("dict[str, Any]", schema).get("type") if isinstance(schema, dict) else None
    wanted = _FITS.get(kind) if isinstance(kind, str) else None
    if wanted is None or not isinstance(value, str):
        return value
    try:
        found = parse_json(value)
    except ArgumentsError:
        return value
    is_flag = isinstance(found, bool)
    return found if isinstance(found, wanted) and is_flag == (kind == "boolean") else value


def _expected(schema: Mapping[str, Any]) -> str:
    required = cast("list[Any]", schema.get("required") or [])
    names = [
        f"{name} ({'required' if name in required else 'optional'})"
        for name in cast("dict[str, Any]", schema["properties"])
    ]
    return ", ".join(names[:30]) or "no arguments"
