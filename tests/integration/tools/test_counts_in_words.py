"""One of something is told in the singular, wherever tools count."""

from __future__ import annotations

import os
from pathlib import Path

from buddy.tools.files.change import difference
from buddy.tools.files.edit import edit_file
from buddy.tools.files.listing import find_files
from buddy.tools.files.read import read_file
from buddy.tools.jobs import list_jobs, send_keys, stop_job, write_job
from buddy.tools.shell import SHOWN_CHARS, run_shell, tail_for_display
from buddy.workspace.git.diff import parse_diff
from buddy.workspace.processes.output import MAX_PIECE_BYTES, OutputBounds, OutputLog, ProgressFeed
from tests.support.tool_project import ToolProject, tool_project
from tests.support.waiting import until


async def test_one_byte_of_a_job_one_character_and_one_key(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        await project.call(run_shell, command="printf x; sleep 60", background=True)
        await until(lambda: project.jobs.all()[0].bytes_written == 1)
        assert "s, 1 byte, task 1): printf" in (await project.call(list_jobs)).text
        await project.call(run_shell, command="cat", pty=True)
        assert (await project.call(write_job, job=2, text="y")).text == "typed 1 character into job 2"
        assert (await project.call(write_job, job=2, text="yy")).text == "typed 2 characters into job 2"
        assert (await project.call(send_keys, job=2, keys=["Up"])).text == "pressed 1 key in job 2"
        for job in (1, 2):
            await project.call(stop_job, job=job)


async def test_one_byte_that_is_left_out_or_not_shown(tmp_path: Path) -> None:
    log = OutputLog(str(tmp_path / "out"), OutputBounds(head_bytes=2, tail_bytes=2, cap_bytes=1))
    log.add(b"abcde")
    path = tmp_path / "out"
    assert log.text() == f"ab\n[… 1 byte left out; the whole (the first 1 byte) is in {path} …]\nde"
    assert tail_for_display("x" * (SHOWN_CHARS + 1)).startswith("[… 1 character before this …]\n")
    heard: list[str] = []
    feed = ProgressFeed(heard.append)
    feed.feed(b"x" * (MAX_PIECE_BYTES + 1))
    feed.close()
    assert heard[0].startswith("\n[… 1 byte not shown …]\n")


def test_a_gap_of_one_byte_and_one_of_thousands_end_what_can_be_named() -> None:
    for gap in ("1 byte", "95,904 bytes", "95904 bytes"):
        text = f"diff --git a/a b/a\n@@ -1 +1 @@\n-x\n[… {gap} left out; the whole is in /o …]\n+KEY=secret\n"
        assert "secret" not in parse_diff(text).text


async def test_a_binary_file_of_one_byte(tmp_path: Path) -> None:
    files = ToolProject(tmp_path)
    files.put("a", b"\0")
    assert "a is binary (1 byte)" in await files.ask(read_file, path="a")
    assert "a is binary (1 byte)" in await files.ask(edit_file, path="a", old="x", new="y")
    assert difference(b"\0\0", b"\0").diff == "binary: 2 → 1 byte\n"


async def test_one_folder_that_no_path_reaches(tmp_path: Path) -> None:
    files = ToolProject(tmp_path)
    files.put("a.py", "")
    beneath = os.open(files.root, os.O_RDONLY)
    for _ in range(17):  # longer than any path may be
        os.mkdir("d" * 250, dir_fd=beneath)
        above, beneath = beneath, os.open("d" * 250, os.O_RDONLY, dir_fd=beneath)
        os.close(above)
    os.close(beneath)
    assert await files.ask(find_files, pattern="*.py") == "a.py\n[1 file]\n[1 folder could not be read]"
