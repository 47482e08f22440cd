"""A result goes to the disk while the model is asked; with a disk that refuses, nothing goes further than
that."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from buddy.agent.messages import AssistantMessage, Message, ToolMessage, UserMessage
from buddy.agent.tool import Tool, ToolContext, tool
from buddy.llm.scripted import Reply, Say, ScriptedCall, ScriptedProvider
from buddy.sessions.line_codec import scan
from tests.support.scripted_session import ScriptedSession, scripted_session
from tests.support.session_files import Failing, Faults

PATIENCE_S = 30


async def until(condition: Callable[[], bool]) -> None:
    end = asyncio.get_running_loop().time() + PATIENCE_S
    while not condition():
        assert asyncio.get_running_loop().time() < end, "it never came"
        await asyncio.sleep(0.005)


def kinds(session: ScriptedSession) -> list[str]:
    """The kinds of lines in the journal, of one turn."""
    lines = scan(Path(session.parts.journal.journal.path).read_bytes()).lines
    wanted = ("message", "tool_begin", "tool_end")
    return [one.line.kind for one in lines if one.line.kind in wanted]


def roles(history: list[Message]) -> list[type[Message]]:
    return [type(message) for message in history]


def is_saved(session: ScriptedSession) -> bool:
    return session.parts.journal.save_state.saved


def requests(session: ScriptedSession) -> int:
    provider = session.parts.model("").provider
    assert isinstance(provider, ScriptedProvider)
    return len(provider.requests)


class FailingLater(Failing):
    """While `on`, what it refuses hangs until something is so, and fails then: the loop went on meanwhile."""

    def __init__(self, *operations: str, until: Callable[[], bool]) -> None:
        super().__init__(*operations)
        self._until = until

    def __call__(self, operation: str, count: int) -> int | None:
        failure = super().__call__(operation, count)
        end = time.monotonic() + PATIENCE_S
        while failure is not None and not self._until() and time.monotonic() < end:
            time.sleep(0.001)
        return failure


TWO_CALLS = [
    Reply((ScriptedCall("breaks", "{}"),)),
    Reply((ScriptedCall("breaks", "{}"),)),
    Reply((Say("done"),)),
]
A_TURN = ["message", "message", *(["tool_begin", "tool_end", "message", "message"] * 2)]


def breaking(disk: Failing, ran: list[str], before: Callable[[], Awaitable[None]]) -> Tool:
    @tool(risk="low")
    async def breaks(ctx: ToolContext) -> str:
        """Break the disk, the first time."""
        ran.append(ctx.call_id)
        if len(ran) == 1:
            disk.on = True
            await before()
        return f"ran {len(ran)}"

    return breaks


async def test_a_disk_that_refuses_the_result_holds_the_next_reply_and_its_calls(tmp_path: Path) -> None:
    async def nothing() -> None: ...

    sessions, ran = list[ScriptedSession](), list[str]()
    disk = FailingLater("sync", until=lambda: requests(sessions[0]) == 2)
    tools = [breaking(disk, ran, nothing)]
    async with scripted_session(tmp_path, TWO_CALLS, tools=tools, files=Faults(disk).files()) as session:
        sessions.append(session)
        runner = session.board.submit(1, "go")
        await until(lambda: not is_saved(session) and requests(session) == 2)
        history = session.board.task(1).history
        assert roles(history) == [UserMessage, AssistantMessage, ToolMessage], "the reply waits"
        assert len(ran) == 1, "and so does what it calls"
        disk.on = False
        await asyncio.wait_for(runner, PATIENCE_S)
        assert (len(ran), len(history)) == (2, 6)
        await session.parts.journal.journal.flush()
        assert kinds(session) == A_TURN


async def test_a_disk_that_already_refuses_holds_the_next_request(tmp_path: Path) -> None:
    async def noticed() -> None:
        sessions[0].parts.journal.rename(name="other", title="")
        await until(lambda: not is_saved(sessions[0]))

    disk, ran, sessions = Failing("write"), list[str](), list[ScriptedSession]()
    tools = [breaking(disk, ran, noticed)]
    async with scripted_session(tmp_path, TWO_CALLS, tools=tools, files=Faults(disk).files()) as session:
        sessions.append(session)
        runner = session.board.submit(1, "go")
        await until(lambda: not is_saved(session) and session.parts.journal.save_state.waiting >= 3)
        assert requests(session) == 1, "the name, the end of the call and its result wait"
        assert roles(session.board.task(1).history) == [UserMessage, AssistantMessage]
        disk.on = False
        await asyncio.wait_for(runner, PATIENCE_S)
        await session.parts.journal.journal.flush()
        assert kinds(session) == A_TURN
