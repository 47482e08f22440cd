"""Line differences: complete, minimal enough, and in a form `patch` would accept."""

from __future__ import annotations

import random
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buddy.workspace.files import line_diff as linediff
from buddy.workspace.files.line_diff import Unified, brief_changes, compare, line_changes
from buddy.workspace.files.line_diff import unify as unified_of

TEXTS = st.text(alphabet="ab\n", max_size=20)


def unified(before: str, after: str, *, context: int = 3) -> Unified:
    return unified_of(compare(before, after), context=context)


def test_a_unified_diff_groups_near_changes_and_separates_far_ones() -> None:
    before = "".join(f"{n}\n" for n in range(1, 21))
    after = before.replace("3\n", "three\n", 1).replace("18\n", "")
    first = "@@ -1,6 +1,6 @@\n 1\n 2\n-3\n+three\n 4\n 5\n 6\n"
    second = "@@ -15,6 +15,5 @@\n 15\n 16\n 17\n-18\n 19\n 20\n"
    assert unified(before, after) == Unified(first + second, added=1, removed=2)


def test_new_and_emptied_files_and_missing_newlines_are_written_as_diff_does() -> None:
    assert unified("", "a\n") == Unified("@@ -0,0 +1 @@\n+a\n", 1, 0)
    assert unified("a\n", "") == Unified("@@ -1 +0,0 @@\n-a\n", 0, 1)
    assert unified("a", "a\n").diff == "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"
    assert unified("a", "a") == Unified("", 0, 0)


def test_very_long_changes_are_shown_as_replaced_whole() -> None:
    before, after = "".join(f"{n}\n" for n in range(30_000)), "".join(f"x{n}\n" for n in range(30_000))
    assert len(line_changes(before, after)) == 1


NUMBERED = [f"line {number}\n" for number in range(4000)]
REPEATED = [f"line {number}\n" if number % 3 else "}\n" for number in range(30_000)]


@pytest.mark.parametrize("lines", [NUMBERED, REPEATED], ids=["numbered", "repeated"])
@pytest.mark.parametrize("without", [False, True], ids=["cydifflib", "difflib"])
def test_RU_D1_edits_thousands_of_lines_apart_are_told_apart(
    lines: list[str], without: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if without:
        monkeypatch.setitem(sys.modules, "cydifflib", None)
    changed = list(lines)
    places = (7, len(lines) // 2, len(lines) - 7)
    for place in places:
        changed[place] = "changed\n"
    found = unified("".join(lines), "".join(changed))
    assert (found.added, found.removed) == (3, 3)
    assert [change.old_start for change in line_changes("".join(lines), "".join(changed))] == list(places)


def test_RU_D1_texts_of_few_different_lines_are_compared_in_bounded_time() -> None:
    chance = random.Random(3)
    started = time.process_time()
    for words in ("ab", "abcdefghij", [str(number) for number in range(250)]):
        before, after = ([f"{chance.choice(words)}\n" for _ in range(25_000)] for _ in range(2))
        assert line_changes("".join(before), "".join(after))
    assert time.process_time() - started < 20


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([*"abcdefgh", "own"]), max_size=30), st.randoms(use_true_random=False))
def test_RU_D1_a_text_divided_at_its_own_lines_is_compared_completely(
    words: list[str], chance: random.Random
) -> None:
    old = [f"{word} {at}\n" if word == "own" else f"{word}\n" for at, word in enumerate(words)]
    new = [line for line in old if chance.random() < 0.7]
    half = new[: len(new) // 2]
    chance.shuffle(half)
    new[: len(half)] = half
    at = 0
    made: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linediff, "ANCHORED_FROM_LINES", 0)
        changes = line_changes("".join(old), "".join(new))
    for change in changes:
        assert tuple(old[change.old_start : change.old_start + len(change.old)]) == change.old
        made += [*old[at : change.old_start], *change.new]
        at = change.old_start + len(change.old)
    assert made + old[at:] == new


def test_RU_E2_a_long_line_that_changed_is_cut_around_the_change() -> None:
    before, after = "x" * 5000 + "old" + "y" * 5000, "x" * 5000 + "new" + "y" * 5000
    (removed, added), whole = brief_changes(before, after, max_lines=5)
    assert not whole
    assert "old" in removed
    assert "new" in added
    assert max(len(removed), len(added)) < 320


@given(TEXTS, TEXTS)
def test_changes_turn_one_text_into_the_other(before: str, after: str) -> None:
    lines = before.splitlines(keepends=True)
    for change in reversed(line_changes(before, after)):
        assert tuple(lines[change.old_start : change.old_start + len(change.old)]) == change.old
        lines[change.old_start : change.old_start + len(change.old)] = change.new
    assert "".join(lines) == after


@given(TEXTS, TEXTS)
def test_a_diff_holds_what_is_needed_to_make_the_new_text(before: str, after: str) -> None:
    lines = unified(before, after, context=1000).diff.split("\n")[1:-1]
    if before == after:
        assert lines == []
        return
    kept = [line for line in lines if not line.startswith("\\")]
    assert [line[1:] for line in kept if line[0] in " -"] == before.splitlines()
    assert [line[1:] for line in kept if line[0] in " +"] == after.splitlines()


def test_brief_changes_say_whether_they_are_all() -> None:
    assert brief_changes("a\nb\n", "a\nc\n", max_lines=5) == (("-2     b", "+2     c"), True)
    assert brief_changes("a\nb\n", "a\nc\n", max_lines=1) == (("-2     b",), False)


@given(TEXTS, TEXTS, st.integers(0, 4))
def test_windows_around_a_change_are_the_lines_of_the_whole_text(
    before: str, after: str, context: int
) -> None:
    if before == after:
        return
    found = compare(before, after)
    for text, window in ((before, found.old_lines(context)), (after, found.new_lines(context))):
        lines = text.splitlines(keepends=True)
        assert window.lines == lines[window.start : window.stop]
        assert window.start >= 0
        assert window.stop <= len(lines)


def test_what_two_long_texts_have_in_common_is_found_in_steps() -> None:
    lines = [f"line {number}\n" for number in range(8000)]
    changed = [*lines[:4000], "other\n", *lines[4001:]]
    (change,) = line_changes("".join(lines), "".join(changed))
    assert (change.old_start, change.old, change.new) == (4000, ("line 4000\n",), ("other\n",))
