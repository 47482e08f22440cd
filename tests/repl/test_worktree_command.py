"""/worktree: tasks that work beside each other in worktrees of their own, and what becomes of that."""

from __future__ import annotations

import re
from pathlib import Path

from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, call, reply
from tests.repl.sitting_desk import sitting

EDIT = ("--permission-mode", "edit")
LINES = "".join(f"line {number}\n" for number in range(1, 11))


def edits(asked: Asked) -> Reply:
    """ "change line 3 to x" changes that line of list.txt."""
    found = re.findall(r"change line (\d+) to (\w+)", asked.last_user_text)
    if asked.turns[-1][0] != "user" or not found:
        return reply("ready")
    number, word = found[-1]
    return reply(call("edit_file", path="list.txt", old=f"line {number}\n", new=f"{word}\n"))


async def test_two_tasks_edit_the_same_file_and_both_are_brought_over(tmp_path: Path) -> None:
    async with sitting(tmp_path, edits, *EDIT, list__txt=LINES) as desk:
        repo = desk.desk.repo
        await desk.said("/worktree change line 2 to two", "task 2 started in the background in")
        await desk.said("/worktree change line 9 to nine", "task 3 started in the background in")
        await desk.shows("1 changed file of task 2", "1 changed file of task 3")

        assert (repo / "list.txt").read_text() == LINES
        assert desk.desk.git("status", "--short") == ""
        await desk.said("/worktree merge 2", "brought over, not committed: 1 file; /undo @2 takes it back")
        await desk.said("/worktree merge 3", "brought over, not committed: 1 file; /undo @3 takes it back")
        expected = LINES.replace("line 2\n", "two\n").replace("line 9\n", "nine\n")
        assert (repo / "list.txt").read_text() == expected
