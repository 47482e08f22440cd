"""Arguments of tools: a signature as a schema, and what a model may and may not send."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from buddy.agent.schema import (
    MAX_ARGUMENT_CHARS,
    MAX_DEPTH,
    ArgumentsError,
    is_plain,
    parameters_schema,
    parse_json,
)
from buddy.agent.tool import ToolContext, tool


class Edit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One change."""

    old: str
    new: str
    all: bool = False


@tool(
    risk="low",
    argument_aliases={"file_path": "path", "old_string": "old", "new_string": "new", "replace_all": "all"},
)
async def change(
    ctx: ToolContext,
    path: Annotated[str, msgspec.Meta(description="Where")],
    old: str = "",
    count: int = 1,
    exact: bool = False,
    mode: Literal["one", "many"] = "one",
    edits: Annotated[list[Edit], msgspec.Meta(description="Several")] = [],  # noqa: B006 - a declaration
    options: dict[str, str] | None = None,
) -> str:
    """Change something."""
    return path


def decoded(arguments: Any) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return msgspec.to_builtins(change.decode(text))


def refused(arguments: Any) -> str:
    with pytest.raises(ArgumentsError) as error:
        decoded(arguments)
    assert len(str(error.value)) < 700
    return str(error.value)


def test_a_signature_is_a_schema_with_everything_inlined_and_nothing_that_goes_without_saying() -> None:
    assert change.parameters == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Where"},
            "old": {"type": "string"},
            "count": {"type": "integer", "default": 1},
            "exact": {"type": "boolean"},
            "mode": {"enum": ["many", "one"], "default": "one"},
            "edits": {
                "type": "array",
                "description": "Several",
                "items": {
                    "type": "object",
                    "properties": {
                        "old": {"type": "string"},
                        "new": {"type": "string"},
                        "all": {"type": "boolean"},
                    },
                    "required": ["old", "new"],
                },
            },
            "options": {"type": "object", "additionalProperties": {"type": "string"}},
        },
        "required": ["path"],
    }


@pytest.mark.parametrize(
    ("hint", "plain"),
    [
        (str, True),
        (int | None, True),
        (list[str] | None, True),
        (Literal["a", "b"], True),
        (Annotated[str, msgspec.Meta(description="words")], True),
        (Annotated[bool | None, msgspec.Meta(description="words")], True),
        (Annotated[str, msgspec.Meta(ge=1)], False),  # has no schema
        (Annotated[int, "words"], False),
        (Literal["a", True], False),
        (list[str] | list[int], False),
        (str | int, False),
        (object, False),
        (dict[str, str], False),
        (list[object], False),
    ],
)
def test_plain_types_have_a_schema_that_can_be_made_later(hint: Any, plain: bool) -> None:
    record = msgspec.defstruct("record", [("value", hint)])
    assert is_plain(record) is plain
    if plain:
        assert "value" in parameters_schema(record)["properties"]


def test_what_has_no_schema_is_an_error_of_the_declaration() -> None:
    def unfit(value: Annotated[str, msgspec.Meta(ge=1)]) -> str:
        """Do nothing."""
        return value

    with pytest.raises((TypeError, ValueError)):
        tool()(unfit)


def test_defaults_are_filled_in_and_words_are_converted() -> None:
    found = decoded({"path": "a", "count": "5", "exact": "true", "mode": "many"})
    assert found == {
        "path": "a", "old": "", "count": 5, "exact": True, "mode": "many", "edits": [], "options": None,
    }  # fmt: skip


def test_other_names_of_arguments_are_accepted_in_records_of_a_list_too() -> None:
    found = decoded(
        {"file_path": "a", "edits": [{"old_string": "x", "new_string": "y", "replace_all": True}]}
    )
    assert (found["path"], found["edits"]) == ("a", [{"old": "x", "new": "y", "all": True}])


def test_a_name_is_never_taken_from_an_argument_that_is_there() -> None:
    assert "unknown argument 'file_path'" in refused({"path": "a", "file_path": "b"})
    assert "unknown field `old_string`" in refused(
        {"path": "a", "edits": [{"old": "x", "old_string": "z", "new": "y"}]}
    )


def test_keys_of_a_free_mapping_are_not_renamed() -> None:
    assert decoded({"path": "a", "options": {"old_string": "x"}})["options"] == {"old_string": "x"}


