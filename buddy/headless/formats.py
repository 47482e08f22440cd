"""Output of a run without a terminal: text, json, stream-json (Claude's shape), sse, with the calls that
were skipped."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import msgspec

from buddy.agent.display import Command
from buddy.agent.events import (
    AgentUiEvent,
    ApprovalRequested,
    ApprovalResolved,
    ContextCompacted,
    LibraryLoading,
    MissingApproval,
    Notice,
    ReplyFinished,
    ReplyStarted,
    RetryScheduled,
    SteeringAccepted,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolCallDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from buddy.agent.formatting import describe_calls
from buddy.agent.host import Outcome
from buddy.agent.lazy_regex import pattern
from buddy.agent.messages import (
    AssistantMessage,
    Call,
    Image,
    ServerItem,
    Text,
    Thinking,
    Usage,
    UserMessage,
    calls_of,
    text_of,
)
from buddy.agent.receipt import receipt_rows
from buddy.agent.schema import ArgumentsError, parse_json
from buddy.safety.policy.decide import CLAUDE_NAMES, Mode
from buddy.safety.sanitise import Sanitiser, clean, one_line

_PLAIN_RULE = pattern(r"[\w ./:,()@%+=*~-]+", re.ASCII)
SHOWN_RULES = 3


def skipped_line(missing: MissingApproval) -> str:
    """The sentence for one call: it was skipped, and what to do."""
    ways = _ways(missing.mode, missing.rules)
    if ways:
        return f"Skipped, needs approval. Rerun with {ways}."
    saved = "answer p there, and later runs without a terminal do it unasked"
    asks = (
        f"Run buddy in this folder: {saved}" if missing.can_be_saved else "Only buddy in a terminal can ask"
    )
    return f"Skipped, needs approval: {one_line(missing.reason, 200)}. {asks}."


def skipped_summary(missing: Sequence[MissingApproval]) -> str:
    """The sentence for the end of a run: how many calls were skipped, and what lets all of them run."""
    start = f"{describe_calls(len(missing), 'skipped', more=False)} for want of an approval"
    mode = "edit" if all(one.mode == "edit" for one in missing) else ""
    rules = tuple(dict.fromkeys(rule for one in missing for rule in one.rules))
    covered = bool(rules) and all(one.rules for one in missing) and len(rules) <= SHOWN_RULES
    ways = _ways(mode, rules if covered else ())
    return f"{start}. Rerun with {ways}." if ways else f"{start}; what each one needs is said above."


def _ways(mode: str, rules: Sequence[str]) -> str:
    ways = [f"--permission-mode {mode}"] if mode else []
    if rules:
        ways.append(" ".join(f"--allow {_quoted(rule)}" for rule in rules))
    return " or ".join(ways)


def _quoted(rule: str) -> str:
    """The rule as a shell takes it as one word; the model chose some of its characters."""
    return f'"{rule}"' if _PLAIN_RULE().fullmatch(rule) else shlex.quote(rule)


Write = Callable[[str], None]
HELD_CHARS = 600
"""Where stdout is no terminal, a reply is held back so long: calls that follow make it progress, for stderr.
No call has followed that much text so far that was not an answer by itself."""
_SUBTYPES = {"budget": "error_max_budget_usd", "replies": "error_max_turns"}


class RunFacts(msgspec.Struct, frozen=True):
    """The facts known when a run starts."""

    session_id: str
    cwd: str
    model: str
    tools: tuple[str, ...]
    permission_mode: Mode


class RunResult(msgspec.Struct, frozen=True):
    """The facts known when a run ends. `denials`: calls that were not allowed, as {tool_name, tool_use_id,
    tool_input}; `missing`: the approvals that nobody was there to give."""

    outcome: Outcome
    answer: str
    usage: Usage
    cost_usd: float
    duration_ms: int
    denials: tuple[dict[str, Any], ...]
    missing: tuple[MissingApproval, ...] = ()


class Format(Protocol):
    """One way to write a run."""

    def start(self, facts: RunFacts, prompt: UserMessage) -> None:
        """The run begins."""
        ...

    def event(self, event: AgentUiEvent) -> None:
        """Something happened."""
        ...

    def finish(self, result: RunResult) -> None:
        """The run is over."""
        ...


LOADING_TOLD_S = 2.0
"""A library that loads faster is not worth a line."""


class ProgressLines:
    """Progress in lines for a person on stderr."""

    def __init__(self, err: Write, *, loading_told_s: float = LOADING_TOLD_S) -> None:
        self._err = err
        self._loading_told_s = loading_told_s
        self._begun = 0
        self._not_begun: set[str] = set()
        self._loading: asyncio.TimerHandle | None = None

    def event(self, event: AgentUiEvent) -> None:
        """One line for what is worth one; all calls that were not begun share theirs."""
        if isinstance(event, LibraryLoading | TurnFinished):
            self._load(event)
        if isinstance(event, ToolStarted) and not event.begun:
            self._not_begun.add(event.call.id)
            return
        if isinstance(event, ToolFinished) and event.call_id in self._not_begun:
            return
        if self._not_begun:
            self._err(f"  {describe_calls(len(self._not_begun), 'not begun', more=self._begun > 0)}\n")
            self._not_begun.clear()
        match event:
            case ToolStarted():
                self._begun += 1
                self._err(f"• {one_line(event.title, 120)}\n")
            case ToolFinished():
                if event.status != "ok":
                    said = skipped_line(event.missing) if event.missing else _failure(event)
                    self._err(f"  {said}\n")
            case RetryScheduled():
                if event.attempt == 1:
                    said = one_line(event.message, 200).rstrip(".")
                    tries = f"up to {event.attempts} tries"
                    self._err(f"  {said}; trying again in {event.delay_s:.0f} s ({tries})\n")
            case ContextCompacted():
                self._err(f"  context compacted: {event.tokens_before:,} → {event.tokens_after:,} tokens\n")
            case Notice():
                self._err(f"  {event.level}: {one_line(event.text, 300)}\n")
            case TurnFinished():
                for label, text in receipt_rows(event.receipt) if event.receipt is not None else ():
                    self._err(f"  {label:<9}  {one_line(text, 600)}\n")
            case ReplyFinished():
                if calls_of(event.message) and text_of(event.message).strip():
                    self._err(f"{clean(text_of(event.message)).strip()}\n")
            case TextDelta() | ThinkingDelta() | ToolCallDelta() | ToolProgress():
                pass  # the whole of them follows
            case TurnStarted() | SteeringAccepted() | ReplyStarted() | TokenUsage() | LibraryLoading():
                pass
            case ApprovalRequested() | ApprovalResolved():
                pass  # nobody is asked in a run without a terminal

    def _load(self, event: LibraryLoading | TurnFinished) -> None:
        if self._loading is not None:
            self._loading.cancel()
            self._loading = None
        if isinstance(event, LibraryLoading) and not event.loaded:
            loop = asyncio.get_running_loop()
            self._loading = loop.call_later(self._loading_told_s, self._err, f"  loading {event.name}\n")


def _failure(event: ToolFinished) -> str:
    """One line on a call that failed; of a command its exit code and the end of its output."""
    if not (isinstance(event.display, Command) and event.display.exit_code):
        why = event.text.removeprefix(f"{event.status}: ")
        return f"{event.status}: {one_line(why, 200)}"
    # "[exit code 1, 0.2 s; stopped: time limit]": only the reason is not said already.
    reason = event.text.rstrip("]\n").rpartition("[exit code ")[2].partition("; ")[2]
    ending = f"exit code {event.display.exit_code}" + (f" ({one_line(reason, 120)})" if reason else "")
    last = next((line for line in reversed(event.display.output.splitlines()) if line.strip()), "")
    return f"{ending}: {one_line(last.strip(), 200)}" if last else ending


class TextFormat:
    """The answer on stdout while it arrives, everything else on stderr.

    A reply that makes calls is progress. That is known at its first call only: `held_chars` of a reply are
    held back until then. On a terminal nothing is held, since both streams end on the same screen, and the
    text passes the sanitiser; anywhere else every byte is the model's.
    """

    def __init__(self, out: Write, err: Write, *, is_terminal: bool, held_chars: int = HELD_CHARS) -> None:
        self._out = out
        self._err = err
        self._is_terminal = is_terminal
        self._held_chars = 0 if is_terminal else held_chars
        self._progress = ProgressLines(self._between_lines)
        self._cut = ""
        self._begin_reply()

    def start(self, facts: RunFacts, prompt: UserMessage) -> None:
        """Write nothing."""

    def event(self, event: AgentUiEvent) -> None:
        """Write text as it arrives, and progress between its lines."""
        match event:
            case TextDelta():
                self._add(event.text)
            case ToolCallDelta():
                self._makes_calls = True
            case ReplyFinished():
                self._end_reply(event)
            case (
                ToolStarted()
                | ToolFinished()
                | RetryScheduled()
                | ContextCompacted()
                | Notice()
                | TurnFinished()
                | TurnStarted()
                | SteeringAccepted()
                | ReplyStarted()
                | ThinkingDelta()
                | ToolProgress()
                | TokenUsage()
                | LibraryLoading()
                | ApprovalRequested()
                | ApprovalResolved()
            ):
                self._progress.event(event)

    def finish(self, result: RunResult) -> None:
        """Write what is left of a reply that broke off and was not answered anew."""
        self._write(self._cut)
        self._break_line()

    def _begin_reply(self) -> None:
        self._held = ""
        self._seen = 0
        self._makes_calls = False
        self._written = False
        self._at_line_start = True
        self._sanitiser = Sanitiser()

    def _add(self, text: str) -> None:
        self._seen += len(text)
        self._held += text
        if self._written or (len(self._held) > self._held_chars and not self._makes_calls):
            self._write_held()

    def _end_reply(self, event: ReplyFinished) -> None:
        self._held += text_of(event.message)[self._seen :]
        self._cut = ""
        if event.message.finish == "cut" and not self._written:
            self._cut = self._held  # it may be asked for again, from its beginning
        elif calls_of(event.message) and not self._written:
            self._progress.event(event)
        else:
            self._write_held()
            self._write(self._sanitiser.finish() if self._is_terminal else "")
            self._break_line()
        self._begin_reply()

    def _write_held(self) -> None:
        text, self._held = self._held, ""
        self._write(self._sanitiser.feed(text) if self._is_terminal else text)

    def _write(self, text: str) -> None:
        if text:
            self._out(text)
            self._written = True
            self._at_line_start = text.endswith("\n")

    def _between_lines(self, text: str) -> None:
        """Write progress; on a terminal it begins a line of its own in the middle of an answer too."""
        if self._is_terminal:
            self._break_line()
        self._err(text)

    def _break_line(self) -> None:
        if not self._at_line_start:
            self._out("\n")
            self._at_line_start = True


class JsonFormat:
    """One object at the end."""

    def __init__(self, out: Write, err: Write) -> None:
        self._out = out
        self._progress = ProgressLines(err)
        self._facts: RunFacts | None = None

    def start(self, facts: RunFacts, prompt: UserMessage) -> None:
        """Remember what the result names."""
        self._facts = facts

    def event(self, event: AgentUiEvent) -> None:
        """Progress goes to stderr."""
        self._progress.event(event)

    def finish(self, result: RunResult) -> None:
        """The result."""
        session_id = self._facts.session_id if self._facts else ""
        self._out(_line(result_object(result, session_id)))


class StreamJsonFormat:
    """One object a line while it happens."""

    def __init__(self, out: Write, *, partial: bool) -> None:
        self._out = out
        self._partial = partial
        self._session_id = ""

    def start(self, facts: RunFacts, prompt: UserMessage) -> None:
        """The `system/init` object."""
        self._session_id = facts.session_id
        self._put(
            {
                "type": "system",
                "subtype": "init",
                "cwd": facts.cwd,
                "model": facts.model,
                "tools": list(facts.tools),
                "mcp_servers": [],
                "permissionMode": CLAUDE_NAMES[facts.permission_mode],
                "slash_commands": [],
                "skills": [],
            }
        )

    def event(self, event: AgentUiEvent) -> None:
        """Messages as content blocks; deltas when they were asked for."""
        match event:
            case ReplyFinished():
                reply = assistant_object(event.message)
                self._put({"type": "assistant", "message": reply, "parent_tool_use_id": None})
            case ToolFinished():
                self._put({"type": "user", "message": _result_message(event), "parent_tool_use_id": None})
            case TurnFinished():
                if event.receipt is not None:
                    receipt = msgspec.to_builtins(event.receipt)
                    self._put({"type": "system", "subtype": "receipt", "receipt": receipt})
            case ContextCompacted():
                self._put({"type": "system", "subtype": "compact_boundary", **_fields(event)})
            case Notice() | RetryScheduled():
                self._put({"type": "system", "subtype": "notice", **_fields(event)})
            case TextDelta():
                self._put_delta("text", event)
            case ThinkingDelta():
                self._put_delta("thinking", event)
            case ToolCallDelta() | ToolStarted() | ToolProgress():
                pass  # the reply has the call, the result its output
            case TurnStarted() | SteeringAccepted() | ReplyStarted() | TokenUsage() | LibraryLoading():
                pass
            case ApprovalRequested() | ApprovalResolved():
                pass  # nobody is asked in a run without a terminal

    def _put_delta(self, kind: str, event: TextDelta | ThinkingDelta) -> None:
        if self._partial:
            delta = {"type": f"{kind}_delta", kind: event.text}
            inner = {"type": "content_block_delta", "index": event.block, "delta": delta}
            self._put({"type": "stream_event", "event": inner, "parent_tool_use_id": None})

    def finish(self, result: RunResult) -> None:
        """The result object."""
        self._out(_line(result_object(result, self._session_id)))

    def _put(self, data: dict[str, Any]) -> None:
        self._out(_line({**data, "session_id": self._session_id}))


class SseFormat:
    """`event:`/`data:` records."""

    def __init__(self, out: Write) -> None:
        self._out = out
        self._session_id = ""

    def start(self, facts: RunFacts, prompt: UserMessage) -> None:
        """`session`."""
        self._session_id = facts.session_id
        self._put("session", {"session_id": facts.session_id, "model": facts.model, "cwd": facts.cwd})

    def event(self, event: AgentUiEvent) -> None:
        """Every event that says something outside."""
        match event:
            case TextDelta():
                self._put("content_delta", {"text": event.text})
            case ThinkingDelta():
                self._put("thinking_delta", {"text": event.text})
            case ToolStarted():
                call = event.call
                self._put("tool_call_start", {"id": call.id, "name": call.name, "arguments": call.arguments})
            case ToolFinished():
                result = {"id": event.call_id, "status": event.status, "text": event.text}
                self._put("tool_call_result", {**result, "cached": event.cached})
            case TurnFinished():
                if event.receipt is not None:
                    self._put("receipt", msgspec.to_builtins(event.receipt))
            case RetryScheduled() | Notice() | ContextCompacted():
                self._put(str(type(event).__struct_config__.tag), _fields(event))
            case ReplyFinished() | ToolCallDelta() | ToolProgress():
                pass  # said by the events around them
            case TurnStarted() | SteeringAccepted() | ReplyStarted() | TokenUsage() | LibraryLoading():
                pass
            case ApprovalRequested() | ApprovalResolved():
                pass  # nobody is asked in a run without a terminal

    def finish(self, result: RunResult) -> None:
        """`done`."""
        self._put("done", result_object(result, self._session_id))

    def _put(self, name: str, data: dict[str, Any]) -> None:
        self._out(f"event: {name}\ndata: {json.dumps(data)}\n\n")


def assistant_object(message: AssistantMessage) -> dict[str, Any]:
    """A reply in Claude's shape."""
    return {
        "id": message.id,
        "type": "message",
        "role": "assistant",
        "model": message.model,
        "content": [_block(part) for part in message.parts],
        "stop_reason": {"stop": "end_turn", "calls": "tool_use", "length": "max_tokens"}.get(message.finish),
        "usage": usage_object(message.usage),
    }


