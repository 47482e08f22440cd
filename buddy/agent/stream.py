"""The same loop as something to iterate, for programs that use buddy as a library.

    stream = start([user_message("hello")], agent)
    async for event in stream: ...
    messages = await stream.result()

`Conversation` keeps a history over several turns, with steering and follow-ups.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Literal

import msgspec

from buddy.agent.budget import TokenMeter, Window
from buddy.agent.compaction import Compaction
from buddy.agent.events import AgentUiEvent, TurnFinished
from buddy.agent.host import Agent, Allowed, Decision, Outcome, Progress, TurnHost
from buddy.agent.loop import agent_loop, agent_loop_continue
from buddy.agent.messages import AssistantMessage, Call, Message, Origin, Text, UserMessage
from buddy.agent.provider import ModelRequest
from buddy.agent.reply import ReplyAssembler
from buddy.agent.tool import Tool, ToolContext, ToolResult

Delivery = Literal["one", "all"]
"""Whether waiting texts are handed over one at a time or all at once."""
_ids = itertools.count(1)


def user_message(text: str, origin: Origin = "prompt") -> UserMessage:
    """A person's words as a message."""
    return UserMessage(f"u{next(_ids)}", (Text(text),), origin)


class EventStream:
    """A running turn: iterate its events, await its `result()`. It starts when it is made and needs a running
    loop."""

    def __init__(self, run: Callable[[Callable[[AgentUiEvent], None]], asyncio.Task[Outcome]]) -> None:
        self._events: asyncio.Queue[AgentUiEvent] = asyncio.Queue()
        self._task = run(self._events.put_nowait)
        self._over = False

    def __aiter__(self) -> AsyncIterator[AgentUiEvent]:
        return self

    async def __anext__(self) -> AgentUiEvent:
        if self._over:
            raise StopAsyncIteration
        getter = asyncio.ensure_future(self._events.get())
        await asyncio.wait({getter, self._task}, return_when=asyncio.FIRST_COMPLETED)
        if not getter.done() and self._events.empty():
            getter.cancel()
            self._over = True
            self._task.result()
            raise StopAsyncIteration
        event = await getter
        self._over = isinstance(event, TurnFinished)
        return event

    async def outcome(self) -> Outcome:
        """How the turn ended. Raises what the turn raised."""
        return await asyncio.shield(self._task)

    async def result(self) -> tuple[Message, ...]:
        """The messages the turn added to the history."""
        return (await self.outcome()).messages

    async def aclose(self) -> None:
        """End the turn, as by cancelling it from outside."""
        self._task.cancel()
        await asyncio.wait({self._task})


class Conversation:
    """A history, its agent, and the texts that wait: the state a library user keeps between turns."""

    def __init__(
        self,
        agent: Agent,
        history: Sequence[Message] = (),
        *,
        services: Mapping[type, object] | None = None,
        decide: Callable[[Call, Tool, msgspec.Struct], Decision] | None = None,
        meter: TokenMeter | None = None,
        steering: Delivery = "one",
        follow_ups: Delivery = "one",
    ) -> None:
        self.agent = agent
        self.history = list(history)
        self.cancelled = asyncio.Event()
        self._services = services or {}
        self._decide = decide
        self._meter = meter or TokenMeter(
            window=Window(8_192, guessed=True, reserve=0), price=lambda _usage: None
        )
        self._delivery: dict[str, Delivery] = {"steer": steering, "follow_up": follow_ups}
        self._waiting: dict[str, deque[UserMessage]] = {"steer": deque(), "follow_up": deque()}

    def steer(self, text: str) -> None:
        """Text for the running turn, at its next tool boundary."""
        self._waiting["steer"].append(user_message(text, "steer"))

    def follow_up(self, text: str) -> None:
        """Text for after the turn."""
        self._waiting["follow_up"].append(user_message(text, "follow_up"))

    def cancel(self) -> None:
        """Cancel the running turn."""
        self.cancelled.set()

    def prompt(self, *prompts: str | UserMessage) -> EventStream:
        """Start a turn."""
        messages = [user_message(one) if isinstance(one, str) else one for one in prompts]
        self.cancelled = asyncio.Event()
        return EventStream(
            lambda emit: asyncio.ensure_future(
                agent_loop(messages, self.agent, self.history, self._host(emit))
            )
        )

    def go_on(self) -> EventStream:
        """Continue a history that waits for the model."""
        self.cancelled = asyncio.Event()
        return EventStream(
            lambda emit: asyncio.ensure_future(
                agent_loop_continue(self.agent, self.history, self._host(emit))
            )
        )

    def _host(self, emit: Callable[[AgentUiEvent], None]) -> TurnHost:
        async def record(message: Message) -> None:
            self.history.append(message)

        async def decided(call: Call, tool: Tool, arguments: msgspec.Struct) -> Decision:
            return Allowed() if self._decide is None else self._decide(call, tool, arguments)

        async def execute(
            call: Call, tool: Tool, arguments: msgspec.Struct, progress: Progress
        ) -> ToolResult:
            context = ToolContext(0, call.id, progress, self.cancelled, self._services)
            return await tool.run(context, arguments)

        async def no_compaction(_history: Sequence[Message]) -> Compaction | None:
            return None

        return TurnHost(
            emit=emit,
            record=record,
            partial=lambda _message: None,
            decide=decided,
            execute=execute,
            steering=lambda: self._take("steer"),
            follow_ups=lambda: self._take("follow_up"),
            compact=no_compaction,
            meter=self._meter,
            sleep=asyncio.sleep,
            now=asyncio.get_running_loop().time,
            random=lambda: 0.5,
            new_id=lambda: f"m{next(_ids)}",
            cancelled=self.cancelled,
        )

    async def _take(self, kind: str) -> tuple[UserMessage, ...]:
        waiting = self._waiting[kind]
        count = len(waiting) if self._delivery[kind] == "all" else min(1, len(waiting))
        return tuple(waiting.popleft() for _ in range(count))


def start(prompts: Sequence[UserMessage], agent: Agent, history: Sequence[Message] = ()) -> EventStream:
    """One turn on a copy of a history."""
    return Conversation(agent, history).prompt(*prompts)


create_agent_stream = start


async def stream_assistant_response(
    agent: Agent, history: Sequence[Message], emit: Callable[[AgentUiEvent], None]
) -> AssistantMessage:
    """One reply, without running its calls and without retries. Raises `ProviderError`."""
    assembler = ReplyAssembler(
        f"r{next(_ids)}", model=agent.model, lane=agent.provider.lane, new_id=lambda: f"c{next(_ids)}"
    )
    request = ModelRequest(agent.model, agent.system, tuple(history), agent.tools.list_definitions())
    stream = agent.provider.stream(request)
    try:
        async for delta in stream:
            event = assembler.feed(delta)
            if event is not None:
                emit(event)
    finally:
        await stream.aclose()
    return assembler.finish()
