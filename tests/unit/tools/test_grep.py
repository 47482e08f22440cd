"""Searching contents: the same answers whatever is installed, and never a "no matches" that is not true."""

from __future__ import annotations

import asyncio
import os
import random
import re
import threading
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from buddy.tools.definitions import find_definition
from buddy.tools.files.listing import find_files
from buddy.tools.grep import grep
from buddy.workspace.files.name_index import MAX_SCORED, FileIndex, Paths, best, score
from buddy.workspace.search.runner import STUCK_S, SearchRun, _watch
from tests.support.tool_project import CommandProject, tool_project


@pytest.fixture
async def project(tmp_path: Path) -> AsyncGenerator[CommandProject]:
    async with tool_project(tmp_path) as project:
        yield project


async def test_lines_are_grouped_by_file_and_what_is_left_out_is_told(project: CommandProject) -> None:
    project.put("a.py", "x\nneedle 1\ny\nneedle 2\n")
    project.put("b.py", "needle 3\nneedle 4\r\n")
    project.put("c.bin", b"\0needle")
    project.put(".env", "needle=1\n")

    assert await project.grep("needle") == (
        "a.py\n2:needle 1\n4:needle 2\n\nb.py\n1:needle 3\n2:needle 4\n[4 matches in 2 files]\n"
        "[1 binary file (c.bin) also matches, lines are not shown]\n"
        "[secret files are searched only by name: .env]"
    )


async def test_few_matches_come_with_their_surroundings(project: CommandProject) -> None:
    project.put("a.py", "".join(f"line {n}\n" for n in range(1, 101)))

    one = await project.grep("line 50$")

    assert one.splitlines()[:2] == ["a.py", "25-line 25"]
    assert one.splitlines()[26] == "50:line 50"
    assert one.splitlines()[-2:] == ["75-line 75", "[1 match in 1 file]"]
    assert "--" in (await project.grep("line (5|95)$")).splitlines()


async def test_RU_small_context_0_gives_the_matching_lines_alone(project: CommandProject) -> None:
    project.put("a.py", "".join(f"line {n}\n" for n in range(1, 101)))

    assert await project.grep("line 50$", context=0) == "a.py\n50:line 50\n[1 match in 1 file]"


async def test_RU_small_a_name_with_dot_and_slash_is_of_the_folder_itself(project: CommandProject) -> None:
    for name in ("a.py", "pkg/a.py", "pkg/deep/a.py"):
        project.put(name, "x\n")

    async def found(pattern: str, path: str = ".") -> list[str]:
        return sorted((await project.ask(find_files, pattern=pattern, path=path)).splitlines()[:-1])

    assert await found("./*.py") == ["a.py"]
    assert await found("./a.py") == ["a.py"]
    assert await found("./*.py", "pkg") == ["pkg/a.py"]
    assert await found("./pkg/*.py") == ["pkg/a.py"]
    assert await found("./**/a.py") == await found("*.py") == ["a.py", "pkg/a.py", "pkg/deep/a.py"]
    assert "pkg" not in await project.grep("x", glob="./*.py")


@pytest.mark.parametrize("path", ["src\\a.py", "'src/a.py'", " src/a.py ", "`src/a.py`"])
async def test_a_path_spelled_oddly_is_refused_with_the_right_one(project: CommandProject, path: str) -> None:
    project.put("src/a.py", "x\n")

    assert (await project.grep("x", path=path)).endswith("does not exist. Did you mean src/a.py?")


async def test_many_matches_are_given_in_pages(project: CommandProject) -> None:
    for n in range(5):
        project.put(f"{n}.txt", "hit\n" * 50)

    first = await project.grep("hit")
    third = await project.grep("hit", offset=200)

    assert first.splitlines()[-1] == "[shown 1–100 of 250 matches in 5 files; offset=100 for more]"
    assert third.splitlines()[-1] == "[shown 201–250 of 250 matches in 5 files]"
    assert "past the last" in await project.grep("hit", offset=250)


