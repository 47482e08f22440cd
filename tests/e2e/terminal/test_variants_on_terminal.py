"""Variants on a real terminal: started, killed with the machine, found by a resume, continued, one picked and
undone; and a disk that is full when they are to be made."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.capabilities import requires
from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, Stall, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program
from tests.support.small_disk import SmallDisk
from tests.support.terminal import on_terminal

EDIT = ("--permission-mode", "edit")
MAIN = "def average(values):\n    return sum(values) / 3\n"


def tree_of(asked: Asked) -> str:
    found = re.findall(r"worktrees/([\w-]+), on", json.dumps(asked.json))
    return found[-1] if found else ""


@pytest.mark.slow
async def test_variants_survive_a_kill_and_one_is_picked(tmp_path: Path) -> None:
    stuck = {"2-divide-better"}

    def model(asked: Asked) -> Reply:
        if asked.turns[-1][0] == "tool":
            return reply(f"Done by {tree_of(asked)}.")
        if tree_of(asked) in stuck:
            return reply("I divide", fault=Stall(after=1))
        divisor = "len(values)" if tree_of(asked).startswith("1") else "max(1, len(values))"
        return reply(call("edit_file", path="main.py", old="/ 3", new=f"/ {divisor}"))

    async with FakeLLM(model) as server:
        program = Program(tmp_path, server.url)
        program.files(main__py=MAIN)
        (program.repo / "notes.txt").write_text("not committed\n")
        async with on_terminal(program, *EDIT) as terminal:
            await terminal.line("/try 2 divide better")
            await terminal.has_shown("2 variants started: 1 is task 2, 2 is task 3")
            await terminal.has_shown("Done by 1-divide-better.", "task 2 divide better: done")
            await terminal.until(lambda: len(server.requests) == 3, "variant 2 is at work")
            await terminal.kill()
        stuck.clear()
        async with on_terminal(program, *EDIT, "--continue") as terminal:
            await terminal.line("/variants")
            await terminal.has_shown("2 variants of: divide better")
            # The end of a turn is on the screen some milliseconds before it is saved.
            await terminal.until(
                lambda: (
                    any(
                        re.search(r"1 │ +2 │.* (done|paused) .* \+1 −1", row) for row in terminal.everything()
                    )
                    and any(re.search(r"2 │ +3 │.* paused", row) for row in terminal.everything())
                ),
                "both variants",
            )
            await terminal.line("/continue 3")
            await terminal.has_shown("Done by 2-divide-better.")
            await terminal.line("/variants diff 1 2")
            await terminal.has_shown("from variant 1 to variant 2")
            await terminal.line("/variants pick 2")
            await terminal.has_shown("Variant 2 picked, not committed: 1 file")
            assert (program.repo / "main.py").read_text() == MAIN.replace("/ 3", "/ max(1, len(values))")
            await terminal.line("/variants drop rest")
            await terminal.has_shown("dropped: variant 1")
            await terminal.line("/undo @3")
            await terminal.has_shown("Undone: ")
            assert (program.repo / "main.py").read_text() == MAIN
            await terminal.line("/quit")
            assert await terminal.exit_code() == 0
            await terminal.has_shown("1 variant with changes: /variants compares them after a resume")
        trees = [
            one.name for one in (program.repo / ".buddyx/worktrees").iterdir() if (one / ".git").exists()
        ]
        assert trees == ["2-divide-better"]
        assert (program.repo / ".buddyx/worktrees/2-divide-better/notes.txt").exists()


@requires("unshare")
@pytest.mark.slow
async def test_a_full_disk_starts_no_variant_and_leaves_nothing_of_one(tmp_path: Path) -> None:
    async with FakeLLM(lambda _asked: reply("ready")) as server:
        program = Program(tmp_path, server.url)
        program.files(main__py=MAIN, large__bin="x" * 400_000)
        disk = SmallDisk(program)
        async with on_terminal(program, *EDIT, command=disk.program) as terminal:
            await terminal.line("hello")
            await terminal.has_shown("ready")
            await disk.fill(leave_kb=500)
            await terminal.line("/try 3 divide better")
            await terminal.has_shown("nothing was started")
            await disk.empty()
            await terminal.line("/try 2 divide better")
            await terminal.has_shown("2 variants started: 1 is task 2, 2 is task 3")
            await terminal.has_shown("no variant is at work any more")
            await terminal.leaves("\x15\x04")
        await disk.bring_back()
        assert program.git("branch", "--list", "buddy/*") == ""
