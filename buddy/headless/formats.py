"""The output formats of a headless run: text, json, stream-json (Claude's shape), sse; and the sentences
about skipped calls."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import msgspec

from buddy.agent import events as ev
from buddy.agent.display import Command
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
from buddy.headless.structured import StructuredAnswer
from buddy.safety.policy.decide import Mode
from buddy.safety.sanitise import Sanitiser, clean, one_line
from buddy.tasks.task import Task

_PLAIN_RULE = pattern(r"[\w ./:,()@%+=*~-]+", re.ASCII)
_SSE_LINE_END = pattern("\r\n|\n|\r")
"""No other character ends a line of the format; JSON may hold U+2028 as it is."""
SHOWN_RULES = 3


def skipped_line(missing: ev.MissingApproval) -> str:
    """Return the sentence for a skipped call: the reason and what to do."""
    ways = _options_for(missing.mode, missing.rules)
    if ways:
        return f"Skipped, needs approval. Rerun with {ways}."
    advice = "answer p there, and later headless runs may do it without asking"
    instruction = (
        f"Run buddy in this folder: {advice}" if missing.can_be_saved else "Only buddy in a terminal can ask"
    )
    return f"Skipped, needs approval: {one_line(missing.reason, 200)}. {instruction}."


def skipped_summary(missing: Sequence[ev.MissingApproval]) -> str:
    """Return the sentence at the end of a run: how many calls were skipped, and which options would let them
    run."""
    start = f"{describe_calls(len(missing), 'skipped', more=False)} because they need an approval"
    mode = "edit" if all(call.mode == "edit" for call in missing) else ""
    rules = tuple(dict.fromkeys(rule for call in missing for rule in call.rules))
    covered = bool(rules) and all(call.rules for call in missing) and len(rules) <= SHOWN_RULES
    ways = _options_for(mode, rules if covered else ())
    return f"{start}. Rerun with {ways}." if ways else f"{start}; the lines above say what each one needs."


def _options_for(mode: str, rules: Sequence[str]) -> str:
    ways = [f"--permission-mode {mode}"] if mode else []
    if rules:
        ways.append(" ".join(f"--allow {_quote(rule)}" for rule in rules))
    return " or ".join(ways)


def _quote(rule: str) -> str:
    """Quote a rule for the shell; the model chose some of its characters."""
    return f'"{rule}"' if _PLAIN_RULE().fullmatch(rule) else shlex.quote(rule)


Write = Callable[[str], None]
HELD_CHARS = 600
"""Characters of a reply to hold back when stdout is not a terminal: if calls follow, the text is progress for
stderr.

In practice, text longer than this before a call was an answer by itself.
"""
_SUBTYPES = {"budget": "error_max_budget_usd", "replies": "error_max_turns"}


_SERVER_STATES = {
    "ready": "connected",
    "disabled": "disabled",
    "login": "needs-auth",
    "failed": "failed",
    "lost": "failed",
}


def server_state(state: str) -> str:
    """Return the state of an MCP server in the words of Claude's protocol."""
    return _SERVER_STATES.get(state, "pending")


class RunFacts(msgspec.Struct, frozen=True):
    """The facts known at the start of a run. `servers` are MCP servers with their state."""

    session_id: str
    cwd: str
    model: str
    tools: tuple[str, ...]
    permission_mode: Mode
    servers: tuple[tuple[str, str], ...] = ()
    commands: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()


class RunResult(msgspec.Struct, frozen=True):
    """The facts known at the end of a run. `denials` are the refused calls as {tool_name, tool_use_id,
    tool_input}; `missing` are the approvals nobody was there to give; `structured` is
    the answer by a schema."""

    outcome: Outcome
    answer: str
    usage: Usage
    cost_usd: float
    duration_ms: int
    denials: tuple[dict[str, Any], ...]
    missing: tuple[ev.MissingApproval, ...] = ()
    structured: StructuredAnswer | None = None


class Format(Protocol):
    """An output format."""

    def start(self, facts: RunFacts, prompt: UserMessage) -> None:
        """Write the start of the run."""
        ...

    def event(self, event: ev.AgentUiEvent) -> None:
        """Write an event."""
        ...

    def subagent_event(self, task: Task, event: ev.AgentUiEvent) -> None:
        """Write an event of a subagent."""
        ...

    def finish(self, result: RunResult) -> None:
        """Write the result."""
        ...


