"""Events and messages of a conversation as ACP session updates. Pure: nothing here sends."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import msgspec
from acp import schema
from acp.helpers import (
    text_block,
    tool_content,
    tool_diff_content,
    update_agent_message_text,
    update_agent_thought_text,
    update_plan,
    update_user_message_text,
)

from buddy.agent.display import Checklist, Command, Diff, Display, FileDiff, FileList, Picture, Plain
from buddy.agent.events import (
    AgentUiEvent,
    ApprovalRequested,
    ApprovalResolved,
    ContextCompacted,
    LibraryLoading,
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
from buddy.agent.lazy_regex import pattern
from buddy.agent.messages import (
    AssistantMessage,
    Call,
    Image,
    Message,
    ServerItem,
    Text,
    Thinking,
    ToolMessage,
    UserMessage,
    typed_text,
)
from buddy.agent.receipt import receipt_text
from buddy.agent.schema import ArgumentsError, parse_json
from buddy.agent.tool import Tool
from buddy.safety.sanitise import one_line, visible

Update = Any
"""A model of `acp.schema` that stands in `SessionNotification.update`."""

PROGRESS_CHARS = 4_000
"""The end of a running tool's output that an editor sees; each update replaces the one before."""
TITLE_CHARS = 200
CHOICE_CHARS = 160
OUTPUT_CHARS = 30_000
_CODE_POINT = pattern(r"(?<=⟨)U\+[0-9A-F]+(?=⟩)")
_BRACKETS = {"U+27E8", "U+27E9"}
_WITHOUT_TEXT = {"add": "created, empty", "update": "changed", "delete": "deleted"}
_HUNK = pattern(r"^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@", re.MULTILINE)
_KINDS: dict[str, schema.ToolKind] = {
    "search": "search",
    "shell": "execute",
    "git": "execute",
    "web": "fetch",
    "plan": "think",
}
_PATH_ARGUMENTS = ("path", "file_path", "file", "source", "destination")
_PLAN_STATES: dict[str, schema.PlanEntryStatus] = {
    "pending": "pending",
    "active": "in_progress",
    "done": "completed",
    "dropped": "completed",
}


def kind_of(tool: Tool | None) -> schema.ToolKind:
    """Return the kind of tool an editor picks an icon by."""
    if tool is None:
        return "other"
    if tool.category == "files":
        return "read" if tool.risk == "low" else "edit"
    if tool.category == "git" and tool.risk == "low":
        return "read"
    return _KINDS.get(tool.category, "other")


class CallPlace(msgspec.Struct, frozen=True):
    """The folder that paths of calls are relative to; `machine`: the target they are on, "" for this
    machine."""

    cwd: str
    machine: str = ""

    def absolute(self, path: str) -> str:
        """Return a path as an absolute one."""
        return path if path.startswith("/") else f"{self.cwd}/{path}"

    def locations(self, values: dict[str, Any]) -> list[schema.ToolCallLocation]:
        """Return the files a call names, for the editor to open; none on another machine."""
        if self.machine:
            return []
        paths = [values[name] for name in _PATH_ARGUMENTS if isinstance(values.get(name), str)]
        return [schema.ToolCallLocation(path=self.absolute(path)) for path in paths if path]


