"""The two arguments of a turn: the frozen `Agent` (model, tools, prompt) and the `TurnHost` (the loop's only
effects)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

import msgspec

from buddy.agent.budget import TokenMeter
from buddy.agent.compaction import Compaction
from buddy.agent.events import AgentUiEvent, MissingApproval, TurnOutcome
from buddy.agent.messages import AssistantMessage, Call, Message, UserMessage
from buddy.agent.provider import Provider
from buddy.agent.receipt import Receipt
from buddy.agent.tool import Tool, ToolRegistry, ToolResult


class ReplyQuota:
    """The replies that all turns of a run may still ask for, those of subagents too."""

    def __init__(self, replies: int) -> None:
        self.replies = replies
        self._left = replies

    def take(self) -> bool:
        """Count one reply; False when none is left."""
        self._left -= 1
        return self._left >= 0


class Limits(msgspec.Struct, frozen=True):
    """The limits of a turn that runs by itself. `tries` counts the first attempt; `outage_tries` holds where
    it is more, for servers that answered with an error or broke off; `longest_wait_s` is how long buddy waits
    for a provider that asks for patience before it gives the turn back to the person; without `quota`
    the run as a whole has no limit of replies."""

    max_replies: int = 20
    tries: int = 6
    outage_tries: int = 0
    longest_wait_s: float = 120
    first_delay_s: float = 1
    longest_delay_s: float = 30
    partial_every_s: float = 0.15
    quota: ReplyQuota | None = None


class Sampling(msgspec.Struct, frozen=True):
    """Request parameters, sent only when set."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    effort: str | None = None


def same_history(history: Sequence[Message]) -> Sequence[Message]:
    """Return the history unchanged (the default hook)."""
    return history


async def nothing_new() -> tuple[UserMessage, ...]:
    """Return no instructions (the default of a host)."""
    return ()


async def no_receipt() -> Receipt | None:
    """Return no receipt (the default of a host that keeps no record of changes)."""
    return None


def never_record_soon(message: Message) -> None:
    """Promise nothing, so that `record` is used (the default of a host)."""


Transform = Callable[[Sequence[Message]], Sequence[Message] | Awaitable[Sequence[Message]]]


class Agent(msgspec.Struct, frozen=True):
    """A model with its tools and its system prompt. `transform_context` and `convert_to_model` are functions
    from history to request, plain or async; `compaction` is the view the turn starts with."""

    provider: Provider
    tools: ToolRegistry
    model: str
    system: str = ""
    limits: Limits = Limits()
    sampling: Sampling = Sampling()
    compaction: Compaction | None = None
    transform_context: Transform = same_history
    convert_to_model: Transform = same_history


class Allowed(msgspec.Struct, frozen=True):
    """The call may run. `by_person`: this very request was answered, by the person or by the program that
    answers for them; `arguments` replaces the call's, as JSON; "" leaves them as they are."""

    by_person: bool = False
    arguments: str = ""


class Denied(msgspec.Struct, frozen=True):
    """The call may not run; the model reads why (in the person's words where there are any). `missing`: it
    was denied because nobody was there to approve it."""

    reason: str
    missing: MissingApproval | None = None


class Withdrawn(msgspec.Struct, frozen=True):
    """The approval request was withdrawn because the person sent new instructions."""


class Unworkable(msgspec.Struct, frozen=True):
    """The call was not denied, but would certainly fail, so that asking about it is pointless."""

    reason: str


Decision = Allowed | Denied | Withdrawn | Unworkable
Progress = Callable[[str], None]


class TurnHost(msgspec.Struct, frozen=True):
    """The effects of a turn, as functions.

    `emit` never blocks. `record` is the only place where the history changes: it appends to the list the loop
    reads and resolves when the message is safe. `partial` keeps a reply that is still streaming. `decide`
    asks policy, and the person where policy says so; `execute` runs an allowed call. `steering` and
    `follow_ups` take what is waiting (one or all, as configured) out of their queues. `compact` finds a
    shorter view, or None. `meter` counts. `instructions` returns messages that the model has to read because
    of the paths its calls touched; they open the next request.

    `record_soon` records a result without waiting for the disk: the message is in the history when it
    returns, and saved when the future resolves. The loop awaits the future before it records the next reply.
    None: use `record` instead.

    `receipt` gives the record of what the turn changed, asked for once, at its end.

    `call_ids` are all ids used by calls in this conversation and in those that share it; new calls get
    others.
    """

    emit: Callable[[AgentUiEvent], None]
    record: Callable[[Message], Coroutine[Any, Any, None]]
    partial: Callable[[AssistantMessage], None]
    decide: Callable[[Call, Tool, msgspec.Struct], Awaitable[Decision]]
    execute: Callable[[Call, Tool, msgspec.Struct, Progress], Awaitable[ToolResult]]
    steering: Callable[[], Awaitable[tuple[UserMessage, ...]]]
    follow_ups: Callable[[], Awaitable[tuple[UserMessage, ...]]]
    compact: Callable[[Sequence[Message]], Awaitable[Compaction | None]]
    meter: TokenMeter
    sleep: Callable[[float], Awaitable[None]]
    now: Callable[[], float]
    random: Callable[[], float]
    new_id: Callable[[], str]
    cancelled: asyncio.Event
    instructions: Callable[[], Awaitable[tuple[UserMessage, ...]]] = nothing_new
    record_soon: Callable[[Message], asyncio.Future[Any] | None] = never_record_soon
    receipt: Callable[[], Awaitable[Receipt | None]] = no_receipt
    call_ids: set[str] = msgspec.field(default_factory=set[str])


class Outcome(msgspec.Struct, frozen=True):
    """The end of a turn, as in `TurnFinished`, with the messages it added."""

    outcome: TurnOutcome
    reason: str
    error: str
    replies: int
    messages: tuple[Message, ...]
    refused: int = 0
    failed: int = 0
    receipt: Receipt | None = None
