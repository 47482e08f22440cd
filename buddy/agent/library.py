"""The agent loop as an async iterator, for programs that use buddy as a library.

    stream = start(["hello"], agent)
    async for event in stream: ...
    messages = await stream.result()

`Conversation` keeps a history over several turns, with steering and follow-ups.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from buddy.agent.budget import TokenMeter, Window
from buddy.agent.compaction import Compaction
from buddy.agent.events import (
    AgentUiEvent,
    ReplyFinished,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    TurnFinished,
)
from buddy.agent.host import Agent, Allowed, Decision, Outcome, Progress, TurnHost
from buddy.agent.loop import agent_loop, agent_loop_continue
from buddy.agent.messages import (
    AssistantMessage,
    Call,
    Image,
    Message,
    Origin,
    Text,
    Usage,
    UserMessage,
    calls_of,
)
from buddy.agent.provider import ModelRequest
from buddy.agent.reply_assembler import ReplyAssembler
from buddy.agent.tool import Tool, ToolContext, ToolResult

Delivery = Literal["one", "all"]
"""Waiting messages are delivered one at a time, or all at once."""
Prompt = str | UserMessage | Mapping[str, Any]
"""A prompt as text, as a message (with pictures, for instance), or as a plain dict:
`{"content": "what is this?"}`, `{"content": [{"type": "text", "text": "…"}, {"type": "image", "media_type":
"image/png", "data": BASE64}]}`."""


def to_dicts(history: Sequence[Message]) -> list[dict[str, Any]]:
    """Return messages as plain dicts, without loss."""
    return [msgspec.to_builtins(message) for message in history]


def from_dicts(dicts: Sequence[Mapping[str, Any]]) -> list[Message]:
    """Return the messages of `to_dicts`. Raises `ValueError` that names the message and the field."""
    messages: list[Message] = []
    for number, one in enumerate(dicts):
        try:
            messages.append(msgspec.convert(one, Message))
        except msgspec.ValidationError as error:
            raise ValueError(f"message {number}: {error}") from error
    return messages


class ConversationSnapshot(msgspec.Struct, frozen=True):
    """A conversation to keep: its messages, the tokens and dollars it used, and what waits for delivery."""

    history: tuple[Message, ...]
    spent: Usage
    cost_usd: float
    steering: tuple[UserMessage, ...] = ()
    follow_ups: tuple[UserMessage, ...] = ()


class BlockStarted(msgspec.Struct, frozen=True, tag="block_started"):
    """A text, a piece of reasoning or a call begins. `name` is the tool's, "" for the others."""

    reply_id: str
    block: str
    kind: Literal["text", "thinking", "call"]
    name: str = ""


class BlockFinished(msgspec.Struct, frozen=True, tag="block_finished"):
    """A block ended, with all its text (a call's: its arguments, as JSON)."""

    reply_id: str
    block: str
    kind: Literal["text", "thinking", "call"]
    text: str


class Ids:
    """Generates ids that no message or call of a conversation has, including those of a history taken from
    another one: caches of sizes and encoded bytes are keyed by id."""

    def __init__(self, history: Sequence[Message] = ()) -> None:
        self._taken = {message.id for message in history}
        self._taken.update(
            call.id
            for message in history
            if isinstance(message, AssistantMessage)
            for call in calls_of(message)
        )
        self._count = 0

    def new(self, kind: str) -> str:
        """Return the next free id; `kind` is the letter it begins with."""
        self._count += 1
        found = f"{kind}{self._count}"
        return self.new(kind) if found in self._taken else found

    def message(self, prompt: Prompt, origin: Origin = "prompt") -> UserMessage:
        """Return a prompt as a message."""
        if isinstance(prompt, UserMessage):
            return prompt
        content: object = prompt if isinstance(prompt, str) else prompt.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        try:
            parts = msgspec.convert(blocks, tuple[Text | Image, ...])
        except msgspec.ValidationError as error:
            raise ValueError(f"expected content as text, or as text and image blocks: {error}") from error
        return UserMessage(self.new("u"), parts, origin)


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
        """Return how the turn ended. Raises what the turn raised."""
        return await asyncio.shield(self._task)

    async def result(self) -> tuple[Message, ...]:
        """Return the messages the turn added to the history."""
        return (await self.outcome()).messages

    async def aclose(self) -> None:
        """End the turn, as by cancelling it from outside."""
        self._task.cancel()
        await asyncio.wait({self._task})