def test_SEC_098_nesting_is_bounded() -> None:
    deep = "[" * 100_000 + "]" * 100_000
    assert refused('{"path": ' + deep + "}") == f"arguments are nested deeper than {MAX_DEPTH} levels"
    assert refused("[" * 100_000) == f"arguments are nested deeper than {MAX_DEPTH} levels"
    assert parse_json("[" * MAX_DEPTH + "]" * MAX_DEPTH) is not None
    assert parse_json(json.dumps("[" * 1000)) == "[" * 1000, "brackets in a text are no nesting"


def test_SEC_098_numbers_are_bounded_and_finite() -> None:
    assert "not acceptable JSON" in refused('{"path": "a", "count": ' + "9" * 5_000 + "}")
    for word in ("NaN", "Infinity", "-Infinity"):
        assert f"{word} is not JSON" in refused('{"path": "a", "count": ' + word + "}")
    assert "count" in refused({"path": "a", "count": 1.5})
    assert "count" in refused('{"path": "a", "count": 1e999}')


def test_SEC_098_a_key_given_twice_is_refused_at_any_depth() -> None:
    assert "key 'path' is given twice" in refused('{"path": "a", "path": "b"}')
    assert "key 'old' is given twice" in refused('{"path": "a", "edits": [{"old": "x", "old": "y"}]}')


def test_SEC_098_a_lone_surrogate_does_not_break_the_decoder() -> None:
    """JSON may name half a character. It is taken or refused, never a crash."""
    try:
        found = change.decode('{"path": "a\\ud800"}')
    except ArgumentsError as error:
        str(error).encode("utf-8", "replace")
    else:
        assert found.path == "a\ud800"


def test_SEC_098_size_is_bounded() -> None:
    assert "characters" in refused('{"path": "' + "x" * MAX_ARGUMENT_CHARS + '"}')


@pytest.mark.parametrize("path", [["a"], 5, None, {"a": 1}, True])
def test_SEC_100_a_path_that_is_no_text_is_refused(path: Any) -> None:
    assert "Expected `str`" in refused({"path": path})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "missing required field `path`"),
        ("   ", "missing required field `path`"),
        ("{}", "missing required field `path`"),
        ("null", "expected one JSON object with path (required)"),
        ("[]", "expected one JSON object with path (required)"),
        ('"a"', "expected one JSON object with path (required)"),
        ('{"path": "a"', "not valid JSON"),
        ('{"path": "a', "Unterminated string starting at character 9, near"),
        ('{"path": "a"} and more', "not valid JSON"),
        ('{"path": "a",}', "not valid JSON"),
        ("{'path': 'a'}", "not valid JSON"),
        ('{"path": "a\nb"}', "not valid JSON"),
        ('{"path": "a", "mode": "few"}', "Invalid enum value 'few'"),
        ('{"path": "a", "colour": 1}', "unknown argument 'colour'; expected path (required), old (optional)"),
        ('{"path": "a", "edits": [{"old": "x"}]}', "missing required field `new`"),
        (
            '{"path": "a", "edits": ["x"]}',
            "Expected `object`, got `str` - at `$.edits[0]` (an object with old",
        ),
    ],
)
def test_REL_029_what_cannot_be_taken_says_what_was_expected(text: str, words: str) -> None:
    assert words in refused(text)


KEYS = st.sampled_from(["path", "edits", "old", "old_string", "x"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
)


@given(st.one_of(JSON.map(json.dumps), st.text(max_size=60), JSON.map(lambda one: json.dumps(one)[:-1])))
def test_whatever_a_model_writes_is_arguments_or_a_refusal(text: str) -> None:
    try:
        found = change.decode(text)
    except ArgumentsError:
        pass
    else:
        assert isinstance(found.path, str)


class Item(msgspec.Struct):
    state: Literal["open", "done"]
    note: str = ""


@tool()
async def planned(ctx: ToolContext, items: list[Item]) -> str:
    """Plan."""
    return ""


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ('[{"state": "no"}]', "at `$.items[0].state` (one of done, open); expected items (required)"),
        ("[{}]", "at `$.items[0]` (an object with state, note (optional)); expected items (required)"),
        ('[{"state": "done", "note": 5}]', "at `$.items[0].note`; expected items (required)"),
    ],
)
def test_what_a_value_inside_an_argument_may_be_is_said(items: str, said: str) -> None:
    with pytest.raises(ArgumentsError) as error:
        planned.decode(f'{{"items": {items}}}')
    assert str(error.value).endswith(said)
