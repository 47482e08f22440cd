"""Merging two changes of one text: both or a conflict, never a guess."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from buddy.workspace.files.line_diff import Conflict, Merged, merge, merge_bytes

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


def _by_git(folder: Path, base: str, ours: str, theirs: str) -> str | None:
    """Merge as `git merge-file` does; None for a conflict."""
    names: list[str] = []
    for name, text in (("ours", ours), ("base", base), ("theirs", theirs)):
        (folder / name).write_text(text)
        names.append(name)
    done = subprocess.run(["git", "merge-file", "-p", *names], cwd=folder, capture_output=True, text=True)
    assert done.returncode >= 0
    return done.stdout if done.returncode == 0 else None


def test_RU_D1_merges_agree_with_git_merge_file(tmp_path: Path) -> None:
    chance = random.Random(11)
    kinds = {"merged": 0, "conflict": 0}
    for number in range(250):
        length = chance.choice([3, 12, 60, 4000])
        base = [chance.choice(["}\n", "\n", f"line {at}\n", f"line {at}\n"]) for at in range(length)]
        sides = [_with_edits(base, chance, chance.randint(0, 4), by) for by in ("ours", "theirs")]
        if chance.random() < 0.3:  # one change made by both
            at = chance.randrange(length)
            sides = [[*side[:at], "both\n", *side[at:]] if side[:at] == base[:at] else side for side in sides]
        texts = ["".join(base), *map("".join, sides)]
        if chance.random() < 0.3:
            texts[chance.randrange(3)] += "no newline"
        found, expected = merge(*texts), _by_git(tmp_path, *texts)
        kinds["merged" if isinstance(found, Merged) else "conflict"] += 1
        assert (found.text if isinstance(found, Merged) else None) == expected, (number, texts)
    assert min(kinds.values()) > 30


def _with_edits(base: list[str], chance: random.Random, count: int, by: str) -> list[str]:
    lines = list(base)
    for number in range(count):
        at = chance.randrange(len(lines) + 1)
        new = [f"{by} {number} {n}\n" for n in range(chance.randint(0, 3))]
        lines[at : at + chance.randint(0, 3)] = new
    return lines


def test_RU_D1_edits_thousands_of_lines_apart_are_merged() -> None:
    base = [f"line {at}\n" for at in range(20_000)]
    ours, theirs, both = list(base), list(base), list(base)
    for at, side in ((5, ours), (19_000, ours), (9_000, theirs), (12_000, theirs)):
        side[at] = both[at] = f"changed {at}\n"
    assert merge("".join(base), "".join(ours), "".join(theirs)) == Merged("".join(both), 2)


def test_the_same_text_by_hunks_of_different_size_is_no_conflict() -> None:
    assert merge("a\nb\nc\n", "x\ny\nc\n", "x\ny\nc\n") == Merged("x\ny\nc\n", 1)


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
