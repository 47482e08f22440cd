"""The view: folds events into the state of the screen and returns the blocks to print. Pure.

The foreground task is printed as it happens. Of a background task only the end is printed, with its last
answer; the rest is held until the task comes to the foreground.
"""

from __future__ import annotations

from collections.abc import Sequence

from buddy.agent import events as ev
from buddy.agent.formatting import describe_calls, format_count
from buddy.agent.lazy_regex import pattern
from buddy.agent.messages import Image, UserMessage, calls_of, text_of, typed_text
from buddy.repl.render import numbers as words
from buddy.repl.render.markdown import MarkdownStream
from buddy.repl.view.blocks import (
    KINDS,
    ApprovalAnswered,
    ApprovalAsked,
    Block,
    Lookups,
    Markdown,
    NoteBlock,
    ReceiptBlock,
    TaskHeading,
    Thought,
    ToolCall,
    TurnSummary,
    UserPrompt,
    hidden_lines,
    kind_of,
    merge_lookups,
)
from buddy.repl.view.replay import attachment_titles
from buddy.repl.view.state import (
    Calling,
    InboxRow,
    Loading,
    Retrying,
    RunningTool,
    SessionFacts,
    TaskView,
    ThinkingPhase,
    ViewState,
    WaitingPhase,
    Working,
    Writing,
)
from buddy.safety.sanitise import one_line
from buddy.tools.streaming_arguments import ArgumentsSoFar

NO_SANDBOX = "There is no sandbox here: what you approve runs with all your permissions."
_WAYS_ON = {"budget": "; /budget raises it", "cut": " /continue picks it up."}
"""Advice after a turn that failed with this error."""
LAST_LINE_CHARS = 400
THOUGHT_TAIL = 600
KEPT_ERROR_CHARS = 20_000
WHY_CHARS = 60
_RETRY_WORDS = {
    "rate_limit": "429 rate limit",
    "overloaded": "overload",
    "cut": "connection cut",
    "context_overflow": "context overflow",
    "auth": "authentication",
    "quota": "quota",
    "not_found": "not found",
    "bad_request": "bad request",
    "content_filter": "content filter",
}


_SENTENCE_END = pattern(r"[;:] | \(")


def fold(state: ViewState, event: ev.TaskEvent) -> list[Block]:
    """Apply an event to `state` and return the blocks to print now."""
    task = state.task(event.task_id)
    task.heard_at = event.at
    blocks = [*_release_lookups(task, event.event), *_fold(state, task, event.event, event.at)]
    for block in blocks:
        if isinstance(block, (UserPrompt, ToolCall, Lookups, Thought, ApprovalAsked)):
            state.folded.append(block)
    if task.task_id == state.focus:
        return blocks if isinstance(task.phase, Writing) else [*blocks, *release(state)]
    return _background(state, task, blocks)


def release(state: ViewState) -> list[Block]:
    """Return the answers of background tasks that waited for the end of the foreground answer."""
    answers, state.deferred = state.deferred, []
    return answers


def focus(state: ViewState, facts: SessionFacts) -> list[Block]:
    """Update the facts of the session. A task that comes to the foreground returns the blocks it held in the
    background."""
    before, state.facts = state.focus, facts
    task = state.tasks.get(facts.focus)
    if facts.focus == before or (task is None and not state.tasks):
        return []
    held: list[Block] = [*release(state), TaskHeading(facts.focus, state.name(facts.focus))]
    if task is not None:
        held += task.held
        task.held.clear()
    return held


