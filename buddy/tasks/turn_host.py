"""The host of one turn: the functions of the loop, bound to the services of the board."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import cast

import msgspec

from buddy.agent.budget import message_tokens
from buddy.agent.cancel import TurnCancelled, run_cancellable
from buddy.agent.compaction import Compaction, plan
from buddy.agent.display import Command, Display, Plain
from buddy.agent.events import (
    AgentUiEvent,
    ApprovalRequested,
    ContextCompacted,
    Notice,
    TokenUsage,
    ToolFinished,
    TurnFinished,
)
from buddy.agent.formatting import format_count
from buddy.agent.host import Allowed, Decision, Denied, Progress, TurnHost, Unworkable
from buddy.agent.messages import AssistantMessage, Call, Message, Text, ToolMessage, UserMessage, text_of
from buddy.agent.receipt import Receipt
from buddy.agent.schema import ArgumentsError
from buddy.agent.tool import Blocked, Tool, ToolContext, ToolError, ToolResult
from buddy.extend.instructions import FolderInstructions
from buddy.safety.paths import Boundary
from buddy.safety.policy.approval_text import coverage, missing_approval
from buddy.safety.policy.decide import Verdict
from buddy.safety.policy.facts import Facts, HookOpinion
from buddy.safety.policy.session import digest
from buddy.safety.sandbox_openings import OpeningRequest, OutsideWrites, opening_request, relevant_blocks
from buddy.safety.sanitise import visible
from buddy.safety.shell.delete_preview import deletions
from buddy.safety.shell.result import Analysis
from buddy.sessions.errors import NotSavedError
from buddy.sessions.records import LastTests
from buddy.tasks.approvals import Inbox
from buddy.tasks.dependencies import BoardParts
from buddy.tasks.event_hub import EventHub
from buddy.tasks.hook_points import Judged, TaskHooks, with_opinion
from buddy.tasks.receipts import TurnFacts
from buddy.tasks.sandboxing import (
    confinement_for,
    note_of_block,
    open_allowed_places,
    open_request,
    opening_verdict,
    reason_with,
    restore_note,
    services_for,
    writes_of,
)
from buddy.tasks.subagents import Delegations
from buddy.tasks.task import Task
from buddy.tasks.tool_execution import Surroundings, Writes, execute
from buddy.tasks.workspaces import TaskWorkspaces
from buddy.workspace.sandbox.profile import Confinement
from buddy.workspace.sandbox.status import NO_SANDBOX, SandboxStatus
from buddy.workspace.undo.log import UndoLog

MOST_DELETIONS = 8
"""Maximum lines of an approval about what a command would delete."""

COMPACT_TO = 0.5
"""Share of the window a compaction aims at: leaves room for much work before the next one."""

MOST_OPENED_RUNS = 6
"""Maximum repetitions of one command after the person opened what the sandbox blocked."""


class TurnParts(msgspec.Struct, frozen=True):
    """The services that the turns of all tasks share.

    `call_ids` are all ids calls have had: checkpoints, grants and journal records use them as keys.
    `refused_openings` are the sandbox openings the person refused.
    """

    board: BoardParts
    hub: EventHub
    inbox: Inbox
    writes: Writes
    update_state: Callable[[Task], None]
    delegations: Delegations
    workspaces: TaskWorkspaces
    call_ids: set[str] = msgspec.field(default_factory=set[str])
    refused_openings: list[OpeningRequest] = msgspec.field(default_factory=list[OpeningRequest])


def build_host(shared: TurnParts, task: Task) -> TurnHost:
    """Build the host of a turn."""
    turn, clock = _TaskTurn(shared, task), shared.board.clock
    return TurnHost(
        emit=turn.emit,
        record=turn.record,
        partial=turn.partial,
        decide=turn.decide,
        execute=turn.execute,
        steering=turn.steering,
        follow_ups=turn.follow_ups,
        compact=turn.compact,
        meter=task.meter,
        sleep=turn.sleep,
        now=clock.now,
        random=clock.random,
        new_id=clock.new_id,
        cancelled=task.cancelled,
        instructions=turn.instructions,
        receipt=turn.receipt,
        record_soon=turn.record_soon,
        call_ids=shared.call_ids,
    )


async def run_between_turns(
    shared: TurnParts, task: Task, tool: Tool, arguments: msgspec.Struct
) -> ToolResult:
    """Run a call that the person's own text asks for, decided and confined like a call of the task's model.
    Raises `ToolError` where it may not run."""
    tool = task.workspace.fit(tool)
    turn = _TaskTurn(shared, task)
    call = Call(shared.board.clock.new_id(), tool.name, msgspec.json.encode(arguments).decode())
    state = task.state
    try:
        decision = await turn.decide(call, tool, arguments)
    finally:
        if not task.running:
            task.state = state
    if not isinstance(decision, Allowed):
        raise ToolError(getattr(decision, "reason", "the request was withdrawn"))
    call, arguments = turn.take_changed(call, arguments)
    services = services_for(tool, task.services.services, shared.board.sandboxing.confinement(call.id))
    context = ToolContext(task.task_id, call.id, lambda _text: None, asyncio.Event(), services)
    result = await tool.run(context, arguments)
    return msgspec.structs.replace(result, text=shared.board.redact_text(result.text))


class _Judgement(msgspec.Struct, frozen=True):
    """A judged call: the policy's verdict on its facts, and how the call is confined."""

    facts: Facts
    verdict: Verdict
    status: SandboxStatus
    confinement: Confinement | None
    writes: OutsideWrites