LOADING_NOTICE_AFTER_S = 2.0
"""A library that loads faster gets no line."""


class ProgressLines:
    """Progress lines for the user on stderr."""

    def __init__(self, err: Write, *, loading_notice_after_s: float = LOADING_NOTICE_AFTER_S) -> None:
        self._err = err
        self._loading_notice_after_s = loading_notice_after_s
        self._begun = 0
        self._not_begun: set[str] = set()
        self._loading: asyncio.TimerHandle | None = None

    def event(self, event: ev.AgentUiEvent) -> None:
        """Write a line for an event that needs one; consecutive calls that were not begun share a line."""
        if isinstance(event, ev.LibraryLoading | ev.TurnFinished):
            self._load(event)
        if isinstance(event, ev.ToolStarted) and not event.begun:
            self._not_begun.add(event.call.id)
            return
        if isinstance(event, ev.ToolFinished) and event.call_id in self._not_begun:
            return
        if self._not_begun:
            self._err(f"  {describe_calls(len(self._not_begun), 'not begun', more=self._begun > 0)}\n")
            self._not_begun.clear()
        match event:
            case ev.ToolStarted():
                self._begun += 1
                self._err(f"• {one_line(event.title, 120)}\n")
            case ev.ToolFinished():
                if event.status != "ok":
                    reason = skipped_line(event.missing) if event.missing else _failure(event)
                    self._err(f"  {reason}\n")
            case ev.RetryScheduled():
                if event.attempt == 1:
                    problem = one_line(event.message, 200).rstrip(".")
                    tries = f"up to {event.attempts} tries"
                    self._err(f"  {problem}; trying again in {event.delay_s:.0f} s ({tries})\n")
            case ev.ContextCompacted():
                self._err(f"  context compacted: {event.tokens_before:,} → {event.tokens_after:,} tokens\n")
            case ev.Notice():
                self._err(f"  {event.level}: {one_line(event.text, 300)}\n")
            case ev.TurnFinished():
                for label, text in receipt_rows(event.receipt) if event.receipt is not None else ():
                    self._err(f"  {label:<9}  {one_line(text, 600)}\n")
            case ev.ReplyFinished():
                if calls_of(event.message) and text_of(event.message).strip():
                    self._err(f"{clean(text_of(event.message)).strip()}\n")
            case ev.TextDelta() | ev.ThinkingDelta() | ev.ToolCallDelta() | ev.ToolProgress():
                pass  # the complete message or result follows
            case (
                ev.TurnStarted()
                | ev.SteeringAccepted()
                | ev.ReplyStarted()
                | ev.TokenUsage()
                | ev.LibraryLoading()
            ):
                pass
            case ev.ApprovalRequested() | ev.ApprovalResolved():
                pass  # nobody is asked in a run without a terminal

    def _load(self, event: ev.LibraryLoading | ev.TurnFinished) -> None:
        if self._loading is not None:
            self._loading.cancel()
            self._loading = None
        if isinstance(event, ev.LibraryLoading) and not event.loaded:
            loop = asyncio.get_running_loop()
            self._loading = loop.call_later(
                self._loading_notice_after_s, self._err, f"  loading {event.name}\n"
            )


def _failure(event: ev.ToolFinished) -> str:
    """Describe a failed call in one line; for a command, its exit code and the end of its output."""
    if not (isinstance(event.display, Command) and event.display.exit_code):
        why = event.text.removeprefix(f"{event.status}: ")
        return f"{event.status}: {one_line(why, 200)}"
    reason = event.display.limit or event.display.ended
    ending = f"exit code {event.display.exit_code}" + (f" ({one_line(reason, 120)})" if reason else "")
    last = next((line for line in reversed(event.display.output.splitlines()) if line.strip()), "")
    return f"{ending}: {one_line(last.strip(), 200)}" if last else ending


