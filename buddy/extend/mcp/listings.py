"""Lists of tools, resources and prompts of servers, rebuilt such that the protocol library takes them.

The library refuses a list as a whole: one entry that breaks the rules would cost all the others. So each
entry is rebuilt from the fields that are used, and what is wrong with a tool's schema is noted in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

MAX_TOOLS = 1_000
"""Entries of a list that are looked at, as of a whole list over its pages."""
MAX_DEPTH = 32
PROBLEM_KEY = "x-buddy-problem"
PROBLEMS = {
    "type": "its arguments are no object",
    "deep": f"its schema is nested deeper than {MAX_DEPTH} levels",
    "reference": "its schema refers to something outside of itself, or to nothing",
}
Entry = dict[str, Any]


def clean_lists(result: Entry) -> None:
    """Rebuild the entries of the lists in an answer; those that are none are left out. Output schemas go: the
    library would compile a server's patterns and match them against the server's own results, and one pattern
    can hold up the whole program."""
    rebuilders: tuple[tuple[str, Callable[[Entry], Entry | None]], ...] = (
        ("tools", _tool),
        ("resources", _resource),
        ("prompts", _prompt),
    )
    for key, rebuild in rebuilders:
        entries = result.get(key)
        if isinstance(entries, list):
            rows = [_table(one) for one in cast("list[object]", entries)[:MAX_TOOLS]]
            result[key] = [new for row in rows if (new := rebuild(row)) is not None]
            if not isinstance(result.get("nextCursor"), str):
                result.pop("nextCursor", None)


def _tool(given: Entry) -> Entry | None:
    if not _is_text(given.get("name")):
        return None
    schema = _table(given.get("inputSchema"))
    problem = find_problem(schema)
    if problem:
        schema = {PROBLEM_KEY: problem}
    schema = _with_usual_keys(schema)
    hints = _table(given.get("annotations"))
    flags = {name: hints[name] for name in _HINTS if isinstance(hints.get(name), bool)}
    titles = {"title": hints["title"]} if _is_text(hints.get("title")) else {}
    return {**_texts(given, "title", "description"), "name": given["name"], "inputSchema": schema} | (
        {"annotations": {**flags, **titles}} if flags or titles else {}
    )


_HINTS = ("readOnlyHint", "destructiveHint")


def _with_usual_keys(schema: Entry) -> Entry:
    """Return a schema of an object whose keys have the types they should have."""
    schema = {**schema, "type": "object"}
    if "properties" in schema:
        properties = _table(schema["properties"])
        schema["properties"] = {name: _table(one) for name, one in properties.items()}
    names = schema.pop("required", None)
    if isinstance(names, list):
        schema["required"] = [one for one in cast("list[object]", names) if isinstance(one, str)]
    return schema


def _resource(given: Entry) -> Entry | None:
    if not _is_text(given.get("uri")):
        return None
    name = given["name"] if _is_text(given.get("name")) else given["uri"]
    return {**_texts(given, "title", "description"), "uri": given["uri"], "name": name}


def _prompt(given: Entry) -> Entry | None:
    if not _is_text(given.get("name")):
        return None
    listed = given.get("arguments")
    rows = [_table(one) for one in cast("list[object]", listed)[:100]] if isinstance(listed, list) else []
    arguments = [
        {**_texts(row, "description"), "name": row["name"], "required": row.get("required") is True}
        for row in rows
        if _is_text(row.get("name"))
    ]
    return {**_texts(given, "title", "description"), "name": given["name"], "arguments": arguments}


def find_problem(schema: Entry) -> str:
    """Return the name of what makes a schema unusable, "" for nothing: a key of `PROBLEMS`."""
    if "type" in schema and "object" not in _as_list(schema["type"]):
        return "type"
    level: list[object] = [schema]
    depth = 0
    references: list[object] = []
    while level:
        if depth > MAX_DEPTH:
            return "deep"
        tables = [cast(Entry, node) for node in level if isinstance(node, dict)]
        references += [table["$ref"] for table in tables if isinstance(table.get("$ref"), str)]
        references += [table["$dynamicRef"] for table in tables if "$dynamicRef" in table]
        lists = [cast("list[object]", node) for node in level if isinstance(node, list)]
        level = [child for table in tables for child in table.values()]
        level += [child for children in lists for child in children]
        depth += 1
    return "" if all(_is_resolved(schema, reference) for reference in references) else "reference"


def _is_resolved(schema: Entry, reference: object) -> bool:
    """Tell whether a reference leads, over others, to something in the schema that is no reference."""
    seen: set[str] = set()
    while isinstance(reference, str) and reference not in seen:
        seen.add(reference)
        if not reference.startswith("#/"):
            return False
        node: object = schema
        for step in reference[2:].split("/"):
            node = _table(node).get(step.replace("~1", "/").replace("~0", "~"))
        if not isinstance(node, dict):
            return False
        target = cast(Entry, node)
        if "$ref" not in target:
            return True
        reference = target["$ref"]
    return False


def _table(node: object) -> Entry:
    return cast(Entry, node) if isinstance(node, dict) else {}


def _as_list(node: object) -> list[object]:
    return cast("list[object]", node) if isinstance(node, list) else [node]


def _is_text(node: object) -> bool:
    return isinstance(node, str) and bool(node.strip())


def _texts(given: Entry, *names: str) -> Entry:
    return {name: given[name] for name in names if isinstance(given.get(name), str)}