def _fold(state: ViewState, task: TaskView, event: ev.AgentUiEvent, at: float) -> list[Block]:
    match event:
        case ev.TextDelta():
            return _text(task, event, at)
        case ev.ThinkingDelta():
            return _thinking(task, event, at)
        case ev.ToolCallDelta():
            return _call_delta(task, event, at)
        case ev.ToolProgress():
            _progress(task, event)
            return []
        case ev.TurnStarted():
            _begin_turn(task, at)
            return [_prompt(state, task, message) for message in event.prompts]
        case ev.SteeringAccepted():
            return [*_close_text(task), *_not_begun(task), _prompt(state, task, event.message)]
        case ev.ReplyStarted():
            task.phase = WaitingPhase(at)
            task.last_reply = []
            return _close_text(task)
        case ev.ReplyFinished():
            return _reply_finished(task, event, at)
        case ev.ToolStarted():
            blocks = [*_close_thought(task, at), *_close_text(task)]
            task.tools[event.call.id] = _running_tool(event, at)
            task.order.append(event.call.id)
            task.phase = Working(at)
            task.calls += event.begun
            return blocks
        case ev.ToolFinished():
            return _tool_finished(state, task, event, at)
        case ev.ApprovalRequested():
            return _request_approval(state, task, event, at)
        case ev.ApprovalResolved():
            return _close_approval(state, task, event, at)
        case ev.TokenUsage():
            task.turn_tokens += event.last.output_tokens
            return []
        case ev.RetryScheduled():
            count = f"{event.attempt} of {event.attempts}" if event.attempt else ""
            task.phase = Retrying(at + event.delay_s, _why(event), count)
            # The live line shows the attempts; the scrollback gets one line for all of them.
            return (
                [NoteBlock("hint", f"{event.message.rstrip('.')}; trying again")]
                if event.attempt == 1
                else []
            )
        case ev.LibraryLoading(name=name, loaded=loaded):
            task.phase = WaitingPhase(at) if loaded else Loading(at, name)
            return []
        case ev.ContextCompacted():
            before, after = words.tokens(event.tokens_before), words.tokens(event.tokens_after)
            shortened = f"{format_count(event.dropped, 'message')} shortened"
            return [NoteBlock("info", f"context compacted: {before} to {after} tokens, {shortened}")]
        case ev.Notice():
            return [NoteBlock(event.level, event.text)]
        case ev.TurnFinished():
            return _turn_finished(state, task, event, at)


def _why(event: ev.RetryScheduled) -> str:
    """Explain in a few words why a request is repeated. "server" covers everything from a refused connection
    to a 502, so there the message's first words explain it."""
    beginning = _SENTENCE_END().split(event.message, maxsplit=1)[0]
    return _RETRY_WORDS.get(event.kind) or one_line(beginning, WHY_CHARS)


def _begin_turn(task: TaskView, at: float) -> None:
    task.phase = Working(at)
    task.calls = task.not_begun = task.refused = task.failed = 0
    task.order.clear()
    task.finished.clear()
    task.turn_tokens = 0
    task.tools.clear()
    task.stream = MarkdownStream()


def _prompt(state: ViewState, task: TaskView, message: UserMessage) -> Block:
    if message.origin in ("instructions", "summary"):
        return NoteBlock("hint", f"{message.origin} added: {one_line(text_of(message), 200)}")
    pictures = sum(isinstance(part, Image) for part in message.parts)
    titles = attachment_titles(message)
    return UserPrompt(typed_text(message), message.origin, pictures, _task_name_needed(state, task), titles)


def _task_name_needed(state: ViewState, task: TaskView) -> int:
    """Return the task's id where a reader needs it: when there are several tasks."""
    return task.task_id if len(state.tasks) > 1 or task.task_id != state.focus else 0


def _text(task: TaskView, event: ev.TextDelta, at: float) -> list[Block]:
    blocks: list[Block] = []
    if task.thought:
        blocks += _close_thought(task, at)
    if event.block != task.stream_block:
        blocks += _close_text(task)
        task.stream_block = event.block
    if not isinstance(task.phase, Writing):
        task.phase = Writing()
    task.stream.feed(event.text)
    if "\n" in event.text:
        blocks += _remember(task, task.stream.take())
    return blocks


def _remember(task: TaskView, closed: Sequence[Markdown]) -> Sequence[Markdown]:
    """Remember the closed text of the current reply: a background task shows it at its end."""
    task.last_reply += closed
    return closed