class TurnUpdates:
    """The updates of one task's events, in order. `tool` looks a tool up by name; `place` makes paths
    absolute; `prefix` keeps the call ids of several tasks apart; `streams_terminals`: the client shows
    command output sent in `_meta` as a terminal."""

    def __init__(
        self,
        tool: Callable[[str], Tool | None],
        place: CallPlace,
        *,
        prefix: str = "",
        streams_terminals: bool = False,
    ) -> None:
        self._tool = tool
        self.place = place
        self._prefix = prefix
        self._streams_terminals = streams_terminals
        self._calls: dict[str, Call] = {}
        self._announced: set[str] = set()
        self._tails: dict[str, str] = {}

    def call_id(self, call_id: str) -> str:
        """Return the id under which the client knows a call."""
        return self._prefix + call_id

    def of(self, event: AgentUiEvent) -> Iterator[Update]:
        """Yield the updates that show an event."""
        match event:
            case TextDelta():
                yield update_agent_message_text(event.text)
            case ThinkingDelta():
                yield update_agent_thought_text(event.text)
            case ToolCallDelta():
                yield from self._arriving(event)
            case ReplyFinished():
                yield from self._drop_unfinished(event)
            case ToolStarted():
                yield self._started(event)
            case ToolProgress():
                yield self._progress(event)
            case ToolFinished():
                yield from self._finished(event)
            case TokenUsage():
                cost = (
                    schema.Cost(amount=round(event.cost_usd, 6), currency="USD") if event.cost_known else None
                )
                yield schema.UsageUpdate(
                    session_update="usage_update",
                    used=event.context_tokens,
                    size=event.context_limit,
                    cost=cost,
                )
            case RetryScheduled():
                yield _aside(f"{event.message}; trying again in {event.delay_s:.0f} s")
            case LibraryLoading():
                if not event.loaded:
                    yield _aside(f"loading {event.name}")
            case ContextCompacted():
                before, after = event.tokens_before, event.tokens_after
                yield _aside(f"conversation compacted: {before:,} to about {after:,} tokens")
            case Notice():
                yield _aside(event.text)
            case TurnFinished():
                if event.receipt is not None:
                    yield update_agent_message_text(f"\n\n```text\n{receipt_text(event.receipt)}\n```\n")
            case ApprovalRequested() | ApprovalResolved():
                pass  # asked with session/request_permission
            case TurnStarted() | SteeringAccepted() | ReplyStarted():
                pass  # the client shows the prompt it sent

    def _arriving(self, event: ToolCallDelta) -> Iterator[Update]:
        if event.call_id in self._announced or not event.name:
            return
        self._announced.add(event.call_id)
        yield schema.ToolCallStart(
            session_update="tool_call",
            tool_call_id=self.call_id(event.call_id),
            title=event.name,
            kind=kind_of(self._tool(event.name)),
            status="pending",
        )

    def _drop_unfinished(self, event: ReplyFinished) -> Iterator[Update]:
        """A reply that broke off: its calls are never taken up, so that nothing else would end them."""
        if event.message.finish != "cut":
            return
        for call_id in sorted(self._announced - self._calls.keys()):
            yield schema.ToolCallProgress(
                session_update="tool_call_update", tool_call_id=self.call_id(call_id), status="failed"
            )
        self._announced &= self._calls.keys()

    def _started(self, event: ToolStarted) -> Update:
        call = event.call
        self._calls[call.id] = call
        values = arguments_of(call)
        facts: dict[str, Any] = {
            "tool_call_id": self.call_id(call.id),
            "title": one_line(event.title, TITLE_CHARS),
            "kind": kind_of(self._tool(call.name)),
            "status": "in_progress",
            "raw_input": values,
            "locations": self.place.locations(values),
        }
        if self._is_terminal(call):
            facts["content"] = [schema.TerminalToolCallContent(type="terminal", terminal_id=call.id)]
            facts["field_meta"] = {"terminal_info": {"terminal_id": call.id, "cwd": self.place.cwd}}
        if call.id in self._announced:
            return schema.ToolCallProgress(session_update="tool_call_update", **facts)
        self._announced.add(call.id)
        return schema.ToolCallStart(session_update="tool_call", **facts)

    def _progress(self, event: ToolProgress) -> Update:
        call = self._calls.get(event.call_id)
        identity: dict[str, Any] = {
            "session_update": "tool_call_update",
            "tool_call_id": self.call_id(event.call_id),
        }
        if call is not None and self._is_terminal(call):
            output = {"terminal_id": event.call_id, "data": event.text}
            return schema.ToolCallProgress(**identity, field_meta={"terminal_output": output})
        tail = (self._tails.get(event.call_id, "") + event.text)[-PROGRESS_CHARS:]
        self._tails[event.call_id] = tail
        return schema.ToolCallProgress(**identity, content=[tool_content(text_block(fenced(tail)))])

    def _finished(self, event: ToolFinished) -> Iterator[Update]:
        call = self._calls.pop(event.call_id, None)
        self._tails.pop(event.call_id, None)
        self._announced.discard(event.call_id)
        if isinstance(event.display, Checklist):
            yield plan_of(event.display)
        facts: dict[str, Any] = {
            "session_update": "tool_call_update",
            "tool_call_id": self.call_id(event.call_id),
            "status": "completed" if event.status == "ok" else "failed",
            "raw_output": {"status": event.status, "text": event.text[:OUTPUT_CHARS]},
        }
        files = event.display.files if isinstance(event.display, Diff) and not self.place.machine else ()
        locations = [
            schema.ToolCallLocation(
                path=self.place.absolute(file.new_path or file.path), line=_first_line(file.diff)
            )
            for file in files
        ]
        if locations:
            facts["locations"] = locations
        if call is not None and self._is_terminal(call):
            code = event.display.exit_code if isinstance(event.display, Command) else None
            ended = {"terminal_id": event.call_id, "exit_code": code, "signal": None}
            facts["field_meta"] = {"terminal_exit": ended}
        else:
            failed = event.status != "ok"
            facts["content"] = list(content_of(event.display, event.text if failed else "", self.place))
        yield schema.ToolCallProgress(**facts)

    def _is_terminal(self, call: Call) -> bool:
        tool = self._tool(call.name)
        return self._streams_terminals and tool is not None and tool.category == "shell" and tool.confined


