"""From tasks to front ends: the event hub; and the questions that wait for the person: the inbox."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buddy.agent.display import Display
from buddy.agent.events import (
    AgentUiEvent,
    ApprovalRequested,
    ApprovalResolved,
    Notice,
    TaskEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolFinished,
    ToolProgress,
    TurnFinished,
)
from buddy.agent.messages import ToolMessage, text_of
from buddy.agent.provider import Finished, TextPiece
from buddy.agent.tool import Access, ToolContext, ToolError, tool
from buddy.tasks.approvals import AnswerRefused
from buddy.tasks.event_hub import HIGH_WATER_CHARS, EventHub
from tests.support.board_session import BoardSession, board_session
from tests.support.laws import calls, says
from tests.support.waiting import until

PIECES = st.sampled_from([TextDelta, ThinkingDelta])


def events_of(batch: list[TaskEvent]) -> list[AgentUiEvent]:
    return [one.event for one in batch]


# --- events -----------------------------------------------------------------------------------------------


async def test_neighbouring_pieces_of_one_block_are_merged_while_they_wait() -> None:
    hub = EventHub(lambda: 1.0)
    reader = hub.reader()
    for text in ("a", "b", "c"):
        hub.emit(1, TextDelta("r", 0, text))
    hub.emit(1, TextDelta("r", 1, "d"))
    hub.emit(1, ThinkingDelta("r", 1, "e"))
    hub.emit(1, ToolCallDelta("r", "c1", "read_file", '{"a'))
    hub.emit(1, ToolCallDelta("r", "c1", "read_file", '":1}'))
    hub.emit(1, ToolProgress("c1", "x"))
    hub.emit(1, ToolProgress("c1", "y"))
    hub.emit(1, ToolProgress("c2", "z"))
    assert events_of(reader.drain()) == [
        TextDelta("r", 0, "abc"), TextDelta("r", 1, "d"), ThinkingDelta("r", 1, "e"),
        ToolCallDelta("r", "c1", "read_file", '{"a":1}'), ToolProgress("c1", "xy"), ToolProgress("c2", "z"),
    ]  # fmt: skip


async def test_nothing_is_merged_across_another_event_or_what_was_read() -> None:
    hub = EventHub(lambda: 1.0)
    reader = hub.reader()
    hub.emit(1, TextDelta("r", 0, "a"))
    hub.emit(1, Notice("info", "between"))
    hub.emit(1, TextDelta("r", 0, "b"))
    assert len(reader.drain()) == 3
    hub.emit(1, TextDelta("r", 0, "c"))
    assert events_of(reader.drain()) == [TextDelta("r", 0, "c")]


async def test_pieces_of_several_tasks_are_merged_each_with_its_own() -> None:
    hub = EventHub(lambda: 1.0)
    reader = hub.reader()
    for number in (1, 2, 1, 2):
        hub.emit(number, TextDelta(f"r{number}", 0, str(number)))
    assert [(one.task_id, one.seq, one.event) for one in reader.drain()] == [
        (1, 1, TextDelta("r1", 0, "11")), (2, 1, TextDelta("r2", 0, "22")),
    ]  # fmt: skip


KINDS = st.sampled_from(["text", "think", "notice"])
EVENT = st.tuples(st.integers(1, 3), KINDS, st.integers(0, 2), st.text(max_size=4), st.booleans())


@given(st.lists(EVENT, max_size=60))
def test_merging_keeps_order_and_text_and_numbers_have_no_gaps(
    emitted: list[tuple[int, str, int, str, bool]],
) -> None:
    async def play() -> list[TaskEvent]:
        hub = EventHub(lambda: 0.0)
        reader = hub.reader()
        found: list[TaskEvent] = []
        for number, kind, block, text, drained in emitted:
            hub.emit(number, _event(kind, block, text))
            if drained:
                found += reader.drain()
        return found + reader.drain()

    found = asyncio.run(play())
    for number in (1, 2, 3):
        mine = [one for one in found if one.task_id == number]
        assert [one.seq for one in mine] == list(range(1, len(mine) + 1))
        sent = [(kind, block, text) for task, kind, block, text, _ in emitted if task == number]
        assert _letters([one.event for one in mine]) == _letters([_event(*one) for one in sent])


def _event(kind: str, block: int, text: str) -> AgentUiEvent:
    if kind == "notice":
        return Notice("info", text)
    return TextDelta("r", block, text) if kind == "text" else ThinkingDelta("r", block, text)


def _letters(events: list[AgentUiEvent]) -> list[tuple[str, int, str]]:
    """Every character with where it belongs; a notice is one whole."""
    found: list[tuple[str, int, str]] = []
    for event in events:
        if isinstance(event, TextDelta | ThinkingDelta):
            found += [(type(event).__name__, event.block, letter) for letter in event.text]
        elif isinstance(event, Notice):
            found.append(("notice", 0, event.text))
    return found


async def test_every_reader_sees_everything_at_its_own_pace() -> None:
    hub = EventHub(lambda: 0.0)
    fast, slow = hub.reader(), hub.reader()
    hub.emit(1, TextDelta("r", 0, "a"))
    assert len(fast.drain()) == 1
    hub.emit(1, TextDelta("r", 0, "b"))
    late = hub.reader()
    assert events_of(fast.drain()) == [TextDelta("r", 0, "b")]
    assert events_of(slow.drain()) == [TextDelta("r", 0, "ab")]
    assert late.drain() == []


async def test_a_reader_that_waits_is_woken_by_an_event_and_by_its_end() -> None:
    hub = EventHub(lambda: 0.0)
    reader = hub.reader()
    waiting = asyncio.ensure_future(reader.batch())
    await asyncio.sleep(0)
    hub.emit(1, Notice("info", "a"))
    assert len(await waiting) == 1
    waiting = asyncio.ensure_future(reader.batch())
    await asyncio.sleep(0)
    reader.close()
    assert await waiting == []
    hub.emit(1, Notice("info", "b"))
    assert await reader.batch() == []


async def test_the_slowest_reader_holds_streams_back_until_it_reads_or_leaves() -> None:
    hub = EventHub(lambda: 0.0)
    fast, slow = hub.reader(), hub.reader()
    hub.emit(1, TextDelta("r", 0, "x" * (HIGH_WATER_CHARS + 1)))
    assert not hub.ready.is_set()
    fast.drain()
    assert not hub.ready.is_set()
    slow.drain()
    assert hub.ready.is_set()
    hub.emit(1, TextDelta("r", 0, "x" * (HIGH_WATER_CHARS + 1)))
    fast.drain()
    slow.close()
    assert hub.ready.is_set()


async def test_a_model_is_not_read_further_while_nobody_reads_its_words(tmp_path: Path) -> None:
    async with board_session(tmp_path) as session:
        read: list[int] = []
        pieces = [
            step for at in range(20) for step in (TextPiece("x" * 100_000), lambda at=at: read.append(at))
        ]
        session.script([*pieces, Finished("stop")])
        reader = session.board.reader()
        session.board.submit(1, "go")
        await until(lambda: not session.board.hub.ready.is_set())
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(read) < 8
        while session.board.task(1).running:
            reader.drain()
            await asyncio.sleep(0)
        assert (len(read), len(session.texts(1)[-1])) == (20, 2_000_000)


# --- the inbox --------------------------------------------------------------------------------------------


@tool(risk="medium", name="act", access=lambda arguments: Access(writes=(arguments.path,)))
async def act(ctx: ToolContext, path: str) -> str:
    """Act."""
    return f"did {path}"


async def two_questions(session: BoardSession, *paths: str) -> tuple[ApprovalRequested, ApprovalRequested]:
    """Two tasks, each with a call that asks."""
    for number, path in enumerate(paths or ("a.txt", "b.txt"), 1):
        session.script(calls((f"c{number}", "act", f'{{"path": "{path}"}}')), says("ok"), model=f"m{number}")
        session.board.open(model=f"m{number}")
        session.board.submit(number + 1, "go")
        await until(lambda number=number: len(session.board.inbox.waiting()) == number)
    first, second = session.board.inbox.waiting()
    return first.event, second.event


def results(session: BoardSession, task_id: int) -> list[tuple[str, str]]:
    return [
        (one.status, one.text) for one in session.board.task(task_id).history if isinstance(one, ToolMessage)
    ]


async def test_SEC_041_two_questions_each_name_their_task_and_are_answered_alone(tmp_path: Path) -> None:
    async with board_session(tmp_path, act) as session:
        first, second = await two_questions(session)
        assert [(one.number, one.task_id) for one in session.board.inbox.waiting()] == [(1, 2), (2, 3)]
        session.board.inbox.answer(second.request_id, second.digest, "denied", words="use the other file")
        await session.board.wait(3)
        assert results(session, 3) == [("denied", "denied: use the other file")]
        assert [one.task_id for one in session.board.inbox.waiting()] == [2], "Esc denies one only"
        session.board.inbox.answer(first.request_id, first.digest, "once")
        await session.board.wait(2)
        assert results(session, 2) == [("ok", "did a.txt")]


async def test_SEC_038_an_answer_counts_only_for_the_question_that_was_shown(tmp_path: Path) -> None:
    async with board_session(tmp_path, act) as session:
        first, second = await two_questions(session)
        inbox = session.board.inbox
        for request_id, digest in [
            (first.request_id, second.digest), (second.request_id, first.digest), (first.request_id, ""),
        ]:  # fmt: skip
            with pytest.raises(AnswerRefused, match="Read it again"):
                inbox.answer(request_id, digest, "once")
        with pytest.raises(AnswerRefused, match="That request was already answered or withdrawn"):
            inbox.answer("nobody", first.digest, "once")
        inbox.answer(first.request_id, first.digest, "denied")
        with pytest.raises(AnswerRefused, match="That request was already answered or withdrawn"):
            inbox.answer(first.request_id, first.digest, "once")
        await session.board.wait(2)
        assert results(session, 2)[0][0] == "denied"
        assert len(inbox.waiting()) == 1


async def test_a_question_is_closed_once_when_its_turn_is_cancelled(tmp_path: Path) -> None:
    async with board_session(tmp_path, act) as session:
        reader = session.board.reader()
        first, _second = await two_questions(session)
        session.board.cancel(2)
        await session.board.wait(2)
        closed = [one for one in events_of(reader.drain()) if isinstance(one, ApprovalResolved)]
        assert closed == [ApprovalResolved(first.request_id, "withdrawn", "the task ended")]
        assert results(session, 2)[0][0] == "cancelled"


async def test_a_grant_settles_what_waits_and_what_comes(tmp_path: Path) -> None:
    async with board_session(tmp_path, act) as session:
        first, _second = await two_questions(session, "same.txt", "same.txt")
        session.board.inbox.answer(first.request_id, first.digest, "session")
        await asyncio.gather(session.board.wait(2), session.board.wait(3))
        assert results(session, 2) == results(session, 3) == [("ok", "did same.txt")]
        assert session.board.inbox.waiting() == ()
        session.script(calls(("d", "act", '{"path": "same.txt"}')), says("ok"), model="m1")
        await session.turn(2, "again")
        assert len(results(session, 2)) == 2
        assert session.saved == []


async def test_a_rule_is_saved_for_good_and_holds_at_once(tmp_path: Path) -> None:
    async with board_session(tmp_path, act) as session:
        first, _second = await two_questions(session, "same.txt", "same.txt")
        session.board.inbox.answer(first.request_id, first.digest, "rule")
        await asyncio.gather(session.board.wait(2), session.board.wait(3))
        assert results(session, 2) == results(session, 3) == [("ok", "did same.txt")]
        assert len(session.saved) == 1
        root = session.root
        assert [rule.shown for rule in session.policy.rules.rules] == [f"allow edit: {root}/same.txt"]


async def test_a_saved_rule_for_a_path_holds_in_its_own_project_alone(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    async with board_session(tmp_path / "one", act) as session:
        first, _second = await two_questions(session, "src/same.txt", "src/same.txt")
        session.board.inbox.answer(first.request_id, first.digest, "rule")
        await asyncio.gather(session.board.wait(2), session.board.wait(3))
        saved = session.policy.rules.rules
    async with board_session(tmp_path / "two", act) as session:
        session.policy.learn(saved)
        first, second = await two_questions(session, "src/same.txt", "src/same.txt")
        for one in (first, second):
            session.board.inbox.answer(one.request_id, one.digest, "denied")
        await asyncio.gather(session.board.wait(2), session.board.wait(3))
    async with board_session(tmp_path / "one", act) as session:
        session.policy.learn(saved)
        session.script(calls(("d", "act", '{"path": "src/same.txt"}')), says("ok"))
        await session.turn(1, "go")
        assert results(session, 1) == [("ok", "did src/same.txt")]


async def test_SEC_042_a_question_about_a_protected_path_outlives_every_mode(tmp_path: Path) -> None:
    async with board_session(tmp_path, act) as session:
        await two_questions(session, ".git/hooks/pre-commit", "plain.txt")
        inbox = session.board.inbox
        session.policy.set_mode("auto")
        inbox.reconsider()
        session.policy.approve("all")
        inbox.reconsider()
        await session.board.wait(3)
        assert results(session, 3) == [("ok", "did plain.txt")]
        (left,) = inbox.waiting()
        assert left.task_id == 2
        with pytest.raises(AnswerRefused, match="can't be remembered"):
            inbox.answer(left.event.request_id, left.event.digest, "session")
        inbox.answer(left.event.request_id, left.event.digest, "denied")
        await session.board.wait(2)


async def test_WALK_7_the_log_says_who_ended_each_question_and_with_what(tmp_path: Path) -> None:
    async with board_session(tmp_path, act) as session:
        inbox = session.board.inbox
        first, second = await two_questions(session)
        assert [one.answer for one in session.policy.log] == ["", ""]
        inbox.answer(second.request_id, second.digest, "denied", words="use pytest")
        inbox.answer(first.request_id, first.digest, "once")
        await asyncio.gather(session.board.wait(2), session.board.wait(3))
        assert [one.answer for one in session.policy.log] == ["you, once", "you denied: use pytest"]
        for task_id, answer in enumerate(("denied", "session"), 4):
            session.script(calls(("c", "act", f'{{"path": "{answer}"}}')), says("ok"), model=answer)
            session.board.open(model=answer)
            session.board.submit(task_id, "go")
            request = await session.asked()
            inbox.answer(request.request_id, request.digest, answer)
            await session.board.wait(task_id)
        assert [one.answer for one in session.policy.log][2:] == ["you denied", "you, for this session"]


async def test_WALK_7_the_log_says_what_ended_a_question_without_the_person(tmp_path: Path) -> None:
    async with board_session(tmp_path, act) as session:
        await two_questions(session)
        inbox = session.board.inbox
        inbox.withdraw(2, "new instructions")
        session.policy.set_mode("edit")
        inbox.reconsider()
        await asyncio.gather(session.board.wait(2), session.board.wait(3))
        assert [one.answer for one in session.policy.log] == [
            "withdrawn: new instructions",
            "allowed by mode",
        ]
    (tmp_path / "b").mkdir()
    async with board_session(tmp_path / "b", act, attended=False) as session:
        session.script(calls(("c", "act", '{"path": "a.txt"}')), says("ok"))
        await session.turn(1, "go")
        assert [one.answer for one in session.policy.log] == ["nobody was there to answer"]


def no_room(_ctx: ToolContext, arguments: Any) -> Display:
    raise ToolError(f"{arguments.path} is a folder")


async def test_WALK_12_a_call_that_would_fail_has_failed_and_was_not_denied(tmp_path: Path) -> None:
    @tool(risk="medium", access=lambda arguments: Access(writes=(arguments.path,)), preview=no_room)
    async def put(ctx: ToolContext, path: str) -> str:
        """Put."""
        return "never run"

    async with board_session(tmp_path, put) as session:
        session.script(calls(("c", "put", '{"path": "a.txt"}')), says("ok"))
        reader = session.board.reader()
        await session.turn(1, "go")
        assert results(session, 1) == [("error", "failed: a.txt is a folder")]
        (end,) = [one for one in events_of(reader.drain()) if isinstance(one, TurnFinished)]
        assert (end.refused, end.failed) == (0, 1)


async def test_standing_no_denies_what_waits(tmp_path: Path) -> None:
    async with board_session(tmp_path, act) as session:
        await two_questions(session)
        session.policy.approve("none")
        session.board.inbox.reconsider()
        await asyncio.gather(session.board.wait(2), session.board.wait(3))
        assert {status for number in (2, 3) for status, _ in results(session, number)} == {"denied"}


async def test_where_nobody_can_be_asked_a_question_is_a_denial_with_its_reason(tmp_path: Path) -> None:
    async with board_session(tmp_path, act, attended=False) as session:
        session.script(calls(("c", "act", '{"path": "a.txt"}')), says("ok"))
        await session.turn(1, "go")
        ((status, text),) = results(session, 1)
        assert status == "denied"
        assert text.startswith("denied: it needs an approval and nobody is there to give it")


# --- calls on their way -----------------------------------------------------------------------------------


async def test_an_equal_read_is_answered_from_the_cache_until_something_is_written(tmp_path: Path) -> None:
    ran: list[str] = []

    @tool(risk="low", cache_s=60, access=lambda arguments: Access(reads=(arguments.path,)))
    async def look(ctx: ToolContext, path: str) -> str:
        """Look."""
        ran.append(path)
        return f"seen {path}"

    @tool(risk="low", access=lambda arguments: Access(writes=(arguments.path,)))
    async def write(ctx: ToolContext, path: str) -> str:
        """Write."""
        return "written"

    async with board_session(tmp_path, look, write) as session:
        session.policy.approve("all")
        reader = session.board.reader()
        at = '{"path": "a.txt"}'
        session.script(
            calls(("1", "look", at)), calls(("2", "look", at)), calls(("3", "write", at)),
            calls(("4", "look", at)), says("ok"),
        )  # fmt: skip
        await session.turn(1, "go")
        finished = [one for one in events_of(reader.drain()) if isinstance(one, ToolFinished)]
        assert [one.cached for one in finished] == [False, True, False, False]
        assert ran == ["a.txt", "a.txt"]


async def test_what_changed_in_files_the_model_has_read_is_told_with_the_next_result(tmp_path: Path) -> None:
    @tool(risk="high")
    async def shell(ctx: ToolContext) -> str:
        """Do anything."""
        return "done"

    async with board_session(tmp_path, shell) as session:
        session.policy.approve("all")
        session.changes = ["a.txt: line 3 changed"]
        session.script(calls(("1", "shell", "{}")), calls(("2", "shell", "{}")), says("ok"))
        await session.turn(1, "go")
        assert [text for _, text in results(session, 1)] == [
            "done\n\n[files you have read changed]\na.txt: line 3 changed", "done",
        ]  # fmt: skip


async def test_a_key_in_a_result_reaches_neither_model_nor_screen_nor_disk(tmp_path: Path) -> None:
    @tool(risk="low")
    async def leak(ctx: ToolContext) -> str:
        """Leak."""
        return "the key is sekrit-key-0123456789."

    async with board_session(tmp_path, leak) as session:
        reader = session.board.reader()
        lane = session.script(calls(("1", "leak", "{}")), says("it was sekrit-key-0123456789"))
        await session.turn(1, "use sekrit-key-0123456789")
        shown = [one.text for one in events_of(reader.drain()) if isinstance(one, ToolFinished)]
        sent = [text_of(one) for one in lane.requests[1].history]
        found = (await session.reloaded())[1]
        for text in (*shown, *sent, *(text_of(one) for one in found)):
            assert "sekrit" not in text
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert b"sekrit-key" not in path.read_bytes(), path
