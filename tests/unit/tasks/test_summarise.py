"""A conversation is summarised by its model on request, and the summary can be taken back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from buddy.agent.budget import Budget
from buddy.agent.compaction import Compaction
from buddy.agent.messages import text_of
from buddy.agent.provider import Finished, ProviderError, TextPiece, ThinkingPiece
from buddy.tasks.board import TaskError
from buddy.tasks.summarise import compact_task, compaction_figures, uncompact_task
from tests.support.board_session import BoardSession, board_session, gate
from tests.support.laws import Step, says


async def talked(session: BoardSession, turns: int = 2) -> None:
    for number in range(turns):
        session.script(says(f"answer {number} " + "x" * 200))
        await session.turn(1, f"prompt {number} " + "y" * 200)


async def test_a_summary_stands_for_all_but_the_last_turn(tmp_path: Path) -> None:
    async with board_session(tmp_path) as session:
        await talked(session, 3)
        lane = session.script(says("They talked."), says("ok"))
        summary = await compact_task(session.board, 1, "the parser")
        assert summary == "They talked."
        assert "the parser" in text_of(lane.requests[-1].history[-1])
        assert lane.requests[-1].tools == ()
        assert session.board.task(1).compaction == Compaction(4, "They talked.")
        assert session.forgotten == 1
        await session.turn(1, "next")
        sent = [text_of(one) for one in lane.requests[-1].history]
        assert [text[:12] for text in sent] == [
            "prompt 0 yyy", "prompt 1 yyy", "They talked.", "prompt 2 yyy", "answer 2 xxx", "next",
        ]  # fmt: skip
        assert len(session.board.task(1).history) == 8, "the conversation itself stays whole"


async def test_a_summary_is_taken_back(tmp_path: Path) -> None:
    async with board_session(tmp_path) as session:
        await talked(session)
        lane = session.script(says("They talked."), says("ok"))
        await compact_task(session.board, 1, "")
        await uncompact_task(session.board, 1)
        await session.turn(1, "next")
        assert lane.requests[-1].history == tuple(session.board.task(1).history[:-1])
        with pytest.raises(TaskError, match="nothing was compacted"):
            await uncompact_task(session.board, 1)


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ([ProviderError("server", "it is down")], "not compacted: it is down"),
        ([TextPiece("half")], "not compacted"),
        (says("  \n"), "Not compacted: the model's summary is empty"),
        ([ThinkingPiece("hm"), Finished("stop")], "the model's summary is empty"),
        (says("z" * 5_000), "longer than the conversation"),
    ],
)
async def test_REL_022_a_summary_that_is_none_leaves_everything_as_it_was(
    tmp_path: Path, reply: list[Step], words: str
) -> None:
    async with board_session(tmp_path) as session:
        await talked(session)
        before = list(session.board.task(1).history)
        lane = session.script(reply, says("ok"))
        with pytest.raises(TaskError, match=words):
            await compact_task(session.board, 1, "")
        assert (session.board.task(1).history, session.board.task(1).compaction) == (before, None)
        assert lane.closed == len(lane.requests), "the stream is closed whatever came"
        await session.turn(1, "next")
        assert session.texts(1)[-1] == "ok"


async def test_REL_022_what_failed_twice_is_not_asked_again_and_advice_is_given(tmp_path: Path) -> None:
    async with board_session(tmp_path) as session:
        await talked(session)
        lane = session.script(says(" "), says(" "), says("ok"), says("Short."))
        before = len(lane.requests)
        with pytest.raises(TaskError, match=r"[Nn]ot compacted: "):
            await compact_task(session.board, 1, "")
        with pytest.raises(TaskError, match=r"second attempt\. Change the model \(/model\), rewind"):
            await compact_task(session.board, 1, "")
        with pytest.raises(TaskError, match=r"failed 2 times and is not tried again\. Change the model"):
            await compact_task(session.board, 1, "")
        assert len(lane.requests) == before + 2
        await session.turn(1, "next")
        assert await compact_task(session.board, 1, "") == "Short.", "of another part it is"


async def test_there_is_nothing_to_summarise_in_the_last_turn_and_nothing_while_it_runs(
    tmp_path: Path,
) -> None:
    async with board_session(tmp_path) as session:
        with pytest.raises(TaskError, match="Nothing to compact yet"):
            await compact_task(session.board, 1, "")
        await talked(session, 1)
        with pytest.raises(TaskError, match="Nothing to compact yet"):
            await compact_task(session.board, 1, "")
        reached, go_on, step = gate()
        session.script([TextPiece("a"), step, Finished("stop")])
        session.board.submit(1, "more")
        await reached.wait()
        with pytest.raises(TaskError, match="task 1 is running"):
            await compact_task(session.board, 1, "")
        go_on.set()
        await session.board.wait(1)


async def test_a_summary_comes_back_with_the_session(tmp_path: Path) -> None:
    async with board_session(tmp_path) as session:
        await talked(session)
        session.script(says("They talked."))
        await compact_task(session.board, 1, "")
        await session.board.close()
        await session.journal.close()
        again = await session.store.open("last")
        (task,) = again.loaded.tasks
        await again.close()
        assert task.record.compaction == Compaction(2, "They talked.")


async def test_RU_P4_2_a_summary_is_counted_and_journalled(tmp_path: Path) -> None:
    async with board_session(tmp_path) as session:
        await talked(session)
        task = session.board.task(1)
        before, filled = task.meter.report(), task.meter.context_tokens
        session.script(says("They talked."))
        await compact_task(session.board, 1, "")
        after = task.meter.report()
        assert after.total.input_tokens > before.total.input_tokens
        assert after.cost_usd > before.cost_usd
        assert task.meter.context_tokens == filled, "the summary's request is no part of the conversation"
        assert session.journal.writer.state().tasks[0].usage == after


@pytest.mark.parametrize("step", [ProviderError("server", "it is down"), None])
async def test_RU_P4_2_a_summary_that_broke_off_is_counted(
    tmp_path: Path, step: ProviderError | None
) -> None:
    async with board_session(tmp_path) as session:
        await talked(session)
        task = session.board.task(1)
        before = task.meter.report().total
        reached, _, wait = gate()
        session.script([TextPiece("half of it "), step or wait, Finished("stop")])
        work = asyncio.ensure_future(compact_task(session.board, 1, ""))
        if step is None:
            await reached.wait()
            work.cancel()
        with pytest.raises((TaskError, asyncio.CancelledError)):
            await work
        after = task.meter.report().total
        assert after.output_tokens > before.output_tokens
        assert after.input_tokens > before.input_tokens
        assert task.compaction is None


@pytest.mark.parametrize("task_id", [0, 1])
async def test_RU_P4_2_a_summary_that_a_budget_forbids_is_not_asked_for(tmp_path: Path, task_id: int) -> None:
    async with board_session(tmp_path) as session:
        await talked(session)
        lane = session.script(says("They talked."))
        asked = len(lane.requests)
        session.board.set_budget(task_id, Budget(max_tokens=300))
        with pytest.raises(TaskError, match=r"not compacted: .*tokens, 0 of the .*budget are left"):
            await compact_task(session.board, 1, "")
        assert len(lane.requests) == asked


async def test_RU_P4_2_a_summary_of_a_conversation_that_was_changed_meanwhile_is_not_used(
    tmp_path: Path,
) -> None:
    async with board_session(tmp_path) as session:
        await talked(session)
        reached, go_on, step = gate()
        session.script([TextPiece("They talked."), step, Finished("stop")])
        work = asyncio.ensure_future(compact_task(session.board, 1, ""))
        await reached.wait()
        session.board.reset(1)
        go_on.set()
        with pytest.raises(TaskError, match="the conversation changed meanwhile"):
            await work
        assert session.board.task(1).compaction is None


async def test_RU_P4_2_a_compaction_is_shown_without_a_request(tmp_path: Path) -> None:
    async with board_session(tmp_path) as session:
        await talked(session, 3)
        with pytest.raises(TaskError, match="nothing is compacted"):
            compaction_figures(session.board.task(1))
        lane = session.script(says("They talked."))
        await compact_task(session.board, 1, "")
        asked = len(lane.requests)
        seen = compaction_figures(session.board.task(1))
        assert (seen.messages, seen.kept, seen.summary) == (4, 4, "They talked.")
        assert seen.tokens_after < seen.tokens_before
        assert len(lane.requests) == asked