Decide = Callable[[Call, Tool, msgspec.Struct], Decision | Awaitable[Decision]]
"""Judges a call before it runs; plain or async."""


class Conversation:
    """A history, its agent and its waiting messages: the state a library user keeps between turns. `decide`
    judges each call, and may be async; without it every call is allowed."""

    def __init__(
        self,
        agent: Agent,
        history: Sequence[Message] = (),
        *,
        services: Mapping[type, object] | None = None,
        decide: Decide | None = None,
        meter: TokenMeter | None = None,
        steering: Delivery = "one",
        follow_ups: Delivery = "one",
    ) -> None:
        self.agent = agent
        self.history = list(history)
        self.cancelled = asyncio.Event()
        self._ids = Ids(history)
        self._services = services or {}
        self._decide = decide
        self._meter = meter or TokenMeter(
            window=Window(8_192, guessed=True, reserve=0), price=lambda _usage: None
        )
        self._delivery: dict[str, Delivery] = {"steer": steering, "follow_up": follow_ups}
        self._waiting: dict[str, deque[UserMessage]] = {"steer": deque(), "follow_up": deque()}

    def steer(self, prompt: Prompt) -> None:
        """Queue a message for the running turn; it is delivered at the next tool boundary."""
        self._waiting["steer"].append(self._ids.message(prompt, "steer"))

    def follow_up(self, prompt: Prompt) -> None:
        """Queue a message for after the turn."""
        self._waiting["follow_up"].append(self._ids.message(prompt, "follow_up"))

    def snapshot(self) -> ConversationSnapshot:
        """Return everything a later process needs to go on: `msgspec.json.encode` writes it,
        `msgspec.json.decode(data, type=ConversationSnapshot)` reads it."""
        return ConversationSnapshot(
            tuple(self.history),
            self._meter.total,
            self._meter.cost_usd,
            tuple(self._waiting["steer"]),
            tuple(self._waiting["follow_up"]),
        )

    def restore(self, snapshot: ConversationSnapshot) -> None:
        """Go on from a snapshot, in place of what was here."""
        self.history[:] = snapshot.history
        self._ids = Ids((*snapshot.history, *snapshot.steering, *snapshot.follow_ups))
        self._meter.total, self._meter.cost_usd = snapshot.spent, snapshot.cost_usd
        self._waiting = {"steer": deque(snapshot.steering), "follow_up": deque(snapshot.follow_ups)}

    def reset(self) -> None:
        """Forget the messages and what waits; the tokens and dollars stay counted."""
        self.restore(ConversationSnapshot((), self._meter.total, self._meter.cost_usd))

    def cancel(self) -> None:
        """Cancel the running turn."""
        self.cancelled.set()

    def prompt(self, *prompts: Prompt, signal: asyncio.Event | None = None) -> EventStream:
        """Start a turn. Setting `signal` cancels it, as `cancel` does."""
        messages = [self._ids.message(one) for one in prompts]
        self.cancelled = signal or asyncio.Event()
        return EventStream(
            lambda emit: asyncio.ensure_future(
                agent_loop(messages, self.agent, self.history, self._host(emit))
            )
        )

    def go_on(self, *, signal: asyncio.Event | None = None) -> EventStream:
        """Continue a history that waits for the model. Setting `signal` cancels it."""
        self.cancelled = signal or asyncio.Event()
        return EventStream(
            lambda emit: asyncio.ensure_future(
                agent_loop_continue(self.agent, self.history, self._host(emit))
            )
        )

    def _host(self, emit: Callable[[AgentUiEvent], None]) -> TurnHost:
        async def record(message: Message) -> None:
            self.history.append(message)

        async def judge(call: Call, tool: Tool, arguments: msgspec.Struct) -> Decision:
            if self._decide is None:
                return Allowed()
            decision = self._decide(call, tool, arguments)
            return await decision if inspect.isawaitable(decision) else decision

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
            decide=judge,
            execute=execute,
            steering=lambda: self._take("steer"),
            follow_ups=lambda: self._take("follow_up"),
            compact=no_compaction,
            meter=self._meter,
            sleep=asyncio.sleep,
            now=asyncio.get_running_loop().time,
            random=lambda: 0.5,
            new_id=lambda: self._ids.new("m"),
            cancelled=self.cancelled,
        )

    async def _take(self, kind: str) -> tuple[UserMessage, ...]:
        waiting = self._waiting[kind]
        count = len(waiting) if self._delivery[kind] == "all" else min(1, len(waiting))
        return tuple(waiting.popleft() for _ in range(count))


