"""The state of one running turn, owned by the loop, and the guard against repeated calls."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from buddy.agent.cancel import Beside, finish_uninterruptibly
from buddy.agent.compaction import CompactedView
from buddy.agent.display import Plain
from buddy.agent.events import (
    AgentUiEvent,
    MissingApproval,
    Notice,
    SteeringAccepted,
    ToolFinished,
    ToolStarted,
    TurnOutcome,
)
from buddy.agent.host import Agent, TurnHost
from buddy.agent.lazy_regex import pattern
from buddy.agent.messages import (
    CANCELLED_TEXT,
    AssistantMessage,
    Call,
    Message,
    ResultStatus,
    ToolMessage,
    UserMessage,
    calls_of,
    unanswered_calls,
)
from buddy.agent.receipt import Receipt
from buddy.agent.tool import Risk, Tool, ToolResult, call_title

NOTICE_AT = 3
STOP_AT = 5
MAX_PERIOD = 3
MAX_MALFORMED = 3
"""Consecutive replies with unusable arguments before the turn stops and the person decides."""

NOTICE_TEXT = (
    "\n\n[buddy: this exact call gave this exact result {count} times in a row. Nothing will change by "
    "repeating it. Try something else, or say what you are missing.]"
)

_DURATION = pattern(r"(\[exit code \d+), [\d.]+ s\]")
"""Durations are removed before results are compared; otherwise a repeated failing command would look new each
time."""

Seen = tuple[str, str, int]


class LoopGuard:
    """Detects repeated calls in one turn."""

    def __init__(self) -> None:
        self._seen: list[Seen] = []
        self._malformed = 0
        self._is_counted = False

    def begin_reply(self) -> None:
        """Note that the calls of another reply follow."""
        self._is_counted = False

    def observe(self, call: Call, result: str) -> tuple[Literal["ok", "notice", "stop"], int]:
        """Note a call and its result; return the verdict and the number of repetitions. `notice`: tell the
        model; `stop`: end the turn."""
        self._seen.append((call.name, call.arguments, hash(_DURATION().sub(r"\1]", result))))
        del self._seen[: -MAX_PERIOD * STOP_AT]
        repeated = max(self._repetitions(period) for period in range(1, MAX_PERIOD + 1))
        if repeated >= STOP_AT or self._alternates():
            return "stop", repeated
        return ("notice" if repeated >= NOTICE_AT else "ok"), repeated

    def note_malformed(self) -> bool:
        """Note a call without a usable tool or arguments; return True when the turn should stop. Several in
        one reply count once, because the model has not yet read the error."""
        self._malformed += not self._is_counted
        self._is_counted = True
        return self._malformed > MAX_MALFORMED

    def note_well_formed(self) -> None:
        """Note a call with usable arguments."""
        self._malformed = 0

    def _repetitions(self, period: int) -> int:
        if len(self._seen) < period:
            return 1
        last = self._seen[-period:]
        count = 1
        while self._seen[-period * (count + 1) : -period * count] == last:
            count += 1
        return count

    def _alternates(self) -> bool:
        """Detect A-B-A-B-A-B-A-B (or A-B-C three times). A cycle counts as a loop sooner than one repeated
        call, because polling repeats a single call."""
        return any(self._repetitions(period) * period >= 8 for period in range(2, MAX_PERIOD + 1))


class End(msgspec.Struct, frozen=True):
    """The end of a turn and its reason."""

    outcome: TurnOutcome
    reason: str = ""
    error: str = ""


class Turn:
    """The state the functions of the loop share. Only `record` changes the history."""

    def __init__(self, agent: Agent, history: Sequence[Message], host: TurnHost) -> None:
        self.agent = agent
        self.history = history
        self.host = host
        self.compaction = agent.compaction
        self.view = CompactedView()
        self.guard = LoopGuard()
        self.started_at = host.now()
        self.first_new = len(history)
        self.replies = 0
        self.replies_since_prompt = 0
        self.compacted_for_overflow = False
        self.took_in = False
        self.refused = 0
        self.failed = 0
        self.receipt: Receipt | None = None
        self.beside = Beside(host.cancelled)
        host.call_ids.update(
            call.id for one in history if isinstance(one, AssistantMessage) for call in calls_of(one)
        )
        self._saving: list[asyncio.Future[Any]] = []
        self._open: dict[str, float] = {}
        self._closed: dict[str, ToolMessage] = {}

    def emit(self, event: AgentUiEvent) -> None:
        """Emit an event."""
        self.host.emit(event)

    def warn(self, text: str) -> None:
        """Emit a warning for the person; it is not part of the conversation."""
        self.host.emit(Notice("warning", text))

    def inform(self, text: str) -> None:
        """Emit a remark for the person; it is not part of the conversation."""
        self.host.emit(Notice("info", text))

    def open_call(
        self,
        call: Call,
        risk: Risk,
        arguments: msgspec.Struct | None,
        tool: Tool | None = None,
        *,
        begun: bool = True,
    ) -> None:
        """Announce a call; one that is not `begun` is closed without running."""
        self._open[call.id] = self.host.now()
        self.emit(ToolStarted(call, risk, call_title(call.name, arguments, tool), begun))

    def begin_call(self, call: Call) -> None:
        """Start the call's clock, so that the wait for an approval does not count."""
        self._open[call.id] = self.host.now()

    def close_call(
        self, call: Call, status: ResultStatus, result: ToolResult, missing: MissingApproval | None = None
    ) -> ToolMessage:
        """Announce the end of a call; return its message for the history."""
        seconds = self.host.now() - self._open.pop(call.id)
        self.refused += status == "denied"
        self.failed += status == "error"
        self.emit(ToolFinished(call.id, status, result.text, result.display, seconds, result.cached, missing))
        message = ToolMessage(self.host.new_id(), call.id, call.name, result.text, status, result.images)
        self._closed[call.id] = message
        return message

    async def record(self, message: Message) -> None:
        """Add a message to the history in memory and on disk; a cancellation waits until both are done."""
        await finish_uninterruptibly(self.host.record(message))

    async def record_result(self, result: ToolMessage) -> None:
        """Add a result to the history. It is saved while the model is asked."""
        saved = self.host.record_soon(result)
        if saved is None:
            await self.record(result)
        else:
            self._saving.append(saved)
        self._closed.pop(result.call_id, None)

    async def flush_results(self) -> None:
        """Wait until every result is saved."""
        while self._saving:
            await self._saving[0]
            del self._saving[0]

    async def take_in(self, texts: Sequence[UserMessage]) -> None:
        """Add waiting messages to the history."""
        self.took_in = self.took_in or bool(texts)
        for message in texts:
            await self.record(message)
            self.emit(SteeringAccepted(message))

    async def answer_outstanding(self) -> None:
        """Give every unanswered call a result, so that the history is legal for every provider."""
        for call in unanswered_calls(self.history):
            if call.id not in self._closed:
                if call.id not in self._open:
                    self.open_call(call, "high", None, begun=False)
                self.close_call(call, "cancelled", ToolResult(CANCELLED_TEXT, Plain(CANCELLED_TEXT)))
            await self.record_result(self._closed[call.id])