def replay(
    history: Sequence[Message], tool: Callable[[str], Tool | None], place: CallPlace
) -> Iterator[Update]:
    """Yield a saved conversation as the updates that once showed it."""
    for message in history:
        match message:
            case UserMessage():
                text = typed_text(message)
                if text:
                    yield update_user_message_text(text)
                for part in message.parts:
                    if isinstance(part, Image):
                        picture = schema.ImageContentBlock(
                            type="image", data=part.data, mime_type=part.media_type
                        )
                        yield schema.UserMessageChunk(session_update="user_message_chunk", content=picture)
            case AssistantMessage():
                yield from _replay_reply(message, tool, place)
            case ToolMessage():
                yield schema.ToolCallProgress(
                    session_update="tool_call_update",
                    tool_call_id=message.call_id,
                    status="completed" if message.status == "ok" else "failed",
                    content=[tool_content(text_block(fenced(message.text[:OUTPUT_CHARS])))],
                )


def _replay_reply(
    message: AssistantMessage, tool: Callable[[str], Tool | None], place: CallPlace
) -> Iterator[Update]:
    for part in message.parts:
        match part:
            case Text():
                yield update_agent_message_text(part.text)
            case Thinking():
                if part.text:
                    yield update_agent_thought_text(part.text)
            case Call() if message.finish != "cut":
                values = arguments_of(part)
                subject = next((str(value) for value in values.values() if isinstance(value, str)), "")
                yield schema.ToolCallStart(
                    session_update="tool_call",
                    tool_call_id=part.id,
                    title=one_line(f"{part.name} {subject}".strip(), TITLE_CHARS),
                    kind=kind_of(tool(part.name)),
                    status="in_progress",
                    raw_input=values,
                    locations=place.locations(values),
                )
            case Call() | ServerItem():
                pass  # a call of a reply that broke off never ran


def content_of(display: Display, failure: str, place: CallPlace) -> Iterator[Any]:
    """Yield the content of a finished call. `failure`: the model's text of a call that did not succeed."""
    match display:
        case Diff():
            for file in display.files:
                yield from diff_blocks(file, place)
        case Command():
            output = display.output[-OUTPUT_CHARS:].rstrip("\n")
            code = "" if display.exit_code in (0, None) else f"\n[exit code {display.exit_code}]"
            yield tool_content(text_block(fenced(f"{output}{code}{display.ended and f' [{display.ended}]'}")))
        case Plain():
            text = failure or display.body or display.summary
            if text:
                yield tool_content(
                    text_block(fenced(text[:OUTPUT_CHARS]) if display.body or failure else text)
                )
        case FileList():
            yield tool_content(text_block("\n".join([display.summary, *display.paths])[:OUTPUT_CHARS]))
        case Checklist():
            pass  # shown as the plan
        case Picture():
            yield tool_content(text_block(f"{display.path} ({display.summary})"))


def approval_title(request: ApprovalRequested) -> str:
    """Return one line that says what is asked for; the content says all of it."""
    match request.preview:
        case Command(command=command):
            subject = visible(command)
        case Diff(files=files):
            subject = ", ".join(file.new_path or file.path for file in files)
        case _:
            subject = ""
    words = f"{request.call.name} {subject}" if subject else f"{request.call.name}: {request.reason}"
    return one_line(words, TITLE_CHARS)


