"""A folded paste is what was pasted wherever its line goes: sent, recalled, edited, undone, kept."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buddy.repl.input.editor import Pastes
from buddy.repl.input.history import KEPT_CHARS
from buddy.repl.intents import Intent, Prompt, Queue
from tests.support.events_for_tests import Tape
from tests.support.screen_harness import Stage, running_repl

LONG = "".join(f"line {number}\n" for number in range(20)) + "end"
OTHER = "x" * 5000
MARK, OTHER_MARK = "[pasted #1, 21 lines]", "[pasted #2, 5000 characters]"


def paste(stage: Stage, text: str) -> None:
    stage.type(f"\x1b[200~{text}\x1b[201~")


async def stands(stage: Stage, text: str) -> None:
    await stage.until(lambda: stage.repl.editor.text == text)


async def sent(stage: Stage, *intents: Intent) -> None:
    stage.type("\r")
    await stage.until(lambda: stage.intents == list(intents))


@asynccontextmanager
async def pasted(history_path: str | None = None) -> AsyncGenerator[Stage]:
    """A REPL in whose line a folded paste stands between words."""
    async with running_repl(columns=100, history_path=history_path) as stage:
        stage.type("see ")
        await stands(stage, "see ")
        paste(stage, LONG)
        await stands(stage, f"see {MARK}")
        stage.type(" now")
        await stands(stage, f"see {MARK} now")
        yield stage


WHOLE = Prompt(f"see {LONG} now")


async def test_a_line_recalled_with_up_is_sent_with_what_was_pasted() -> None:
    async with pasted() as stage:
        await sent(stage, WHOLE)
        stage.type("\x1b[A")
        await stands(stage, f"see {MARK} now")
        await sent(stage, WHOLE, WHOLE)


async def test_a_line_found_by_ctrl_r_is_sent_with_what_was_pasted() -> None:
    async with pasted() as stage:
        await sent(stage, WHOLE)
        stage.type("other")
        await stands(stage, "other")
        await sent(stage, WHOLE, Prompt("other"))
        stage.type("\x12")
        await stage.shows("I-search")
        stage.type("see")
        await stage.shows("see [pasted")
        stage.type("\r")
        await stands(stage, f"see {MARK} now")
        await sent(stage, WHOLE, Prompt("other"), WHOLE)


async def test_another_run_finds_the_text_in_its_history_not_the_mark(tmp_path: Path) -> None:
    path = str(tmp_path / "state" / "history")
    async with pasted(path) as stage:
        await sent(stage, WHOLE)
    assert [json.loads(line) for line in Path(path).read_text().splitlines()] == [WHOLE.text]
    async with running_repl(columns=100, history_path=path) as stage:
        stage.type("\x1b[A")
        await stands(stage, WHOLE.text)
        await sent(stage, WHOLE)


async def test_a_line_too_long_to_keep_does_not_push_others_out_of_the_history(tmp_path: Path) -> None:
    path = tmp_path / "history"
    async with running_repl(history_path=str(path)) as stage:
        for text in ("before", "x" * (KEPT_CHARS + 1), "after"):
            paste(stage, text)
            await stage.until(lambda: bool(stage.repl.editor.text))
            stage.type("\r")
            await stage.until(lambda: not stage.repl.editor.text)
        stage.type("\x1b[A\x1b[A")
        await stands(stage, f"[pasted #1, {KEPT_CHARS + 1} characters]")
    assert path.read_text() == '"before"\n"after"\n'


async def test_a_queued_line_is_queued_with_what_was_pasted() -> None:
    async with pasted() as stage:
        stage.send(Tape(at=None).turn())
        await stage.until(lambda: bool(stage.repl.state.running()))
        stage.type("\t")
        await stage.until(lambda: stage.intents == [Queue(WHOLE.text)])


@pytest.mark.parametrize(
    ("keys", "left"),
    [
        ("\x1b[D" * 4 + "\x7f", "see  now"),  # Backspace behind it
        ("\x1b[D" * 5 + "\x1b[3~", "see  now"),  # Delete before it
        ("\x1b[D" * 4 + "\x17", "see  now"),  # Ctrl-W
        ("\x1b[D" * 5 + "\x1bd", "see  now"),  # Alt-D
        ("\x1b[D" * 4 + "\x15", " now"),  # Ctrl-U
        ("\x01" + "\x0b", ""),  # Ctrl-A Ctrl-K
        ("\x1bb" * 3 + "!", None),  # a word back, into the mark: beside it
    ],
)
async def test_a_mark_goes_as_a_whole_or_not_at_all(keys: str, left: str | None) -> None:
    async with pasted() as stage:
        stage.type(keys)
        if left is not None:
            await stands(stage, left)
        else:
            await stage.until(lambda: "!" in stage.repl.editor.text)
            assert stage.repl.editor.text.replace("!", "") == f"see {MARK} now"
            assert MARK in stage.repl.editor.text


async def test_undo_brings_a_mark_back_with_its_text() -> None:
    async with pasted() as stage:
        stage.type("\x1b[D" * 4 + "\x7f")
        await stands(stage, "see  now")
        stage.type("\x1f")
        await stands(stage, f"see {MARK} now")
        await sent(stage, WHOLE)


async def test_undo_takes_a_paste_away_and_another_one_is_another() -> None:
    async with running_repl(columns=100) as stage:
        stage.type("a ")
        await stands(stage, "a ")
        paste(stage, LONG)
        await stands(stage, f"a {MARK}")
        stage.type("\x1f")
        await stage.until(lambda: MARK not in stage.repl.editor.text)
        stage.type("\x15")
        await stands(stage, "")
        paste(stage, OTHER)
        await stands(stage, OTHER_MARK)
        await sent(stage, Prompt(OTHER))


async def test_two_pastes_in_one_line_and_one_in_the_other() -> None:
    async with running_repl(columns=100) as stage:
        paste(stage, LONG)
        await stands(stage, MARK)
        stage.type(" and ")
        paste(stage, OTHER)
        await stands(stage, f"{MARK} and {OTHER_MARK}")
        await sent(stage, Prompt(f"{LONG} and {OTHER}"))
        paste(stage, MARK)  # what somebody copies from the screen is what it stands for
        await stands(stage, MARK)
        stage.type("\x0f")
        await stands(stage, LONG)


async def test_what_was_killed_and_yanked_is_still_the_paste() -> None:
    async with pasted() as stage:
        stage.type("\x15")
        await stands(stage, "")
        stage.type("so: \x19")
        await stands(stage, f"so: see {MARK} now")
        await sent(stage, Prompt(f"so: see {LONG} now"))


async def test_ctrl_o_shows_a_paste_that_begins_and_ends_as_its_mark_does() -> None:
    async with running_repl(columns=100) as stage:
        text = "[\n" + "1,\n" * 30 + "]"
        paste(stage, text)
        await stage.until(lambda: stage.repl.editor.has_fold())
        stage.type("\x0f")
        await stands(stage, text)


@pytest.mark.parametrize(("changes", "expected"), [("true", WHOLE.text), ("append", WHOLE.text + "!")])
async def test_another_editor_gets_the_text_and_what_it_writes_is_sent(
    tmp_path: Path, changes: str, expected: str
) -> None:
    script = tmp_path / "append"
    script.write_text(f'#!/bin/sh\ncp "$1" {tmp_path}/seen\nprintf "!" >> "$1"\n')
    script.chmod(0o755)
    editor = changes if changes == "true" else str(script)
    async with running_repl(columns=100, environ={"EDITOR": editor, "PATH": os.environ["PATH"]}) as stage:
        stage.type("see ")
        await stands(stage, "see ")
        paste(stage, LONG)
        stage.type(" now")
        await stands(stage, f"see {MARK} now")
        stage.type("\x18\x05")
        if changes == "append":
            await stands(stage, expected)
            assert (tmp_path / "seen").read_text() == WHOLE.text
        else:
            await stage.until(lambda: not stage.repl._app.is_away)
        await stands(stage, expected if changes == "append" else f"see {MARK} now")
        await sent(stage, Prompt(expected))


@pytest.mark.parametrize("end", ["", "\n"])
def test_the_newline_at_the_end_of_a_paste_is_no_line_of_its_own(end: str) -> None:
    text = "\n".join(f"line {n}" for n in range(200)) + end
    pastes = Pastes()
    assert pastes.fold(text) == "[pasted #1, 200 lines]"
    assert pastes.expand("[pasted #1, 200 lines]") == text


def test_a_mark_nobody_pasted_is_text() -> None:
    assert Pastes().expand("[pasted #1, 842 lines]") == "[pasted #1, 842 lines]"
    pastes = Pastes()
    assert pastes.fold(LONG) == MARK
    assert pastes.expand("[pasted #1, 22 lines]") == "[pasted #1, 22 lines]"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (MARK, f"[{MARK}"),  # what is typed beside a mark may look like a piece of it
        (f"[{MARK}", f"[[{MARK}"),
        (MARK, f"{MARK}]"),
        (f"{MARK}[1]", "[1]"),
        (f"x]{MARK}[y", "x][y"),
        (f"{MARK}{OTHER_MARK}", OTHER_MARK),
        (f"{MARK}{OTHER_MARK}", MARK),
        (f"{MARK}{OTHER_MARK}", ""),
        (f"a{MARK}", f"a[pasted #{MARK}"),
    ],
)
def test_brackets_beside_a_mark_take_nothing_with_them(before: str, after: str) -> None:
    pastes = Pastes()
    assert (pastes.fold(LONG), pastes.fold(OTHER)) == (MARK, OTHER_MARK)
    assert pastes.mend(before, after) is None


async def test_a_bracket_typed_before_a_paste_stands_before_it() -> None:
    async with pasted() as stage:
        stage.type("\x1b[D" * 5 + "[")
        await stands(stage, f"see [{MARK} now")
        await sent(stage, Prompt(f"see [{LONG} now"))


PIECES = st.lists(st.sampled_from(["[", "]", "a", " ", "[pasted #", "1, 21 lines]", MARK]), max_size=8)


@given(PIECES, st.integers(0, 200), st.integers(0, 200), st.sampled_from(["", "x", "[", "]"]))
def test_whatever_is_edited_no_piece_of_a_mark_is_left(
    pieces: list[str], one: int, two: int, new: str
) -> None:
    pastes = Pastes()
    assert pastes.fold(LONG) == MARK
    before = "".join(pieces)
    begin, end = sorted((min(one, len(before)), min(two, len(before))))
    after = before[:begin] + new + before[end:]
    mended = pastes.mend(before, after)
    text, cursor = mended if mended is not None else (after, 0)
    assert 0 <= cursor <= len(text)
    broken = [
        (first, last)
        for first, last in pastes.marks(before)
        if (first < begin < last or first < end < last) and not (begin <= first and last <= end)
    ]
    if mended is None:
        # Nothing was broken, or what was put there is what was taken.
        assert len(pastes.marks(after)) >= len(pastes.marks(before[:begin])) + len(pastes.marks(before[end:]))
    else:
        replaced = begin < end and new  # by a piece of a mark: that looks as if the rest of it were deleted
        assert broken or replaced
        assert len(text) < len(before) + len(new)
