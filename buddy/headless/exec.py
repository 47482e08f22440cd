"""`buddy exec`: one prompt without a terminal. The turn runs on the task board like any other; this module
writes its events.

Ctrl-C and SIGTERM cancel the turn; what arrived is saved, and the exit code reports it.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from buddy.agent.events import MissingApproval, TaskEvent, ToolFinished, ToolStarted
from buddy.agent.formatting import describe_calls
from buddy.agent.host import Outcome
from buddy.agent.messages import AssistantMessage, Call, Text, Usage, UserPart, text_of
from buddy.headless.exit_codes import STRUCTURE, exit_code
from buddy.headless.formats import Format, RunFacts, RunResult, input_of, skipped_line, skipped_summary
from buddy.headless.structured import MAX_TRIES, AnswerSchema, StructuredAnswer, correction
from buddy.sessions.errors import NotSavedError
from buddy.tasks.board import TaskBoard

UNSAVED_LIMIT_S = 5
LOOK_EVERY_S = 0.25


class ExecRun(msgspec.Struct, frozen=True):
    """The parameters of one headless run. `content` is empty to continue a waiting history; `stop_on_denial`
    ends the run at the first call nobody could approve; `warn` writes sentences for the user; `schema`
    describes the answer."""

    content: tuple[UserPart, ...]
    facts: RunFacts
    stop_on_denial: bool
    warn: Callable[[str], None]
    schema: AnswerSchema | None = None


class RunWatch:
    """The facts a run collects from its events."""

    def __init__(self) -> None:
        self.denials: list[dict[str, Any]] = []
        self.missing: list[MissingApproval] = []
        self.denied = ""
        self.terminated = False
        self._started: dict[str, ToolStarted] = {}

    def collect(self, events: Sequence[TaskEvent]) -> None:
        """Collect the denials of these events."""
        for task_event in events:
            if isinstance(task_event.event, ToolStarted):
                self._started[task_event.event.call.id] = task_event.event
            elif isinstance(task_event.event, ToolFinished):
                started = self._started.pop(task_event.event.call_id)
                if task_event.event.status == "denied":
                    self.denials.append(_denial(started.call, task_event.event.missing))
                    self.denied = self.denied or started.title
                if task_event.event.missing:
                    self.missing.append(task_event.event.missing)


async def run_exec(board: TaskBoard, task_id: int, run: ExecRun, output: Format) -> int:
    """Run one turn of a task, write it in this format and return the exit code."""
    watch = RunWatch()
    task = board.task(task_id)
    before = task.meter.total
    started = board.parts.clock.now()
    output.start(run.facts, board.message(run.content, "prompt"))
    signals = RunSignals(board, (task_id,), (watch,))
    signals.install()
    try:
        outcome = await _run_turn(board, task_id, run.content, run, watch, output)
        structured = await asyncio.to_thread(_check_answer, run.schema, outcome)
        tries = 1
        while structured is not None and structured.problem and tries < MAX_TRIES:
            again = (Text(correction(structured.problem)),)
            replies = outcome.replies
            outcome = await _run_turn(board, task_id, again, run, watch, output)
            outcome = msgspec.structs.replace(outcome, replies=replies + outcome.replies)
            structured = await asyncio.to_thread(_check_answer, run.schema, outcome)
            tries += 1
    finally:
        signals.remove()
    output.finish(
        RunResult(
            outcome=outcome,
            answer=answer_of(outcome),
            usage=_difference(task.meter.total, before),
            cost_usd=task.meter.cost_usd,
            duration_ms=round((board.parts.clock.now() - started) * 1000),
            denials=tuple(watch.denials),
            missing=tuple(watch.missing),
            structured=structured,
        )
    )
    if run.stop_on_denial and watch.missing:
        return exit_code(
            msgspec.structs.replace(outcome, outcome="failed"), approval_missing=True, terminated=False
        )
    if structured is not None and structured.problem:
        run.warn(f"the answer does not match the JSON Schema: {structured.problem}")
        return STRUCTURE
    if watch.missing:
        run.warn(skipped_summary(watch.missing))
    elif watch.denials:
        run.warn(f"{describe_calls(len(watch.denials), 'denied', more=False)}; the reasons are above.")
    return exit_code(outcome, approval_missing=bool(watch.missing), terminated=watch.terminated)


async def _run_turn(
    board: TaskBoard,
    task_id: int,
    content: tuple[UserPart, ...],
    run: ExecRun,
    watch: RunWatch,
    output: Format,
) -> Outcome:
    """Run one turn and write its events, those of its subagents too."""
    reader = board.reader()
    saving = asyncio.create_task(watch_saving(board, reader.close))
    try:
        runner = board.submit(task_id, content) if content else board.continue_task(task_id)
        # Ends the loop below; events that are already queued are still returned.
        runner.add_done_callback(lambda _task: reader.close())
        while events := await reader.batch():
            watch.collect(events)
            for task_event in events:
                if task_event.task_id == task_id:
                    output.event(task_event.event)
                else:
                    output.subagent_event(board.task(task_event.task_id), task_event.event)
            if run.stop_on_denial and watch.missing:
                board.cancel(
                    task_id, f"an approval was needed and nobody was there to give it: {watch.denied}"
                )
        if not runner.done():
            raise NotSavedError(f"{board.parts.journal.save_state.reason}; the run was ended")
    finally:
        saving.cancel()
    return board.task(task_id).outcome or Outcome("cancelled", "cancelled", "", 0, ())


def _difference(after: Usage, before: Usage) -> Usage:
    """Return the usage between two moments."""
    return Usage(
        after.input_tokens - before.input_tokens,
        after.output_tokens - before.output_tokens,
        after.cache_read_tokens - before.cache_read_tokens,
        after.cache_write_tokens - before.cache_write_tokens,
        after.reasoning_tokens - before.reasoning_tokens,
        estimated=after.estimated,
    )


def _check_answer(schema: AnswerSchema | None, outcome: Outcome) -> StructuredAnswer | None:
    """Return the answer of a completed turn as the schema wants it; None without a schema."""
    if schema is None or outcome.outcome != "completed":
        return None
    return schema.check(answer_of(outcome))


async def watch_saving(board: TaskBoard, give_up: Callable[[], None]) -> None:
    """Give up after the disk refused writes for a while: turns wait for their records, and nobody is there to
    free space."""
    refused_s = 0.0
    while refused_s < UNSAVED_LIMIT_S:
        await asyncio.sleep(LOOK_EVERY_S)
        refused_s = 0.0 if board.parts.journal.save_state.saved else refused_s + LOOK_EVERY_S
    give_up()


class RunSignals:
    """SIGINT and SIGTERM cancel the turns of these tasks; a second one also stops waiting for their ends."""

    def __init__(self, board: TaskBoard, task_ids: Sequence[int], watches: Sequence[RunWatch]) -> None:
        self._board = board
        self._task_ids = task_ids
        self._watches = watches
        self._count = 0
        ends = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        # `nohup buddy …` or a background run in a script: a signal that was ignored stays ignored.
        self._handled = [number for number in ends if signal.getsignal(number) != signal.SIG_IGN]

    def install(self) -> None:
        """Handle the signals from now on."""
        loop = asyncio.get_running_loop()
        for number in self._handled:
            loop.add_signal_handler(number, self._handle, number != signal.SIGINT)

    def remove(self) -> None:
        """Leave the signals to their defaults again."""
        loop = asyncio.get_running_loop()
        for number in self._handled:
            loop.remove_signal_handler(number)

    def _handle(self, terminated: bool) -> None:
        self._count += 1
        for watch in self._watches:
            watch.terminated = terminated
        for task_id in self._task_ids:
            self._board.cancel(task_id, "terminated" if terminated else "interrupted")
            runner = self._board.task(task_id).runner
            if self._count > 1 and runner is not None:
                runner.cancel()


def answer_of(outcome: Outcome) -> str:
    """Return the last text of a turn, "" when there is none."""
    for message in reversed(outcome.messages):
        if isinstance(message, AssistantMessage):
            return text_of(message)
    return ""


def _denial(call: Call, missing: MissingApproval | None) -> dict[str, Any]:
    denial = {"tool_name": call.name, "tool_use_id": call.id, "tool_input": input_of(call.arguments)}
    return {**denial, "advice": skipped_line(missing)} if missing else denial
