"""Answers as JSON that a schema describes: checked, and asked for again where they don't match."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.app.options import UsageError

MAX_TRIES = 3
MAX_PROBLEM_CHARS = 600
_FENCE = pattern(r"\s*```(?:json)?\s*\n(.*)\n\s*```\s*", re.DOTALL)


class StructuredAnswer(msgspec.Struct, frozen=True):
    """The value of an answer, or the reason why it is none."""

    value: Any = None
    problem: str = ""


class AnswerSchema:
    """The schema of a run's answer. Raises `UsageError` for one that is no JSON Schema."""

    def __init__(self, schema: dict[str, Any]) -> None:
        from jsonschema import Draft202012Validator, SchemaError  # 60 ms, only with a schema
        from jsonschema.validators import validator_for

        kind = validator_for(schema, default=Draft202012Validator)
        try:
            kind.check_schema(schema)
        except SchemaError as error:
            raise UsageError(f"--json-schema: no JSON Schema: {error.message[:200]}") from error
        self._validator = kind(schema)

    def check(self, answer: str) -> StructuredAnswer:
        """Return the value of an answer; a code fence around it does no harm."""
        fenced = _FENCE().fullmatch(answer)
        try:
            value = json.loads(fenced[1] if fenced else answer)
        except (ValueError, RecursionError) as error:
            return StructuredAnswer(problem=f"it is no JSON: {error}")
        try:
            error = next(iter(self._validator.iter_errors(value)), None)
        # An unresolvable reference shows only when a value reaches it.
        except Exception as error:  # noqa: BLE001 - the library raises those of another package
            return StructuredAnswer(problem=f"the schema can't be applied: {str(error)[:MAX_PROBLEM_CHARS]}")
        if error is None:
            return StructuredAnswer(value)
        place = "/".join(map(str, error.absolute_path)) or "the whole value"
        return StructuredAnswer(problem=f"{place}: {error.message[:MAX_PROBLEM_CHARS]}")


def correction(problem: str) -> str:
    """Return the prompt that asks for the answer again."""
    return (
        f"That answer does not match the JSON Schema ({problem}). Answer again with only the JSON value, "
        "without words or a code fence around it."
    )