def _close_text(task: TaskView) -> list[Block]:
    closed = task.stream.finish()
    task.stream = MarkdownStream()
    task.stream_block = -1
    return list(_remember(task, closed))


def _thinking(task: TaskView, event: ev.ThinkingDelta, at: float) -> list[Block]:
    blocks = _close_text(task) if task.stream_block >= 0 else []
    if not task.thought:
        task.thought_since = at
    task.thought.append(event.text)
    match task.phase:
        case ThinkingPhase():
            task.phase.chars += len(event.text)
            task.phase.text = (task.phase.text + event.text)[-THOUGHT_TAIL:]
        case Loading() | WaitingPhase() | Writing() | Calling() | Working() | Retrying() | None:
            task.phase = ThinkingPhase(at, len(event.text), event.text[-THOUGHT_TAIL:])
    return blocks


def _close_thought(task: TaskView, at: float) -> list[Block]:
    if not task.thought:
        return []
    text = "".join(task.thought)
    task.thought = []
    return [Thought(text, at - task.thought_since)]


def _call_delta(task: TaskView, event: ev.ToolCallDelta, at: float) -> list[Block]:
    blocks = [*_close_thought(task, at), *(_close_text(task) if task.stream_block >= 0 else ())]
    phase = task.phase
    if not isinstance(phase, Calling):
        phase = task.phase = Calling(event.call_id, event.name, {})
    if event.call_id not in phase.calls:
        phase.calls[event.call_id] = ArgumentsSoFar()
        phase.call_id, phase.name = event.call_id, event.name
    phase.calls[event.call_id].feed(event.arguments)
    if event.call_id == phase.call_id:
        phase.name = event.name or phase.name
    return blocks


def _progress(task: TaskView, event: ev.ToolProgress) -> None:
    tool = task.tools.get(event.call_id)
    lines = event.text.rstrip().rsplit("\n", 1)
    if tool is not None and lines[-1].strip():
        tool.last_line = lines[-1][-LAST_LINE_CHARS:]


def _reply_finished(task: TaskView, event: ev.ReplyFinished, at: float) -> list[Block]:
    blocks = [*_close_thought(task, at), *_close_text(task)]
    if event.message.finish == "cut":
        blocks.append(NoteBlock("warning", "the answer broke off here"))
    elif event.message.finish == "filter":
        blocks.append(NoteBlock("warning", "the provider's content filter ended the answer"))
    task.phase = Working(at)
    if calls_of(event.message):
        task.last_reply = []
    return blocks


def _running_tool(event: ev.ToolStarted, at: float) -> RunningTool:
    return RunningTool(event.call, event.title, event.risk, at, "", begun=event.begun)


def _tool_finished(state: ViewState, task: TaskView, event: ev.ToolFinished, at: float) -> list[Block]:
    tool = task.tools.pop(event.call_id, None)
    if not task.tools:
        task.phase = Working(at)
    if tool is None:
        return []
    if not tool.begun:
        task.not_begun += 1
        task.order.remove(event.call_id)
        return []
    task.refused += event.status == "denied"
    task.failed += event.status == "error"
    task.finished[event.call_id] = ToolCall(
        call=tool.call,
        title=tool.title,
        risk=tool.risk,
        status=event.status,
        text="" if event.status == "ok" else event.text[:KEPT_ERROR_CHARS],
        display=event.display,
        seconds=event.seconds,
        cached=event.cached,
        task_id=_task_name_needed(state, task),
        already_shown=tool.asked == event.display,
    )
    return _calls_in_order(task)


def _calls_in_order(task: TaskView) -> list[Block]:
    """Return the ended calls that have no running call before them. Lookups at the end wait, since the next
    call of the reply may join them."""
    ready = task.lookups
    while task.order and (task.order[0] in task.finished or not task.tools):
        call = task.finished.pop(task.order.popleft(), None)
        ready += [call] if call is not None else []
    waits = len(ready)
    while waits and kind_of(ready[waits - 1]) is not None:
        waits -= 1
    task.lookups = ready[waits:]
    return merge_lookups(ready[:waits])


