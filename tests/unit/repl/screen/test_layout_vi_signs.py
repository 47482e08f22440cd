"""vi mode says which mode it is in: in the footer and by the cursor."""

from __future__ import annotations

import re

import pytest

from buddy.repl.render.style import ASCII, Look
from buddy.repl.screen.layout import cursor_shapes
from tests.support.screen_harness import Stage, resize, running_repl

TERM = {"TERM": "xterm-256color"}


def shapes(stage: Stage) -> list[bytes]:
    return re.findall(rb"\x1b\[(\d) q", b"".join(stage.terminal.written))


async def test_the_footer_and_the_cursor_say_the_mode_and_the_cursor_is_given_back() -> None:
    async with running_repl(vi=True, environ=TERM) as stage:
        await stage.shows("INSERT · ask")
        stage.type("some words\x1b")
        await stage.shows("NORMAL · ask")
        stage.type("v")
        await stage.shows("VISUAL · ask")
        stage.type("\x1b")
        await stage.shows("NORMAL · ask")
        stage.type("R")
        await stage.shows("REPLACE · ask")
        stage.type("\x1b")
        await stage.shows("NORMAL · ask")
        stage.type("i")
        await stage.shows("INSERT · ask")
        assert shapes(stage) == [b"6", b"2", b"4", b"2", b"6"]
    assert shapes(stage)[-1] == b"0"


async def test_frames_do_not_mention_a_shape_that_stays() -> None:
    async with running_repl(vi=True, environ=TERM) as stage:
        await stage.shows("INSERT")
        for number in range(3):
            stage.repl.screen.write("")
            stage.type(str(number))
            await stage.shows("012"[: number + 1])
        assert shapes(stage) == [b"6"]


async def test_another_program_finds_the_cursor_as_the_person_has_it() -> None:
    async with running_repl(vi=True, environ=TERM) as stage:
        await stage.shows("INSERT")
        async with stage.repl.screen.lent():
            assert shapes(stage) == [b"6", b"0"]
        await stage.until(lambda: shapes(stage) == [b"6", b"0", b"6"])


async def test_a_narrow_terminal_keeps_the_sign() -> None:
    async with running_repl(vi=True, environ=TERM) as stage:
        await stage.shows("INSERT · ask")
        resize(stage, 20, 10)
        await stage.shows("INSERT · ask")


async def test_without_vi_mode_nothing_is_said_and_no_shape_is_set() -> None:
    async with running_repl(environ=TERM) as stage:
        await stage.shows("ask")
        assert stage.terminal.rows()[-1] == "ask · ? keys"
    assert shapes(stage) == []


async def test_the_sign_is_there_where_the_terminal_has_one_cursor_and_no_signs_of_its_own() -> None:
    async with running_repl(vi=True, environ={"TERM": "linux"}, look=Look("mono", ASCII, ansi=True)) as stage:
        await stage.shows("INSERT - ask")
    assert shapes(stage) == []


@pytest.mark.parametrize(
    ("term", "known"),
    [
        ("xterm-256color", True),
        ("tmux-256color", True),
        ("screen", True),
        ("linux", False),
        ("vt100", False),
        ("dumb", False),
        ("", False),
    ],
)
def test_a_terminal_that_would_print_the_sequence_is_spared(term: str, known: bool) -> None:
    assert (cursor_shapes({"TERM": term}, vi=True) is not None) == known
    assert cursor_shapes({"TERM": term}, vi=False) is None
