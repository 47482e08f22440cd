"""The question about the terminal's graphics: whom it is put to, its answers, and that nothing hangs."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from buddy.repl.render.style import UNICODE, Look, PictureMode
from buddy.repl.screen.graphics import QUESTION, GraphicsQuestion, may_be_asked, picture_mode

LOOK = Look("dark", UNICODE, ansi=True, depth="true")
SSH = {"SSH_CONNECTION": "192.0.2.1 50000 192.0.2.2 22"}
KITTY = "\x1b_Gi=31;OK\x1b\\"
ATTRIBUTES = "\x1b[?62;22c"
SIXEL = "\x1b[?62;4;22c"


def test_pictures_are_off_over_ssh_unless_asked_for() -> None:
    assert picture_mode("auto", {}, LOOK) == "blocks"
    assert picture_mode("auto", SSH, LOOK) == "off"
    assert picture_mode("kitty", SSH, LOOK) == "kitty"
    assert picture_mode("off", {}, LOOK) == "off"
    for plain in (
        Look("mono", UNICODE, ansi=True, depth="true"),
        Look("dark", UNICODE, ansi=False, depth="true"),
        Look("dark", UNICODE, ansi=True, depth="16"),
    ):
        assert picture_mode("auto", {}, plain) == "off"


@pytest.mark.parametrize(
    "environ",
    [
        {"TMUX": "/tmp/tmux"},
        {"STY": "1.x"},
        {"ZELLIJ": "0"},
        {"TERM_PROGRAM": "Apple_Terminal"},
        {"TERM": "linux"},
        {"TERM": "screen-256color"},
    ],
)
def test_terminals_that_would_print_the_question_are_not_asked(environ: dict[str, str]) -> None:
    assert may_be_asked("auto", {"TERM": "xterm-256color"}, LOOK)
    assert not may_be_asked("auto", environ, LOOK)
    assert not may_be_asked("blocks", {}, LOOK)
    assert not may_be_asked("auto", SSH, LOOK)
    assert not may_be_asked("auto", {}, Look("mono", UNICODE, ansi=True, depth="true"))
    assert not may_be_asked("auto", {}, Look("dark", UNICODE, ansi=False, depth="true"))


async def test_a_terminal_of_16_colours_is_asked_and_shows_nothing_without_graphics() -> None:
    few = Look("dark", UNICODE, ansi=True, depth="16")
    assert may_be_asked("auto", {"TERM": "xterm"}, few)
    silent = picture_mode("auto", {"TERM": "xterm"}, few)
    assert silent == "off"
    assert (await asked(SIXEL, without=silent))[0] == "sixel"
    assert (await asked(KITTY + SIXEL, without=silent))[0] == "kitty"
    assert (await asked(ATTRIBUTES, without=silent))[0] == "off"


async def asked(*pieces: str, without: PictureMode = "blocks") -> tuple[str, str, list[str]]:
    """The mode after an answer in pieces, the keys that are left, and what was written."""
    written: list[str] = []
    question = GraphicsQuestion(written.append, without, wait_s=20)
    question.attach(asyncio.get_running_loop())
    waiting = asyncio.ensure_future(asyncio.to_thread(question.mode))
    while not written:
        await asyncio.sleep(0)
    keys = "".join(question.keys_of(piece) for piece in pieces)
    return await waiting, keys, written


@pytest.mark.parametrize(
    ("answer", "mode"),
    [
        (KITTY + ATTRIBUTES, "kitty"),
        (KITTY + SIXEL, "kitty"),
        (SIXEL, "sixel"),
        (ATTRIBUTES, "blocks"),
        ("\x1b[?4c", "blocks"),
        ("\x1b_Gi=31;ENOTSUPPORTED:no\x1b\\" + ATTRIBUTES, "blocks"),
    ],
)
async def test_the_answer_decides_however_it_is_cut(answer: str, mode: str) -> None:
    assert await asked(answer) == (mode, "", [QUESTION])
    assert await asked("a", answer, "b") == (mode, "ab", [QUESTION])
    for first, second in itertools.pairwise((2, len(answer) // 2, len(answer) - 1)):
        assert await asked(answer[:first], answer[first:second], answer[second:]) == (mode, "", [QUESTION])


async def test_without_an_answer_nothing_waits_long_and_it_is_asked_once() -> None:
    written: list[str] = []
    question = GraphicsQuestion(written.append, wait_s=0.01)
    question.attach(asyncio.get_running_loop())
    assert await asyncio.to_thread(question.mode) == "blocks"
    assert question.keys_of(KITTY + ATTRIBUTES + "x") == "x"  # too late: taken out, and changes nothing
    assert await asyncio.to_thread(question.mode) == "blocks"
    assert written == [QUESTION]


@pytest.mark.parametrize("answer", [KITTY, SIXEL])
async def test_a_late_answer_in_two_pieces_is_taken_out_and_holds_no_key_for_long(answer: str) -> None:
    question = GraphicsQuestion(lambda _text: None, wait_s=0.01)
    question.attach(asyncio.get_running_loop())
    assert await asyncio.to_thread(question.mode) == "blocks"
    for cut in range(3, len(answer)):
        assert question.keys_of("a" + answer[:cut]) + question.keys_of(answer[cut:] + "b") == "ab"
    assert question.keys_of("\x1b[") == "\x1b["
    assert question.keys_of("\x1b_G") == ""
    assert question.keys_of("x") == "\x1b_Gx"


async def test_the_screen_itself_never_waits() -> None:
    question = GraphicsQuestion(lambda _text: None, wait_s=3600)
    question.attach(asyncio.get_running_loop())
    assert question.mode() == "blocks"


async def test_keys_go_through_untouched_before_it_is_asked() -> None:
    question = GraphicsQuestion(lambda _text: None)
    assert question.keys_of(f"a\x1b[?1;2c{KITTY}\x1b") == f"a\x1b[?1;2c{KITTY}\x1b"


async def test_an_esc_is_not_held_back() -> None:
    question = GraphicsQuestion(lambda _text: None)
    question.attach(asyncio.get_running_loop())
    question.mode()
    assert question.keys_of("\x1b") == "\x1b"
    assert question.keys_of("\x1b[A") == "\x1b[A"
