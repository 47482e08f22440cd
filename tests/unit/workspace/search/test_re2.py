"""The same answers whichever engine looks at a file, with RE2 installed or not."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from buddy.agent.tool import ToolError
from buddy.tools.grep import grep
from buddy.workspace.search import re2 as search_re2
from buddy.workspace.search.matcher import Found
from buddy.workspace.search.runner import SearchLimits, SearchRun, merge_results, stoppable
from tests.support.tool_project import CommandProject, tool_project


@pytest.fixture
async def project(tmp_path: Path) -> AsyncGenerator[CommandProject]:
    async with tool_project(tmp_path) as project:
        yield project


def traps(project: CommandProject) -> None:
    """A tree with everything that makes search programs disagree."""
    subprocess.run(["git", "init", "-q"], cwd=project.root, check=True)
    project.put(".gitignore", "*.log\nout/\n!keep.log\n*.tm[pq]\nsub/**/not\n/rooted\n")
    project.put(".buddyignore", "!mine.tmp\nprivate/\n")
    project.put(".ignore", "dotted.txt\n")
    project.put(".rgignore", "dotted.txt\n")
    project.put(".git/info/exclude", "excluded.txt\n")
    project.put("a.py", "import os\nneedle = 1\nNEEDLE = 2\nlast needle")
    project.put("crlf.txt", "one\r\nneedle\r\nneedle two\r\n")
    project.put("old-mac.txt", "one\rneedle\rthree")
    project.put("latin.txt", "caf\xe9 needle caf\xe9\n".encode("latin-1"))
    project.put("utf8.txt", "café needle ſtraße İ K\n")
    project.put("wide.txt", "\ufeffneedle in wide é\n".encode("utf-16-le"))
    project.put("wide-be.txt", b"\xfe\xff" + "needle big\n".encode("utf-16-be"))
    project.put("bom.txt", b"\xef\xbb\xbfneedle after a mark\n")
    project.put("data.bin", b"\0\1needle\0\xff")
    project.put("long.txt", "x" * 5000 + "needle" + "y" * 5000 + "\n")
    project.put(".hidden/x.txt", "needle hidden\n")
    project.put("with space/na\nme.txt", "needle odd name\n")
    project.put("-e.txt", "needle option\n")
    project.put("app.log", "needle ignored\n")
    project.put("keep.log", "needle kept\n")
    project.put("out/deep/x.txt", "needle ignored\n" * 3)
    project.put(".env", "needle=secret\n")
    project.put("empty.txt", "")
    project.put("dotted.txt", "needle that rg's own files ignore\n")
    project.put("excluded.txt", "needle excluded\n")
    project.put("mine.tmp", "needle brought back\n")
    project.put("other.tmq", "needle ignored\n")
    project.put("private/x.txt", "needle that only buddy ignores\n")
    project.put("sub/deep/not", "needle ignored\n")
    project.put("sub/rooted", "needle not ignored here\n")
    project.put("lone/.gitignore", "*\n!kept.txt\n")
    project.put("lone/kept.txt", "needle kept\n")
    project.put("late-zero.txt", "needle\n" + "x" * 9000 + "\0\n")
    project.put("bad-utf8.txt", b"needle \xff\xff caf\xc3\n")
    project.put("id_rsa.pub", "needle public\n")
    project.put("services/secrets.yaml", "needle: secret\n")
    project.put(os.fsdecode(b"name-\xff.txt"), "needle in a file with an odd name\n")
    project.put("vendor/inner.txt", "needle inner\n")
    project.put("sub/tracked.py", "def needle(x):\n\treturn  x\n\n\ndef other(): pass\n")
    subprocess.run(["git", "init", "-q"], cwd=project.root / "vendor", check=True)
    (project.root / "link.txt").symlink_to("a.py")
    (project.root / "loop").symlink_to(".")


PATTERNS: tuple[dict[str, Any], ...] = (
    {"pattern": "needle"},
    {"pattern": "needle", "ignore_case": True},
    {"pattern": "(?i)NEEDLE|strasse"},
    {"pattern": "^needle"},
    {"pattern": "needle$"},
    {"pattern": r"\bneedle\b.*\w"},
    {"pattern": r"caf. needle"},
    {"pattern": r"café"},
    {"pattern": r"needle\s+caf\W?"},
    {"pattern": r"[^a-z]needle"},
    {"pattern": r"(?<=def )needle(?=\()"},
    {"pattern": r"(?P<a>n)(?<b>e)(?P=a)?\2dle"},
    {"pattern": r"(ne+)+dle"},
    {"pattern": r"n(e)\1+dle"},
    {"pattern": r"STRA.E", "ignore_case": True},
    {"pattern": "k$", "ignore_case": True},
    {"pattern": "needle(", "literal": True},
    {"pattern": r"needle\(x\):\n\treturn", "multiline": True},
    {"pattern": "needle", "glob": "*.txt"},
    {"pattern": "needle", "glob": "!*.txt"},
    {"pattern": "needle", "glob": "{sub,vendor}/**"},
    {"pattern": "needle", "mode": "files"},
    {"pattern": "needle", "mode": "count", "limit": 3, "offset": 2},
    {"pattern": "needle", "path": "out"},
    {"pattern": "needle", "path": "sub", "context": 1},
    {"pattern": "one|two{1,2}|[[:digit:]]{3}"},
    {"pattern": r"x{5000}needle"},
    {"pattern": r"needle.*[a-z]"},
    {"pattern": r"n.*e.*d"},
    {"pattern": r"n.*e.*d", "mode": "count"},
    {"pattern": r"n.*e.*d.*e", "limit": 5, "offset": 3},
    {"pattern": "nothing like this"},
    {"pattern": "(foo|needle) (two|hidden)"},
    {"pattern": r"[a-z]{6} [a-z]{2}\b"},
    {"pattern": r"\w{6} \w+", "ignore_case": True, "mode": "files"},
    {"pattern": "NEEDLE", "ignore_case": True, "mode": "count"},
    {"pattern": "needle|STRASSE|skip", "ignore_case": True},
    {"pattern": r"needle[^x]*x\n?", "multiline": True},
    {"pattern": "needle", "glob": "*.txt", "mode": "files_with_matches", "limit": 5, "offset": 3},
    {"pattern": "needle", "path": "vendor"},
    {"pattern": "needle", "path": "private"},
    {"pattern": "needle", "path": "services/secrets.yaml"},
)


@pytest.fixture
def without_re2(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Hides the package from now on."""

    def hide() -> None:
        monkeypatch.setitem(sys.modules, "re2", None)
        search_re2._re2.cache_clear()

    return hide


