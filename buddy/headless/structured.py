"""Answers as JSON that a schema describes: checked, and asked for again where they don't match."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.app.options import UsageError
from buddy.headless import schema_check

MAX_TRIES = 3
CHECK_LIMIT_S = 10
_FENCE = pattern(r"\s*```(?:json)?\s*\n(.*)\n\s*```\s*", re.DOTALL)


class StructuredAnswer(msgspec.Struct, frozen=True):
    """The value of an answer, or the reason why it is none."""

    value: Any = None
    problem: str = ""


class AnswerSchema:
    """The schema of a run's answer. Raises `UsageError` for one that is no JSON Schema."""

    def __init__(self, schema: dict[str, Any], *, limit_s: float = CHECK_LIMIT_S) -> None:
        from jsonschema import Draft202012Validator, SchemaError  # 60 ms, only with a schema
        from jsonschema.validators import validator_for

        kind = validator_for(schema, default=Draft202012Validator)
        try:
            kind.check_schema(schema)
        except SchemaError as error:
            raise UsageError(f"--json-schema: no JSON Schema: {error.message[:200]}") from error
        self._schema = schema
        self._limit_s = limit_s

    def check(self, answer: str) -> StructuredAnswer:
        """Return the value of an answer; a code fence around it does no harm. Blocks."""
        fenced = _FENCE().fullmatch(answer)
        try:
            value = json.loads(fenced[1] if fenced else answer, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            return StructuredAnswer(problem=f"it is no JSON: {error}")
        problem = self._problem(value)
        return StructuredAnswer(problem=problem) if problem else StructuredAnswer(value)

    def _problem(self, value: Any) -> str:
        """Return what is wrong with a value. In another process, since a pattern can take for ever."""
        request = json.dumps({"schema": self._schema, "value": value})
        try:
            done = subprocess.run(
                [sys.executable, "-I", schema_check.__file__],
                input=request.encode(),
                capture_output=True,
                timeout=self._limit_s,
                check=True,
            )
            return str(json.loads(done.stdout)["problem"])
        except subprocess.TimeoutExpired:
            return f"it could not be checked within {self._limit_s:g} s: a pattern of the schema is too slow"
        except (OSError, subprocess.CalledProcessError, ValueError, KeyError):
            return "it could not be checked"


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def correction(problem: str) -> str:
    """Return the prompt that asks for the answer again."""
    return (
        f"That answer does not match the JSON Schema ({problem}). Answer again with only the JSON value, "
        "without words or a code fence around it."
    )
