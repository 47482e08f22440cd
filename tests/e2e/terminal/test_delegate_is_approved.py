"""A subagent is approved on a terminal: what it is given is shown in full before it exists."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program
from tests.support.terminal import on_terminal

TASK = "Count the files.\nName the largest one, without its path."


def model(asked: Asked) -> Reply:
    """Delegates, and again after a no; the subagent answers at once."""
    said = [text for role, text in asked.turns if role == "user"]
    if any("subagent" in text for text in said):
        return reply("There are seven.")
    if any("There are seven." in text for text in said):
        return reply("Seven files it is.")
    if len(asked.tool_results) == 0:
        return reply(call("delegate", task=TASK, tools=["list_files", "grep"]))
    if len(asked.tool_results) == 1:
        return reply(call("delegate", task=TASK, background=False, model="", tools=[]))
    return reply("It is on its way.")


@pytest.mark.slow
async def test_what_a_subagent_is_given_is_shown_before_it_is_approved(tmp_path: Path) -> None:
    async with FakeLLM(model) as server:
        program = Program(tmp_path, server.url)
        async with on_terminal(program) as terminal:
            await terminal.line("how many files?")
            await terminal.shows(
                "a subagent in the background",
                "Count the files.",
                "Name the largest one, without its path.",
                "tools: list_files, grep",
                "model: the model of this task",
            )
            assert not any("subagent" in one.last_user_text for one in server.requests)
            await terminal.answer("n", "a subagent while this task waits")
            await terminal.shows("tools: none")
            await terminal.answer("y", "It is on its way.")
            results = [text for one in server.requests for text in one.tool_results]
            assert any("There are seven." in text for text in results)
            assert await terminal.leaves() == 0
