"""Subagents and variants of a task that works on another machine."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from buddy.agent.messages import ToolMessage
from buddy.agent.provider import ModelRequest
from buddy.app.options import Options
from buddy.config.settings import TargetSettings
from buddy.llm.scripted import Reply, Say, ScriptedCall
from tests.capabilities import requires
from tests.support.containers import NAME
from tests.support.machines import Machine, running_machine
from tests.support.remote_tools import YOLO, until
from tests.support.scripted_session import first_text, last_result, scripted_session
from tests.support.tmux_pane import pane_server

pytestmark = requires("linux")


def calls(name: str, **arguments: object) -> Reply:
    return Reply((ScriptedCall(name, json.dumps(arguments)),))


def works_in_two(request: ModelRequest) -> Reply:
    """Delegate once, and once more from the subagent, which works with a command and a file."""
    first, result = first_text(request), last_result(request)
    if result is not None and "delegate" not in first:
        return calls("write_file", path="deep/b.txt", content="b\n") if "made" in result else say(result)
    if result is not None:
        return say(result)
    if "delegate twice" in first and "You are a subagent" not in first:
        return calls("delegate", task="delegate twice, the second time", background=False)
    if "the second time" in first:
        return calls("delegate", task="do the work", background=False)
    return calls("run_shell", command="pwd; touch made.txt; ls")


def say(text: str) -> Reply:
    return Reply((Say(f"it said: {text}"),))


async def test_subagents_work_where_their_task_works(machine: Machine, tmp_path: Path) -> None:
    here = tmp_path / "here"
    (here / "work").mkdir(parents=True)
    targets = {"box": machine.settings}
    async with scripted_session(here, works_in_two, targets=targets, options=YOLO) as session:
        await session.board.submit(1, "delegate twice")
        assert [task.workspace.target for task in session.board.tasks.values()] == ["box"] * 3
        assert "deep/b.txt" in session.board.task(1).last_answer()
        assert (machine.folder / "made.txt").exists()
        assert (machine.folder / "deep/b.txt").read_text() == "b\n"
        session.board.change_target(1, "")
        assert session.board.task(2).workspace.target == "box"
    assert not (here / "work/made.txt").exists()
    assert not (here / "work/deep").exists()


async def test_a_question_of_a_subagent_names_the_machine(tmp_path: Path) -> None:
    here = tmp_path / "here"
    (here / "work").mkdir(parents=True)
    with running_machine("stand-in", tmp_path / "machine") as machine:
        targets = {"box": machine.settings}
        asking = Options(trust=True, target="box")
        async with scripted_session(here, works_in_two, targets=targets, options=asking) as session:
            turn = session.board.submit(1, "delegate twice")
            inbox = session.board.inbox
            asked: list[tuple[int, str]] = []
            reasons: list[str] = []
            while not turn.done():
                await until(lambda: bool(inbox.waiting()) or turn.done())
                for question in inbox.waiting():
                    event = question.event
                    asked.append((question.task_id, event.call.name))
                    reasons.append(event.reason)
                    inbox.answer(event.request_id, event.digest, "once")
        assert (machine.folder / "deep/b.txt").exists()
    assert asked == [(1, "delegate"), (2, "delegate"), (3, "run_shell"), (3, "write_file")]
    where = f"on box (container {NAME}:{machine.inside}): "
    assert all(reason.startswith(f"the subagent works {where}") for reason in reasons[:2])
    assert all(reason.startswith(where) for reason in reasons[2:])


async def test_a_subagent_with_a_worktree_is_refused(tmp_path: Path) -> None:
    here = tmp_path / "here"
    (here / "work").mkdir(parents=True)
    script = [calls("delegate", task="do it", isolation="worktree"), Reply((Say("done"),))]
    with running_machine("stand-in", tmp_path / "machine") as machine:
        targets = {"box": machine.settings}
        async with scripted_session(here, script, targets=targets, options=YOLO, repository=True) as session:
            await session.board.submit(1, "go")
            assert len(session.board.tasks) == 1
            history = session.board.task(1).history
            results = [message.text for message in history if isinstance(message, ToolMessage)]
            assert results == ["a worktree is made on this machine, and the task works on box"]


async def test_a_question_about_the_web_says_that_this_machine_asks_it(tmp_path: Path) -> None:
    here = tmp_path / "here"
    (here / "work").mkdir(parents=True)
    script = [calls("web_fetch", url="https://example.com/a"), Reply((Say("done"),))]
    with running_machine("stand-in", tmp_path / "machine") as machine:
        asking = Options(trust=True, target="box")
        targets = {"box": machine.settings}
        async with scripted_session(here, script, targets=targets, options=asking) as session:
            turn = session.board.submit(1, "go")
            inbox = session.board.inbox
            await until(lambda: bool(inbox.waiting()))
            event = inbox.waiting()[0].event
            assert event.reason.startswith("on this machine, not on box: ")
            inbox.answer(event.request_id, event.digest, "denied")
            await turn


@requires("tmux")
async def test_subagents_share_the_pane_of_their_task(tmp_path: Path) -> None:
    def script(request: ModelRequest) -> Reply:
        first, result = first_text(request), last_result(request)
        if "You are a subagent" in first:
            name = first.rsplit(" ", 1)[1]
            return say(result) if result is not None else calls("run_shell", command=f"echo {name}; exit 3")
        if len(request.history) == 1:
            tasks = (json.dumps({"task": f"say {name}"}) for name in ("first", "second", "third"))
            return Reply(tuple(ScriptedCall("delegate", task) for task in tasks))
        return Reply((Say("done"),))

    (tmp_path / "work").mkdir()
    with pane_server() as server:
        server.open("bash", "--norc", "-i")
        targets = {"box": TargetSettings(kind="tmux", socket=server.socket)}
        async with scripted_session(tmp_path, script, targets=targets, options=YOLO) as session:
            await session.board.submit(1, "go")
            answers = [session.board.task(task_id).last_answer() for task_id in (2, 3, 4)]
            for name, answer in zip(("first", "second", "third"), answers, strict=True):
                assert answer.startswith(f"it said: {name}\n[exit code 3")
            await asyncio.to_thread(server.until_shows, "\nfirst\n", "\nsecond\n", "\nthird\n")
