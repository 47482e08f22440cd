"""A result reaches the disk while the model is asked; nothing else runs ahead of the disk. And the helper
that runs work beside the cancel event."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from buddy.agent.cancel import Beside, TurnCancelled, run_cancellable
from buddy.agent.events import ReplyFinished, ToolStarted, TurnFinished
from buddy.agent.host import Denied, TurnHost
from buddy.agent.loop import agent_loop
from buddy.agent.messages import Message, ToolMessage, text_of
from buddy.agent.tool import ToolContext, tool
from tests.support.laws import Bench, ScriptedLane, calls, says


@tool(risk="low")
async def look(ctx: ToolContext, path: str) -> str:
    """Look at something."""
    return f"seen {path}"


class SlowDisk:
    """A host's recording with results that are safe when `sync` says so."""

    def __init__(self, bench: Bench, *, promises: bool = True) -> None:
        self.bench = bench
        self.promises = promises
        self.unsafe: list[asyncio.Future[int]] = []
        self.asked = 0

    def host(self) -> TurnHost:
        return msgspec.structs.replace(self.bench.host(), record_soon=self.record_soon)

    def record_soon(self, message: Message) -> asyncio.Future[int] | None:
        self.asked += 1
        if not self.promises:
            return None
        self.bench.history.append(message)
        self.unsafe.append(asyncio.get_running_loop().create_future())
        return self.unsafe[-1]

    def sync(self) -> None:
        for saved in self.unsafe:
            if not saved.done():
                saved.set_result(1)

    def fail(self, error: Exception) -> None:
        for saved in self.unsafe:
            saved.set_exception(error)


async def settled() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


def finished(bench: Bench) -> list[str]:
    return [text_of(event.message) for event in bench.events if isinstance(event, ReplyFinished)]


async def test_the_model_is_asked_while_a_result_is_saved_and_its_reply_waits_for_the_disk() -> None:
    bench = Bench(ScriptedLane(calls(("a", "look", '{"path": "x"}')), says("done")), look)
    disk = SlowDisk(bench)
    turn = asyncio.ensure_future(agent_loop([bench.said("go")], bench.agent, bench.history, disk.host()))
    await settled()
    assert [type(one).__name__ for one in bench.provider.requests[1].history][-1] == "ToolMessage"
    assert finished(bench) == [""], "the reply has arrived and is not announced"
    disk.sync()
    assert (await turn).outcome == "completed"
    bench.check()
    assert finished(bench) == ["", "done"]


async def test_results_of_one_reply_are_in_order_and_a_turn_ends_when_they_are_safe() -> None:
    made = calls(("a", "look", '{"path": "x"}'), ("b", "look", '{"path": "y"}'), ("c", "nothing", "{}"))
    bench = Bench(ScriptedLane(made), look)
    disk = SlowDisk(bench)
    host = msgspec.structs.replace(disk.host(), emit=lambda event: _cancel_when_asked_again(bench, event))
    turn = asyncio.ensure_future(agent_loop([bench.said("go")], bench.agent, bench.history, host))
    await settled()
    assert [one.call_id for one in bench.history if isinstance(one, ToolMessage)] == ["a", "b", "c"]
    assert not any(isinstance(event, TurnFinished) for event in bench.events)
    disk.sync()
    assert (await turn).outcome == "cancelled"
    bench.check()


def _cancel_when_asked_again(bench: Bench, event: object) -> None:
    bench.events.append(event)
    if isinstance(event, ToolStarted) and event.call.id == "c":
        bench.cancelled.set()


async def test_where_nothing_can_be_promised_the_model_waits_for_the_disk() -> None:
    bench = Bench(ScriptedLane(calls(("a", "look", '{"path": "x"}')), says("done")), look)
    disk = SlowDisk(bench, promises=False)
    gate = asyncio.Event()
    host = disk.host()

    async def record(message: Message) -> None:
        if isinstance(message, ToolMessage):
            await gate.wait()
        bench.history.append(message)

    turn = asyncio.ensure_future(
        agent_loop(
            [bench.said("go")], bench.agent, bench.history, msgspec.structs.replace(host, record=record)
        )
    )
    await settled()
    assert (disk.asked, len(bench.provider.requests)) == (1, 1)
    gate.set()
    assert (await turn).outcome == "completed"
    bench.check()


async def test_a_result_that_can_not_be_saved_ends_the_turn() -> None:
    bench = Bench(ScriptedLane(calls(("a", "look", '{"path": "x"}')), says("done")), look)
    bench.decide = lambda _name: Denied("not now")
    disk = SlowDisk(bench)
    turn = asyncio.ensure_future(agent_loop([bench.said("go")], bench.agent, bench.history, disk.host()))
    await settled()
    disk.fail(OSError("the disk is gone"))
    with pytest.raises(OSError, match="the disk is gone"):
        await turn
    assert isinstance(bench.events[-1], TurnFinished)


async def test_work_beside_an_event_ends_cancels_and_fails() -> None:
    cancelled = asyncio.Event()
    beside = Beside(cancelled)
    ends: list[str] = []

    async def works(text: str) -> str:
        await asyncio.sleep(0)
        return text

    async def hangs() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            ends.append("closed")

    async def quits() -> None:
        raise SystemExit(3)

    async def cancels_itself() -> None:
        raise asyncio.CancelledError

    assert [await beside.run(works(text)) for text in "ab"] == ["a", "b"]
    with pytest.raises(RuntimeError, match="SystemExit: 3"):
        await beside.run(quits())
    with pytest.raises(RuntimeError, match="cancelled itself"):
        await beside.run(cancels_itself())
    both = [asyncio.ensure_future(beside.run(hangs())) for _ in range(2)]
    from_outside = asyncio.ensure_future(beside.run(hangs()))
    await settled()
    from_outside.cancel()
    with pytest.raises(asyncio.CancelledError):
        await from_outside
    assert ends == ["closed"]
    cancelled.set()
    for one in both:
        with pytest.raises(TurnCancelled):
            await one
    assert ends == ["closed"] * 3
    with pytest.raises(TurnCancelled):
        await beside.run(works("never"))
    cancelled.clear()
    assert await beside.run(works("again")) == "again"
    cancelled.set()
    with pytest.raises(TurnCancelled):
        await run_cancellable(hangs(), cancelled)
    await beside.close()
    await settled()
    assert len(asyncio.all_tasks()) == 1, "nothing is left running"
