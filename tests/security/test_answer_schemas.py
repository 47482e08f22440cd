"""Schemas of answers, checks of templates: no reference is fetched, no pattern hangs, an answer is JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from buddy.extend.scaffolds.templates import Scaffolds, TemplateError
from buddy.headless.schema_check import find_problem
from buddy.headless.structured import AnswerSchema
from tests.fake_llm.script import reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program


def references(url: str) -> list[dict[str, Any]]:
    """Schemas that lead to an address."""
    return [
        {"$ref": f"{url}/v1/models"},
        {"properties": {"a": {"$ref": f"{url}/v1/models"}}},
        {"$dynamicRef": f"{url}/v1/models"},
        {"$id": f"{url}/", "$ref": "v1/models"},
        {"allOf": [{"$ref": f"{url}/v1/models#/x"}]},
    ]


@pytest.mark.parametrize("which", range(5))
async def test_a_schema_sends_no_request(tmp_path: Path, which: int) -> None:
    async with FakeLLM([reply('{"a": 1}')] * 3) as server:
        program = Program(tmp_path, server.url)
        (program.repo / "s.json").write_text(json.dumps(references(server.url)[which]))
        ran = await program.run("exec", "--json-schema", "s.json", "go")
        assert ran.code == 6
        assert "can't be applied" in ran.err
        assert server.listings == []


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"properties": {"a": {"pattern": "^(a+)+$"}}}, {"a": "a" * 60 + "!"}),
        ({"patternProperties": {"^(a|aa)+$": {"type": "number"}}}, {"a" * 70 + "!": 1}),
    ],
)
def test_a_slow_pattern_is_ended(schema: dict[str, Any], value: object) -> None:
    problem = AnswerSchema(schema, limit_s=1).check(json.dumps(value)).problem
    assert "could not be checked within 1 s" in problem


@pytest.mark.parametrize("answer", ['{"a": NaN}', "Infinity", "-Infinity", "[" * 50_000])
def test_what_only_python_reads_is_no_answer(answer: str) -> None:
    assert "no JSON" in AnswerSchema({}).check(answer).problem


@pytest.mark.parametrize(
    ("schema", "value", "problem"),
    [
        ({"type": "object"}, {}, ""),
        ({"$ref": "https://json-schema.org/draft/2020-12/schema"}, {"type": "object"}, ""),
        ({"$defs": {"n": {"type": "number"}}, "items": {"$ref": "#/$defs/n"}}, [1, "x"], "1: 'x' is not"),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "type": "array"}, [], ""),
        ({"$ref": "#"}, {}, "can't be applied"),
        ({"$ref": "file:///etc/hostname"}, {}, "can't be applied"),
    ],
)
def test_ordinary_schemas_are_checked(schema: dict[str, Any], value: object, problem: str) -> None:
    found = find_problem(schema, value)
    assert problem in found
    assert bool(problem) is bool(found)
    assert bool(AnswerSchema(schema).check(json.dumps(value)).problem) is bool(problem)


def test_a_slow_check_of_a_template_ends(tmp_path: Path) -> None:
    """The value of a variable may be the model's."""
    folder = tmp_path / "projects" / "slow"
    (folder / "files").mkdir(parents=True)
    (folder / "files" / "a.txt").write_text("a")
    (folder / "template.toml").write_text(
        'title = "T"\ndescription = "d"\nlanguage = "python"\n'
        '[variables.name]\nabout = "n"\ndefault = "a"\ncheck = "(a+)+b"\n'
    )
    scaffolds = Scaffolds(lambda: (str(tmp_path),))
    with pytest.raises(TemplateError, match="expected text like"):
        scaffolds.new_project("slow", "x", {"name": "a" * 60 + "!"}, None)
