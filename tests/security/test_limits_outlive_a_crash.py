"""A subagent file may limit a task to a stricter mode. Continued after a crash, the task is still limited."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from buddy.agent.events import TurnFinished
from buddy.extend.agent_profiles import AgentProfile
from buddy.llm.scripted import Say, ScriptedCall
from buddy.safety.policy.decide import MODES, Mode
from buddy.sessions.records import TaskChanged
from buddy.tools.delegate import Assignment
from tests.support.scripted_session import scripted_session

WRITES = ScriptedCall("write_file", '{"path": "new.txt", "content": "x"}')
CHANGES_NOTHING = ("plan", "ask")


@pytest.mark.parametrize("mode", MODES)
async def test_ATTACK9_a_continued_task_keeps_the_mode_of_its_subagent_file(
    tmp_path: Path, mode: Mode
) -> None:
    async with scripted_session(tmp_path, [(Say("looked"),)]) as first:
        board = first.session.board
        task = board.open("review")
        board.work_by(task.task_id, AgentProfile("reviewer", "You review.", mode=mode))
        await board.submit(task.task_id, "look")
        assert any(isinstance(event, TurnFinished) for event in first.events(task.task_id))
        reference = first.session.session_id
    script = [(WRITES,), (Say("done"),)]
    async with scripted_session(tmp_path, script, reference=reference, attended=False) as second:
        board = second.session.board
        assert board.task(task.task_id).call_limits.mode == mode
        await board.submit(task.task_id, "and write")
    assert (tmp_path / "work" / "new.txt").exists() == (mode not in CHANGES_NOTHING)


async def test_ATTACK9_a_continued_subagent_keeps_the_mode_of_the_task_it_works_for(tmp_path: Path) -> None:
    async with scripted_session(tmp_path, [(Say("looked"),), (Say("looked"),)]) as first:
        board = first.session.board
        task = board.open("review")
        board.work_by(task.task_id, AgentProfile("reviewer", "You review.", mode="plan"))
        child = board.delegations.service.start(task.task_id, Assignment("look there", None, ""))
        await board.delegations.service.attend(child)
        reference = first.session.session_id
    async with scripted_session(tmp_path, reference=reference) as second:
        assert second.session.board.task(child).call_limits.mode == "plan"


@pytest.mark.parametrize("mode", ["", "never heard of", "PLAN"])
def test_ATTACK9_records_of_other_versions_are_read(mode: str) -> None:
    record = msgspec.json.decode(
        msgspec.json.encode({"title": "t", "state": "idle", "mode": mode}), type=TaskChanged
    )
    assert record.mode == mode
