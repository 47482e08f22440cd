"""Front matter as other people write it, and as attackers do."""

from __future__ import annotations

import time

import pytest

from buddy.extend.definitions import flag_field, list_field, split_front_matter, text_field

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


def test_fields_and_body_come_apart() -> None:
    front = split_front_matter("\ufeff---\nname: x\ntools: [a, b]\n---\n\nbody\n---\nmore\n")
    assert (dict(front.fields), front.body, front.warning) == (
        {"name": "x", "tools": ["a", "b"]},
        "body\n---\nmore",
        "",
    )


def test_a_file_without_front_matter_is_all_body() -> None:
    assert split_front_matter("just text\n").body == "just text"
    assert (
        split_front_matter("---\nname: x\nno end").warning == "its front matter has no closing line of dashes"
    )


def test_an_unquoted_colon_gives_a_warning_and_the_fields() -> None:
    front = split_front_matter("---\ndescription: Use when: it rains\nmodel: 'fast'\n---\nbody")
    assert front.fields == {"description": "Use when: it rains", "model": "fast"}
    assert "no valid YAML" in front.warning
    assert front.body == "body"


@pytest.mark.parametrize(
    "front",
    [
        BOMB,
        "a: &a [*a]\n",
        "a: " + "[" * 5000 + "\n",
        "a: " + "{b: " * 200 + "1" + "}" * 200 + "\n",
        "!!python/object/apply:os.system ['touch made']\n",
        "a: 99999-99-99\n",
        "- a\n- b\n",
        "\x00\x01: \x02\n",
        "x" * 40_000 + "\n",
        "? [a, b]\n: c\n",
    ],
)
def test_a_hostile_front_matter_costs_little_and_keeps_the_body(front: str) -> None:
    before = time.process_time()
    found = split_front_matter(f"---\n{front}---\nbody")
    assert time.process_time() - before < 2
    assert found.body == "body"
    assert found.warning or not any(isinstance(value, list) for value in found.fields.values())


def test_lists_are_read_in_every_spelling() -> None:
    wanted = ("Bash(git add:*, git rm)", "Read")
    assert list_field({"t": "Bash(git add:*, git rm), Read"}, "t") == wanted
    assert list_field({"t": ["Bash(git add:*, git rm)", "Read"]}, "t") == wanted
    assert list_field({"t": {"read": True, "write": False}}, "t") == ("read",)
    assert list_field({}, "t") is None
    assert list_field({"t": ""}, "t") == ()


def test_texts_and_flags_take_odd_types() -> None:
    assert text_field({"hint": ["file", "line"]}, "hint") == "[file] [line]"
    assert text_field({"a": None, "b": 3}, "a", "b") == "3"
    assert text_field({"a": {"b": 1}}, "a") == ""
    assert flag_field({"a": "no"}, "a", default=True) is False
    assert flag_field({"a": [1]}, "a", default=True) is True
