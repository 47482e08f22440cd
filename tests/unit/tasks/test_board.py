"""The task board: several conversations at once, each its own; every operation at every time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from buddy.agent.budget import Budget
from buddy.agent.events import Notice, TurnFinished
from buddy.agent.messages import (
    CANCELLED_TEXT,
    SKIPPED_TEXT,
    AssistantMessage,
    ToolMessage,
    UserMessage,
    text_of,
)
from buddy.agent.provider import Finished, ProviderError, TextPiece
from buddy.agent.tool import ToolContext, tool
from buddy.config.settings import ConfigError
from buddy.tasks.board import TaskBoard, TaskError
from tests.support.board_session import BoardSession, board_session, gate
from tests.support.laws import calls, check_laws, says
from tests.support.waiting import until


@tool(risk="low")
async def look(ctx: ToolContext, path: str) -> str:
    """Look."""
    return f"seen {path}"


@tool(risk="high")
async def act(ctx: ToolContext, what: str) -> str:
    """Act."""
    return f"did {what}"


# --- turns ------------------------------------------------------------------------------------------------


async def test_a_prompt_is_answered_and_both_are_on_the_disk(tmp_path: Path) -> None:
    async with board_session(tmp_path) as session:
        session.script(says("hello"))
        reader = session.board.reader()
        await session.turn(1, "hi there")
        task = session.board.task(1)
        assert (session.texts(1), task.state, task.title) == (["hi there", "hello"], "idle", "hi there")
        events = reader.drain()
        check_laws([one.event for one in events])
        assert [one.seq for one in events] == list(range(1, len(events) + 1))
        assert [text_of(one) for one in (await session.reloaded())[1]] == ["hi there", "hello"]


async def test_a_running_task_takes_no_second_prompt_and_says_what_to_do(tmp_path: Path) -> None:
    async with board_session(tmp_path) as session:
        reached, go_on, step = gate()
        session.script([TextPiece("one"), step, Finished("stop")])
        session.board.submit(1, "hi")
        await reached.wait()
        for operation in (session.board.submit, session.board.change_model):
            with pytest.raises(TaskError, match="task 1 is running: wait for it, or cancel it"):
                operation(1, "more")
        with pytest.raises(TaskError, match="is running"):
            session.board.reset(1)
        with pytest.raises(TaskError, match="is running"):
            session.board.continue_task(1)
        go_on.set()
        await session.board.wait(1)


async def test_tasks_run_at_once_and_do_not_see_each_other(tmp_path: Path) -> None:
    async with board_session(tmp_path) as session:
        reached, go_on, step = gate()
        session.script([TextPiece("slow"), step, Finished("stop")])
        session.script(says("fast"), model="other")
        session.board.open(model="other")
        session.board.submit(1, "one")
        await reached.wait()
        await session.turn(2, "two")
        assert session.board.task(1).running
        go_on.set()
        await session.board.wait(1)
        assert (session.texts(1), session.texts(2)) == (["one", "slow"], ["two", "fast"])


async def test_a_task_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    async with board_session(tmp_path) as session:
        session.board.open()
        with pytest.raises(TaskError, match=r"there is no task 7 \(tasks: 1, 2\)"):
            session.board.submit(7, "hi")


# --- copies -----------------------------------------------------------------------------------------------


async def test_a_copy_starts_at_the_last_legal_boundary(tmp_path: Path) -> None:
    reached, go_on = asyncio.Event(), asyncio.Event()

    @tool(risk="low")
    async def slow(ctx: ToolContext) -> str:
        """Wait."""
        reached.set()
        await go_on.wait()
        return "done"

    async with board_session(tmp_path, slow) as session:
        session.script(says("first"), calls(("c", "slow", "{}")), says("second"), says("copied"))
        await session.turn(1, "one")
        session.board.submit(1, "two")
        await reached.wait()
        copy = session.board.open(copy_of=1)
        assert [text_of(one) for one in copy.history] == ["one", "first"]
        go_on.set()
        await session.board.wait(1)
        assert len(copy.history) == 2
        found = await session.reloaded()
    assert [text_of(one) for one in found[2]] == ["one", "first"]


async def test_WALK_5_a_copy_goes_on_with_nothing_of_the_task_it_was_made_from(tmp_path: Path) -> None:
    """Going on with an exchange that another task is in would run the same work twice."""
    waiting, go_on = asyncio.Event(), asyncio.Event()

    @tool(risk="low")
    async def look(ctx: ToolContext) -> str:
        """Look."""
        return "seen"

    @tool(risk="low")
    async def slow(ctx: ToolContext) -> str:
        """Wait."""
        waiting.set()
        await go_on.wait()
        return "done"

    async with board_session(tmp_path, look, slow) as session:
        session.script(calls(("c", "look", "{}")), calls(("d", "slow", "{}")), says("end"), says("own"))
        session.board.submit(1, "one")
        await waiting.wait()
        copy = session.board.open(copy_of=1)
        assert len(copy.history) == 3, "the prompt, the first call and its result"
        with pytest.raises(TaskError, match=r"a copy of task 1, which is running: /fg 1 shows it"):
            session.board.continue_task(2)
        go_on.set()
        await session.board.wait(1)
        with pytest.raises(TaskError, match=r"a copy of task 1, /continue 1 goes on there"):
            session.board.continue_task(2)
        await session.turn(2, "two")
        with pytest.raises(TaskError, match="the model had finished"):
            session.board.continue_task(2)


async def test_a_background_answer_is_offered_to_the_next_foreground_prompt(tmp_path: Path) -> None:
    async with board_session(tmp_path) as session:
        session.script(says("42"), says("thanks"))
        task = session.board.open("the question")
        task.background = True
        await session.turn(2, "what is it?")
        assert (task.state, [note.text for note in session.board.notes.waiting]) == ("finished", ["42"])
        await session.turn(1, "go on")
        assert session.texts(1)[0] == (
            "[Background task 2, 'the question', has finished. Its answer:]\n42\n\ngo on"
        )
        assert session.board.notes.waiting == ()


# --- steering and queueing --------------------------------------------------------------------------------


async def test_steering_reaches_the_running_turn_and_skips_what_was_left(tmp_path: Path) -> None:
    reached, go_on = asyncio.Event(), asyncio.Event()

    @tool(risk="medium", name="change")
    async def change(ctx: ToolContext) -> str:
        """Change."""
        reached.set()
        await go_on.wait()
        return "changed"

    async with board_session(tmp_path, change) as session:
        session.policy.set_mode("edit")
        session.policy.approve("all")
        lane = session.script(calls(("a", "change", "{}"), ("b", "change", "{}")), says("ok"))
        session.board.submit(1, "go")
        await reached.wait()
        await session.board.prompt(1, "stop")
        await session.board.prompt(1, "and look")
        go_on.set()
        await session.board.wait(1)
        results = [one.text for one in session.board.task(1).history if isinstance(one, ToolMessage)]
        assert results == ["changed", SKIPPED_TEXT]
        assert [text_of(one) for one in lane.requests[1].history][-2:] == ["stop", "and look"]


async def test_steering_withdraws_an_open_question_of_its_task_alone(tmp_path: Path) -> None:
    async with board_session(tmp_path, act) as session:
        session.script(calls(("a", "act", '{"what": "x"}')), says("ok"))
        session.script(calls(("b", "act", '{"what": "y"}')), says("ok"), model="other")
        session.board.open(model="other")
        session.board.submit(1, "go")
        session.board.submit(2, "go")
        await until(lambda: len(session.board.inbox.waiting()) == 2)
        assert [session.board.task(task_id).state for task_id in (1, 2)] == ["waiting", "waiting"]
        await session.board.prompt(1, "no, wait")
        await session.board.wait(1)
        assert session.texts(1) == ["go", "", SKIPPED_TEXT, "no, wait", "ok"]
        assert [one.task_id for one in session.board.inbox.waiting()] == [2]


async def test_queued_text_opens_the_next_turns_one_at_a_time(tmp_path: Path) -> None:
    async with board_session(tmp_path) as session:
        reached, go_on, step = gate()
        session.script([TextPiece("one"), step, Finished("stop")], says("two"), says("three"))
        session.board.submit(1, "a")
        await reached.wait()
        await session.board.queue(1, "b")
        await session.board.queue(1, "c")
        go_on.set()
        await session.board.wait(1)
        assert session.texts(1) == ["a", "one", "b", "two", "c", "three"]


async def test_text_for_a_task_at_rest_is_a_prompt(tmp_path: Path) -> None:
    async with board_session(tmp_path) as session:
        session.script(says("one"), says("two"))
        await session.board.prompt(1, "a")
        await session.board.wait(1)
        await session.board.queue(1, "b")
        await session.board.wait(1)
        origins = [one.origin for one in session.board.task(1).history if isinstance(one, UserMessage)]
        assert (session.texts(1), origins) == (["a", "one", "b", "two"], ["prompt", "prompt"])


async def test_waiting_text_is_taken_back_last_first_and_cancel_hands_back_the_rest(tmp_path: Path) -> None:
    async with board_session(tmp_path) as session:
        reached, _go_on, step = gate()
        session.script([TextPiece("one"), step, Finished("stop")])
        session.board.submit(1, "a")
        await reached.wait()
        await session.board.queue(1, "b")
        await session.board.queue(1, "c")
        taken = await session.board.take_back(1)
        assert taken is not None
        assert text_of(taken) == "c"
        assert [text_of(one) for one in session.board.cancel(1)] == ["b"]
        await session.board.wait(1)
        assert await session.board.take_back(1) is None
        assert (session.texts(1), session.board.task(1).state) == (["a", "one"], "cancelled")


async def test_REL_024_queued_text_is_there_after_a_crash(tmp_path: Path) -> None:
    async with board_session(tmp_path) as session:
        reached, _go_on, step = gate()
        session.script([TextPiece("one"), step, Finished("stop")])
        session.board.submit(1, "a")
        await reached.wait()
        await session.board.queue(1, "b")
        await session.board.prompt(1, "c")
        journal = (Path(session.journal.directory) / "journal.jsonl").read_bytes()
        await session.journal.writer.journal.flush()
        other = tmp_path / "after"
        other.mkdir()
    crashed = Path(session.journal.directory)
    for path in crashed.iterdir():
        if path.is_file():
            path.unlink()
    (crashed / "journal.jsonl").write_bytes(journal)
    again = await session.store.open("last")
    (task,) = again.loaded.tasks
    await again.close()
    assert [text_of(one) for one in (*task.record.queued, *task.record.steering)] == ["b", "c"]
    assert task.record.task.state == "paused"


# --- ends -------------------------------------------------------------------------------------------------


async def test_cancelling_keeps_what_arrived_and_says_why(tmp_path: Path) -> None:
    async with board_session(tmp_path) as session:
        reached, _go_on, step = gate()
        session.script([TextPiece("half an ans"), step, Finished("stop")], says("wer"))
        session.board.submit(1, "a")
        await reached.wait()
        session.board.cancel(1, "you pressed Esc")
        outcome = await session.board.wait(1)
        assert outcome is not None
        assert (outcome.outcome, outcome.reason) == ("cancelled", "you pressed Esc")
        last = session.board.task(1).history[-1]
        assert isinstance(last, AssistantMessage)
        assert (text_of(last), last.finish) == ("half an ans", "cut")
        session.board.continue_task(1)
        await session.board.wait(1)
        assert session.texts(1)[-2:] == ["Continue exactly where you stopped.", "wer"]


async def test_cancelling_a_task_at_rest_changes_nothing(tmp_path: Path) -> None:
    async with board_session(tmp_path) as session:
        session.script(says("one"))
        await session.turn(1, "a")
        assert session.board.cancel(1, "no reason") == ()
        assert (session.board.task(1).state, session.board.task(1).reason) == ("idle", "")


async def test_a_killed_task_is_closed(tmp_path: Path) -> None:
    async with board_session(tmp_path) as session:
        reached, _go_on, step = gate()
        session.script([TextPiece("one"), step, Finished("stop")])
        session.board.submit(1, "a")
        await reached.wait()
        await session.board.kill(1)
        assert (session.board.task(1).closed, session.board.task(1).state) == (True, "cancelled")
        with pytest.raises(TaskError, match="task 1 is closed; start another one with `TEXT &`"):
            session.board.submit(1, "b")


async def test_a_time_limit_cancels_with_its_reason_and_can_be_taken_back(tmp_path: Path) -> None:
    async with board_session(tmp_path) as session:
        reached, _go_on, step = gate()
        session.script([TextPiece("one"), step, Finished("stop")], says("two"))
        session.board.submit(1, "a")
        await reached.wait()  # a limit over before the request would leave the gate to the next turn
        session.board.set_timeout(1, 3600)
        session.board.set_timeout(1, 0.05)
        outcome = await session.board.wait(1)
        assert outcome is not None
        assert outcome.reason == "its time limit of 0.05 s (/timeout) ran out"
        session.board.set_timeout(1, 3600)
        session.board.set_timeout(1, 0)
        await session.turn(1, "b")
        assert session.board.task(1).state == "idle"


async def test_what_was_queued_for_a_task_outlives_its_time_limit_and_why_it_ended_is_told(
    tmp_path: Path,
) -> None:
    async with board_session(tmp_path) as session:
        reader = session.board.reader()
        reached, _go_on, step = gate()
        session.script([TextPiece("one"), step, Finished("stop")], says("two"), says("three"))
        session.board.submit(1, "a")
        await reached.wait()
        await session.board.queue(1, "later")
        session.board.set_timeout(1, 0.05)
        await session.board.wait(1)
        assert [text_of(one) for one in session.board.task(1).queued] == ["later"]
        (ended,) = [one.event for one in reader.drain() if isinstance(one.event, TurnFinished)]
        assert (ended.outcome, ended.reason) == ("cancelled", "its time limit of 0.05 s (/timeout) ran out")
        await session.turn(1, "b")
        assert session.texts(1)[-4:] == ["b", "two", "later", "three"]


async def test_a_failed_turn_is_continued(tmp_path: Path) -> None:
    async with board_session(tmp_path) as session:
        session.script([ProviderError("auth", "no key")], says("ok"))
        await session.turn(1, "a")
        assert (session.board.task(1).state, session.board.task(1).reason) == ("failed", "no key")
        session.board.continue_task(1)
        await session.board.wait(1)
        assert session.texts(1) == ["a", "ok"]


async def test_there_is_nothing_to_continue_after_an_answer(tmp_path: Path) -> None:
    async with board_session(tmp_path) as session:
        with pytest.raises(TaskError, match="no prompt was sent"):
            session.board.continue_task(1)
        session.script(says("one"))
        await session.turn(1, "a")
        with pytest.raises(TaskError, match="the model had finished"):
            session.board.continue_task(1)


class Strange(BaseException):
    """Nothing anybody expects."""


@pytest.mark.parametrize("error", [SystemExit(3), MemoryError(), RecursionError(), Strange()], ids=repr)
async def test_REL_053_only_the_task_that_breaks_fails(tmp_path: Path, error: BaseException) -> None:
    def broken() -> object:
        raise error

    async with board_session(tmp_path) as session:
        reader = session.board.reader()
        session.script([TextPiece("a"), broken])
        session.script(says("fine"), model="other")
        session.board.open(model="other")
        await asyncio.gather(session.turn(1, "one"), session.turn(2, "two"))
        assert [session.board.task(task_id).state for task_id in (1, 2)] == ["failed", "idle"]
        events = [one.event for one in reader.drain() if one.task_id == 1]
        assert sum(isinstance(event, TurnFinished) for event in events) == 1
        assert any(isinstance(event, Notice) and "task 1 failed" in event.text for event in events)
        session.script(says("again"))
        session.board.continue_task(1)
        await session.board.wait(1)
        assert session.board.task(1).state == "idle"


async def test_REL_055_leaving_ends_every_turn_and_its_tools(tmp_path: Path) -> None:
    began: list[str] = []
    ended: list[str] = []

    @tool(risk="low")
    async def slow(ctx: ToolContext, name: str) -> str:
        """Wait for ever."""
        began.append(name)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)
        return ""

    async with board_session(tmp_path, slow) as session:
        for task_id in range(1, 6):
            session.script(calls((f"c{task_id}", "slow", f'{{"name": "{task_id}"}}')), model=f"m{task_id}")
            session.board.open(model=f"m{task_id}")
            session.board.submit(task_id + 1, "go")
        await until(lambda: len(began) == 5)
        found = await session.reloaded()
    assert sorted(ended) == ["1", "2", "3", "4", "5"]
    for task_id in range(2, 7):
        assert session.board.task(task_id).reason == "buddy exited"
        assert [text_of(one) for one in found[task_id]] == ["go", "", CANCELLED_TEXT]


# --- limits and models ------------------------------------------------------------------------------------


async def test_REL_041_a_budget_pauses_and_a_larger_one_continues(tmp_path: Path) -> None:
    async with board_session(tmp_path, look) as session:
        session.script(calls(("a", "look", '{"path": "x"}')), says("done"))
        session.board.set_budget(1, Budget(0.02))
        await session.turn(1, "x" * 60)
        task = session.board.task(1)
        assert task.state == "paused"
        assert task.reason == "the next request could cost $0.05, $0.02 of the budget is left"
        session.board.set_budget(1, Budget(5))
        session.board.continue_task(1)
        await session.board.wait(1)
        assert (task.state, session.texts(1)[-1]) == ("idle", "done")


async def test_REL_041_the_sessions_budget_counts_all_tasks(tmp_path: Path) -> None:
    async with board_session(tmp_path, session_budget=Budget(0.05)) as session:
        session.script(says("one"))
        await session.turn(1, "x" * 80)
        session.board.open()
        await session.turn(2, "x" * 160)
        assert session.board.task(2).state == "paused"
        assert session.board.task(2).reason.endswith("$0.02 of the session's budget is left")
        session.board.set_budget(0, Budget())
        session.script(says("two"))
        session.board.continue_task(2)
        await session.board.wait(2)
        assert session.texts(2)[-1] == "two"


async def test_another_model_answers_from_the_next_turn_on_and_totals_stay(tmp_path: Path) -> None:
    async with board_session(tmp_path) as session:
        session.script(says("one"))
        other = session.script(says("two"), model="other")
        await session.turn(1, "a")
        spent = session.board.task(1).meter.total
        session.board.change_model(1, "other")
        assert session.board.task(1).meter.total == spent
        with pytest.raises(ConfigError, match="unknown model 'no-such'"):
            session.board.change_model(1, "no-such")
        await session.turn(1, "b")
        assert [text_of(one) for one in other.requests[0].history] == ["a", "one", "b"]
        assert session.board.task(1).model == "other"


# --- coming back ------------------------------------------------------------------------------------------


async def test_the_whole_session_comes_back(tmp_path: Path) -> None:
    async with board_session(tmp_path) as session:
        session.script(says("one"))
        session.script(says("two"), model="other")
        session.board.open("second", model="other").tools = frozenset({"read_file"})
        await session.turn(1, "a")
        await session.turn(2, "b")
        session.board.set_focus(2)
        await session.board.close()
        await session.journal.close()
        saved_session = await session.store.open("last")
        again = BoardSession(session.root, saved_session, session.store)
        async with TaskBoard(again.parts()) as board:
            again.board = board
            board.restore(saved_session.loaded.tasks, saved_session.loaded.state.focus)
            assert [(one.task_id, one.title, one.model) for one in board.tasks.values()] == [
                (1, "a", ""), (2, "second", "other"),
            ]  # fmt: skip
            assert (board.focus, again.texts(1), again.texts(2)) == (2, ["a", "one"], ["b", "two"])
            assert (board.task(1).tools, board.task(2).tools) == (None, frozenset({"read_file"}))
            assert board.task(1).meter.total.input_tokens > 0
            again.script(says("three"))
            await again.turn(1, "c")
            assert again.texts(1) == ["a", "one", "c", "three"]
        await saved_session.close()


async def test_reset_empties_the_conversation_on_disk_too(tmp_path: Path) -> None:
    async with board_session(tmp_path) as session:
        session.script(says("one"), says("two"))
        await session.turn(1, "a")
        before = session.board.task(1).meter.context_tokens
        session.board.reset(1)
        assert (before > 0, session.board.task(1).meter.context_tokens) == (True, 0)
        await session.turn(1, "b")
        assert session.texts(1) == ["b", "two"]
        assert [text_of(one) for one in (await session.reloaded())[1]] == ["b", "two"]


async def test_rewind_goes_back_on_disk_too_and_never_under_a_running_turn(tmp_path: Path) -> None:
    async with board_session(tmp_path) as session:
        session.script(says("one"), says("two"))
        await session.turn(1, "first")
        await session.turn(1, "second")
        await session.board.rewind(1, 2)
        assert session.texts(1) == ["first", "one"]
        reached, go_on, step = gate()
        session.script([TextPiece("three"), step, Finished("stop")])
        session.board.submit(1, "third")
        await reached.wait()
        with pytest.raises(TaskError, match="task 1 is running"):
            await session.board.rewind(1, 0)
        go_on.set()
        await session.board.wait(1)
        assert session.texts(1) == ["first", "one", "third", "three"]
        assert [text_of(one) for one in (await session.reloaded())[1]] == session.texts(1)
