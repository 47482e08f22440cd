"""`buddy exec --variants`: one prompt worked on by several tasks at once. Each has its own result; one that
fails leaves the others alone. Nothing is merged: a person picks a variant in the session."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from buddy.agent.display import Diff
from buddy.agent.events import TaskEvent
from buddy.agent.host import Outcome
from buddy.agent.messages import UserPart
from buddy.agent.tool import ToolError
from buddy.headless.exec import RunSignals, RunWatch, watch_saving
from buddy.headless.variants_output import EndedVariant, VariantsFormat, variants_code
from buddy.sessions.errors import NotSavedError
from buddy.tasks.board import TaskBoard
from buddy.tasks.event_hub import EventReader
from buddy.tasks.task import Task, TaskError
from buddy.tasks.variant_results import diff_of_variant, figures_of

CANCELLED = Outcome("cancelled", "cancelled", "", 0, ())


class VariantsRun(msgspec.Struct, frozen=True):
    """The parameters of a run. `prompts` are the tasks with what each is sent; `stop_on_denial` ends a
    variant at its first call nobody could approve."""

    prompts: tuple[tuple[Task, tuple[UserPart, ...]], ...]
    stop_on_denial: bool


async def run_variants(board: TaskBoard, run: VariantsRun, output: VariantsFormat) -> int:
    """Run the variants to their ends, write them in this format and return the exit code."""
    watches = {task.task_id: RunWatch() for task, _content in run.prompts}
    for task, content in run.prompts:
        output.start(task, board.message(content, "prompt"))
    signals = RunSignals(board, tuple(watches), tuple(watches.values()))
    signals.install()
    try:
        variants = await _Work(board, run, watches, output).run()
    finally:
        signals.remove()
    output.finish(variants)
    return variants_code(variants)


class _Work:
    """The turns of the variants, from their start to the end of the last one."""

    def __init__(
        self, board: TaskBoard, run: VariantsRun, watches: Mapping[int, RunWatch], output: VariantsFormat
    ) -> None:
        self._board = board
        self._run = run
        self._watches = watches
        self._output = output

    async def run(self) -> list[EndedVariant]:
        """Write events until the last turn is over; return the ends in the order of the variants."""
        board = self._board
        reader = board.reader()
        saving = asyncio.create_task(watch_saving(board, reader.close))
        runners = {task.task_id: board.submit(task.task_id, content) for task, content in self._run.prompts}
        ending = asyncio.gather(*(self._end(task_id, runners[task_id], reader) for task_id in runners))
        ending.add_done_callback(lambda _ending: reader.close())
        try:
            while events := await reader.batch():
                self._take(events)
            if not ending.done():
                raise NotSavedError(f"{board.parts.journal.save_state.reason}; the run was ended")
            return await ending
        finally:
            saving.cancel()
            ending.cancel()

    def _take(self, events: Sequence[TaskEvent]) -> None:
        """Write events, and stop a variant at a call that nobody could approve."""
        board = self._board
        for task_event in events:
            task = board.task(task_event.task_id)
            variant = _variant_of(board, task)
            watch = self._watches.get(variant.task_id)
            if watch is None:
                continue
            watch.collect([task_event])
            self._output.event(variant, task, task_event.event)
            if self._run.stop_on_denial and watch.missing and variant.running:
                reason = f"an approval was needed and nobody was there to give it: {watch.denied}"
                board.cancel(variant.task_id, reason)

    async def _end(self, task_id: int, runner: asyncio.Task[None], reader: EventReader) -> EndedVariant:
        """Wait for the end of a turn and write its result, behind its last event."""
        await asyncio.wait({runner})
        self._take(reader.drain())
        ended = await self._result(self._board.task(task_id))
        self._output.end(ended)
        return ended

    async def _result(self, task: Task) -> EndedVariant:
        board = self._board
        model = board.parts.model(task.model).name
        figures = await figures_of(board.workspaces, task, model=model, now=board.parts.clock.now())
        try:
            diff = await diff_of_variant(board.workspaces, task)
        except (ToolError, TaskError):  # the figures say it
            diff = Diff(())
        return EndedVariant(task, task.outcome or CANCELLED, self._watches[task.task_id], figures, diff)


def _variant_of(board: TaskBoard, task: Task) -> Task:
    """Return the task that a subagent works for in the end, or the task itself."""
    while task.parent:
        task = board.task(task.parent)
    return task