async def test_counting_ends_where_nobody_looks_but_every_page_can_be_had(project: CommandProject) -> None:
    for n in range(60):
        project.put(f"{n:02}.txt", "hit\n" * 100)

    first = await project.grep("hit", limit=1)
    later = await project.grep("hit", offset=5450, limit=100)
    last = await project.grep("hit", offset=5950, limit=100)
    counted = await project.grep("hit", mode="count", limit=1)
    files = await project.grep("hit", mode="files", limit=1, offset=59)

    assert first.splitlines()[-1] == (
        "[shown 1–1 of at least 5,000 matches in at least 50 files (mode=count counts all); "
        "offset=1 for more]"
    )
    assert later.splitlines()[-1] == (
        "[shown 5,451–5,550 of at least 5,600 matches in at least 56 files (mode=count counts all); "
        "offset=5550 for more]"
    )
    assert last.splitlines()[-1] == "[shown 5,951–6,000 of 6,000 matches in 60 files]"
    assert counted == "00.txt: 100\n[shown 1–1 of 60 files with 6,000 matches; offset=1 for more]"
    assert files == "59.txt\n[shown 60–60 of 60 files]"


async def test_matches_in_ignored_files_are_counted_when_there_are_no_others(project: CommandProject) -> None:
    project.put(".gitignore", "out/\n*.log\n")
    project.put("a.txt", "else\n")
    project.put("out/x.txt", "needle\n" * 11)
    project.put("b.log", "needle\n")

    assert await project.grep("needle") == (
        "no matches for needle in 2 files in .\n"
        "[12 matches in ignored files (name as path): b.log, out/x.txt]"
    )
    assert "[11 matches in 1 file]" in await project.grep("needle", path="out")


async def test_a_bad_pattern_is_refused_with_the_reason_before_anything_is_searched(
    project: CommandProject,
) -> None:
    project.put("a.txt", "x\n")
    said = {
        pattern: await project.grep(pattern)
        for pattern in (
            "",
            "(",
            "[a",
            "a\\",
            "*a",
            r"\p{L}",
            "a\nb",
            "(?x)a",
            "a(?i)b",
            "[z-a]",
            "(?(1)a)",
            "a)",
        )
    }

    assert all(text.startswith("refused: ") and "Nothing was searched" in text for text in said.values()), (
        said
    )
    assert "literal=true" in said["("]
    assert "multiline=true" in said["a\nb"]


async def test_long_lines_are_cut_around_the_match(project: CommandProject) -> None:
    project.put("a.js", "x" * 20_000 + "needle" + "y" * 20_000)

    line = (await project.grep("needle")).splitlines()[1]

    assert line.startswith("1:…xxx")
    assert "needle" in line
    assert len(line) == len("1:……") + 300


async def test_SEC_101_a_pattern_that_never_ends_is_stopped_and_the_loop_stays_responsive(
    project: CommandProject,
) -> None:
    project.put("a.txt", "a" * 50_000 + "b\n")
    gaps: list[float] = []

    async def beat() -> None:
        last = time.monotonic()
        while True:
            await asyncio.sleep(0.01)
            gaps.append(time.monotonic() - last)
            last = time.monotonic()

    beating = asyncio.create_task(beat())
    said = await project.grep("(a+)+(?=c)")
    beating.cancel()

    assert said.startswith("refused: the pattern takes too long on 'a.txt'")
    assert gaps, "nothing else was done meanwhile"


class Children:
    """Processes of which the first look takes as long as this program stands still."""

    def __init__(self) -> None:
        self.looks = 0
        self.ended: list[str] = []

    def start(self, _request: object) -> Children:
        return self

    async def attend(self, _child: object, **_limits: object) -> SimpleNamespace | None:
        self.looks += 1
        if self.looks == 1:
            threading.Event().wait(STUCK_S + 0.1)
            return None
        return SimpleNamespace(code=0, signal="")

    async def end(self, why: str) -> None:
        self.ended.append(why)


async def test_a_search_is_not_given_up_because_this_program_stood_still(tmp_path: Path) -> None:
    children = Children()
    run = SearchRun(children, str(tmp_path), 1, asyncio.Event(), time.monotonic() + 60)
    await _watch(run, children, None, {"files": ["a.txt"]}, str(tmp_path / "place"))
    assert (children.looks, children.ended) == (2, [])


