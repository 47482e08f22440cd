"""What narrows down files never loses one: the loose pattern finds every file the exact one does."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from buddy.workspace.file_bytes import regular_bytes
from buddy.workspace.search_extract import search
from buddy.workspace.search_pattern import SearchPattern, prepare
from buddy.workspace.search_tokens import PatternError
from tests.capabilities import requires
from tests.tools.search_jobs import job_of, known_of

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
    max_size=8,
).map("".join)


def prepared(pattern: str, *, ignore_case: bool, multiline: bool = False) -> SearchPattern:
    try:
        return prepare(pattern, literal=False, ignore_case=ignore_case, multiline=multiline)
    except PatternError:
        assume(False)
        raise


def found_by(program: list[str], folder: Path) -> bool:
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C", "HOME": "/nonexistent"}
    done = subprocess.run([*program, "--", "text"], cwd=folder, capture_output=True, env=env, check=False)
    assert done.returncode in (0, 1), (program, done.stderr)
    return done.returncode == 0


@requires("rg")
@settings(
    max_examples=int(os.environ.get("BUDDY_EXAMPLES", "150")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(
    pattern=PATTERNS, text=LINES, encoding=st.sampled_from(("utf-8", "latin-1")), ignore_case=st.booleans()
)
def test_rg_and_git_keep_every_file_that_matches(
    tmp_path: Path, pattern: str, text: str, encoding: str, ignore_case: bool
) -> None:
    search = prepared(pattern, ignore_case=ignore_case)
    data = text.encode(encoding, "replace")
    (tmp_path / "text").write_bytes(data)
    lines = data.decode(encoding).replace("\r\n", "\n")
    match = re.search(search.source, lines, search.flags)
    assume(match is not None and (lines[match.start() :] or not lines.endswith("\n")) and lines)

    matched = match[0] if match else ""
    assert search.signs is None or any(sign in search.signs or not sign.isascii() for sign in matched)
    folded = lines.lower() if ignore_case else lines
    literals = [text.lower() if ignore_case else text for text in search.literals]
    assert not literals or any(text in folded for text in literals)
    assert found_by(["rg", "--no-config", "-l", "-a", "--encoding=none", "-e", search.loose_rust], tmp_path)
    assert found_by(["git", "grep", "--no-index", "-l", "-a", "-P", "-e", search.loose_pcre], tmp_path)


@settings(max_examples=300, deadline=None)
@given(pattern=PATTERNS, text=LINES, ignore_case=st.booleans())
def test_a_whole_text_is_searched_like_its_lines_one_by_one(
    pattern: str, text: str, ignore_case: bool
) -> None:
    search = prepared(pattern, ignore_case=ignore_case)
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    each = {n for n, line in enumerate(lines) if re.search(search.source, line, search.flags)}
    whole = "\n".join(lines)

    together = {
        whole.count("\n", 0, match.start()) for match in re.finditer(search.source, whole, search.flags)
    }
    assert together == each
    assert all("\n" not in match[0] for match in re.finditer(search.source, whole, search.flags))


@pytest.mark.parametrize(
    ("pattern", "linear"),
    [
        ("needle", True),
        ("foo|bar", True),
        (r"def \w+\(", True),
        (r"^\s*import", True),
        (r"foo.*", True),
        (r"(a+)+$", False),
        (r"a+b", False),
        (r".*.*x", False),
        (r"(a|a)*b", False),
        (r"(a)\1", False),
        (r"(a|b)(a|b)(a|b)(a|b)", False),
        (r"(?:a{9}){9}", False),
    ],
)
def test_only_patterns_that_surely_end_run_inside_the_program(pattern: str, linear: bool) -> None:
    assert prepare(pattern, literal=False, ignore_case=False, multiline=False).linear == linear


@pytest.mark.parametrize(
    ("pattern", "longest"),
    [
        ("needle.*=", 1000),
        (r"a+b", 1000),
        (r"def\s+\w+\(.*self", 1000),
        (r"class\s+\w+.*def", 1000),
        (r"import.*from.*x", 200),
        (r"foo.*x|bar.*y", 1000),
        (r"(foo|bar).*baz", 1000),
        (r".*a.*b.*c", 0),
        (r"(a+)+$", 0),
        (r"(a.*b)*c", 0),
        (r"(a)\1.*b", 0),
        (r"(a.*b|a.*c|a.*d)e", 0),
        (r"a{1,9}b{1,9}c.*d", 0),
        (r"x?x?x?x?x?y.*z", 0),
    ],
)
def test_patterns_that_are_slow_on_long_lines_run_inside_the_program_on_short_ones(
    pattern: str, longest: int
) -> None:
    assert prepare(pattern, literal=False, ignore_case=False, multiline=False).longest == longest


@settings(max_examples=300, deadline=None)
@given(pattern=PATTERNS, text=LINES, ignore_case=st.booleans())
def test_lines_are_counted_alike_one_by_one_and_all_at_once(
    tmp_path_factory: pytest.TempPathFactory, pattern: str, text: str, ignore_case: bool
) -> None:
    asked = prepared(pattern, ignore_case=ignore_case)
    folder = tmp_path_factory.mktemp("lines")
    (folder / "text").write_bytes(text.encode())
    job = job_of(folder, **known_of(asked), last=1000)

    each = search(job, lambda: False, lambda _number: None)
    counted = search({**job, "last": 0}, lambda: False, lambda _number: None)

    assert counted == each._replace(hits=[])


@pytest.mark.parametrize(
    ("pattern", "literals"),
    [
        ("foo", ("foo",)),
        ("foo|bar", ("foo", "bar")),
        ("foo|b?", ()),
        (r"(foo|bar)bazz?", ("foo", "bar")),
        (r"(foo|ba)bazz", ("bazz",)),
        (r"def \w+\(", ("def ",)),
        ("(?:foo)?x", ("x",)),
        ("(?:foo){0,2}x", ("x",)),
        ("(foo){2}x", ("foo",)),
        ("(a(b(cdef)?)gh)", ("gh",)),
        ("(?<=longer)x(?!longest)", ("x",)),
        ("f(?i:oo)b", ("f",)),
        ("(?i)Foo", ("Foo",)),
        ("x{0}é*y", ("y",)),
        ("[abc]+", ()),
        ("|".join(f"word{n}" for n in range(20)), ()),
    ],
)
def test_text_that_a_match_cannot_do_without_is_known(pattern: str, literals: tuple[str, ...]) -> None:
    assert prepare(pattern, literal=False, ignore_case=False, multiline=False).literals == literals


@pytest.mark.parametrize(
    ("pattern", "signs"),
    [
        (r"\w+\d", "0123456789"),
        (r"[0-9]{3}", "0123456789"),
        (r"\w+ \w+;", ";"),
        ("(foo[7-9]|b+Q)", "789Q"),
        ("x?y*z{0}[QR]", "QR"),
        ("(?:Q)?(?=Z)(?i:X)[W]", "W"),
        ("(?i)q+", "Qq"),
        ("(?i)K", "Kk"),
        ("é", ""),
        ("[é-ü]+", ""),
        ("[a-z]+", None),
        (r"\s+$", None),
        (r"[\d\s]\W[^a]", None),
        ("Q|", None),
        ("Q|[^Q]", None),
        (r"^$|\bfoo", None),
    ],
)
def test_signs_that_a_match_cannot_do_without_are_known(pattern: str, signs: str | None) -> None:
    assert prepare(pattern, literal=False, ignore_case=False, multiline=False).signs == signs


@pytest.mark.parametrize(
    "written", [r"\s", r"[\s]", r"[\s\d]", r"\W", r"\D", r"[\Wa]", r"[\x00-z]", r"\S", "[a-z]"]
)
@pytest.mark.parametrize("ignore_case", [False, True])
def test_a_class_within_a_line_is_the_same_but_for_the_line_end(written: str, ignore_case: bool) -> None:
    within = prepare(written, literal=False, ignore_case=ignore_case, multiline=False)
    every = "".join(chr(number) for number in range(0x30000) if not 0xD800 <= number < 0xE000)

    assert re.findall(within.source, every, within.flags) == [
        sign for sign in re.findall(written, every, within.flags) if sign != "\n"
    ]
    assert ("(?!" in within.source) == (written in (r"[\Wa]", r"[\x00-z]"))


@pytest.mark.parametrize("text", ["", "a" * 9, "\n" * 30, "a" * 10 + "\n" + "a" * 10, ("a" * 10 + "\n") * 3])
@pytest.mark.parametrize("more", ["", "a", "a" * 11 + "\n", "\n" + "a" * 11])
def test_a_line_too_long_for_a_pattern_is_noticed_wherever_it_stands(
    tmp_path: Path, text: str, more: str
) -> None:
    (tmp_path / "text").write_text(text + more)

    found = search(job_of(tmp_path, longest=10), lambda: False, lambda _number: None)

    assert found.done == all(len(line) <= 10 for line in (text + more).split("\n"))


@settings(max_examples=400, deadline=None)
@given(
    pattern=PATTERNS,
    text=LINES,
    ignore_case=st.booleans(),
    multiline=st.booleans(),
    encoding=st.sampled_from(("utf-8", "latin-1", "utf-16", "utf-8-sig")),
    before=st.sampled_from((b"", b"\0", b"\xff\xff")),
)
def test_what_is_looked_at_first_never_hides_a_match(
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
    bare = job_of(folder, source=asked.source, flags=asked.flags, multiline=multiline)

    plain = search(bare, lambda: False, lambda _number: None)
    helped = job_of(folder, **known_of(asked), multiline=multiline)
    quick = search(helped, lambda: False, lambda _number: None)
    counted = search({**helped, "last": 0}, lambda: False, lambda _number: None)

    assert quick == plain
    assert counted == plain._replace(hits=[])


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
