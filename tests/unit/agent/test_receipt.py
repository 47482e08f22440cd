"""Receipts: facts in, a record and a few lines out."""

from __future__ import annotations

import msgspec
import pytest

from buddy.agent.receipt import (
    CallFacts,
    ChangedFile,
    Check,
    Receipt,
    RunCounts,
    receipt_of,
    receipt_rows,
    receipt_text,
)

MAIN = ChangedFile("main.py", "update", 3, 1, "edit")
EDIT = CallFacts("edit_file main.py", "ok", changed=True)
PASSED = Check("tests", "pytest -q", 0, tests=RunCounts(41, 0, 2))
FAILED = Check("tests", "pytest -q", 1, tests=RunCounts(40, 1, 0))


def ran(check: Check, *, changed: bool = False) -> CallFacts:
    return CallFacts(check.command, "error" if check.is_bad else "ok", changed, check)


def rows(*calls: CallFacts, files: tuple[ChangedFile, ...] = (MAIN,)) -> list[tuple[str, str]]:
    receipt = receipt_of(calls, files)
    assert receipt is not None
    return receipt_rows(receipt)


def test_a_turn_that_changed_nothing_has_no_receipt() -> None:
    assert receipt_of([ran(PASSED), CallFacts("rm x", "denied")], ()) is None


def test_an_edit_without_a_check_says_so() -> None:
    assert rows(EDIT) == [
        ("changed", "main.py +3 −1"),
        ("unchecked", "no test or build ran after the last change"),
    ]


def test_tests_after_the_last_edit_are_told_with_their_counts() -> None:
    assert rows(EDIT, ran(PASSED))[1] == ("checked", "pytest -q: 41 passed, 2 skipped")


def test_tests_before_the_last_edit_check_nothing() -> None:
    said = rows(ran(PASSED), EDIT)[1]
    assert said == (
        "unchecked",
        "no test or build ran after the last change; 1 earlier run came before it",
    )


def test_tests_that_ran_again_count_once_with_their_last_result() -> None:
    assert rows(EDIT, ran(FAILED), ran(PASSED))[1] == ("checked", "pytest -q: 41 passed, 2 skipped")
    assert rows(EDIT, ran(PASSED), ran(FAILED))[1] == ("checked", "pytest -q: 40 passed, 1 failed (exit 1)")


def test_a_check_that_leaves_files_behind_still_checks() -> None:
    cache = ChangedFile(".cache", "add", None, None, "command")
    assert rows(EDIT, ran(PASSED, changed=True), files=(MAIN, cache))[1][0] == "checked"


def test_what_was_refused_and_failed_is_told() -> None:
    calls = [EDIT, CallFacts("run_shell rm -rf build", "denied"), CallFacts("edit_file b.py", "error")]
    assert rows(*calls)[2:] == [("refused", "run_shell rm -rf build"), ("failed", "1 call")]


def test_many_refused_calls_are_counted() -> None:
    denied = [CallFacts(f"rm {number}", "denied") for number in range(5)]
    assert rows(EDIT, *denied)[2] == ("refused", "rm 0, rm 1 and 3 more")


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (ChangedFile("a", "add", 4, 0, "edit"), "a +4 (new)"),
        (ChangedFile("a", "add", 0, 0, "edit"), "a (new)"),
        (ChangedFile("a", "delete", 0, 9, "edit"), "a (deleted)"),
        (ChangedFile("a", "update", 1, 0, "command"), "a +1 (by a command)"),
        (ChangedFile("a", "update", None, None, "edit"), "a"),
        (ChangedFile("a", "move", None, None, "edit", "b"), "a → b (moved)"),
        (ChangedFile("a", "add", 2, 0, "command"), "a +2 (new, by a command)"),
    ],
)
def test_a_file_in_few_words(file: ChangedFile, text: str) -> None:
    assert rows(EDIT, files=(file,))[0] == ("changed", text)


def test_many_files_are_counted() -> None:
    files = tuple(ChangedFile(f"f{number}", "add", 1, 0, "edit") for number in range(20))
    text = rows(EDIT, files=files)[0][1]
    assert text.endswith("f5 +1 (new) · 14 more")


def test_a_result_that_is_not_known_is_not_called_passed() -> None:
    hidden = Check("tests", "pytest -q | tail", None)
    assert "result not known" in rows(EDIT, ran(hidden))[1][1]


def test_a_receipt_comes_back_from_json() -> None:
    receipt = receipt_of([EDIT, ran(FAILED)], [MAIN], "checkpoints are off")
    assert msgspec.json.decode(msgspec.json.encode(receipt), type=Receipt) == receipt
    assert receipt is not None
    assert receipt_text(receipt).splitlines()[-1] == "unseen     checkpoints are off"


@pytest.mark.parametrize(
    ("paths", "is_said"),
    [
        (["README.md"], False),
        (["docs/use.rst", "notes.txt", "LICENSE"], False),
        (["README.md", "main.py"], True),
        (["requirements-dev.txt"], True),
        (["CMakeLists.txt"], True),
        (["Makefile"], True),
    ],
)
def test_E10_no_check_is_missing_where_only_prose_changed(paths: list[str], is_said: bool) -> None:
    files = [ChangedFile(path, "update", 1, 1, "edit") for path in paths]
    receipt = receipt_of([CallFacts("edit", "ok", changed=True)], files)
    assert receipt is not None
    assert any(label == "unchecked" for label, _text in receipt_rows(receipt)) == is_said


@pytest.mark.parametrize(
    ("check", "is_good", "is_bad"),
    [
        (PASSED, True, False),
        (FAILED, False, True),
        (Check("build", "make", 0), True, False),
        (Check("build", "make", 2), False, True),
        (Check("tests", "pytest -q | tail", None), False, False),
        (Check("tests", "python3 -m unittest && git push", None, tests=RunCounts(0, 0, 0)), False, False),
        (Check("tests", "python3 -m unittest && git push", None, tests=RunCounts(3, 0, 0)), True, False),
    ],
)
def test_a_check_is_good_only_where_that_is_known(check: Check, is_good: bool, is_bad: bool) -> None:
    assert (check.is_good, check.is_bad) == (is_good, is_bad)
