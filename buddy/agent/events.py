"""AgentUiEvent: the events of a turn, its only output. Facts, not commands; frozen and serialisable.

Consumers `match` without a wildcard, so that a new variant is a type error wherever it matters. The laws
every sequence of events obeys are checked by `tests/support/laws.py`: `TurnStarted` first, `TurnFinished`
last and once, every `ToolStarted` and `ApprovalRequested` closed exactly once, deltas concatenate to the
finished reply.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from buddy.agent.display import Display
from buddy.agent.messages import AssistantMessage, Call, ResultStatus, Usage, UserMessage
from buddy.agent.provider import ErrorKind
from buddy.agent.receipt import Receipt

RiskName = Literal["low", "medium", "high"]
ApprovalAnswer = Literal["once", "session", "rule", "denied", "withdrawn"]
TurnOutcome = Literal["completed", "cancelled", "failed", "limit"]


class TurnStarted(msgspec.Struct, frozen=True, tag="turn_started"):
    """A turn began. `prompts` is empty when it continues an existing history."""

    prompts: tuple[UserMessage, ...]


class SteeringAccepted(msgspec.Struct, frozen=True, tag="steering_accepted"):
    """A message sent while the turn ran (or queued for after it) became part of the history."""

    message: UserMessage


class ReplyStarted(msgspec.Struct, frozen=True, tag="reply_started"):
    """A request is about to be sent; what follows belongs to this reply."""

    reply_id: str
    model: str


class ThinkingDelta(msgspec.Struct, frozen=True, tag="thinking_delta"):
    """More reasoning of a reply."""

    reply_id: str
    block: int
    text: str


class TextDelta(msgspec.Struct, frozen=True, tag="text_delta"):
    """More answer text of a reply."""

    reply_id: str
    block: int
    text: str


class ToolCallDelta(msgspec.Struct, frozen=True, tag="tool_call_delta"):
    """Arguments of a call that are still arriving. For previews only; the call runs from `ReplyFinished`."""

    reply_id: str
    call_id: str
    name: str
    arguments: str


class ReplyTiming(msgspec.Struct, frozen=True):
    """Seconds from the request to the first content, and to the end."""

    first_content_s: float
    total_s: float


class ReplyFinished(msgspec.Struct, frozen=True, tag="reply_finished"):
    """The complete reply. `message.finish == "cut"`: it broke off; the received part is kept."""

    message: AssistantMessage
    timing: ReplyTiming


class ToolStarted(msgspec.Struct, frozen=True, tag="tool_started"):
    """A call was taken up: it will be judged, perhaps approved by the person, and closed by one
    `ToolFinished`. `begun` is False where the call never runs, because the turn ended or changed direction
    first."""

    call: Call
    risk: RiskName
    title: str
    begun: bool


class ToolProgress(msgspec.Struct, frozen=True, tag="tool_progress"):
    """Output of a running tool, bounded by the tool."""

    call_id: str
    text: str


class MissingApproval(msgspec.Struct, frozen=True):
    """A call that needed an approval where nobody could give it. `reason`: why it needed one; `mode` and
    `rules`: the permission mode and the rules (in Claude's words) that let it run, empty where none does;
    `can_be_saved`: a person who is asked can save a rule for it."""

    reason: str
    mode: str
    rules: tuple[str, ...]
    can_be_saved: bool = False


class ToolFinished(msgspec.Struct, frozen=True, tag="tool_finished"):
    """A call ended. `text` is for the model, `display` for the person; `seconds` is its run time without the
    wait for an approval; `missing` is the approval that nobody was there to give."""

    call_id: str
    status: ResultStatus
    text: str
    display: Display
    seconds: float
    cached: bool
    missing: MissingApproval | None = None


class ApprovalRequested(msgspec.Struct, frozen=True, tag="approval_requested"):
    """The person is asked to approve one call. An answer counts only with this id and this digest of the
    preview. `rule` describes what "always" would cover, `session` what "this session" would; "" where that
    answer is not offered. `number` names the request in this session, in commands too (`/ok 3`)."""

    request_id: str
    call: Call
    risk: RiskName
    reason: str
    preview: Display
    rule: str
    digest: str
    session: str = ""
    number: int = 0


class ApprovalResolved(msgspec.Struct, frozen=True, tag="approval_resolved"):
    """A request was answered or withdrawn. `by`: who or what answered ("you", "grant", "turn ended" …)."""

    request_id: str
    answer: ApprovalAnswer
    by: str


class TokenUsage(msgspec.Struct, frozen=True, tag="token_usage"):
    """Usage of the last reply and the task's totals. `context_tokens` of `context_limit` are in use;
    `cost_usd` is the task's so far; `cost_known` is False when the catalogue has no price."""

    last: Usage
    total: Usage
    context_tokens: int
    context_limit: int
    cost_usd: float
    cost_known: bool


class RetryScheduled(msgspec.Struct, frozen=True, tag="retry_scheduled"):
    """The request failed before anything was shown and is sent again after `delay_s`. `attempt` counts the
    failed attempt; 0: it was not sent yet, because the provider rate-limited an earlier request."""

    attempt: int
    attempts: int
    delay_s: float
    kind: ErrorKind
    message: str


class LibraryLoading(msgspec.Struct, frozen=True, tag="library_loading"):
    """The request waits for the import of a library; `loaded`: the import is done and the request goes
    out."""

    name: str
    loaded: bool


class ContextCompacted(msgspec.Struct, frozen=True, tag="context_compacted"):
    """The request history was shortened. Tokens are estimates."""

    tokens_before: int
    tokens_after: int
    kept: int
    dropped: int


class Notice(msgspec.Struct, frozen=True, tag="notice"):
    """A message for the person that is not part of the conversation."""

    level: Literal["info", "warning", "error"]
    text: str


class TurnFinished(msgspec.Struct, frozen=True, tag="turn_finished"):
    """The turn is over. `reason` is one sentence when it did not complete, "" otherwise; `error` is the
    provider error's kind, "empty_response", "loop" or "crash" when it failed, "" otherwise. `refused` and
    `failed` count calls that were denied or ended with an error; `receipt` is there where files changed."""

    outcome: TurnOutcome
    reason: str
    error: str
    replies: int
    seconds: float
    refused: int = 0
    failed: int = 0
    receipt: Receipt | None = None


AgentUiEvent = (
    TurnStarted
    | SteeringAccepted
    | ReplyStarted
    | ThinkingDelta
    | TextDelta
    | ToolCallDelta
    | ReplyFinished
    | ToolStarted
    | ToolProgress
    | ToolFinished
    | ApprovalRequested
    | ApprovalResolved
    | TokenUsage
    | RetryScheduled
    | LibraryLoading
    | ContextCompacted
    | Notice
    | TurnFinished
)


class TaskEvent(msgspec.Struct, frozen=True):
    """An event on its way to a front end. `seq` counts without gaps per task; `at` is seconds of a monotonic
    clock."""

    task_id: int
    seq: int
    at: float
    event: AgentUiEvent
