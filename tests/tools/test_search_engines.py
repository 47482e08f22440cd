"""The same answers from rg, git and buddy's own engine, whichever of them looks at a file."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import psutil
import pytest

from buddy.tools.search import grep
from buddy.workspace.search_pattern import prepare
from buddy.workspace.search_run import Corpus, Engine, SearchRun, narrow, unmatched
from tests.capabilities import requires
from tests.search_desk import ENGINES, SearchDesk, search_desk


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncGenerator[SearchDesk]:
    async with search_desk(tmp_path) as desk:
        yield desk


def traps(desk: SearchDesk) -> None:
    """A tree with everything that makes search programs disagree."""
    subprocess.run(["git", "init", "-q"], cwd=desk.root, check=True)
    desk.put(".gitignore", "*.log\nout/\n!keep.log\n*.tm[pq]\nsub/**/not\n/rooted\n")
    desk.put(".buddyignore", "!mine.tmp\nprivate/\n")
    desk.put(".ignore", "dotted.txt\n")
    desk.put(".rgignore", "dotted.txt\n")
    desk.put(".git/info/exclude", "excluded.txt\n")
    desk.put("a.py", "import os\nneedle = 1\nNEEDLE = 2\nlast needle")
    desk.put("crlf.txt", "one\r\nneedle\r\nneedle two\r\n")
    desk.put("old-mac.txt", "one\rneedle\rthree")
    desk.put("latin.txt", "caf\xe9 needle caf\xe9\n".encode("latin-1"))
    desk.put("utf8.txt", "café needle ſtraße İ K\n")
    desk.put("wide.txt", "\ufeffneedle in wide é\n".encode("utf-16-le"))
    desk.put("wide-be.txt", b"\xfe\xff" + "needle big\n".encode("utf-16-be"))
    desk.put("bom.txt", b"\xef\xbb\xbfneedle after a mark\n")
    desk.put("data.bin", b"\0\1needle\0\xff")
    desk.put("long.txt", "x" * 5000 + "needle" + "y" * 5000 + "\n")
    desk.put(".hidden/x.txt", "needle hidden\n")
    desk.put("with space/na\nme.txt", "needle odd name\n")
    desk.put("-e.txt", "needle option\n")
    desk.put("app.log", "needle ignored\n")
    desk.put("keep.log", "needle kept\n")
    desk.put("out/deep/x.txt", "needle ignored\n" * 3)
    desk.put(".env", "needle=secret\n")
    desk.put("empty.txt", "")
    desk.put("dotted.txt", "needle that rg's own files ignore\n")
    desk.put("excluded.txt", "needle excluded\n")
    desk.put("mine.tmp", "needle brought back\n")
    desk.put("other.tmq", "needle ignored\n")
    desk.put("private/x.txt", "needle that only buddy ignores\n")
    desk.put("sub/deep/not", "needle ignored\n")
    desk.put("sub/rooted", "needle not ignored here\n")
    desk.put("lone/.gitignore", "*\n!kept.txt\n")
    desk.put("lone/kept.txt", "needle kept\n")
    desk.put("late-zero.txt", "needle\n" + "x" * 9000 + "\0\n")
    desk.put("bad-utf8.txt", b"needle \xff\xff caf\xc3\n")
    desk.put("id_rsa.pub", "needle public\n")
    desk.put("services/secrets.yaml", "needle: secret\n")
    desk.put(os.fsdecode(b"name-\xff.txt"), "needle in a file with an odd name\n")
    desk.put("vendor/inner.txt", "needle inner\n")
    desk.put("sub/tracked.py", "def needle(x):\n\treturn  x\n\n\ndef other(): pass\n")
    subprocess.run(["git", "init", "-q"], cwd=desk.root / "vendor", check=True)
    (desk.root / "link.txt").symlink_to("a.py")
    (desk.root / "loop").symlink_to(".")


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


async def test_rg_git_and_the_own_engine_give_the_same_answers_on_every_trap(desk: SearchDesk) -> None:
    traps(desk)
    for arguments in PATTERNS:
        answers = {engine: await desk.ask(grep, engine, **arguments) for engine in ENGINES}

        assert answers["rg"] == answers["own"], arguments
        assert answers["git"] == answers["own"], arguments
        assert not answers["own"].startswith("refused"), answers["own"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("unaided_s", [0.0005, 0.002, 60])
async def test_it_makes_no_difference_where_a_program_takes_over(
    desk: SearchDesk, engine: Engine, unaided_s: float
) -> None:
    source = random.Random(3)
    words = ("needle", "hay", "stack", "é", "def self", "NEEDLE")
    for n in range(400):
        desk.put(
            f"{n % 7}/{n}.txt", "".join(f"{source.choice(words)} {n}\n" for _ in range(source.randrange(9)))
        )
    cases: tuple[dict[str, Any], ...] = (
        {"pattern": "needle 1"},
        {"pattern": "needle 39[0-9]", "offset": 3, "limit": 4},
        {"pattern": "[a-z]+ 1.$", "mode": "count", "limit": 7},
        {"pattern": "def.*7", "mode": "files"},
        {"pattern": "needle 399|HAY 3", "ignore_case": True, "limit": 5},
        {"pattern": "nothing", "mode": "count"},
    )

    for arguments in cases:
        apart = await desk.ask(grep, engine, unaided_s=unaided_s, **arguments)
        assert apart == await desk.ask(grep, "own", **arguments), arguments


def run_of(desk: SearchDesk, engine: Engine, seconds: float = 10) -> SearchRun:
    deadline = time.monotonic() + seconds
    return SearchRun(desk.children, str(desk.root), 1, desk.cancelled, deadline, engine)


@requires("rg")
@pytest.mark.parametrize("engine", ["rg", "git"])
async def test_programs_name_the_files_that_need_no_look_and_no_others(
    desk: SearchDesk, engine: Engine
) -> None:
    desk.put("a.txt", "needle\n")
    desk.put("b.txt", "hay\n")
    desk.put("deep/c d\n.txt", "hay\n")
    desk.put(".hidden/e.txt", "hay\n")
    desk.put("out/f.txt", "hay\n")
    desk.put(".gitignore", "out\n")
    with (desk.root / "huge.txt").open("wb") as file:
        file.truncate(65_000_000)
    names = (".gitignore", ".hidden/e.txt", "a.txt", "b.txt", "deep/c d\n.txt")
    pattern = prepare("needle", literal=False, ignore_case=False, multiline=False)

    needless = await narrow(run_of(desk, engine), pattern, Corpus(str(desk.root), names, 6), 5)

    assert needless - {"huge.txt"} == {".gitignore", ".hidden/e.txt", "b.txt", "deep/c d\n.txt"}
    assert (await desk.ask(grep, engine, pattern="needle")).splitlines()[-1] == (
        "[not searched, over 64 MB (use the shell): huge.txt]"
    )


async def test_names_git_is_told_to_print_from_the_top_are_not_those_of_other_files(desk: SearchDesk) -> None:
    traps(desk)
    desk.put(".git/config", "[grep]\n\tfullName = true\n")
    desk.put("sub/a.txt", "hay\n")
    desk.put("sub/sub/a.txt", "needle\n")

    answer = await desk.ask(grep, "git", pattern="^needle$", path="sub")

    assert answer.splitlines()[:2] == ["sub/sub/a.txt", "1:needle"]


async def test_a_program_that_fails_is_cut_off_or_takes_too_long_has_said_what_it_said(
    desk: SearchDesk,
) -> None:
    async def said(*argv: str, seconds: float = 10) -> frozenset[str]:
        return await unmatched(run_of(desk, "rg", seconds), desk.children, argv, str(desk.root))

    assert await said("bash", "-c", r"printf 'a\0./b\0c'; exit 2") == {"a", "b"}
    for seconds in (1, 5, 20):
        late = await said("bash", "-c", r"printf 'a\0'; sleep 60", seconds=seconds)
        if late:  # otherwise the machine was slower than that
            break
    assert late == {"a"}
    assert await said("/nonexistent/rg") == frozenset()


async def test_what_programs_print_is_never_kept_on_the_disk(desk: SearchDesk) -> None:
    argv = ("bash", "-c", r"head -c 300000 /dev/zero | tr '\0' x; printf '\0'")

    found = await unmatched(run_of(desk, "rg"), desk.children, argv, str(desk.root))

    assert found == {"x" * 300_000}
    assert not (desk.root.parent / "out").exists()


async def test_a_search_that_a_program_helps_is_left_at_once_when_cancelled(desk: SearchDesk) -> None:
    for n in range(3000):
        desk.put(f"{n % 30}/{n}.txt", "hay\n" * 20)
    before = set(psutil.Process().children())
    asking = asyncio.create_task(desk.ask(grep, "rg", pattern="needle"))
    await asyncio.sleep(0.02)

    desk.cancelled.set()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asking, 30)
    assert set(psutil.Process().children()) <= before
