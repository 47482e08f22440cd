"""Regular expressions compiled when they are first used."""

from __future__ import annotations

import re

import pytest

from buddy.agent.lazy_regex import pattern


def test_a_pattern_is_compiled_once_with_its_flags() -> None:
    words = pattern(r"[a-z]+", re.IGNORECASE)
    assert words().findall("One two") == ["One", "two"]
    assert words() is words()


def test_bytes_are_taken_too() -> None:
    assert pattern(rb"\d+")().sub(b"#", b"a 12") == b"a #"


def test_nothing_is_compiled_before_the_first_use() -> None:
    broken = pattern("(")
    with pytest.raises(re.error):
        broken()
