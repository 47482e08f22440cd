"""A copy of a task that works by a subagent file is limited as that task is: its mode, tools and prompt."""

from __future__ import annotations

from pathlib import Path

import pytest

from buddy.agent.events import TurnFinished
from buddy.extend.agent_profiles import AgentProfile
from buddy.llm.scripted import Say, ScriptedCall
from buddy.safety.policy.decide import MODES, Mode
from buddy.safety.policy.rules import Rule
from tests.support.scripted_session import scripted_session

WRITES = ScriptedCall("write_file", '{"path": "new.txt", "content": "x"}')
CHANGES_NOTHING = ("plan", "ask")


@pytest.mark.parametrize("mode", MODES)
async def test_ATTACK10_a_copy_works_in_the_mode_of_the_subagent_file(tmp_path: Path, mode: Mode) -> None:
    script = [(Say("looked"),), (WRITES,), (Say("done"),)]
    async with scripted_session(tmp_path, script, attended=False) as ready:
        board = ready.session.board
        task = board.open("review")
        board.work_by(task.task_id, AgentProfile("reviewer", "You review.", mode=mode))
        await board.submit(task.task_id, "look")
        copy = board.open(copy_of=task.task_id)
        assert copy.call_limits.mode == copy.record().mode == mode
        await board.submit(copy.task_id, "and write")
        assert any(isinstance(event, TurnFinished) for event in ready.events(copy.task_id))
    assert (tmp_path / "work" / "new.txt").exists() == (mode not in CHANGES_NOTHING)


async def test_ATTACK10_a_copy_has_the_tools_and_words_of_the_subagent_file(tmp_path: Path) -> None:
    script = [(Say("looked"),), (WRITES,), (Say("done"),)]
    async with scripted_session(tmp_path, script, attended=False) as ready:
        board = ready.session.board
        task = board.open("review")
        board.work_by(
            task.task_id, AgentProfile("reviewer", "You review.", tools=("read_file",), mode="yolo")
        )
        await board.submit(task.task_id, "look")
        copy = board.open(copy_of=board.open(copy_of=task.task_id).task_id)
        assert copy.tools == {"read_file"}
        assert copy.system_prompt(board.parts) == task.system_prompt(board.parts)
        await board.submit(copy.task_id, "and write")
    assert not (tmp_path / "work" / "new.txt").exists()


async def test_ATTACK10_a_copy_has_nothing_that_was_allowed_for_one_turn(tmp_path: Path) -> None:
    async with scripted_session(tmp_path, []) as ready:
        board = ready.session.board
        task = board.open("as usual")
        board.allow_for_turn(task.task_id, (Rule("edit", "allow", "session"),))
        copy = board.open(copy_of=task.task_id)
        assert (copy.call_limits.mode, copy.call_limits.rules, copy.tools) == (None, (), None)