def usage_object(usage: Usage) -> dict[str, Any]:
    """Token counts in Claude's words: there the input leaves out what the cache read or took."""
    cached = usage.cache_read_tokens + usage.cache_write_tokens
    return {
        "input_tokens": max(0, usage.input_tokens - cached),
        "output_tokens": usage.output_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "estimated": usage.estimated,
    }


def result_object(result: RunResult, session_id: str) -> dict[str, Any]:
    """The final object of json, stream-json and sse."""
    outcome = result.outcome
    completed = outcome.outcome == "completed"
    succeeded = completed and not result.missing
    receipt = {"receipt": msgspec.to_builtins(outcome.receipt)} if outcome.receipt is not None else {}
    return {
        "type": "result",
        "subtype": "success" if succeeded else _SUBTYPES.get(outcome.error, "error_during_execution"),
        "is_error": not succeeded,
        "result": result.answer if completed else outcome.reason,
        "error": outcome.error or ("approval" if result.missing else ""),
        "num_turns": outcome.replies,
        "duration_ms": result.duration_ms,
        "total_cost_usd": round(result.cost_usd, 6),
        "usage": usage_object(result.usage),
        "permission_denials": list(result.denials),
        **receipt,
        "session_id": session_id,
    }


def _block(part: Text | Thinking | Call | ServerItem | Image) -> dict[str, Any]:
    match part:
        case Text():
            return {"type": "text", "text": part.text}
        case Thinking():
            return {"type": "thinking", "thinking": part.text, "signature": part.signature}
        case Call():
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": input_of(part.arguments)}
        case ServerItem():
            return {"type": "server_item", "data": part.data}
        case Image():
            return {"type": "image", "media_type": part.media_type}


def input_of(arguments: str) -> dict[str, Any]:
    """The arguments of a call as an object, as consumers of Claude's format expect; text that is none is
    kept whole under `unparsed`."""
    try:
        values = parse_json(arguments)
    except ArgumentsError:
        values = None
    return cast("dict[str, Any]", values) if isinstance(values, dict) else {"unparsed": arguments}


def _result_message(event: ToolFinished) -> dict[str, Any]:
    block = {
        "type": "tool_result",
        "tool_use_id": event.call_id,
        "content": event.text,
        "is_error": event.status != "ok",
    }
    return {"role": "user", "content": [block]}


def _fields(event: Notice | RetryScheduled | ContextCompacted) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(event)
    return {key: value for key, value in data.items() if key != "type"}


def _line(data: dict[str, Any]) -> str:
    return json.dumps(data) + "\n"
