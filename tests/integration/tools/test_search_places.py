"""Both engines find the same in every kind of file; files are read whole."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path

import pytest

from buddy.workspace.files.bulk_read import MAX_FILE_BYTES, DecodedText, file_bytes
from buddy.workspace.search.matcher import BYTES_BETWEEN_LOOKS, BYTES_PER_FILE, ReMatcher, SearchJob, search
from buddy.workspace.search.pattern import prepare
from buddy.workspace.search.re2 import Re2Matcher
from tests.support.search_jobs import job_of

WORDS = ("alpha", "beta", "def f", "needle_in", "é", "x", "  ", "naïve", "", "=")
PATTERNS = (
    "needle_in",
    "alpha",
    "x",
    "é",
    "def f.*=",
    "^alpha",
    "beta$",
    r"alpha beta\b",
    r"\bx\b",
    "alpha|beta",
    "(?i)Needle_IN",
    "(?<=alpha )beta",
    "x(?! )",
    r"needle_in\s+x",
    "f?needle_in",
    "(?i)",
    "^$",
    r"^\s*$",
    r"^\w+",
    r"^[^a]*$",
    "^(?!alpha)",
    r"\bx\w*y?\b",
    r"\bneedle_i+n",
    r"\bx+",
    r"\b ",
    "alpha [a-z]+",
    "def f|x ",
    "be.a x*",
    "x[^y]",
    r"=\s",
    r"alpha\W",
    "x{2}",
    "a|",
)
ENDS = ("\n", "\r\n", "\r", "\n\n", "")


def text_of(chance: random.Random) -> bytes:
    """Lines of a few words; the text that is looked for often, seldom, or once."""
    common = WORDS if chance.random() < 0.5 else chance.sample(WORDS, 3)
    lines = [" ".join(chance.choices(common, k=chance.randint(0, 9))) for _ in range(chance.randint(0, 60))]
    if chance.random() < 0.5:
        lines.insert(chance.randint(0, len(lines)), chance.choice(WORDS))
    end = chance.choice(ENDS[:3])
    text = end.join(lines) + chance.choice(ENDS)
    encoding = chance.choice(("utf-8", "utf-8", "utf-8", "latin-1", "utf-16", "utf-8-sig"))
    return chance.choice((b"", b"", b"", b"\0", b"\xff")) + text.encode(encoding, "replace")


def re_matcher(job: SearchJob) -> ReMatcher:
    return ReMatcher(job, lambda: None)


@pytest.mark.parametrize("seed", range(60))
def test_both_engines_find_the_same(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    for number in range(8):
        (tmp_path / f"{number}").write_bytes(text_of(chance))
    pattern, multiline = PATTERNS[seed % len(PATTERNS)], chance.random() < 0.2
    asked = prepare(pattern, literal=False, ignore_case=chance.random() < 0.2, multiline=multiline)
    last = chance.choice((0, 3, 1000))
    job = job_of(tmp_path, asked, last=last, once=not last and chance.random() < 0.5)

    plain = search({**job, "literal": ""}, re_matcher(job), never, nobody)
    helped = search(job, re_matcher(job), never, nobody)
    quick = search(job, Re2Matcher(asked), never, nobody)

    assert helped == plain
    if quick.undecided:
        rest = {**job, "files": [name for name in job["files"] if name not in quick.undecided]}
        plain = search(rest, re_matcher(job), never, nobody)._replace(searched=8, undecided=quick.undecided)
    assert quick == plain


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_search_finds_the_lines_that_match_one_by_one(tmp_path: Path, pattern: str) -> None:
    chance = random.Random(pattern)
    asked = prepare(pattern, literal=False, ignore_case=False, multiline=False)
    for number in range(20):
        words = [
            " ".join(chance.choices(WORDS, k=chance.randint(0, 4))) for _ in range(chance.randint(1, 30))
        ]
        (tmp_path / f"{number:02}").write_text("\n".join(words) + chance.choice(("", "\n")))
    expected: list[tuple[str, int]] = []
    for path in sorted(tmp_path.iterdir()):
        lines = path.read_text().removesuffix("\n").split("\n")
        count = sum(re.search(pattern, line) is not None for line in lines)
        expected += [(path.name, count)] if count and path.read_text() else []
    job = job_of(tmp_path, asked, last=1000)
    quick = search(job, Re2Matcher(asked), never, nobody)

    assert search(job, re_matcher(job), never, nobody).files == expected
    assert quick.files == [entry for entry in expected if entry[0] not in quick.undecided]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_lines_are_counted_as_they_are_found(pattern: str) -> None:
    chance = random.Random(pattern)
    matcher = Re2Matcher(prepare(pattern, literal=False, ignore_case=False, multiline=False))
    for _ in range(30):
        words = [
            " ".join(chance.choices(WORDS, k=chance.randint(0, 4))) for _ in range(chance.randint(1, 30))
        ]
        data = ("\n".join(words) + chance.choice(("", "\n", "\n\n"))).encode("ascii", "replace")
        text = DecodedText(data, True, False)
        spans, count = matcher.spans(text, never), matcher.count(text, never)
        assert spans is None or count is None or count == len(list(spans))


def test_what_is_repeated_before_the_end_is_left_to_the_engine_in_linear_time() -> None:
    """Tried by `re`, this takes hours."""
    matcher = Re2Matcher(prepare("a[a-z]*a[a-z]*1", literal=False, ignore_case=False, multiline=False))
    text = DecodedText(b"a" * 20_000 + b"\n", True, False)
    assert matcher.count(text, never) == 0


def never() -> bool:
    return False


def nobody(_number: int) -> None:
    """Nobody is told how far it is."""


def test_every_kind_of_file_is_read_whole_or_told_of(tmp_path: Path) -> None:
    for name, content in {"empty": b"", "short": b"x", "long": b"y" * 20_000}.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("short")
    os.mkfifo(tmp_path / "pipe")
    with open(tmp_path / "huge", "wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    before = len(os.listdir("/dev/fd"))

    found = {path.name: file_bytes(str(path)) for path in tmp_path.iterdir()}

    assert found == {
        "empty": b"",
        "short": b"x",
        "long": b"y" * 20_000,
        "folder": "unreadable",
        "link": "unreadable",
        "pipe": "unreadable",
        "huge": "large",
    }
    assert file_bytes(str(tmp_path / "gone")) == file_bytes("/dev/null") == "unreadable"
    assert file_bytes("/proc/self/status") != b""
    assert len(os.listdir("/dev/fd")) == before


@pytest.mark.parametrize("size", [1, 4_000, 100_000])
def test_the_clock_is_looked_at_every_few_files(tmp_path: Path, size: int) -> None:
    for number in range(80):
        (tmp_path / f"{number:02}").write_bytes(b"x" * size)
    asked = prepare("x", literal=False, ignore_case=False, multiline=False)
    looks = iter((False, True))

    ended = search(job_of(tmp_path, asked, last=0, once=True), Re2Matcher(asked), lambda: next(looks), nobody)

    assert 0 < ended.searched <= BYTES_BETWEEN_LOOKS // max(size, BYTES_PER_FILE) + 1
    assert not ended.done
