"""Merging two changes of one text: both or a conflict, never a guess."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from buddy.workspace.merge import Conflict, Merged, merge, merge_bytes

BASE = "one\ntwo\nthree\nfour\nfive\nsix\n"
texts = st.lists(st.sampled_from(["a", "b", "c", "d", ""]), max_size=8).map("\n".join)


def test_changes_in_different_places_are_both_made() -> None:
    ours = BASE.replace("one", "ONE")
    theirs = BASE.replace("six", "SIX\nseven")
    assert merge(BASE, ours, theirs) == Merged("ONE\ntwo\nthree\nfour\nfive\nSIX\nseven\n", 1)


def test_the_same_line_changed_twice_is_a_conflict_that_names_it() -> None:
    found = merge(BASE, BASE.replace("three", "3"), BASE.replace("three", "III"))
    assert found == Conflict(3, 3, ("3\n",), ("III\n",))


def test_neighbouring_lines_are_a_conflict() -> None:
    assert isinstance(merge(BASE, BASE.replace("two", "2"), BASE.replace("three", "3")), Conflict)


def test_text_put_at_one_place_by_both_is_a_conflict_unless_it_is_the_same() -> None:
    ours, theirs = BASE.replace("three", "three\nA"), BASE.replace("three", "three\nB")
    assert merge(BASE, ours, theirs) == Conflict(4, 4, ("A\n",), ("B\n",))
    assert merge(BASE, ours, ours) == Merged(ours, 1)


def test_a_missing_final_newline_stays_missing() -> None:
    assert merge("a\nb\nc", "A\nb\nc", "a\nb\nc") == Merged("A\nb\nc", 0)


def test_contents_of_any_encoding_are_merged_and_binary_ones_are_not() -> None:
    base = b"\xe4\r\nx\r\ny\r\nz\r\n"
    ours, theirs = base.replace(b"\xe4", b"\xf6"), base.replace(b"z", b"Z")
    assert merge_bytes(base, ours, theirs) == b"\xf6\r\nx\r\ny\r\nZ\r\n"
    assert merge_bytes(b"\0a", b"\0b", b"\0c") is None
    assert merge_bytes(b"\0a", b"\0b", b"\0a") == b"\0b"


@settings(max_examples=300, deadline=None)
@given(base=texts, other=texts)
def test_a_side_that_changed_nothing_leaves_the_other(base: str, other: str) -> None:
    for found in (merge(base, other, base), merge(base, base, other), merge(base, other, other)):
        assert isinstance(found, Merged)
        assert found.text == other


@settings(max_examples=300, deadline=None)
@given(base=texts, ours=texts, theirs=texts)
def test_both_sides_may_be_named_the_other_way_round(base: str, ours: str, theirs: str) -> None:
    one, two = merge(base, ours, theirs), merge(base, theirs, ours)
    assert type(one) is type(two)
    if isinstance(one, Merged) and isinstance(two, Merged):
        assert one.text == two.text


def test_changes_of_separate_lines_are_never_lost() -> None:
    chance = random.Random(5)
    for _ in range(300):
        lines = [f"line {number}\n" for number in range(30)]
        picked = chance.sample(range(0, 30, 3), 6)
        ours, theirs, both = list(lines), list(lines), list(lines)
        for position, number in enumerate(picked):
            side = ours if position % 2 else theirs
            side[number] = both[number] = f"changed {number} by {position % 2}\n"
        found = merge("".join(lines), "".join(ours), "".join(theirs))
        assert found == Merged("".join(both), 3)