async def test_the_answers_are_the_same_where_there_is_no_re2(
    project: CommandProject, without_re2: Callable[[], None]
) -> None:
    traps(project)
    with_it = [await project.ask(grep, **arguments) for arguments in PATTERNS]
    without_re2()
    try:
        assert [await project.ask(grep, **arguments) for arguments in PATTERNS] == with_it
    finally:
        search_re2._re2.cache_clear()
    assert not any(answer.startswith("refused") for answer in with_it)


@pytest.mark.parametrize("pattern", [r"foo\b.", r"foo(?= )", r"(f)oo\1?\b", "foo"])
@pytest.mark.parametrize(("offset", "limit"), [(0, 100), (3, 4), (90, 40), (400, 10)])
async def test_pages_are_the_same_whichever_engine_decides_about_a_file(
    project: CommandProject, pattern: str, offset: int, limit: int, without_re2: Callable[[], None]
) -> None:
    chance = random.Random(5)
    words = ("foo bar", "fooé", "hay", "é foo x", "foo")
    for n in range(60):
        project.put(f"{n:02}.txt", "".join(f"{chance.choice(words)}\n" for _ in range(chance.randrange(9))))
    page = {"pattern": pattern, "offset": offset, "limit": limit}

    mixed = [await project.ask(grep, mode=mode, **page) for mode in ("content", "files", "count")]
    without_re2()
    try:
        assert [await project.ask(grep, mode=mode, **page) for mode in ("content", "files", "count")] == mixed
    finally:
        search_re2._re2.cache_clear()


@pytest.mark.parametrize("enough", [1, 5, 6, 7, 11, 100])
def test_counting_ends_at_the_same_file_as_in_one_search(enough: int) -> None:
    files = ("a", "b", "c", "d", "e")
    nothing = Found(0, [], [], [], [], [], 0, done=True, more=False, undecided=[])
    counts = {"a": 2, "c": 3, "d": 1, "e": 5}
    first = nothing._replace(
        files=[("a", 2), ("e", 5)], binary=["b"], searched=5, undecided=["c", "d"], total=7
    )
    second = nothing._replace(files=[("c", 3), ("d", 1)], searched=2, total=4)
    total, searched = 0, 0
    while searched < len(files) and total < enough:
        total += counts.get(files[searched], 0)
        searched += 1

    whole = merge_results(files, first, second, SearchLimits(enough=enough))

    assert (whole.total, whole.searched, whole.more) == (total, searched, searched < len(files))
    assert whole.files == [(name, counts[name]) for name in files[:searched] if name in counts]
    assert whole.binary == ["b"][: searched > 1]


async def test_a_search_is_left_at_once_when_cancelled(project: CommandProject) -> None:
    for n in range(3000):
        project.put(f"{n % 30}/{n}.txt", "hay\n" * 20)
    before = set(psutil.Process().children())
    asking = asyncio.create_task(project.ask(grep, pattern=r"(h)ay\1?needle"))
    await asyncio.sleep(0.02)

    project.cancelled.set()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asking, 30)
    assert set(psutil.Process().children()) <= before


async def test_no_search_takes_longer_than_its_time_limit(project: CommandProject) -> None:
    stuck = threading.Event()
    run = SearchRun(None, str(project.root), 1, project.cancelled, time.monotonic() + 0.05)

    try:
        with pytest.raises(ToolError, match="time limit in the middle of a large file"):
            await stoppable(run, lambda _stopped: stuck.wait(60))
    finally:
        stuck.set()


async def test_patterns_that_take_re_for_ever_are_answered_at_once(project: CommandProject) -> None:
    project.put("a.txt", "a" * 50_000 + "\n")

    assert (await project.grep("(a+)+b$")).startswith("no matches")
    assert (await project.grep("(a|a)*b")).startswith("no matches")


@pytest.mark.parametrize(
    ("pattern", "lines"), [("^$", ["2:"]), ("(?=b)", ["3:b"]), ("^", ["1:a", "2:", "3:b"])]
)
async def test_an_empty_match_over_lines_counts_once(
    project: CommandProject, pattern: str, lines: list[str]
) -> None:
    project.put("a.txt", "a\n\nb\n")

    found = await project.grep(pattern, multiline=True, context=0)

    assert found.splitlines()[1:-1] == lines