def start(
    prompts: Sequence[Prompt], agent: Agent, history: Sequence[Message] = (), host: TurnHost | None = None
) -> EventStream:
    """Start one turn on a copy of the history; with your own `host`, on the history its `record` appends
    to."""
    if host is None:
        return Conversation(agent, history).prompt(*prompts)
    ids = Ids(history)
    messages = [ids.message(prompt) for prompt in prompts]

    def run(emit: Callable[[AgentUiEvent], None]) -> asyncio.Task[Outcome]:
        def both(event: AgentUiEvent) -> None:
            host.emit(event)
            emit(event)

        heard = msgspec.structs.replace(host, emit=both)
        return asyncio.ensure_future(agent_loop(messages, agent, history, heard))

    return EventStream(run)


create_agent_stream = start


async def with_blocks(
    events: AsyncIterator[AgentUiEvent],
) -> AsyncIterator[AgentUiEvent | BlockStarted | BlockFinished]:
    """Add to the events of a turn where each block of a reply begins and ends."""
    current: BlockStarted | None = None
    text = ""
    async for event in events:
        piece = _piece_of(event)
        ends = isinstance(event, ReplyFinished | TurnFinished) or piece is not None
        if current is not None and ends and (piece is None or piece[0] != current):
            yield BlockFinished(current.reply_id, current.block, current.kind, text)
            current = None
        if piece is not None:
            if current is None:
                current, text = piece[0], ""
                yield current
            text += piece[1]
        yield event


def _piece_of(event: AgentUiEvent) -> tuple[BlockStarted, str] | None:
    """Return the block a delta belongs to, and its text; None for other events."""
    if isinstance(event, TextDelta):
        return BlockStarted(event.reply_id, str(event.block), "text"), event.text
    if isinstance(event, ThinkingDelta):
        return BlockStarted(event.reply_id, str(event.block), "thinking"), event.text
    if isinstance(event, ToolCallDelta):
        return BlockStarted(event.reply_id, event.call_id, "call", event.name), event.arguments
    return None


async def complete(agent: Agent, history: Sequence[Message]) -> AssistantMessage:
    """Request one reply and return it whole. Raises `ProviderError`."""
    return await stream_assistant_response(agent, history, lambda _event: None)


async def stream_assistant_response(
    agent: Agent, history: Sequence[Message], emit: Callable[[AgentUiEvent], None]
) -> AssistantMessage:
    """Request one reply, without running its calls and without retries. Raises `ProviderError`."""
    ids = Ids(history)
    assembler = ReplyAssembler(
        ids.new("r"), model=agent.model, lane=agent.provider.lane, new_id=lambda: ids.new("c")
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