async def test_lines_of_any_length_are_searched_alike(project: CommandProject) -> None:
    for n in range(6):
        project.put(f"{n}.txt", "one a.b\ntwo\n" + ("ab" * 3000 + "\n" if n == 2 else ""))

    here = await project.grep("a.*b", path="1.txt")
    both = await project.grep("a.*b", limit=4, offset=2)
    counted = await project.grep("a.*b", mode="count")

    assert here.splitlines()[:2] == ["1.txt", "1:one a.b"]
    assert both.splitlines()[0:5:2] == ["2.txt", "3:" + "ab" * 150 + "…", "3.txt"]
    assert both.splitlines()[-1] == "[shown 3–6 of 7 matches in 6 files; offset=6 for more]"
    assert counted.splitlines()[:3] == ["0.txt: 1", "1.txt: 1", "2.txt: 2"]
    assert counted.splitlines()[-1] == "[6 files with 7 matches]"


async def test_SEC_065_links_in_circles_and_huge_sparse_files_end_within_limits(
    project: CommandProject,
) -> None:
    (project.root / "loop").symlink_to(project.root)
    project.put("a.txt", "needle\n")
    with (project.root / "sparse").open("wb") as file:
        file.truncate(10_000_000_000)

    assert (
        await project.grep("needle")
        == "a.txt\n1:needle\n[1 match in 1 file]\n[not searched, over 64 MB (use the shell): sparse]"
    )
    assert (await project.ask(find_files, pattern="*")).splitlines()[-1] == "[3 files]"


async def test_a_search_out_of_time_does_not_say_no_matches(project: CommandProject) -> None:
    for n in range(50):
        project.put(f"{n}.txt", "x\n")

    project.search_limit_s = 0
    said = await project.grep("needle")

    assert "no matches" not in said
    assert "not every folder was looked at" in said


async def test_a_cancelled_search_leaves_no_process_behind(project: CommandProject) -> None:
    project.put("a.txt", "a" * 50_000 + "b\n")
    before = set(psutil.Process().children())
    searching = asyncio.create_task(project.grep("(a+)+(?=c)"))
    while set(psutil.Process().children()) <= before and not searching.done():
        await asyncio.sleep(0.005)

    project.cancelled.set()

    with pytest.raises(asyncio.CancelledError):
        await searching
    assert set(psutil.Process().children()) <= before


async def test_links_are_found_by_name_as_old_as_they_are_themselves(project: CommandProject) -> None:
    project.put("a.txt", "x")
    (project.root / "b.txt").symlink_to("nowhere")
    os.utime(project.root / "a.txt", (2_000_000_000, 2_000_000_000))

    assert await project.ask(find_files, pattern="*.txt") == "a.txt\nb.txt\n[2 files]"


async def test_a_pattern_spelled_from_the_top_is_taken_back_or_refused(project: CommandProject) -> None:
    project.put("src/a.ts", "word\n")
    project.put("etc/b.ts", "word\n")
    for pattern in (f"{project.root}/src/*.ts", f"{project.root}/**/a.*", "/src/*.ts"):
        assert await project.ask(find_files, pattern=pattern) == "src/a.ts\n[1 file]"
        assert "src/a.ts" in await project.ask(grep, pattern="word", glob=pattern)
    assert await project.ask(find_files, pattern="*.ts", path="src") == "src/a.ts\n[1 file]"
    assert await project.ask(find_files, pattern="/etc/*.ts") == "etc/b.ts\n[1 file]"
    for pattern in ("../*", "src/../../x", "/usr/lib/*.so", "~/*"):
        for answer in (
            await project.ask(find_files, pattern=pattern),
            await project.ask(grep, pattern="word", glob=pattern),
            await project.ask(grep, pattern="word", glob=f"!{pattern}"),
        ):
            assert "leads out of the folder it is matched below" in answer, (pattern, answer)


async def test_files_are_found_by_name_newest_first(project: CommandProject) -> None:
    for age, name in enumerate(("src/a.ts", "src/deep/b.tsx", "c.ts", "out/d.ts", "README.md")):
        project.put(name, "")
        os.utime(project.root / name, (1_000_000 - age, 1_000_000 - age))
    project.put(".gitignore", "out/\n")

    assert await project.ask(find_files, pattern="*.{ts,tsx}") == "src/a.ts\nsrc/deep/b.tsx\nc.ts\n[3 files]"
    assert await project.ask(find_files, pattern="src/**/*.tsx") == "src/deep/b.tsx\n[1 file]"
    assert await project.ask(find_files, pattern="*.ts", limit=1) == (
        "src/a.ts\n[the newest 1 of 2 files; a narrower pattern or limit=2 for more]"
    )
    assert await project.ask(find_files, pattern="d.ts") == (
        "no file matches d.ts in .\n[1 ignored file matches (name the folder as path): out/d.ts]"
    )
    assert "readme" in await project.ask(find_files, pattern="readme")
    assert (await project.ask(find_files, pattern="[a")).startswith("refused: '[a' is no pattern for names")


