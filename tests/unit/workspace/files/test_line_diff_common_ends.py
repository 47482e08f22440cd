"""Return the length of the common beginning of two texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buddy.workspace.files.line_diff import alike_at_end, alike_at_start


def counted(one: str, other: str) -> int:
    """Characters that are the same from the start, one by one."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


@given(st.text("ab", max_size=12), st.text("ab", max_size=12))
def test_both_ends_are_found_as_if_every_character_was_looked_at(one: str, other: str) -> None:
    assert alike_at_start(one, other) == counted(one, other)
    at_end = counted(one[::-1], other[::-1])
    for most in range(min(len(one), len(other)) + 1):
        assert alike_at_end(one, other, most) == min(at_end, most)


@pytest.mark.parametrize("size", [8191, 8192, 8193, 16384, 50_001])
def test_long_texts_are_alike_up_to_the_character_that_differs(size: int) -> None:
    one, other = "x" * size + "a" + "y" * size, "x" * size + "b" + "y" * size
    assert alike_at_start(one, other) == size
    assert alike_at_end(one, other, len(one)) == size
    assert alike_at_start(one, one) == alike_at_end(one, one, len(one)) == len(one)
