"""Arguments as weak models write them: what means one thing is taken, the rest refused."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import msgspec
import pytest

from buddy.agent.schema import ArgumentsError
from buddy.agent.tool import ToolContext, tool


class Item(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One step."""

    text: str
    state: Annotated[
        Literal["open", "done"], msgspec.Meta(description="How far", extra={"also": {"completed": "done"}})
    ] = "open"


DONE = {"text": "one", "state": "done"}


class Change(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One change."""

    old: str
    new: str


@tool(risk="low", argument_aliases={"content": "text"})
async def work(
    ctx: ToolContext,
    name: str = "",
    count: int = 1,
    wait: float = 0,
    either: bool | float | str = True,
    paths: list[str] | None = None,
    items: list[Item] = [],  # noqa: B006 - the schema's default
    changes: list[Change] = [],  # noqa: B006
    runner: Literal["make", "go_test"] | None = None,
) -> str:
    """Do it."""
    return ""


def taken(**given: Any) -> dict[str, Any]:
    """Return the values that differ from the defaults."""
    decoded = work.decode(json.dumps(given))
    plain = work.decode("{}")
    return {
        field: msgspec.to_builtins(getattr(decoded, field))
        for field in decoded.__struct_fields__
        if getattr(decoded, field) != getattr(plain, field)
    }


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"name": None, "count": None, "wait": None, "either": None, "items": None, "runner": None}, {}),
        ({"count": "5", "wait": "2"}, {"count": 5, "wait": 2.0}),
        ({"wait": "5s"}, {"wait": 5.0}),
        ({"wait": "500 ms"}, {"wait": 0.5}),
        ({"wait": "2min"}, {"wait": 120.0}),
        ({"either": "5s"}, {"either": "5s"}),
        ({"paths": "a.txt"}, {"paths": ["a.txt"]}),
        ({"paths": '["a", "b"]'}, {"paths": ["a", "b"]}),
        ({"paths": "[a].txt"}, {"paths": ["[a].txt"]}),
        ({"paths": "[]"}, {"paths": []}),
        ({"items": ["one"]}, {"items": [{"text": "one", "state": "open"}]}),
        ({"items": {"text": "one"}}, {"items": [{"text": "one", "state": "open"}]}),
        ({"items": [{"content": "one", "state": "completed"}]}, {"items": [DONE]}),
        ({"items": [{"text": "one", "state": "Done"}]}, {"items": [DONE]}),
        ({"changes": '[{"old": "a", "new": "b"}]'}, {"changes": [{"old": "a", "new": "b"}]}),
        ({"runner": "Make"}, {"runner": "make"}),
        ({"runner": "go-test"}, {"runner": "go_test"}),
    ],
)  # fmt: skip
def test_what_means_one_thing_is_taken(given: dict[str, Any], meant: dict[str, Any]) -> None:
    assert taken(**given) == meant


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"name": ["a"]}, "Expected `str`, got `array`"),
        ({"name": 5}, "Expected `str`, got `int`"),
        ({"name": True}, "Expected `str`, got `bool`"),
        ({"wait": "soon"}, "Expected `float`, got `str`"),
        ({"wait": "9" * 400 + "s"}, "Expected `float`, got `str`"),
        ({"count": "job 1"}, "Expected `int`, got `str`"),
        ({"changes": ["a"]}, "Expected `object`, got `str`"),
        ({"changes": "[{"}, "Expected `array`, got `str`"),
        ({"changes": "[" * 70}, "Expected `array`, got `str`"),
        ({"items": [{"text": None}]}, "Expected `str`, got `null`"),
        ({"runner": "unittest"}, r"runner \(optional: make, go_test\)"),
    ],
)
def test_what_means_two_things_is_refused_with_what_was_expected(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentsError, match=words):
        taken(**given)


def test_other_words_are_no_part_of_what_a_model_is_told() -> None:
    assert "completed" not in json.dumps(work.parameters)
    assert work.parameters["properties"]["runner"] == {"enum": ["go_test", "make"]}
