"""RE2 and `re` mean the same by a pattern, or RE2 says that it cannot tell."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from buddy.workspace.files.bulk_read import regular_bytes, text_of
from buddy.workspace.search.matcher import ReMatcher, search
from buddy.workspace.search.pattern import PatternError, SearchPattern, prepare
from buddy.workspace.search.re2 import Re2Matcher
from tests.support.search_jobs import job_of

ATOMS = st.sampled_from(
    (
        "a",
        "b",
        "k",
        "S",
        "é",
        "ß",
        "ſ",
        ".",
        r"\w",
        r"\W",
        r"\s",
        r"\S",
        r"\d",
        r"\D",
        "[a-k]",
        "[^a]",
        "[é-ü]",
        "[^\\s]",
        r"\b",
        r"\B",
        "(?<=a)",
        "İ",
        "[^\\W\\d]",
        "^",
        "$",
        r"\.",
        "-",
        "[]]",
        r"[\w-]",
        "[[:alpha:]]",
        "K",
        " ",
        "(?=a)",
        "(?!b)",
        "{",
        r"\x61",
    )
)
PIECES = st.one_of(
    ATOMS,
    st.builds(
        lambda atom, times: atom + times,
        ATOMS,
        st.sampled_from(("?", "*", "+", "{2}", "{0,3}", "{,2}", "+?")),
    ),
    st.builds(lambda one, other: f"(?:{one}|{other})", ATOMS, ATOMS),
    st.builds(lambda one, other: f"({one}{other})?", ATOMS, ATOMS),
)
PATTERNS = st.lists(PIECES, min_size=1, max_size=5).map("".join)
LINES = st.lists(
    st.sampled_from(
        ("a", "b", "k", "S", "é", "ß", "ſ", "K", " ", ".", "-", "7", "\t", "]", "{", "\r\n", "\n", "€", "😀")
    ),
    max_size=60,
).map("".join)


def prepared(pattern: str, *, ignore_case: bool, multiline: bool = False) -> SearchPattern:
    try:
        return prepare(pattern, literal=False, ignore_case=ignore_case, multiline=multiline)
    except PatternError:
        assume(False)
        raise


@settings(
    max_examples=int(os.environ.get("BUDDY_EXAMPLES", "600")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(
    pattern=PATTERNS,
    text=LINES,
    ignore_case=st.booleans(),
    multiline=st.booleans(),
    encoding=st.sampled_from(("utf-8", "latin-1", "utf-16", "utf-8-sig")),
    before=st.sampled_from((b"", b"\0", b"\xff\xff")),
)
def test_re2_finds_what_re_finds_or_leaves_it_undecided(
    tmp_path_factory: pytest.TempPathFactory,
    pattern: str,
    text: str,
    ignore_case: bool,
    multiline: bool,
    encoding: str,
    before: bytes,
) -> None:
    asked = prepared(pattern, ignore_case=ignore_case, multiline=multiline)
    folder = tmp_path_factory.mktemp("lines")
    (folder / "text").write_bytes(before + text.encode(encoding, "replace"))
    job = job_of(folder, asked, last=1000)

    plain = search(
        {**job, "literal": "", "rare": ""}, ReMatcher(job, lambda: None), lambda: False, lambda _number: None
    )
    quick = search(job, Re2Matcher(asked), lambda: False, lambda _number: None)

    counted = search({**job, "last": 0}, Re2Matcher(asked), lambda: False, lambda _number: None)

    assert counted == quick._replace(hits=[])
    assert quick == plain or (quick.undecided == ["text"] and not Re2Matcher(asked).is_sure)


@pytest.mark.parametrize(
    ("pattern", "sure"),
    [
        ("needle", True),
        (r"\w+\s*=", True),
        (r"(a+)+$", True),
        (r"(?:a{9}){9}", True),
        (r"\bfoo\b", True),
        (r"\b(foo|bar[0-9]+)\b|x", True),
        (r"foo\b.", False),
        (r"\Bfoo", False),
        (r"\b-", False),
        (r"\b[A-z]", False),
        (r"\b(?:foo)?bar", False),
        (r"foo(?!bar)", False),
        (r"(a)\1", False),
        (r"a++", False),
        (r"x{5000}", False),
    ],
)
def test_only_what_re2_has_no_word_for_is_left_undecided(pattern: str, sure: bool) -> None:
    asked = prepare(pattern, literal=False, ignore_case=False, multiline=False)

    assert Re2Matcher(asked).is_sure == sure


@pytest.mark.parametrize(
    ("pattern", "text", "undecided"),
    [
        (r"foo(?!bar)", b"nothing\n", False),
        (r"foo(?!bar)", b"foobar\n", True),
        (r"foo\b.", b"foo bar\n", False),  # ASCII text: RE2's boundaries are the same
        (r"foo\b.", "nothing é\n".encode(), False),
        (r"foo\b.", "fooé bar\n".encode(), True),
    ],
)
def test_a_file_is_undecided_only_where_a_looser_pattern_matches(
    tmp_path: Path, pattern: str, text: bytes, undecided: bool
) -> None:
    (tmp_path / "text").write_bytes(text)
    asked = prepare(pattern, literal=False, ignore_case=False, multiline=False)

    found = search(job_of(tmp_path, asked), Re2Matcher(asked), lambda: False, lambda _number: None)

    assert found.undecided == ["text"] * undecided


@pytest.mark.parametrize(
    "written",
    [
        r"\s",
        r"[\s]",
        r"[\s\d]",
        r"\W",
        r"\D",
        r"[\Wa]",
        r"[^\W\d]",
        r"[\D1]",
        r"[\x00-z]",
        r"\S",
        "[a-z]",
        "i",
    ],
)
@pytest.mark.parametrize("ignore_case", [False, True])
def test_a_class_means_the_same_to_both_engines_for_every_character(
    tmp_path: Path, written: str, ignore_case: bool
) -> None:
    asked = prepare(written, literal=False, ignore_case=ignore_case, multiline=False)
    # RE2 may know characters that this Python does not know yet.
    known = (chr(number) for number in range(0x30000) if not 0xD800 <= number < 0xE000)
    every = (char for char in known if unicodedata.category(char) != "Cn" and char not in "\r\n\0")
    text = text_of("\n".join(every).encode())

    plain = ReMatcher(job_of(tmp_path, asked), lambda: None).spans(text, lambda: False)
    quick = Re2Matcher(asked).spans(text, lambda: False)

    assert quick is not None
    assert list(quick) == list(plain)


@pytest.mark.parametrize(
    ("pattern", "text", "lines"),
    [
        (r"\w", "a\n" * 20, 20),
        (r"\w", "a\n\n" * 20 + "a", 21),
        (r"[^x]b", "ab\nb\n" * 20, 20),
        (r"a\s+b", "a  b\na\nb\n" * 20, 20),
        (r"a\Wb", "a b\na\nb\n" * 20, 20),
        (r"(?s:a.b)", "a b\na\nb\n" * 20, 20),
        (r"^a$|^$", "a\n\nb\n" * 20, 40),
        (r"^a|x$", "a\nx\nb\n" * 20, 40),
    ],
)
def test_lines_are_counted_alike_several_at_a_time_and_one_by_one(
    tmp_path: Path, pattern: str, text: str, lines: int
) -> None:
    (tmp_path / "text").write_text(text)
    asked = prepare(pattern, literal=False, ignore_case=False, multiline=False)

    found = search(job_of(tmp_path, asked, last=0), Re2Matcher(asked), lambda: False, lambda _number: None)

    assert found.files == [("text", lines)]


@pytest.mark.parametrize(
    ("pattern", "literal"),
    [
        ("foo", "foo"),
        (r"def \w+\(", "def "),
        (r"\bfoo\b", "foo"),
        ("foo?", "fo"),
        ("foo|bar", ""),
        ("(foo)", ""),
        ("(?i)foo", ""),
        ("é", ""),
        ("fooé", "foo"),
        ("(?=foo)x", ""),
    ],
)
def test_text_that_every_match_begins_with_is_known(pattern: str, literal: str) -> None:
    assert prepare(pattern, literal=False, ignore_case=False, multiline=False).literal == literal


@pytest.mark.parametrize(
    ("pattern", "ignore_case", "rare"),
    [
        ("needle_in", False, "_"),
        ("NEEDLE_IN", True, "_"),
        ("needle.*=", False, "="),
        (r"def \w+\(", False, "("),
        ("foo;?", False, "f"),
        ("foo;{0,2}", False, "f"),
        ("foo", True, ""),
        ("foo|_", False, ""),
        ("(a|_)", False, ""),
        ("(?=_)", False, ""),
        ("(?!_)a", False, "a"),
        ("é", False, ""),
        ("", False, ""),
    ],
)
def test_a_rare_character_that_every_match_holds_is_known(pattern: str, ignore_case: bool, rare: str) -> None:
    asked = prepare(pattern or ".", literal=False, ignore_case=ignore_case, multiline=False)
    assert asked.rare == rare


def test_what_has_become_something_else_is_not_read_again(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    before = len(os.listdir("/dev/fd"))

    found = {
        name: regular_bytes(f"{tmp_path}/{name}", 3) for name in ("file", "link", "folder", "pipe", "gone")
    }

    assert found == {"file": b"tex", "link": None, "folder": None, "pipe": None, "gone": None}
    assert len(os.listdir("/dev/fd")) == before
