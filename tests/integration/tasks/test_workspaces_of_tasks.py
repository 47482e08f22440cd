"""Shared and separate state of tasks in different trees of one project."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from buddy.agent.tool import Access, ToolResult
from buddy.tasks.dependencies import Workspace, WorktreeParts
from buddy.tasks.tool_execution import TestWindows
from buddy.tools.cache import ToolCache
from buddy.tools.files.write import write_file
from buddy.workspace.worktrees.worktrees import Worktree, Worktrees, WorktreeStanding
from tests.support.board_session import board_session
from tests.support.laws import says
from tests.support.undo_logs import SEAL

WRITES = Access(writes=("a.txt",))


async def test_tests_of_one_tree_hold_up_no_write_in_another() -> None:
    windows = TestWindows(longest_wait_s=60)
    heard: list[str] = []
    with windows.open(1, "/repo") as window:
        await windows.wait_for_tests(2, "/repo/.buddyx/worktrees/x", write_file, WRITES, heard.append)
        with windows.report_write(2, "/repo/.buddyx/worktrees/x", write_file, WRITES):
            pass
        with windows.report_write(3, "/repo", write_file, WRITES):
            pass

    assert heard == []
    assert window.writes == ["write_file of task 3: a.txt"]


def test_equal_calls_in_two_trees_have_results_of_their_own() -> None:
    cache = ToolCache(lambda: 0.0)
    arguments = {"path": "a.txt"}
    for place in ("/repo", "/repo/.buddyx/worktrees/x"):
        cache.set(
            "read_file",
            arguments,
            ToolResult(f"in {place}"),
            life_s=10,
            access=Access(reads=(f"{place}/a.txt",)),
            place=place,
        )
    found = [
        cache.get("read_file", arguments, place=place) for place in ("/repo", "/repo/.buddyx/worktrees/x")
    ]

    assert [one.text for one in found if one] == ["in /repo", "in /repo/.buddyx/worktrees/x"]
    assert cache.get("read_file", arguments) is None
    assert cache.invalidate_writes(Access(writes=("/repo/a.txt",))) == 1


class SlowTrees(Worktrees):
    """Worktrees that are there, and are looked at for ever."""

    def __init__(self, main: Path) -> None:
        self.main = str(main)
        self.asked = asyncio.Event()

    def by_name(self, name: str) -> Worktree:
        return Worktree(name, self.main)

    def missing(self, tree: Worktree) -> str:
        return ""

    async def standing(self, tree: Worktree) -> WorktreeStanding:
        if self.asked.is_set():
            return WorktreeStanding((), ahead=0, behind=0, own=1)
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError


async def test_a_turn_ends_even_if_nobody_waits_for_the_look_at_its_worktree(tmp_path: Path) -> None:
    trees = SlowTrees(tmp_path)

    def workspace(tree: Worktree) -> Workspace:
        return msgspec.structs.replace(session.board.workspaces.main, worktree=tree)

    async with board_session(tmp_path, worktrees=WorktreeParts(trees, {}, workspace, SEAL)) as session:
        session.script(says("done"))
        task = session.board.open(worktree="x")
        runner = session.board.submit(task.task_id, "do it")
        await trees.asked.wait()
        runner.cancel()
        with pytest.raises(asyncio.CancelledError):
            await runner

        assert (task.state, task.running, task.last_answer()) == ("idle", False, "done")