class TextFormat:
    """The answer on stdout as it arrives, everything else on stderr.

    A reply that makes calls is progress, which only its first call shows: up to `held_chars` of a reply are
    held back until then. On a terminal nothing is held, because both streams end on the same screen, and the
    text is sanitised; elsewhere every byte is the model's.
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

    def event(self, event: ev.AgentUiEvent) -> None:
        """Write text as it arrives, and progress between its lines."""
        match event:
            case ev.TextDelta():
                self._hold_or_write(event.text)
            case ev.ToolCallDelta():
                self._makes_calls = True
            case ev.ReplyFinished():
                self._end_reply(event)
            case (
                ev.ToolStarted()
                | ev.ToolFinished()
                | ev.RetryScheduled()
                | ev.ContextCompacted()
                | ev.Notice()
                | ev.TurnFinished()
                | ev.TurnStarted()
                | ev.SteeringAccepted()
                | ev.ReplyStarted()
                | ev.ThinkingDelta()
                | ev.ToolProgress()
                | ev.TokenUsage()
                | ev.LibraryLoading()
                | ev.ApprovalRequested()
                | ev.ApprovalResolved()
            ):
                self._progress.event(event)

    def subagent_event(self, task: Task, event: ev.AgentUiEvent) -> None:
        """Write nothing."""

    def finish(self, result: RunResult) -> None:
        """Write the rest of a reply that broke off and was not repeated."""
        self._write(self._cut)
        self._break_line()

    def _begin_reply(self) -> None:
        self._held = ""
        self._seen = 0
        self._makes_calls = False
        self._written = False
        self._at_line_start = True
        self._sanitiser = Sanitiser()

    def _hold_or_write(self, text: str) -> None:
        self._seen += len(text)
        self._held += text
        if self._written or (len(self._held) > self._held_chars and not self._makes_calls):
            self._write_held()

    def _end_reply(self, event: ev.ReplyFinished) -> None:
        self._held += text_of(event.message)[self._seen :]
        self._cut = ""
        if event.message.finish == "cut" and not self._written:
            self._cut = self._held  # the request may be repeated, and the reply start over
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
        """Write progress; on a terminal start a new line in the middle of an answer."""
        if self._is_terminal:
            self._break_line()
        self._err(text)

    def _break_line(self) -> None:
        if not self._at_line_start:
            self._out("\n")
            self._at_line_start = True


class JsonFormat:
    """One JSON object at the end."""

    def __init__(self, out: Write, err: Write) -> None:
        self._out = out
        self._progress = ProgressLines(err)
        self._facts: RunFacts | None = None

    def start(self, facts: RunFacts, prompt: UserMessage) -> None:
        """Remember the facts for the result."""
        self._facts = facts

    def event(self, event: ev.AgentUiEvent) -> None:
        """Write progress to stderr."""
        self._progress.event(event)

    def subagent_event(self, task: Task, event: ev.AgentUiEvent) -> None:
        """Write nothing."""

    def finish(self, result: RunResult) -> None:
        """Write the result object."""
        session_id = self._facts.session_id if self._facts else ""
        self._out(json_line(result_object(result, session_id)))


class SseRecord(msgspec.Struct, frozen=True):
    """One record of the format sse."""

    event: str
    data: dict[str, Any]


def parse_sse_event(record: str) -> SseRecord:
    """Read one record, the lines up to an empty one. Raises `ValueError`."""
    fields: dict[str, list[str]] = {"event": [], "data": []}
    for line in _SSE_LINE_END().split(record):
        name, _colon, value = line.partition(":")
        if name in fields:
            fields[name].append(value.removeprefix(" "))
    if len(fields["event"]) != 1 or not fields["data"]:
        raise ValueError(f"expected one event: line and a data: line, found {record[:100]!r}")
    data: object = json.loads("\n".join(fields["data"]))
    if not isinstance(data, dict):
        raise ValueError(f"expected an object as data, found {record[:100]!r}")  # noqa: TRY004 - its text is wrong
    return SseRecord(fields["event"][0], cast("dict[str, Any]", data))


class SseFormat:
    """Server-sent events: `event:`/`data:` records. Texts of deltas and results and the arguments of calls
    stand under both names that programs read."""

    def __init__(self, out: Write) -> None:
        self._out = out
        self._session_id = ""

    def start(self, facts: RunFacts, prompt: UserMessage) -> None:
        """Write the `session` record."""
        self._session_id = facts.session_id
        self._put("session", {"session_id": facts.session_id, "model": facts.model, "cwd": facts.cwd})

    def event(self, event: ev.AgentUiEvent) -> None:
        """Write a record for every event that consumers need."""
        match event:
            case ev.TextDelta():
                self._put("content_delta", {"text": event.text, "delta": event.text})
            case ev.ThinkingDelta():
                self._put("thinking_delta", {"text": event.text, "delta": event.text})
            case ev.ToolStarted():
                call = event.call
                started = {"id": call.id, "name": call.name, "arguments": call.arguments}
                self._put("tool_call_start", {**started, "input": input_of(call.arguments)})
            case ev.ToolFinished():
                result = {"id": event.call_id, "status": event.status, "text": event.text}
                other = {"result": event.text, "is_error": event.status != "ok"}
                self._put("tool_call_result", {**result, **other, "cached": event.cached})
            case ev.TurnFinished():
                if event.receipt is not None:
                    self._put("receipt", msgspec.to_builtins(event.receipt))
            case ev.RetryScheduled() | ev.Notice() | ev.ContextCompacted():
                self._put(str(type(event).__struct_config__.tag), event_fields(event))
            case ev.ReplyFinished() | ev.ToolCallDelta() | ev.ToolProgress():
                pass  # the other records contain it
            case (
                ev.TurnStarted()
                | ev.SteeringAccepted()
                | ev.ReplyStarted()
                | ev.TokenUsage()
                | ev.LibraryLoading()
            ):
                pass
            case ev.ApprovalRequested() | ev.ApprovalResolved():
                pass  # nobody is asked in a run without a terminal

    def subagent_event(self, task: Task, event: ev.AgentUiEvent) -> None:
        """Write nothing."""

    def finish(self, result: RunResult) -> None:
        """Write the `done` record with the result."""
        self._put("done", result_object(result, self._session_id))

    def _put(self, name: str, data: dict[str, Any]) -> None:
        self._out(f"event: {name}\ndata: {json.dumps(data)}\n\n")


def assistant_object(message: AssistantMessage) -> dict[str, Any]:
    """Return a reply in Claude's shape."""
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
    """Return token counts in Claude's shape, where the input excludes tokens read from or written to the
    cache."""
    cached = usage.cache_read_tokens + usage.cache_write_tokens
    return {
        "input_tokens": max(0, usage.input_tokens - cached),
        "output_tokens": usage.output_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "estimated": usage.estimated,
    }


