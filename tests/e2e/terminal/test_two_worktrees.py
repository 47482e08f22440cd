"""Two tasks change the same file beside each other, each in a worktree of its own, on a real terminal: one
comes over clean, the other conflicts, is refused, and comes over once the person has made room."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program
from tests.support.terminal import on_terminal

MAIN = "def average(values):\n    return sum(values) / 3\n"


def model(asked: Asked) -> Reply:
    """Divides by what it is told."""
    found = re.findall(r"divide by (\S+)", asked.last_user_text)
    if asked.turns[-1][0] != "user" or not found:
        return reply("It divides.")
    return reply(call("edit_file", path="main.py", old="/ 3", new=f"/ {found[-1]}"))


@pytest.mark.slow
async def test_two_tasks_the_same_file_one_clean_one_conflicting(tmp_path: Path) -> None:
    async with FakeLLM(model) as server:
        program = Program(tmp_path, server.url)
        program.files(main__py=MAIN)
        async with on_terminal(program, "--permission-mode", "edit") as terminal:
            await terminal.line("/worktree divide by len(values)")
            await terminal.has_shown("task 2 started in the background")
            await terminal.line("/worktree divide by 4")
            await terminal.has_shown("task 3 started in the background")
            await terminal.has_shown("1 changed file of task 2", "1 changed file of task 3")
            assert (program.repo / "main.py").read_text() == MAIN

            await terminal.line("/worktree merge 2")
            await terminal.has_shown("Merged, not committed: 1 file")
            merged = MAIN.replace("/ 3", "/ len(values)")
            assert (program.repo / "main.py").read_text() == merged

            await terminal.line("/worktree merge 3")
            await terminal.has_shown("main.py: both changed lines 2 to 2")
            assert (program.repo / "main.py").read_text() == merged

            await terminal.line("/undo @2")
            await terminal.has_shown("(task 2's worktree merge")
            await terminal.line("/worktree merge 3")
            await terminal.until(lambda: "/ 4" in (program.repo / "main.py").read_text(), "the other change")
            await terminal.line("/worktree drop 3")
            await terminal.has_shown("is removed")
            await terminal.line("/worktree drop 2")
            await terminal.has_shown("that the main tree does not have")
            await terminal.line("/quit")
            assert await terminal.exit_code() == 0
        left = [one.name for one in (program.repo / ".buddyx/worktrees").iterdir() if (one / ".git").exists()]
        assert left == ["divide-by-len-values"]
