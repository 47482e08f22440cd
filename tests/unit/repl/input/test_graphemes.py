"""A character as people see it is one character to the keys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.document import Document
from wcwidth import iter_graphemes

from buddy.repl.input.graphemes import GraphemeDocument, span_at
from buddy.repl.render.text import cells
from buddy.repl.screen.output import FrameOutput
from tests.support.screen_harness import running_repl

FAMILY, FLAG, ACCENT, THUMB = "👩\u200d👩\u200d👧", "🇩🇪", "e\u0301", "👍🏽"
JAMO, HEART, KEYCAP = "\u1100\u1161\u11a8", "❤\ufe0f", "1\ufe0f\u20e3"
ALL = [FAMILY, FLAG, ACCENT, THUMB, JAMO, HEART, KEYCAP, "x", "漢"]


@pytest.mark.parametrize("one", ALL)
@pytest.mark.parametrize(
    ("keys", "left"),
    [
        ("\x7f", "a{0}"),  # Backspace
        ("\x1b[D\x1b[3~", "a{0}"),  # Left, Delete
        ("\x1b[D\x04", "a{0}"),  # Left, Ctrl+D
        ("\x1b[D\x1b[D|", "a|{0}{0}"),
        ("\x01\x1b[C\x1b[C|", "a{0}|{0}"),  # Ctrl+A, Right, Right
        ("\x01\x1b2\x1b[C|", "a{0}|{0}"),  # Ctrl+A, two to the right
        ("\x7f\x7f\x7f", ""),
    ],
)
async def test_a_key_takes_or_passes_a_whole_character(one: str, keys: str, left: str) -> None:
    async with running_repl() as stage:
        stage.type(f"a{one}{one}")
        await stage.until(lambda: stage.repl.editor.text == f"a{one}{one}")
        stage.type(keys)
        await stage.until(lambda: stage.repl.editor.text == left.format(one))


@pytest.mark.parametrize("one", ALL)
@pytest.mark.parametrize(
    ("keys", "left"),
    [
        ("x", "a{0}"),
        ("hx", "a{0}"),
        ("X", "a{0}"),
        ("0lx", "a{0}"),
        ("0l2x", "a"),
        ("02X$2X", "{0}"),
        ("0lsb", "ab{0}"),
        ("0lrb", "ab{0}"),
        ("0ldl", "a{0}"),
        ("dh", "a{0}"),
        ("hi|", "a|{0}{0}"),
        ("ha|", "a{0}|{0}"),
    ],
)
async def test_a_key_of_vi_takes_or_passes_a_whole_character(one: str, keys: str, left: str) -> None:
    async with running_repl(vi=True) as stage:
        stage.type(f"a{one}{one}")
        await stage.until(lambda: stage.repl.editor.text == f"a{one}{one}")
        stage.type("\x1b")
        await stage.until(lambda: stage.repl.editor.buffer.cursor_position == 1 + len(one))
        stage.type(keys)
        await stage.until(lambda: stage.repl.editor.text == left.format(one))


async def test_up_and_down_never_stop_inside_a_character() -> None:
    async with running_repl() as stage:
        stage.type(f"ab{FAMILY}\nabcd\x1b[A|")
        await stage.until(lambda: stage.repl.editor.text == f"ab|{FAMILY}\nabcd")


async def test_what_is_typed_in_pieces_between_two_of_its_kind_stays_together() -> None:
    async with running_repl() as stage:
        stage.type(f"{FLAG}{FLAG}\x1b[D")
        for piece in "🇫🇷":
            stage.type(piece)
        await stage.until(lambda: stage.repl.editor.text == f"{FLAG}🇫🇷{FLAG}")


async def test_lines_end_where_they_end() -> None:
    async with running_repl() as stage:
        stage.type(f"{FLAG}\n{FLAG}")
        await stage.until(lambda: stage.repl.editor.text == f"{FLAG}\n{FLAG}")
        stage.type("\x1b[D\x7f|")
        await stage.until(lambda: stage.repl.editor.text == f"{FLAG}|{FLAG}")


@pytest.mark.parametrize(
    ("keys", "left"),
    [
        ("\x1b\x7f", "ein größeres "),  # Alt+Backspace
        ("\x1bb\x1bb|", "ein |größeres cafe\u0301"),
        ("\x01\x1bf\x1bf|", "ein größeres| cafe\u0301"),
        ("\x01\x1bf\x1bd", "ein cafe\u0301"),
        ("\x17", "ein größeres "),  # Ctrl+W
    ],
)
async def test_a_word_may_have_letters_of_any_script(keys: str, left: str) -> None:
    async with running_repl() as stage:
        stage.type("ein größeres cafe\u0301")
        await stage.until(lambda: stage.repl.editor.text.endswith("\u0301"))
        stage.type(keys)
        await stage.until(lambda: stage.repl.editor.text == left)


def test_words_of_another_script_are_found_where_those_of_english_are() -> None:
    said, as_english = "früh, ça  va_2 e\u0301té!", "aaaa, aa  va_2 aaaa!"
    for at in range(len(said) + 1):
        ours, english = GraphemeDocument(said, at), Document(as_english, at)
        for ask in (
            Document.find_start_of_previous_word,
            Document.find_boundaries_of_current_word,
            Document.find_next_word_beginning,
            Document.find_next_word_ending,
            Document.find_previous_word_beginning,
            Document.find_previous_word_ending,
        ):
            assert getattr(ours, ask.__name__)() == ask(english), (at, ask.__name__)
            assert getattr(ours, ask.__name__)(WORD=True) == ask(english, WORD=True), (at, ask.__name__)


@pytest.mark.parametrize("count", [0, 1, 2, 30, 31])
def test_flags_are_told_apart_in_pairs(count: int) -> None:
    text = "see " + FLAG * count + FAMILY
    at = len(text) - 1
    assert span_at(text, at) == (4 + 2 * count, len(text))
    assert all(span_at(text, 4 + 2 * n + k) == (4 + 2 * n, 6 + 2 * n) for n in range(count) for k in (0, 1))


@given(st.lists(st.sampled_from([*ALL, "\u0301", "\u200d", "\ufe0f", "🇩", "🏽", " ", "\n", "न", "ि", "a"])))
def test_a_character_is_found_from_each_of_its_places(pieces: list[str]) -> None:
    text = "".join(pieces)
    begin = 0
    for one in iter_graphemes(text):
        end = begin + len(one)
        assert {span_at(text, at) for at in range(begin, end)} == {(begin, end)}
        begin = end


def test_in_the_live_region_no_terminal_joins_what_was_measured_apart() -> None:
    written: list[str] = []
    output = FrameOutput(written.append, lambda: None, fd=-1, encoding="utf-8")
    for cell in (
        "👩\u200d",
        "👍",
        "🏽",
        "❤\ufe0f",
        "1\ufe0f\u20e3",
        "🏳\ufe0f\u200d",
        "क\u094d\u200d",
        "\ufe0f",
    ):
        output.write(cell)
        output.flush()
    assert written == ["👩", "👍", "\u200c🏽", "❤", "1\u20e3", "🏳", "क\u094d\u200d", "\ufe0f"]


def test_a_flag_is_as_wide_as_terminals_draw_it() -> None:
    assert (cells(FLAG), cells("🇩"), cells("漢")) == (2, 1, 2)
