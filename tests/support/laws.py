"""The laws every sequence of events of one turn obeys (architecture.md, "Events"), and a few small fakes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence

from buddy.agent.budget import TokenMeter, Window
from buddy.agent.compaction import Compaction
from buddy.agent.events import (
    AgentUiEvent,
    ApprovalRequested,
    ApprovalResolved,
    ReplyFinished,
    ReplyStarted,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from buddy.agent.host import Agent, Allowed, Decision, TurnHost
from buddy.agent.messages import Message, Text, UserMessage, text_of, thinking_of
from buddy.agent.provider import CallPiece, Finished, ModelDelta, ModelRequest, ProviderError, TextPiece
from buddy.agent.tool import Tool, ToolContext, ToolRegistry, ToolResult
from tests.support.legal_history import is_legal

Step = ModelDelta | ProviderError | Callable[[], object]


def check_laws(events: Sequence[AgentUiEvent]) -> None:
    """Fail where a law is broken."""
    assert isinstance(events[0], TurnStarted), events[:1]
    assert isinstance(events[-1], TurnFinished), events[-1:]
    assert sum(isinstance(event, TurnFinished) for event in events) == 1
    assert sum(isinstance(event, TurnStarted) for event in events) == 1
    _closed_once(events)
    _deltas_are_the_reply(events)


def _closed_once(events: Sequence[AgentUiEvent]) -> None:
    started: list[str] = []
    finished: list[str] = []
    asked: list[str] = []
    answered: list[str] = []
    for event in events:
        match event:
            case ToolStarted():
                started.append(event.call.id)
            case ToolFinished():
                assert event.call_id in started
                finished.append(event.call_id)
            case ApprovalRequested():
                asked.append(event.request_id)
            case ApprovalResolved():
                assert event.request_id in asked
                answered.append(event.request_id)
            case _:
                pass
    assert sorted(started) == sorted(finished)
    assert sorted(asked) == sorted(answered)
    assert len(set(started)) == len(started), "a call id was used twice"
    assert len(set(asked)) == len(asked)


def _deltas_are_the_reply(events: Sequence[AgentUiEvent]) -> None:
    text = thinking = ""
    ids: list[str] = []
    for event in events:
        match event:
            case ReplyStarted():
                text = thinking = ""
                ids.append(event.reply_id)
            case TextDelta():
                text += event.text
            case ThinkingDelta():
                thinking += event.text
            case ReplyFinished():
                assert event.message.id == ids[-1]
                assert text_of(event.message) == text
                assert thinking_of(event.message) == thinking
            case _:
                pass
    assert len(set(ids)) == len(ids)


class ScriptedLane:
    """A provider that plays one list of steps a request: a delta is yielded, an error raised, a function
    called (awaited when it returns something awaitable). Keeps the requests it was sent."""

    lane = "scripted"

    def __init__(self, *replies: Sequence[Step]) -> None:
        self.replies = list(replies)
        self.requests: list[ModelRequest] = []
        self.closed = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        self.requests.append(request)
        steps = self.replies.pop(0)
        try:
            for step in steps:
                if isinstance(step, ProviderError):
                    raise step
                if callable(step):
                    waiting = step()
                    if asyncio.iscoroutine(waiting) or isinstance(waiting, asyncio.Future):
                        await waiting
                else:
                    yield step
        finally:
            self.closed += 1


def says(text: str) -> list[Step]:
    """A reply of text."""
    return [TextPiece(text), Finished("stop")]


def calls(*made: tuple[str, str, str]) -> list[Step]:
    """A reply of tool calls: (id, name, arguments)."""
    pieces = [CallPiece(at, *one) for at, one in enumerate(made)]
    return [*pieces, Finished("calls")]


class Bench:
    """A host whose every function is visible: events, history, waiting texts, a decision function, a
    clock."""

    def __init__(self, provider: ScriptedLane, *tools: Tool, **agent: object) -> None:
        self.events: list[AgentUiEvent] = []
        self.history: list[Message] = []
        self.partials: list[Message] = []
        self.slept: list[float] = []
        self.steer: list[UserMessage] = []
        self.queue: list[UserMessage] = []
        self.time = 0.0
        self.count = 0
        self.cancelled = asyncio.Event()
        self.decide: Callable[[str], Decision] = lambda _name: Allowed()
        self.compaction: Compaction | None = None
        self.meter = TokenMeter(
            window=Window(1_000_000, guessed=False, reserve=1_000), price=lambda _usage: 0.0
        )
        self.provider = provider
        self.agent = Agent(provider=provider, tools=ToolRegistry(tools), model="m", **agent)

    def said(self, text: str, origin: str = "prompt") -> UserMessage:
        self.count += 1
        return UserMessage(f"u{self.count}", (Text(text),), origin)

    def new_id(self) -> str:
        self.count += 1
        return f"i{self.count}"

    def host(self) -> TurnHost:
        async def record(message: Message) -> None:
            self.history.append(message)

        async def decide(call: object, tool: Tool, _arguments: object) -> Decision:
            await asyncio.sleep(0)
            return self.decide(tool.name)

        async def execute(
            call: object, tool: Tool, arguments: object, progress: Callable[[str], None]
        ) -> ToolResult:
            context = ToolContext(1, call.id, progress, self.cancelled, {})
            return await tool.run(context, arguments)

        async def taken(waiting: list[UserMessage]) -> tuple[UserMessage, ...]:
            texts = tuple(waiting)
            waiting.clear()
            return texts

        async def compact(_history: Sequence[Message]) -> Compaction | None:
            return self.compaction

        async def sleep(seconds: float) -> None:
            self.slept.append(seconds)
            self.time += seconds

        return TurnHost(
            emit=self.events.append,
            record=record,
            partial=self.partials.append,
            decide=decide,
            execute=execute,
            steering=lambda: taken(self.steer),
            follow_ups=lambda: taken(self.queue),
            compact=compact,
            meter=self.meter,
            sleep=sleep,
            now=lambda: self.time,
            random=lambda: 0.5,
            new_id=self.new_id,
            cancelled=self.cancelled,
        )

    def check(self) -> None:
        """The laws of events and of histories hold."""
        check_laws(self.events)
        assert is_legal(self.history) == []