SOURCES = {
    "a.py": "class Thing:\n    pass\nThing()\n",
    "a.ts": "export class Thing {}\nnew Thing()\n",
    "a.go": "type Thing struct {\n}\nvar x Thing\n",
    "a.rs": "pub struct Thing;\nlet x = Thing;\n",
    "A.java": "public class Thing {\n}\n",
    "a.rb": "class Thing\nend\n",
    "a.php": "<?php\nclass Thing {}\n",
    "a.sh": "Thing() {\n  :\n}\nThing\n",
    "a.kt": "class Thing\n",
    "a.swift": "struct Thing {}\n",
    "a.cs": "public class Thing {}\n",
    "a.c": "struct Thing {\n  int x;\n};\nstruct Other y;\n",
}


@pytest.mark.parametrize("name", sorted(SOURCES))
async def test_definitions_are_found_in_every_language_and_uses_are_not(
    project: CommandProject, name: str
) -> None:
    project.put(name, SOURCES[name])
    line = next(n for n, text in enumerate(SOURCES[name].splitlines(), 1) if "Thing" in text)

    said = (await project.ask(find_definition, name="Thing")).splitlines()

    assert said[0].startswith(f"{name}:{line}: ")
    assert said[-1].startswith("[1 definition of Thing, found by ")


async def test_a_name_without_a_definition_is_told_with_its_uses(project: CommandProject) -> None:
    project.put("a.py", "print(Thing)\n")

    assert await project.ask(find_definition, name="Thing") == (
        "no definition of Thing found in .; 1 line in 1 source file mentions it."
    )
    assert (await project.ask(find_definition, name="a b")).startswith(
        "refused: expected the name of a function"
    )


def test_files_are_completed_by_a_few_letters() -> None:
    paths = Paths(["src/app.py", "src/apple/tree.py", "docs/map.md", "tests/test_app.py", "odd/İ.txt"])

    assert best(paths, "app", 2) == ["src/app.py", "tests/test_app.py"]
    assert best(paths, "sapy", 2) == ["src/app.py", "src/apple/tree.py"]
    assert best(paths, "zzz", 5) == []
    assert best(paths, "", 1) == ["src/app.py"]


@pytest.mark.parametrize("text", ["ab", "cba", "f9", "a/b", "zz", "afc1", "ü"])
def test_slices_find_what_one_look_at_everything_finds(text: str) -> None:
    source = random.Random(7)
    names = ["".join(source.choice("abcfü/19") for _ in range(source.randrange(1, 12))) for _ in range(3_500)]
    paths = Paths(sorted({*names, "a" * 40, "b", "z/z"}))
    together = [path for path in paths.paths if text in path]
    letters = re.compile(".*".join(map(re.escape, text)))
    wanted = together or [path for path in paths.paths if letters.search(path)]
    ranked = sorted((-score(path, text), path) for path in wanted[:MAX_SCORED])
    assert best(paths, text, 40) == [path for _, path in ranked[:40]]


def test_the_index_lists_in_the_background_and_leaves_out_what_is_ignored(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("out\n")
    (tmp_path / "out").write_text("")
    (tmp_path / "main.py").write_text("")
    index = FileIndex(str(tmp_path.resolve()))
    index.refresh()

    assert index.wait(10)
    assert index.match("") == [".gitignore", "main.py"]
    index.close()


async def test_a_child_reads_old_encodings_as_the_program_does(project: CommandProject) -> None:
    lines = "Съешь же ещё этих мягких французских булок\nда выпей чаю\n" * 4
    (project.root / "old.txt").write_bytes(lines.encode("cp1251"))
    plain = await project.grep("мягких французских", mode="count")
    assert "old.txt: 4" in plain
    assert await project.grep("мягких(?= французских)", mode="count") == plain
