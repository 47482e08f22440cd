"""Pastes as the terminal hands them over: in any pieces, of any size, with or without an end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.keys import Keys

from buddy.repl.input.keys import KeyParser

BEGIN, END = "\x1b[200~", "\x1b[201~"


class Heard:
    """A parser's output, and a clock that is set by hand."""

    def __init__(self) -> None:
        self.keys: list[tuple[str, str]] = []
        self.now = 0.0
        self.parser = KeyParser(
            lambda press: self.keys.append((str(press.key), press.data)), lambda: self.now
        )


PASTE = str(Keys.BracketedPaste)


@given(st.lists(st.integers(1, 60), max_size=6), st.sampled_from(["", "a\r\nb", "\x1b[201", "y\r", "\x03"]))
def test_a_paste_is_the_same_in_whatever_pieces_it_comes(cuts: list[int], text: str) -> None:
    whole = f"a{BEGIN}{text}{END}b{BEGIN}2{END}"
    heard = Heard()
    at = 0
    for cut in sorted({*cuts, len(whole)}):
        heard.parser.feed(whole[at:cut])
        at = max(at, cut)
    assert heard.keys == [("a", "a"), (PASTE, text), ("b", "b"), (PASTE, "2")]


def test_a_paste_without_an_end_is_ended_by_ctrl_c() -> None:
    heard = Heard()
    heard.parser.feed(f"{BEGIN}half a paste\ry")
    heard.now = 0.1
    heard.parser.feed("\x03")  # too soon after it: part of it
    heard.now = 5.0
    heard.parser.feed("typed on")
    heard.now = 9.0
    heard.parser.feed("\x03")
    heard.parser.feed("x")
    assert heard.keys == [(PASTE, "half a paste\ry\x03typed on"), ("x", "x")]


def test_a_paste_of_which_only_the_mark_came_is_ended_too() -> None:
    heard = Heard()
    heard.now = 3.0
    heard.parser.feed(BEGIN)
    heard.now = 4.0
    heard.parser.feed("\x04")
    heard.parser.feed("x")
    assert heard.keys == [(PASTE, ""), ("x", "x")]


def test_forgetting_what_was_begun() -> None:
    heard = Heard()
    heard.parser.feed(f"{BEGIN}half")
    heard.parser.reset()
    heard.parser.feed("x")
    assert heard.keys == [("x", "x")]