class _TaskTurn:
    """One turn of one task: implements the loop's host with the services of the board."""

    def __init__(self, shared: TurnParts, task: Task) -> None:
        self._shared = shared
        self._board = shared.board
        self._task = task
        self._around = Surroundings(
            shared.board,
            task,
            shared.writes,
            lambda text: self.emit(Notice("warning", text)),
            self.emit,
        )
        undo, root = task.services.find(UndoLog), task.workspace.boundary.root
        self._facts = TurnFacts(task.task_id, undo, root, shared.board.tools)
        self._hooks = TaskHooks(shared.board, task, self.emit)
        self._changed: dict[str, Judged] = {}  # by call id: calls whose arguments a hook changed
        self._notes: dict[str, str] = {}  # by call id: a note about the sandbox's private /tmp for its result
        self._redacted: dict[str, str] = {}  # by call id: results already without secrets

    def emit(self, event: AgentUiEvent) -> None:
        if isinstance(event, ToolFinished) and self._redacted.get(event.call_id) != event.text:
            event = self._redact_result(event)
        elif isinstance(event, Notice):
            event = msgspec.structs.replace(event, text=self._board.redact_text(event.text))
        self._facts.observe(event)
        if isinstance(event, TokenUsage):
            self._board.journal.record_usage(self._task.task_id, event)
        elif isinstance(event, TurnFinished) and self._task.reason:
            event = msgspec.structs.replace(event, reason=self._task.reason)  # such as the time limit
        self._shared.hub.emit(self._task.task_id, event)

    def _redact_result(self, event: ToolFinished) -> ToolFinished:
        """Remove secrets from the end of a call that `execute` did not return: an error, a denial, a
        crash."""
        clean = self._board.redact_text
        display = event.display
        if isinstance(display, Plain):
            display = Plain(clean(display.summary), clean(display.body))
        return msgspec.structs.replace(event, text=clean(event.text), display=display)

    async def sleep(self, seconds: float) -> None:
        """Sleep until the time is over or the person retries now."""
        self._task.retry_now = asyncio.Event()
        try:
            await run_cancellable(self._sleep_on_clock(seconds), self._task.retry_now)
        except TurnCancelled:
            return  # only the sleep was cancelled: cancelling the turn raises `CancelledError`
        finally:
            self._task.retry_now = None

    async def _sleep_on_clock(self, seconds: float) -> None:
        await self._board.clock.sleep(seconds)

    def _redact_message(self, message: Message) -> Message:
        """Remove secrets from a message; a result of `execute` has none."""
        if isinstance(message, ToolMessage) and self._redacted.pop(message.call_id, None) == message.text:
            return message
        return self._board.redact(message)

    async def record(self, message: Message) -> None:
        cleaned = self._redact_message(message)
        saved = self._board.journal.record_message(self._task.task_id, cleaned)
        # Before the await: a turn cancelled while the record is saved must not deliver the text again.
        self._task.in_delivery = [text for text in self._task.in_delivery if text.id != message.id]
        await saved
        self._task.history.append(cleaned)

    def record_soon(self, message: Message) -> asyncio.Future[int] | None:
        if not self._board.journal.save_state.saved:
            return None
        cleaned = self._redact_message(message)
        saved = self._board.journal.record_message(self._task.task_id, cleaned, urgent=False)
        self._task.history.append(cleaned)
        return saved

    def partial(self, reply: AssistantMessage) -> None:
        self._board.journal.record_partial(
            self._task.task_id, reply, lambda message: cast(AssistantMessage, self._board.redact(message))
        )

    async def execute(
        self, call: Call, tool: Tool, arguments: msgspec.Struct, progress: Progress
    ) -> ToolResult:
        call, arguments = self.take_changed(call, arguments)
        try:
            result = await self._execute(call, tool, arguments, progress)
        except ToolError as error:
            raise await self._hooks.after_failure(call, tool, arguments, error) from error
        result = await self._hooks.after_call(call, tool, arguments, result)
        self._redacted[call.id] = result.text
        return result

    def take_changed(self, call: Call, arguments: msgspec.Struct) -> tuple[Call, msgspec.Struct]:
        """Return a decided call as hooks left it."""
        changed = self._changed.pop(call.id, None)
        return (changed.call, changed.arguments) if changed is not None else (call, arguments)

    async def _execute(
        self, call: Call, tool: Tool, arguments: msgspec.Struct, progress: Progress
    ) -> ToolResult:
        result = await execute(self._around, call, tool, arguments, progress)
        for _ in range(MOST_OPENED_RUNS):  # a command that gets further may be blocked at the next step
            blocked = relevant_blocks(result.blocked, result.ok, result.text)
            if not blocked:
                break
            result, ran = await self._ask_and_rerun(call, tool, arguments, progress, result, blocked)
            if not ran:
                break
        notes = [visible(sentence) for sentence in result.blocked.failures]
        tmp_note = self._notes.pop(call.id, "")
        if tmp_note and self._board.sandboxing.confinement(call.id) is not None:
            notes.append(tmp_note)
        notes += self._warn_of_repairs()
        text = "\n".join((result.text, *(f"[{note}]" for note in notes)))
        return msgspec.structs.replace(result, text=text)

    def _warn_of_repairs(self) -> tuple[str, ...]:
        """Warn the person about protected names that sandboxed commands changed."""
        warnings = tuple(map(restore_note, self._board.sandboxing.take_repairs()))
        for note in warnings:
            self.emit(Notice("warning", note))
        return warnings

    async def _ask_and_rerun(
        self,
        call: Call,
        tool: Tool,
        arguments: msgspec.Struct,
        progress: Progress,
        result: ToolResult,
        blocked: Blocked,
    ) -> tuple[ToolResult, bool]:
        """Ask the person to open what the sandbox blocked, and run the call again; return whether it ran."""
        board, boundary = self._board, self._task.workspace.boundary
        request = opening_request(blocked, boundary)
        confinement = board.sandboxing.confinement(call.id)
        if request is None or confinement is None:
            return result, False
        if not board.has_approver:
            return _with_note(result, request, "nobody is there to allow it"), False
        if request in self._shared.refused_openings:
            return _with_note(result, request, "the person refused that before"), False
        facts = msgspec.structs.replace(await _facts(self._task, tool, arguments), leaves_sandbox=True)
        board.note_facts(call.id, facts)
        answer = await self._ask(call, tool, arguments, facts, opening_verdict(request, facts))
        if not isinstance(answer, Allowed):
            self._shared.refused_openings.append(request)
            return _with_note(result, request, "the person refused that"), False
        board.sandboxing.confine(call.id, await open_request(confinement, request))
        board.sandboxing.note_allowed(call.id, facts)
        result = await execute(self._around, call, tool, arguments, progress)
        return _with_note(result, request, "the person allowed it, and the command ran again"), True

    async def steering(self) -> tuple[UserMessage, ...]:
        return await self._hooks.accept(self._take(self._task.steering, self._board.steering))

    async def follow_ups(self) -> tuple[UserMessage, ...]:
        task, board = self._task, self._board
        waiting = await self._hooks.accept(self._take(task.queued, board.follow_ups))
        if waiting:
            return waiting
        reports = await self._shared.delegations.reports(task)
        texts = reports or await self.steering()
        texts = texts or await self._hooks.accept(self._take(task.queued, board.follow_ups))
        return texts or await self._hooks.before_stop()

    def _take(self, waiting: list[UserMessage], delivery: str) -> tuple[UserMessage, ...]:
        """Move waiting text to `in_delivery`; the journal drops it from the queue when the message is
        recorded."""
        count = len(waiting) if delivery == "all" else min(1, len(waiting))
        texts = tuple(waiting[:count])
        del waiting[:count]
        self._task.in_delivery.extend(texts)
        return texts

    async def instructions(self) -> tuple[UserMessage, ...]:
        """Return the instruction files of folders touched for the first time. A resumed or copied
        conversation may have them already."""
        folders = self._task.services.find(FolderInstructions)
        if folders is None or not folders.waiting:
            return ()
        texts = [self._board.redact_text(text) for text in await asyncio.to_thread(folders.take)]
        known = {text_of(message) for message in self._task.history if _instructs(message)}
        return tuple(
            UserMessage(self._board.clock.new_id(), (Text(text),), "instructions")
            for text in texts
            if text not in known
        )

    async def receipt(self) -> Receipt | None:
        """Journal and return the turn's receipt."""
        self._warn_of_repairs()  # jobs may have ended meanwhile
        checkpoints = self._task.workspace.checkpoints
        unseen = ""
        if self._facts.ran_commands and (checkpoints is None or checkpoints.off):
            unseen = "changes made by commands: checkpoints are off"
        receipt, (check, changed) = await asyncio.to_thread(
            lambda: (self._facts.receipt(unseen), self._facts.last_tests())
        )
        if check is not None:
            self._task.tests = LastTests(check, changed)
        elif changed and self._task.tests is not None:
            self._task.tests = msgspec.structs.replace(self._task.tests, outdated=True)
        if receipt is not None:
            with contextlib.suppress(NotSavedError):  # the turn ends anyway; the writer has reported it
                self._board.journal.record_receipt(self._task.task_id, receipt)
        return receipt

    async def decide(self, call: Call, tool: Tool, arguments: msgspec.Struct) -> Decision:
        """Decide a call by the policy, and ask the person where it requires that."""
        decision, facts = await self._decide(call, tool, arguments)
        if facts is not None and isinstance(decision, Allowed):
            self._board.sandboxing.note_allowed(call.id, facts)
        return decision

    async def _decide(
        self, call: Call, tool: Tool, arguments: msgspec.Struct
    ) -> tuple[Decision, Facts | None]:
        board = self._board
        judged = await self._hooks.before_call(call, tool, arguments)
        if judged.arguments is not arguments:  # what a hook changed is judged like any other call
            call, arguments = judged.call, judged.arguments
            self._changed[call.id] = judged
        judgement = await self._judge(call, tool, arguments, judged.opinion)
        if isinstance(judgement, Denied):
            return judgement, None
        facts, verdict = judgement.facts, judgement.verdict
        if verdict.decision == "allow":
            return Allowed(), facts
        if verdict.decision == "deny":
            return Denied(verdict.reason), facts
        if not board.has_approver:
            now = board.clock.wall()
            missing = missing_approval(facts, verdict, board.policy, now)
            board.policy.log_answer(facts, verdict, "nobody was there to answer", now)
            reason = f"it needs an approval and nobody is there to give it ({verdict.reason})"
            return Denied(reason, missing), facts
        reason = reason_with(judgement.writes, verdict)
        answer = await self._ask(call, tool, arguments, facts, verdict, reason)
        if not (isinstance(answer, Allowed) and answer.by_person):
            return answer, facts
        if answer.arguments:
            changed = await self._take_answered(call, tool, answer.arguments)
            if isinstance(changed, Denied):
                return changed, facts
            judgement = changed
        if judgement.confinement is not None:
            opened_places = await open_allowed_places(
                judgement.confinement, judgement.writes.places, judgement.status
            )
            board.sandboxing.confine(call.id, opened_places)
        return answer, judgement.facts

    async def _judge(
        self, call: Call, tool: Tool, arguments: msgspec.Struct, opinion: HookOpinion | None
    ) -> _Judgement | Denied:
        """Judge a call by the policy and set its confinement."""
        board, task = self._board, self._task
        try:
            status = (
                NO_SANDBOX
                if task.workspace.target and tool.anywhere
                else await board.sandboxing.prepare(tool, task.workspace.boundary)
            )
            facts = with_opinion(await _facts(task, tool, arguments), opinion)
        except ToolError as error:
            return Denied(str(error))
        board.note_facts(call.id, facts)
        verdict = board.policy.decide(facts, board.clock.wall(), task.call_limits)
        boundary = task.workspace.boundary
        board.sandboxing.confine(
            call.id, confinement_for(tool, facts, verdict, board.policy.mode, boundary, status)
        )
        confinement = board.sandboxing.confinement(call.id)
        writes = writes_of(facts, confinement, boundary, status)
        self._notes[call.id] = writes.note
        return _Judgement(facts, verdict, status, confinement, writes)

    async def _take_answered(self, call: Call, tool: Tool, text: str) -> _Judgement | Denied:
        """Judge a call with the arguments of the answer. Those that would be asked about are answered with
        it; a denial of the policy stays one."""
        try:
            arguments = tool.decode(text)
        except (ArgumentsError, ToolError) as error:
            return Denied(f"it was approved with an input that {tool.name} does not take: {error}")
        judgement = await self._judge(call, tool, arguments, None)
        if isinstance(judgement, _Judgement):
            if judgement.verdict.decision == "deny":
                return Denied(f"it was approved with another input, and {judgement.verdict.reason}")
            self._changed[call.id] = Judged(msgspec.structs.replace(call, arguments=text), arguments)
            self.emit(Notice("info", f"{tool.name} runs with another input than the model's"))
        return judgement

    async def _ask(
        self,
        call: Call,
        tool: Tool,
        arguments: msgspec.Struct,
        facts: Facts,
        verdict: Verdict,
        reason: str = "",
    ) -> Decision:
        """Ask the person about a call. `reason` replaces the verdict's reason."""
        reason = reason or verdict.reason
        board, task = self._board, self._task
        if facts.target:
            reason = f"on {task.workspace.target_shown}: {reason}"
        elif tool.delegates and task.workspace.target:
            reason = f"the subagent works on {task.workspace.target_shown}: {reason}"
        elif task.workspace.files_on:
            reason = f"on this machine, not on {task.workspace.target}: {reason}"
        refusal = await self._hooks.before_request(call, tool, arguments, reason)
        if refusal:
            board.policy.log_answer(facts, verdict, refusal, board.clock.wall())
            return Denied(refusal)
        try:
            preview = await asyncio.to_thread(_preview, task, call, tool, arguments)
            if facts.shell is not None and not facts.target and isinstance(preview, Command):
                place = task.workspace.boundary
                preview = await asyncio.to_thread(_add_deletions, preview, facts.shell, place)
        except ToolError as error:
            return Unworkable(str(error))
        always = coverage(verdict.rules_to_save, facts)
        session = coverage(verdict.rules_for_session, facts)
        shown_digest = digest(call, preview, reason, always, session)
        request = ApprovalRequested(
            board.clock.new_id(), call, facts.risk, reason, preview, always, shown_digest, session
        )
        self._shared.update_state(task)
        try:
            return await self._shared.inbox.ask(task.task_id, request, facts, verdict, task.call_limits)
        finally:
            self._shared.update_state(task)

    async def compact(self, history: Sequence[Message]) -> Compaction | None:
        task = self._task
        target = task.meter.window.limit * COMPACT_TO
        compaction = plan(history, int(target))
        if compaction is None or compaction == task.compaction:
            return None
        if why := await self._hooks.before_compaction("auto"):
            self.emit(Notice("warning", f"not compacted: {why}"))
            return None
        from_tokens = round(sum(message_tokens(message) for message in history))
        await self._board.journal.record_compaction(task.task_id, compaction)
        task.compaction = compaction
        task.services.forget_shown()
        kept_messages = len(history) - compaction.through
        self.emit(ContextCompacted(from_tokens, task.meter.context_tokens, kept_messages, compaction.through))
        await self._hooks.after_compaction("auto")
        return compaction