def approval_content(request: ApprovalRequested, place: CallPlace) -> Iterator[Any]:
    """Yield what a person decides about: all of it, with characters that can't be seen written out."""
    preview = request.preview
    match preview:
        case Command():
            yield from _decision_text(preview.command)
            yield from _decision_text(preview.output)
        case Plain():
            yield from _decision_text(preview.body or preview.summary)
        case FileList():
            yield from _decision_text("\n".join([preview.summary, *preview.paths]))
        case Diff():
            for file in preview.files:
                yield from diff_blocks(file, place)
                yield from _decision_text(_hidden_characters(file))
        case Checklist() | Picture():
            yield from content_of(preview, "", place)
    yield from _decision_text(request.reason)
    for meaning, covered in (("this session", request.session), ("always", request.rule)):
        if len(covered) > CHOICE_CHARS:  # an editor shows choices on one line
            yield from _decision_text(f"{meaning}: {covered}")


def _decision_text(text: str) -> Iterator[Any]:
    if text:
        yield tool_content(text_block(fenced(visible(text, lines=True))))


def _hidden_characters(file: FileDiff) -> str:
    """Name the characters of a change that an editor may not show. The text itself stays as it is: it is what
    will be written."""
    shown = visible(file.diff.replace("\t", " "), lines=True)
    names = sorted(set(_CODE_POINT().findall(shown)) - _BRACKETS)  # literal brackets are written out too
    return (
        f"{file.new_path or file.path} has characters that can't be seen: {' '.join(names)}" if names else ""
    )


def diff_blocks(file: FileDiff, place: CallPlace) -> Iterator[Any]:
    """Yield each hunk of a changed file as a pair of old and new text: the whole file is not kept in the
    record, and an editor finds the place by the text. A file of another machine is text: the editor would
    look for it here."""
    if place.machine and file.diff:
        name = f"{place.machine}:{file.new_path or file.path}"
        yield tool_content(text_block(f"{one_line(name)}\n{fenced(visible(file.diff, lines=True))}"))
        return
    path = place.absolute(file.new_path or file.path)
    hunks = _hunks(file.diff)
    if not hunks:
        words = f"moved to {file.new_path}" if file.change == "move" else _WITHOUT_TEXT[file.change]
        yield tool_content(text_block(f"{one_line(file.path)}: {one_line(words)}"))
    for old, new in hunks:
        yield tool_diff_content(path, new, None if file.change == "add" else old)


def _hunks(diff: str) -> list[tuple[str, str]]:
    """Return (old, new) text of each hunk of a unified diff without file headers."""
    pairs: list[tuple[list[str], list[str]]] = []
    # Not splitlines(): it ends lines at form feeds and the like too, and the rest of such a line could pass
    # for a removed one.
    for line in diff.removesuffix("\n").split("\n"):
        if _HUNK().match(line):
            pairs.append(([], []))
        elif not pairs or line.startswith("\\"):
            continue  # "\ No newline at end of file"
        else:
            old, new = pairs[-1]
            if not line.startswith("+"):
                old.append(line[1:])
            if not line.startswith("-"):
                new.append(line[1:])
    return [("".join(f"{one}\n" for one in old), "".join(f"{one}\n" for one in new)) for old, new in pairs]


def _first_line(diff: str) -> int | None:
    hunk = _HUNK().search(diff)
    return max(int(hunk[2]), 1) if hunk else None


def plan_of(checklist: Checklist) -> Update:
    """Return a plan; every item has the same weight, since models here give none."""
    return update_plan(
        [
            schema.PlanEntry(content=item.text, priority="medium", status=_PLAN_STATES[item.state])
            for item in checklist.items
        ]
    )


def arguments_of(call: Call) -> dict[str, Any]:
    """Return the arguments of a call as an object; text that is none stands under `unparsed`."""
    try:
        values = parse_json(call.arguments)
    except ArgumentsError:
        values = None
    return cast("dict[str, Any]", values) if isinstance(values, dict) else {"unparsed": call.arguments}


def fenced(text: str) -> str:
    """Return text as a Markdown code block that nothing in it can close."""
    ticks = max((len(run) for run in re.findall(r"`{3,}", text)), default=2) + 1
    fence = "`" * ticks
    return f"{fence}text\n{text.rstrip()}\n{fence}"


def _aside(text: str) -> Update:
    return update_agent_thought_text(f"\n{one_line(text, 1_000)}\n")
