"""Pastes of terminals that do not bracket them: one draft, whatever the pieces; typed keys stay keys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.keys import Keys

from buddy.repl.input.bursts import AFTER_S, QUIET_S, Bursts
from buddy.repl.input.keys import KeyParser
from buddy.repl.start import brackets_pastes

PASTE, ENTER = str(Keys.BracketedPaste), str(Keys.ControlM)


class Heard:
    """A parser with a clock that is set by hand."""

    def __init__(self, *, brackets: bool = True) -> None:
        self.keys: list[tuple[str, str]] = []
        self.now = 100.0
        self.parser = KeyParser(
            lambda press: self.keys.append((str(press.key), press.data)),
            lambda: self.now,
            brackets=brackets,
        )

    def feed(self, *pieces: str, gap: float = 0.001) -> None:
        for piece in pieces:
            self.now += gap
            self.parser.feed(piece)

    def quiet(self) -> list[tuple[str, str]]:
        self.now += QUIET_S
        self.parser.quiet()
        return self.keys

    def draft(self) -> str:
        """The text of a line into which all keys went; fails when an Enter was among them."""
        assert ENTER not in [key for key, _data in self.quiet()]
        return "".join(data for _key, data in self.keys)


LINES = "".join(f"def line{number}(x): return {number}\r" for number in range(12))


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n"])
def test_RU_B2_lines_in_one_read_are_one_paste(end: str) -> None:
    heard = Heard()
    heard.feed(LINES.replace("\r", end))
    assert heard.quiet() == [(PASTE, LINES.replace("\r", end))]


@given(st.lists(st.integers(1, len(LINES) - 1), max_size=8))
def test_RU_B2_in_whatever_reads_they_come_no_line_of_a_paste_is_sent(cuts: list[int]) -> None:
    heard, at = Heard(), 0
    for cut in sorted({*cuts, len(LINES)}):
        heard.feed(LINES[at:cut])
        at = cut
    assert heard.draft() == LINES


def test_RU_B2_a_serial_line_brings_a_character_at_a_time() -> None:
    heard = Heard()
    heard.feed(*"Some docs:\r!touch /tmp/pwned\rmore text\r")
    assert heard.draft() == "Some docs:\r!touch /tmp/pwned\rmore text\r"


def test_RU_B2_a_pause_of_the_connection_ends_no_paste() -> None:
    heard = Heard()
    for piece in ("one\rtwo", "\r", "three\r"):
        heard.feed(piece, gap=AFTER_S / 2)
        heard.quiet()
    assert heard.draft() == "one\rtwo\rthree\r"


def test_RU_B2_lines_that_come_one_by_one_faster_than_typed_are_one_draft_but_for_the_first() -> None:
    heard = Heard()
    for piece in ("line0\r", "line1\r", "line2\r"):
        heard.feed(piece, gap=0.1)
        heard.quiet()
    assert [key for key, _data in heard.keys].count(ENTER) == 1


def test_RU_B2_escape_sequences_within_do_not_make_it_typed() -> None:
    heard = Heard()
    heard.feed("\x1b[31mred\x1b[0m\r!touch x\r\x1b[31mmore\r")
    assert [key for key, _data in heard.quiet()] == [PASTE]


def test_typed_keys_are_keys_at_once() -> None:
    heard = Heard()
    for key in "hi\r":
        heard.feed(key, gap=0.05)
    assert heard.keys == [("h", "h"), ("i", "i"), (ENTER, "\r")]
    assert not heard.parser.is_waiting


def test_a_line_and_its_enter_in_one_read_are_sent_when_it_is_quiet() -> None:
    heard = Heard()
    heard.feed("/keys\r")
    assert ENTER not in [key for key, _data in heard.keys]
    assert heard.quiet()[-1] == (ENTER, "\r/keys")


@pytest.mark.parametrize("pieces", [("y\r",), ("y", "\r")])
def test_RU_A13_a_letter_and_its_enter_in_one_piece_are_told_as_such(pieces: tuple[str, ...]) -> None:
    heard = Heard()
    heard.feed(*pieces)
    assert heard.quiet() == [("y", "y"), (ENTER, "\ry")]


def test_RU_A13_where_pastes_have_no_brackets_nobody_knows_what_stood_before() -> None:
    heard = Heard(brackets=False)
    heard.feed("y\r")
    assert heard.quiet() == [("y", "y"), (ENTER, "\r\ny")]


@pytest.mark.parametrize("text", ["text\ry\r", "y\r\ry\rn\r", "y\n"])
def test_RU_A13_more_than_a_letter_and_enter_is_no_answer(text: str) -> None:
    heard = Heard()
    heard.feed(text)
    assert (ENTER, "\ry") not in heard.quiet()


@pytest.mark.parametrize("keys", ["\x03", "\x1b[A", "\x1b", "\x15"])
def test_a_key_behind_a_held_enter_comes_after_it(keys: str) -> None:
    heard = Heard()
    heard.feed("go\r", keys)
    assert heard.keys[2] == (ENTER, "\rgo")


@pytest.mark.parametrize("keys", ["\x1b\r", "\x1b[13;2u", "\x1b[A\x1b[B", "\t", "\r", "\r\r", "\n", "abc"])
def test_keys_that_hold_no_lines_are_not_held(keys: str) -> None:
    bursts = Bursts(lambda: 0.0)
    assert "".join(text for _kind, text in bursts.feed(keys)) == keys
    assert not bursts.is_waiting


@pytest.mark.parametrize(
    ("environ", "brackets"),
    [
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "screen-256color", "TMUX": "x"}, True),
        ({"TERM": "screen-256color"}, False),
        ({"TERM": "xterm", "STY": "1.pts"}, False),
        ({"TERM": "linux"}, False),
        ({"TERM": "vt220"}, False),
    ],
)
def test_terminals_that_put_pastes_in_brackets(environ: dict[str, str], brackets: bool) -> None:
    assert brackets_pastes(environ) is brackets
