"""The description of the addresses for programs (OpenAPI 3.1), made from the records they take and answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from buddy import __version__
from buddy.agent.events import TaskEvent

_REFERENCE = "#/components/schemas/{name}"


class ErrorAnswer(msgspec.Struct, frozen=True):
    """The body of every answer that is no success."""

    error: str


class Operation(msgspec.Struct, frozen=True):
    """One address. `query` names a number in the query, "" for none; without an `answer` it streams
    `TaskEvent`s."""

    method: Literal["get", "post"]
    path: str
    summary: str
    answer: type | None = None
    body: type | None = None
    query: str = ""


def openapi_document(operations: Sequence[Operation]) -> dict[str, Any]:
    """Return the document."""
    kinds = [kind for row in operations for kind in (row.answer, row.body) if kind is not None]
    schemas, components = msgspec.json.schema_components(
        [*kinds, TaskEvent, ErrorAnswer], ref_template=_REFERENCE
    )
    del schemas  # references only: every record stands among the components
    paths = {row.path: {row.method: _describe(row)} for row in operations}
    return {
        "openapi": "3.1.0",
        "info": {"title": "buddy serve", "version": __version__},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": dict(components),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _describe(row: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": row.path.strip("/"),
        "summary": row.summary,
        "responses": {
            "200": {"description": "success", "content": _answer_content(row)},
            "default": {"description": "refused", "content": _content(ErrorAnswer)},
        },
    }
    if row.body is not None:
        described["requestBody"] = {"required": True, "content": _content(row.body)}
    if row.query:
        described["parameters"] = [{"name": row.query, "in": "query", "schema": {"type": "integer"}}]
    if row.answer is None:
        header = {"name": "Last-Event-ID", "in": "header", "schema": {"type": "string"}}
        described["parameters"] = [header]
    return described


def _answer_content(row: Operation) -> dict[str, Any]:
    if row.answer is None:
        return {"text/event-stream": {"schema": {"$ref": _REFERENCE.format(name=TaskEvent.__name__)}}}
    return _content(row.answer)


def _content(kind: type) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _REFERENCE.format(name=kind.__name__)}}}
