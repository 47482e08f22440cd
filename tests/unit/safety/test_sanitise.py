"""The one sanitiser: what stays, what goes, and that pieces make no difference."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buddy.safety.sanitise import Sanitiser, clean, one_line, visible
from tests.support.hostile_text import HOSTILE, harm, sanitised

NASTY = st.text(
    st.sampled_from(
        [
            *"ab []; :0?mPX^_\\\n\t\r\x07\x18\x1a\x1b\x7f\x85\x90\x98\x9b\x9c\x9d\x9f",
            *"\u0301\u0e47\u200b\u202e\u2028\ufe0f\U000e0041é漢😀\ud800 k",
        ]
    ),
    max_size=60,
)


def in_pieces(pieces: list[str], **options: int) -> str:
    sanitiser = Sanitiser(**options)
    return "".join([*map(sanitiser.feed, pieces), sanitiser.finish()])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        "two\nlines\n",
        "déjà vu — “quoted” … 10 €",
        "漢字とかな 한국어 עברית العربية हिन्दी ภาษาไทย",
        "e\u0301 in two parts",
        "┌─┐ │ ▓ → ✓ 😀 🇫🇷 👍🏽",
        "[/x] [link=http://e]y[/link] <b> & \\x1b",
        "a\n\n\n\n\nb",
        "non\u00a0breaking",
    ],
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert clean(text) == text
    assert in_pieces(list(text)) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\x1b[1;31mred\x1b[0m b", "ared b"),
        ("a\x1b]8;;http://e\x1b\\label\x1b]8;;\x07b", "alabelb"),
        ("a\x1b]0;never closed", "a"),
        ("a\x1b]0;never closed\nnext line", "a\nnext line"),
        ("a\x1bPq1;2\x18b", "ab"),
        ("\x1b(0lqk\x1b(B", "lqk"),
        ("\x1bcreset", "reset"),
        ("\x1béa", "éa"),
        ("\x1b[3é", "é"),
        ("\x1b[12", ""),
        ("\u009b31mred", "red"),
        ("one\r\ntwo\rthree", "one\ntwothree"),
        ("a\u2028b\u2029c", "a\nb\nc"),
        ("r\u200bm\u202e\u2066x\ufeff", "rmx"),
        ("👨\u200d👩\u200d👧 ❤\ufe0f", "👨👩👧 ❤"),
        ("\ud800x\udc80", "x"),
    ],
)
def test_sequences_go_whole_and_the_invisible_goes(text: str, expected: str) -> None:
    assert clean(text) == expected
    assert in_pieces(list(text)) == expected


def test_tabs_become_spaces_up_to_the_next_stop() -> None:
    assert clean("a\tb\n\tc") == "a       b\n        c"
    assert clean("a\tb", tab_width=4) == "a   b"
    assert in_pieces(["12", "3", "\tx\n", "1\t", "\ty"]) == "123     x\n1               y"


def test_eight_marks_stay_on_a_base_and_none_without_one() -> None:
    assert clean("e" + "\u0301" * 30 + "f") == "e" + "\u0301" * 8 + "f"
    assert clean("\u0301\u0301x\n\u0301y") == "x\ny"
    assert in_pieces(["e", "\u0301" * 5, "\u0301" * 5, "\n", "\u0301", "é", "\u0301"]) == (
        "e" + "\u0301" * 8 + "\né\u0301"
    )


def test_long_runs_of_blank_lines_become_a_count() -> None:
    assert clean("a" + "\n" * 11 + "b") == "a\n\n\n\n\n⟨6 blank lines⟩\nb"
    assert clean("a" + "\n" * 6 + "b") == "a\n\n\n\n\n⟨1 blank line⟩\nb"
    assert clean("a" + "\n" * 6 + "b", blank_lines=0) == "a" + "\n" * 6 + "b"
    assert clean("a\n\n\n  b", blank_lines=1) == "a\n\n⟨1 blank line⟩\n  b"
    assert clean("a\n \n  \n   \n    \n\n\n  b") == "a\n \n  \n   \n    \n⟨2 blank lines⟩\n  b"
    assert in_pieces(["a\n", "\n\n\n\n", "\n", " ", "\n ", " ", "b", "\n\nc"]) == (
        "a\n\n\n\n\n⟨2 blank lines⟩\n  b\n\nc"
    )


def test_blank_lines_at_the_end_are_counted_when_the_stream_ends() -> None:
    sanitiser = Sanitiser()
    assert sanitiser.feed("a" + "\n" * 20) == "a\n\n\n\n\n"
    assert sanitiser.feed("\n") == ""
    assert sanitiser.finish() == "⟨16 blank lines⟩\n"


def test_a_long_hidden_string_is_named_by_its_length() -> None:
    note = "⟨500 characters in an escape sequence⟩"
    assert clean("a\x1b]0;" + "x" * 498 + "\x07b") == f"a{note}b"
    assert clean("a\x1b]0;" + "x" * 498) == f"a{note}"
    assert clean("a\x1b]0;" + "x" * 498 + "\x1b\\b") == f"a{note}b"
    assert clean("a\n\n\x1b]0;" + "x" * 498) == f"a\n\n{note}"
    assert clean("a\x1b]0;" + "x" * 100 + "\x07b") == "ab"


def test_bytes_are_decoded_across_pieces() -> None:
    assert sanitised([b"caf\xc3", b"\xa9 \xe2\x82", b"\xac"]) == "café €"
    assert sanitised([b"\xffx\xe2\x82"]) == "\ufffdx\ufffd"


@pytest.mark.parametrize("name", HOSTILE)
def test_SEC_079_hostile_bytes_come_out_inert(name: str) -> None:
    assert harm(sanitised([HOSTILE[name]])) == ""
    assert harm(clean(HOSTILE[name].decode("utf-8", "replace"))) == ""
    assert harm(clean(HOSTILE[name].decode("latin-1"))) == ""
    assert harm(clean(HOSTILE[name].decode("utf-8", "surrogateescape"))) == ""


@pytest.mark.parametrize("name", HOSTILE)
def test_SEC_080_a_split_at_any_byte_changes_nothing(name: str) -> None:
    data = HOSTILE[name]
    whole = sanitised([data])
    for cut in range(1, len(data), max(1, len(data) // 200)):
        assert sanitised([data[:cut], data[cut:]]) == whole
    if len(data) < 2000:
        assert sanitised([data[at : at + 1] for at in range(len(data))]) == whole


@settings(max_examples=400, deadline=None)
@given(st.lists(NASTY, max_size=8))
def test_any_text_in_any_pieces_is_inert_and_the_same(pieces: list[str]) -> None:
    whole = clean("".join(pieces))
    assert harm(whole) == ""
    assert in_pieces(pieces) == whole
    assert clean(whole) == whole


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=80), st.integers(0, 80))
def test_any_bytes_are_inert_at_every_split(data: bytes, cut: int) -> None:
    assert harm(sanitised([data])) == ""
    assert sanitised([data[:cut], data[cut:]]) == sanitised([data])


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=80))
def test_any_characters_are_inert(text: str) -> None:
    assert harm(clean(text)) == ""


@pytest.mark.parametrize(
    "text",
    [
        "\n" * 1_000_000,
        "\n \n" + " " * 1_000_000,
        "\x1b]" * 300_000,
        "\x1b[" * 300_000,
        "\x1b]" + "x" * 1_000_000,
    ],
    ids=["lines", "spaces", "strings", "sequences", "one string"],
)
def test_a_megabyte_of_mischief_takes_linear_time(text: str) -> None:
    assert len(clean(text)) < 1_100_000
    sanitiser = Sanitiser()
    for at in range(0, len(text), 1000):
        sanitiser.feed(text[at : at + 1000])
    assert sanitiser.finish() is not None


def test_SEC_082_nothing_hides_in_an_approval() -> None:
    command = "rm\u202e -r\u200bf\U000e0041 x" + " " * 300 + "y" + "\n" * 50 + "z"
    assert visible(command, lines=True) == (
        "rm⟨U+202E⟩ -r⟨U+200B⟩f⟨U+E0041⟩ x⟨300 spaces⟩y\n⟨49 blank lines⟩\nz"
    )
    assert visible("a\nb") == "a⟨U+000A⟩b"
    assert visible("a\x1b[31mb\t") == "a⟨U+001B⟩[31mb⟨U+0009⟩"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain --option 'x y'", "plain --option 'x y'"),
        ("naïve 漢字 😀 ✓", "naïve 漢字 😀 ✓"),
        ("e\u0301\u0302\u0303", "e\u0301\u0302⟨U+0303⟩"),
        ("\u0301x", "⟨U+0301⟩x"),
        ("a\u20ddb", "a⟨U+20DD⟩b"),
        ("⟨U+202E⟩", "⟨U+27E8⟩U+202E⟨U+27E9⟩"),
        ("a\u00a0b\u3000c\u2800", "a⟨U+00A0⟩b⟨U+3000⟩c⟨U+2800⟩"),
        ("\udc80", "⟨U+DC80⟩"),
        ("\u2028", "⟨U+2028⟩"),
        ("x" + " " * 16 + "y", "x" + " " * 16 + "y"),
        ("x" + " " * 17 + "y", "x⟨17 spaces⟩y"),
    ],
)
def test_visible_shows_what_cannot_be_seen(text: str, expected: str) -> None:
    assert visible(text) == expected
    assert visible(text, lines=True) == expected


@settings(max_examples=200, deadline=None)
@given(NASTY)
def test_visible_drops_nothing(text: str) -> None:
    back = re.sub(r"⟨U\+([0-9A-F]+)⟩", lambda found: chr(int(found[1], 16)), visible(text))
    assert re.sub(r"⟨(\d+) spaces⟩", lambda found: " " * int(found[1]), back) == text
    assert harm(visible(text)) == ""


def test_SEC_085_a_title_is_one_short_line_without_controls() -> None:
    assert one_line("Fix \x1b]0;evil\x07the\n\n\tparser\u202e ") == "Fix the parser"
    assert one_line("x" * 200) == "x" * 79 + "…"
    assert one_line("word " * 100, 12) == "word word w…"
    assert one_line("\n\n\n\n\n\n\n\n") == ""
    for data in HOSTILE.values():
        title = one_line(data.decode("utf-8", "replace"))
        assert harm(title) == ""
        assert len(title) <= 80
        assert "\n" not in title
