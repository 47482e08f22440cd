"""The terminal's background: asked for without waiting, answered between keys."""

from __future__ import annotations

import os
import pty
from collections.abc import Iterator

import pytest
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

from buddy.repl.input.keys import KeyParser
from buddy.repl.render.style import Ground, choose_look
from buddy.repl.screen.background import ANSWER_WITHIN_S, QUESTION, GroundQuestion, may_be_asked, question

WHITE, BLACK = "\x1b]11;rgb:ffff/ffff/ffff\x1b\\", "\x1b]11;rgb:0000/0000/0000\x07"


class Asked:
    """A keyboard whose terminal was asked."""

    def __init__(self) -> None:
        self.now = 0.0
        self.written: list[str] = []
        self.answers: list[Ground] = []
        self.keys: list[KeyPress] = []
        clock = lambda: self.now  # noqa: E731 - a clock that is moved by hand
        self.question = GroundQuestion(
            self.written.append, self.answers.append, inside_tmux=False, clock=clock
        )
        self.parser = KeyParser(self.keys.append)
        self.parser.keys_of = self.question.keys_of
        self.question.ask()

    def typed(self) -> str:
        return "".join(str(key.data) for key in self.keys)


@pytest.mark.parametrize(
    ("answer", "ground"),
    [
        (WHITE, "light"),
        (BLACK, "dark"),
        ("\x1b]11;rgb:fd/f6/e3\x07", "light"),
        ("\x1b]11;rgb:00/2b/36\x1b\\", "dark"),
        ("\x1b]11;rgba:1e1e/1e1e/2e2e/ffff\x07", "dark"),
        ("\x1b]11;rgb:f/f/f\x07", "light"),
    ],
)
def test_RU_5_3_the_answer_tells_light_from_dark(answer: str, ground: Ground) -> None:
    asked = Asked()
    asked.parser.feed(answer)
    assert asked.written == [QUESTION]
    assert asked.answers == [ground]
    assert asked.keys == []


@pytest.mark.parametrize("at", range(1, len(WHITE)))
def test_RU_5_3_keys_around_an_answer_in_two_pieces_are_kept(at: int) -> None:
    asked = Asked()
    for piece in ("ab", WHITE[:at], WHITE[at:], "cd"):
        asked.parser.feed(piece)
    if at > 2:  # a piece that ends before may be a key: Esc, or Alt and a bracket
        assert asked.typed() == "abcd"
        assert asked.answers == ["light"]


@pytest.mark.parametrize("text", ["abc", "\x1b", "\x1b]", "\x1b[A", "\x1b]1x", "é漢", "\x1b]12;x\x07"])
def test_RU_5_3_what_is_no_answer_goes_to_the_keys(text: str) -> None:
    asked, other = Asked(), Asked()
    other.parser.keys_of = lambda data: data
    for parser in (asked.parser, other.parser):
        parser.feed(text + "z")
        parser.flush()
    assert asked.typed() == other.typed()
    assert asked.typed().endswith("z")


def test_RU_5_3_a_late_answer_is_taken_out_and_changes_nothing() -> None:
    asked = Asked()
    asked.now = ANSWER_WITHIN_S + 0.1
    asked.parser.feed("a" + WHITE + "b")
    assert asked.typed() == "ab"
    assert asked.answers == []


def test_RU_5_3_only_the_first_of_two_answers_counts() -> None:
    asked = Asked()
    asked.parser.feed(BLACK + WHITE)
    assert asked.answers == ["dark"]
    assert asked.keys == []


def test_RU_5_3_a_paste_is_left_as_it_is() -> None:
    asked = Asked()
    asked.parser.feed("\x1b[200~" + WHITE + "\x1b[201~")
    assert [key.key for key in asked.keys] == [Keys.BracketedPaste]
    assert asked.keys[0].data == WHITE
    assert asked.answers == []


def test_RU_5_3_through_tmux_the_question_is_doubled() -> None:
    assert question(inside_tmux=True) == QUESTION + "\x1bPtmux;\x1b\x1b]11;?\x1b\x1b\\\x1b\\"
    assert question(inside_tmux=False) == QUESTION


@pytest.mark.parametrize(
    ("environ", "asked"),
    [
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "tmux-256color", "TMUX": "x"}, True),
        ({"TERM": "screen-256color", "STY": "1.pts"}, False),
        ({"TERM": "linux"}, False),
        ({"TERM": "rxvt", "COLORFGBG": "0;15"}, False),
    ],
)
def test_RU_5_3_only_terminals_that_may_answer_are_asked(environ: dict[str, str], *, asked: bool) -> None:
    assert may_be_asked(environ) is asked


@pytest.mark.parametrize(
    ("ground", "wanted", "theme"),
    [
        ("light", "auto", "light"),
        ("dark", "auto", "dark"),
        ("light", "dark", "dark"),
        (None, "auto", "default"),
    ],
)
def test_RU_5_3_a_theme_of_the_settings_wins_over_the_answer(
    ground: Ground | None, wanted: str, theme: str
) -> None:
    environ = {"TERM": "xterm"}
    look = choose_look(
        environ=environ, color="auto", theme=wanted, encoding="utf-8", is_terminal=True, ground=ground
    )
    assert look.theme == theme


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    ours, theirs = pty.openpty()
    yield ours, theirs
    os.close(ours)
    os.close(theirs)


def test_RU_5_3_an_answer_on_its_way_is_not_typed_into_the_shell(terminal: tuple[int, int]) -> None:
    ours, theirs = terminal
    asked = Asked()
    os.write(ours, (WHITE + "\n").encode())
    read: list[bytes] = []
    asked.question.wait(theirs, lambda: read.append(os.read(theirs, 1024)))
    assert b"rgb:ffff" in read[0]
    asked.now = 1.0
    asked.question.wait(theirs, lambda: read.append(b"too late"))
    assert len(read) == 1
