"""/ps says whom a task waits for: the person, or its subagents."""

from __future__ import annotations

import re
from pathlib import Path

from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, call, reply
from tests.support.repl import open_repl


def model(asked: Asked) -> Reply:
    """One task that hands its work to a subagent; the subagent asks for leave."""
    if asked.turns[-1][0] == "tool":
        return reply("I wait for it." if "delegate" in asked.turns[-1][1] else "That is all.")
    if "lead" in asked.last_user_text:
        return reply(call("delegate", task="touch a file", background=True))
    return reply(call("run_shell", command="touch x"))


def states(table: str) -> dict[str, str]:
    """Of each task of `/ps`: what it does, without for how long."""
    rows = [[cell.strip("▸& ") for cell in row.split("│")] for row in table.split("\n") if "│" in row]
    return {row[0]: re.sub(r" [\d.]+ s$", "", row[1]) for row in rows[1:]}


async def test_a_task_that_waits_for_a_subagent_is_told_from_one_that_waits_for_the_person(
    tmp_path: Path,
) -> None:
    async with open_repl(tmp_path, model, "--permission-mode", "ask") as repl:
        repl.say("lead")
        await repl.until(lambda: bool(repl.context.board.inbox.waiting()), "the question about delegating")
        await repl.shows("│ model: the model of this task")  # printed behind the question
        assert states(await repl.said("/ps", "waiting")) == {"1": "waiting for you"}
        await repl.said("/ok", "approved once")
        board = repl.context.board
        await repl.until(
            lambda: len(board.tasks) == 2 and board.task(1).state == board.task(2).state == "waiting",
            "both wait",
        )
        await repl.shows("│ touch x")  # the request's own lines look like the table's
        assert states(await repl.said("/ps", "subagent of 1")) == {
            "1": "waiting for task 2",
            "2": "waiting for you",
        }
