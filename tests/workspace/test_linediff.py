"""Line differences: complete, minimal enough, and in a form `patch` would accept."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from buddy.workspace.linediff import Unified, brief_changes, compared, line_changes
from buddy.workspace.linediff import unified as unified_of

TEXTS = st.text(alphabet="ab\n", max_size=20)


def unified(before: str, after: str, *, context: int = 3) -> Unified:
    return unified_of(compared(before, after), context=context)


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
    before, after = "".join(f"{n}\n" for n in range(4000)), "".join(f"x{n}\n" for n in range(4000))
    assert len(line_changes(before, after)) == 1


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
    found = compared(before, after)
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