def _release_lookups(task: TaskView, event: ev.AgentUiEvent) -> list[Block]:
    """Return the waiting lookups when an event follows that can't join their line."""
    match event:
        case ev.ToolFinished() | ev.ToolProgress() | ev.TokenUsage():
            return []
        case ev.ToolStarted(call=call) if call.name in KINDS:
            return []
        case _:
            lookups, task.lookups = task.lookups, []
            return merge_lookups(lookups)


def _not_begun(task: TaskView) -> list[Block]:
    """Return one line about the calls of a reply that were never begun."""
    count, task.not_begun = task.not_begun, 0
    return [NoteBlock("hint", describe_calls(count, "not begun", more=task.calls > 0))] if count else []


def _request_approval(
    state: ViewState, task: TaskView, event: ev.ApprovalRequested, at: float
) -> list[Block]:
    tool = task.tools.get(event.call.id)
    title = tool.title if tool is not None else event.call.name
    if tool is not None:
        tool.asked = event.preview
    state.inbox.append(
        InboxRow(
            request_id=event.request_id,
            number=event.number,
            digest=event.digest,
            task_id=task.task_id,
            call=event.call,
            title=title,
            risk=event.risk,
            reason=event.reason,
            preview=event.preview,
            rule=event.rule,
            session=event.session,
            since=at,
            drawn_at=None,
            marked_at=None,
            folded=hidden_lines(event.preview),
        )
    )
    is_known = state.warned_of_sandbox or not state.facts.sandbox.is_missing
    state.warned_of_sandbox = state.warned_of_sandbox or not is_known
    warning: list[Block] = [] if is_known else [NoteBlock("warning", NO_SANDBOX)]
    return [*warning, state.inbox[-1].block()]


def _close_approval(state: ViewState, task: TaskView, event: ev.ApprovalResolved, at: float) -> list[Block]:
    row = next((row for row in state.inbox if row.request_id == event.request_id), None)
    if row is None:
        return []
    state.inbox.remove(row)
    tool = task.tools.get(row.call.id)
    if tool is not None:
        tool.since = at  # the call runs from now on
    return [ApprovalAnswered(row.title, task.task_id, event.answer, event.by)]


def _turn_finished(state: ViewState, task: TaskView, event: ev.TurnFinished, at: float) -> list[Block]:
    blocks = [*_close_thought(task, at), *_close_text(task), *_not_begun(task)]
    task.phase = None
    task.tools.clear()
    state.inbox[:] = [row for row in state.inbox if row.task_id != task.task_id]
    in_front = task.task_id == state.focus
    blocks += [ReceiptBlock(event.receipt)] if event.receipt is not None else []
    blocks.append(
        TurnSummary(
            outcome=event.outcome,
            reason=event.reason + _WAYS_ON.get(event.error, ""),
            replies=event.replies,
            calls=task.calls,
            seconds=event.seconds,
            output_tokens=task.turn_tokens,
            task_id=task.task_id,
            name="" if in_front else state.name(task.task_id) or "in the background",
            refused=task.refused,
            failed=task.failed,
        )
    )
    return blocks


def _background(state: ViewState, task: TaskView, blocks: list[Block]) -> list[Block]:
    """Return what is printed of a background task: requests for approval at once; its answer under a heading
    at its end, but not inside the foreground answer."""
    task.held.extend(blocks)
    if blocks and isinstance(blocks[-1], TurnSummary):
        answer, task.last_reply = task.last_reply, []
        task.held.clear()
        heading = [TaskHeading(task.task_id, state.name(task.task_id))] if answer else []
        receipt = [block for block in blocks if isinstance(block, ReceiptBlock)]
        state.deferred += [*heading, *answer, *receipt, blocks[-1]]
        front = state.tasks.get(state.focus)
        return [] if front is not None and isinstance(front.phase, Writing) else release(state)
    return [block for block in blocks if isinstance(block, (ApprovalAsked, ApprovalAnswered))]
