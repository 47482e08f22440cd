"""A worktree in which nothing was changed goes with its task, and not without a word."""

from __future__ import annotations

from pathlib import Path

from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, call, reply
from tests.support.repl import open_repl

YOLO = ("--permission-mode", "yolo", "--i-know")


async def test_a_task_that_changed_nothing_says_that_its_worktree_is_removed(tmp_path: Path) -> None:
    async with open_repl(tmp_path, lambda _asked: reply("There is nothing to do.")) as repl:
        await repl.said("/worktree look around", "task 2 started in the background")
        await repl.shows("task 2 changed nothing: its worktree .buddyx/worktrees/look-around is removed\n")
        assert not (repl.program.repo / ".buddyx/worktrees/look-around").exists()
        await repl.said("/worktree", "there are no worktrees")
        await repl.said("/kill 2", "task 2 is closed\n")


async def test_a_subagents_worktree_goes_without_a_word(tmp_path: Path) -> None:
    def delegates(asked: Asked) -> Reply:
        if asked.turns[-1][0] == "tool":
            return reply("delegated")
        if "lead" not in asked.last_user_text:
            return reply("There is nothing to do.")
        return reply(call("delegate", task="look around", background=False, isolation="worktree"))

    async with open_repl(tmp_path, delegates, *YOLO) as repl:
        await repl.turn("lead")
        assert "delegated" in repl.paper.text()
        assert "is removed" not in repl.paper.text()