def _with_note(result: ToolResult, request: OpeningRequest, answer: str) -> ToolResult:
    return msgspec.structs.replace(result, text=f"{result.text}\n{note_of_block(request, answer)}")


async def _facts(task: Task, tool: Tool, arguments: msgspec.Struct) -> Facts:
    """Return the facts of a call, in a thread when that reads the disk: the analysis of a command may walk
    through the workspace. Raises `ToolError`."""
    if tool.survey is None and not tool.confined and not task.workspace.target:
        return task.workspace.facts(tool, arguments)
    return await asyncio.to_thread(task.workspace.facts, tool, arguments)


def _preview(task: Task, call: Call, tool: Tool, arguments: msgspec.Struct) -> Display:
    if tool.preview is None:
        return Plain("", call.arguments)
    context = ToolContext(task.task_id, call.id, lambda _text: None, task.cancelled, task.services.services)
    return tool.preview(context, arguments)


def _add_deletions(preview: Command, analysis: Analysis, boundary: Boundary) -> Command:
    """Add the paths a command would delete to its preview."""
    lines = [f"deletes {deletion.shown}" for deletion in deletions(analysis, boundary)]
    if len(lines) > MOST_DELETIONS:
        lines[MOST_DELETIONS - 1 :] = [
            f"deletes {format_count(len(lines) - MOST_DELETIONS + 1, 'more path')}"
        ]
    output = [preview.output] if preview.output else []
    return msgspec.structs.replace(preview, output="\n".join([*output, *lines]))


def _instructs(message: Message) -> bool:
    return isinstance(message, UserMessage) and message.origin == "instructions"