def result_object(result: RunResult, session_id: str) -> dict[str, Any]:
    """Return the final object of json, stream-json and sse."""
    outcome = result.outcome
    completed = outcome.outcome == "completed"
    structured = result.structured
    is_invalid = structured is not None and bool(structured.problem)
    succeeded = completed and not result.missing and not is_invalid
    subtype = "success" if succeeded else _SUBTYPES.get(outcome.error, "error_during_execution")
    receipt = {"receipt": msgspec.to_builtins(outcome.receipt)} if outcome.receipt is not None else {}
    return {
        "type": "result",
        "subtype": "error_max_structured_output_retries" if is_invalid else subtype,
        "is_error": not succeeded,
        "result": result.answer if completed else outcome.reason,
        "error": outcome.error or ("approval" if result.missing else ""),
        "num_turns": outcome.replies,
        "duration_ms": result.duration_ms,
        "total_cost_usd": round(result.cost_usd, 6),
        "usage": usage_object(result.usage),
        "permission_denials": list(result.denials),
        **receipt,
        **({} if structured is None or is_invalid else {"structured_output": structured.value}),
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
    """Return the arguments of a call as an object, as consumers of Claude's format expect; text that is no
    object is returned under `unparsed`."""
    try:
        values = parse_json(arguments)
    except ArgumentsError:
        values = None
    return cast("dict[str, Any]", values) if isinstance(values, dict) else {"unparsed": arguments}


def result_message(event: ev.ToolFinished) -> dict[str, Any]:
    """Return the result of a call as a user message in Claude's shape."""
    block = {
        "type": "tool_result",
        "tool_use_id": event.call_id,
        "content": event.text,
        "is_error": event.status != "ok",
    }
    return {"role": "user", "content": [block]}


def event_fields(event: ev.Notice | ev.RetryScheduled | ev.ContextCompacted) -> dict[str, Any]:
    """Return the fields of an event."""
    data: dict[str, Any] = msgspec.to_builtins(event)
    return {key: value for key, value in data.items() if key != "type"}


def json_line(data: dict[str, Any]) -> str:
    """Return an object as one line."""
    return json.dumps(data) + "\n"
