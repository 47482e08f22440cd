"""Subagents: tasks that work for another one, on a real board with a scripted model."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from buddy.agent.budget import Budget
from buddy.agent.display import Plain
from buddy.agent.events import ToolFinished, TurnFinished
from buddy.agent.messages import ToolMessage, UserMessage, text_of
from buddy.agent.provider import ModelRequest
from buddy.agent.tool import ToolContext
from buddy.llm.scripted import Fail, Reply, Say, ScriptedCall
from buddy.tools.delegate import delegate
from tests.support.scripted_session import first_text, last_result, scripted_session
from tests.support.waiting import until


def delegated(text: str, **more: object) -> ScriptedCall:
    return ScriptedCall("delegate", json.dumps({"task": text, **more}))


def notes(request: ModelRequest) -> list[str]:
    return [text_of(one) for one in request.history if isinstance(one, UserMessage) and one.origin == "note"]


async def test_in_the_foreground_the_result_is_the_last_message(tmp_path: Path) -> None:
    def script(request: ModelRequest) -> Reply:
        if "subagent" in first_text(request):
            return (Say("forty-two"),)
        return (
            (Say(f"it says {last_result(request)}"),)
            if last_result(request)
            else (delegated("count", background=False),)
        )

    async with scripted_session(tmp_path, script) as session:
        session.board.submit(1, "how many?")
        await session.board.wait(1)
        assert session.board.task(1).last_answer() == "it says forty-two"
        child = session.board.task(2)
        assert (child.parent, child.title, child.background, child.state) == (1, "count", True, "finished")
        assert any(isinstance(event, TurnFinished) for event in session.events(2))
        assert session.board.notes.waiting == ()


async def test_in_the_background_the_answer_comes_when_the_model_has_nothing_else_to_do(
    tmp_path: Path,
) -> None:
    seen: list[list[str]] = []

    def script(request: ModelRequest) -> Reply:
        if "subagent" in first_text(request):
            return (Say(f"answer to {first_text(request)[-1]}"),)
        seen.append(notes(request))
        if len(seen) == 1:
            return (delegated("part A"), delegated("part B"))
        return (Say("waiting" if len(notes(request)) < 2 else "both are here"),)

    async with scripted_session(tmp_path, script) as session:
        session.board.submit(1, "do it")
        await session.board.wait(1)
        task = session.board.task(1)
        assert task.last_answer() == "both are here"
        told = [text_of(one) for one in task.history if isinstance(one, UserMessage)]
        assert sorted(told[1:]) == [
            f"[Task {number}, which you delegated, has finished. Its answer:]\nanswer to {part}"
            for number, part in ((2, "A"), (3, "B"))
        ]
        results = [one.text for one in task.history if isinstance(one, ToolMessage)]
        assert results[0].startswith("task 2 works on it in the background")


@pytest.mark.parametrize("background", [True, False])
async def test_cancelling_the_parent_cancels_what_works_for_it(tmp_path: Path, background: bool) -> None:
    def script(request: ModelRequest) -> Reply:
        if "subagent" in first_text(request):
            return (ScriptedCall("run_shell", '{"command": "sleep 300"}'),)
        return (Say("waiting"),) if last_result(request) else (delegated("x", background=background),)

    async with scripted_session(tmp_path, script) as session:
        board = session.board
        board.submit(1, "go")
        await until(lambda: 2 in board.tasks and board.task(2).history[1:])
        await until(lambda: not background or board.task(1).state == "waiting")
        board.cancel(1)
        await board.wait(1)
        await board.wait(2)
        assert (board.task(1).state, board.task(2).state) == ("cancelled", "cancelled")
        assert "which it worked for" in board.task(2).reason


async def test_a_subagent_that_is_cancelled_alone_is_reported(tmp_path: Path) -> None:
    def script(request: ModelRequest) -> Reply:
        if "subagent" in first_text(request):
            return (Say("I begin"), ScriptedCall("run_shell", '{"command": "sleep 300"}'))
        return (delegated("x", background=False),) if last_result(request) is None else (Say("I see"),)

    async with scripted_session(tmp_path, script) as session:
        session.board.submit(1, "go")
        await until(lambda: 2 in session.board.tasks and session.board.task(2).history[1:])
        await session.board.kill(2)
        await session.board.wait(1)
        result = next(one for one in session.board.task(1).history if isinstance(one, ToolMessage))
        assert result.text.startswith("task 2 did not finish (cancelled")
        assert "I begin" in result.text
        assert session.board.task(1).last_answer() == "I see"


async def test_a_subagent_that_fails_is_reported_as_a_failure(tmp_path: Path) -> None:
    def script(request: ModelRequest) -> Reply:
        if "subagent" in first_text(request):
            return (Fail("auth", "the key is wrong"),)
        return (delegated("x", background=False),) if last_result(request) is None else (Say("I see"),)

    async with scripted_session(tmp_path, script) as session:
        session.board.submit(1, "go")
        await session.board.wait(1)
        ended = [event.status for event in session.events(1) if isinstance(event, ToolFinished)]
        assert ended == ["error"]
        result = next(one for one in session.board.task(1).history if isinstance(one, ToolMessage))
        assert result.text == "task 2 did not finish (failed: the key is wrong)."


async def test_words_of_the_person_end_the_waiting_for_subagents(tmp_path: Path) -> None:
    release = tmp_path / "work" / "release"

    def script(request: ModelRequest) -> Reply:
        if "subagent" in first_text(request):
            done = last_result(request) is not None
            return (
                (Say("late"),)
                if done
                else (
                    ScriptedCall(
                        "run_shell", json.dumps({"command": f"until [ -e {release} ]; do sleep 0.05; done"})
                    ),
                )
            )
        if any("hello" in text_of(one) for one in request.history if isinstance(one, UserMessage)):
            release.touch()
        return (Say("ok"),) if last_result(request) or len(request.history) > 2 else (delegated("x"),)

    async with scripted_session(tmp_path, script) as session:
        session.board.submit(1, "go")
        await until(lambda: session.board.task(1).state == "waiting")
        await session.board.prompt(1, "hello")
        await session.board.wait(1)
        said = [text_of(one) for one in session.board.task(1).history if isinstance(one, UserMessage)]
        assert said[1] == "hello"
        assert said[2].endswith("late")


async def test_subagents_are_nested_two_deep_and_talk_to_nobody(tmp_path: Path) -> None:
    offered: dict[int, set[str]] = {}

    def script(request: ModelRequest) -> Reply:
        depth = int(first_text(request)[-1])
        offered[depth] = {tool.name for tool in request.tools}
        if last_result(request) is None and depth < 3:
            return (delegated(f"level {depth + 1}", background=False),)
        return (Say(last_result(request) or "the ground"),)

    async with scripted_session(tmp_path, script) as session:
        session.board.submit(1, "level 0")
        await session.board.wait(1)
        assert sorted(offered) == [0, 1, 2]
        assert {depth: {"delegate", "ask_user"} & names for depth, names in offered.items()} == {
            0: {"delegate", "ask_user"},
            1: {"delegate"},
            2: set(),
        }
        assert "there is no tool named 'delegate'" in session.board.task(1).last_answer()


async def test_the_tools_of_a_subagent_can_be_chosen_and_unknown_ones_are_refused(tmp_path: Path) -> None:
    offered: list[list[str]] = []

    def script(request: ModelRequest) -> Reply:
        if "subagent" in first_text(request):
            offered.append([tool.name for tool in request.tools])
            return (Say("fine"),)
        results = [one.text for one in request.history if isinstance(one, ToolMessage)]
        if not results:
            return (delegated("x", tools=["grepp"], background=False),)
        if len(results) == 1:
            return (delegated("x", tools=["read_file", "bash"], background=False),)
        return (Say(results[0]),)

    async with scripted_session(tmp_path, script) as session:
        session.board.submit(1, "go")
        await session.board.wait(1)
        assert offered == [["read_file", "run_shell"]]
        journalled = {one.task_id: one.task.tools for one in session.parts.journal.state().tasks}
        assert journalled == {1: None, 2: ("read_file", "run_shell")}
        assert (
            session.board.task(1)
            .last_answer()
            .startswith("there is no tool named 'grepp'. Did you mean grep?")
        )


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"task": "  "}, "the task is empty"),
        ({"task": "x", "model": "unknown"}, "'unknown' is none of the person's profiles (fast, broken)"),
        ({"task": "x", "model": "ollama/qwen"}, "'ollama/qwen' is none of the person's profiles"),
        ({"task": "x", "model": "FAST"}, "'FAST' is none of the person's profiles"),
        ({"task": "x", "model": "m\x1b]0;x\x07"}, "is none of the person's profiles"),
        ({"task": "x", "model": "broken"}, "the subagent can't be started: no key for broken"),
    ],
)
async def test_what_cannot_be_started_is_explained(
    tmp_path: Path, arguments: dict[str, object], why: str
) -> None:
    def script(request: ModelRequest) -> Reply:
        return (
            (Say(last_result(request) or ""),)
            if last_result(request)
            else (ScriptedCall("delegate", json.dumps(arguments)),)
        )

    async with scripted_session(tmp_path, script) as session:
        session.board.submit(1, "go")
        await session.board.wait(1)
        assert why in session.board.task(1).last_answer()
        assert list(session.board.tasks) == [1]


@pytest.mark.parametrize("model", ["", "fast", "m"])
async def test_a_profile_of_the_person_or_the_own_model_can_be_chosen(tmp_path: Path, model: str) -> None:
    def script(request: ModelRequest) -> Reply:
        if last_result(request) or "subagent" in first_text(request):
            return (Say(request.model),)
        return (delegated("x", background=False, model=model),)

    async with scripted_session(tmp_path, script) as session:
        session.board.submit(1, "go")
        await session.board.wait(1)
        assert session.board.task(2).last_answer() == (model or "m")


async def test_a_subagent_spends_a_share_and_gives_the_rest_back(tmp_path: Path) -> None:
    during: list[float] = []

    async with scripted_session(
        tmp_path, lambda request: script(request), task_budget=Budget(1.0, 0)
    ) as session:

        def script(request: ModelRequest) -> Reply:
            if "subagent" in first_text(request):
                during.extend(session.board.task(task_id).meter.budget.max_cost_usd for task_id in (1, 2))
                return (Say("done"),)
            return (Say("ok"),) if last_result(request) else (delegated("x", background=False),)

        session.board.submit(1, "go")
        await session.board.wait(1)
        assert during == pytest.approx([0.505, 0.495])
        assert session.board.task(1).meter.budget.max_cost_usd == pytest.approx(0.99)


async def test_without_limits_nothing_is_lent(tmp_path: Path) -> None:
    def script(request: ModelRequest) -> Reply:
        if last_result(request) or "subagent" in first_text(request):
            return (Say("ok"),)
        return (delegated("x", background=False),)

    async with scripted_session(tmp_path, script) as session:
        session.board.submit(1, "go")
        await session.board.wait(1)
        assert [session.board.task(task_id).meter.budget for task_id in (1, 2)] == [Budget(), Budget()]


@pytest.mark.parametrize(
    ("more", "shown"),
    [
        (
            {},
            Plain(
                "a subagent in the background",
                "Count.\nAll.\n\ntools: all this task has, but ask_user\nmodel: the model of this task",
            ),
        ),
        (
            {"tools": ["grep", "read_file"], "background": False, "model": "fast"},
            Plain("a subagent while this task waits", "Count.\nAll.\n\ntools: grep, read_file\nmodel: fast"),
        ),
        (
            {"tools": []},
            Plain(
                "a subagent in the background",
                "Count.\nAll.\n\ntools: none\nmodel: the model of this task",
            ),
        ),
        (
            {"tools": [], "isolation": "worktree"},
            Plain(
                "a subagent in the background",
                "Count.\nAll.\n\ntools: none\nmodel: the model of this task\n"
                "works in: a git worktree of its own",
            ),
        ),
    ],
)
def test_an_approval_shows_what_the_subagent_is_asked_and_may_use(
    more: dict[str, object], shown: Plain
) -> None:
    arguments = delegate.decode(json.dumps({"task": "Count.\nAll.", **more}))
    context = ToolContext(1, "c", lambda _text: None, asyncio.Event(), {})
    assert delegate.preview is not None
    assert delegate.preview(context, arguments) == shown
