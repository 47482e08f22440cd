"""`buddy exec --variants`: one prompt worked on by several tasks at once. Each has its own result; one that
fails leaves the others alone. Nothing is merged: a person picks a variant in the session."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import msgspec

from buddy.agent.display import Diff
from buddy.agent.host import Outcome
from buddy.agent.messages import UserPart
from buddy.agent.tool import ToolError
from buddy.headless.exec import RunSignals, RunWatch, answer_of, watch_saving
from buddy.headless.exit_codes import APPROVAL, OK, exit_code
from buddy.headless.formats import ProgressLines, RunResult, result_object
from buddy.safety.sanitise import clean
from buddy.sessions.errors import NotSavedError
from buddy.tasks.board import TaskBoard
from buddy.tasks.task import Task, TaskError
from buddy.tasks.variant_results import (
    VariantFigures,
    describe_files,
    describe_tests,
    diff_of_variant,
    figures_of,
)

Write = Callable[[str], None]
CANCELLED = Outcome("cancelled", "cancelled", "", 0, ())


class VariantsRun(msgspec.Struct, frozen=True):
    """The parameters of a run. `prompts` are the tasks with what each is sent; `problems` the variants that
    could not be started; `stop_on_denial` ends a variant at its first call nobody could approve;
    `is_terminal`: answers are sanitised for one."""

    prompts: tuple[tuple[Task, tuple[UserPart, ...]], ...]
    problems: Mapping[int, str]
    session_id: str
    output_format: Literal["text", "json"]
    stop_on_denial: bool
    is_terminal: bool
    out: Write
    err: Write


class _Result(msgspec.Struct, frozen=True):
    """A variant at its end."""

    task: Task
    outcome: Outcome
    watch: RunWatch
    figures: VariantFigures
    diff: Diff


async def run_variants(board: TaskBoard, run: VariantsRun) -> int:
    """Run the variants to their ends, write their results and return the exit code: 0 when one of them is
    done, whatever became of the others."""
    tasks = [task for task, _content in run.prompts]
    watches = {task.task_id: RunWatch() for task in tasks}
    signals = RunSignals(board, tuple(watches), tuple(watches.values()))
    signals.install()
    try:
        await _work(board, run, watches)
    finally:
        signals.remove()
    results = [await _result(board, task, watches[task.task_id]) for task in tasks]
    if run.output_format == "json":
        run.out(json.dumps(_object(run, results)) + "\n")
    else:
        for result in results:
            run.out(_text(run, result))
    return _code(results)


async def _work(board: TaskBoard, run: VariantsRun, watches: Mapping[int, RunWatch]) -> None:
    """Start all turns and write their progress until the last one is over."""
    reader = board.reader()
    saving = asyncio.create_task(watch_saving(board, reader.close))
    progress = {task.task_id: ProgressLines(partial(_prefixed, run.err, task)) for task, _ in run.prompts}
    running = {board.submit(task.task_id, content) for task, content in run.prompts}
    started = set(running)

    def ended(runner: asyncio.Task[None]) -> None:
        running.discard(runner)
        if not running:
            reader.close()

    for runner in started:
        runner.add_done_callback(ended)
    try:
        while events := await reader.batch():
            for event in events:
                variant = _variant_of(board, event.task_id)
                if variant not in watches:
                    continue
                watches[variant].collect([event])
                if event.task_id == variant:
                    progress[variant].event(event.event)
                if run.stop_on_denial and watches[variant].missing and board.task(variant).running:
                    board.cancel(
                        variant,
                        f"an approval was needed and nobody was there to give it: {watches[variant].denied}",
                    )
        if running:
            raise NotSavedError(f"{board.parts.journal.save_state.reason}; the run was ended")
    finally:
        saving.cancel()


def _variant_of(board: TaskBoard, task_id: int) -> int:
    """Return the task that a subagent works for in the end, or the task itself."""
    while parent := board.task(task_id).parent:
        task_id = parent
    return task_id


def _prefixed(err: Write, task: Task, text: str) -> None:
    """Write progress with the number of its variant before each line."""
    number = task.variant.number if task.variant is not None else 0
    err("".join(f"[{number}] {line}" for line in text.splitlines(keepends=True)))


async def _result(board: TaskBoard, task: Task, watch: RunWatch) -> _Result:
    model = board.parts.model(task.model).name
    figures = await figures_of(board.workspaces, task, model=model, now=board.parts.clock.now())
    try:
        diff = await diff_of_variant(board.workspaces, task)
    except (ToolError, TaskError):  # the figures say it
        diff = Diff(())
    return _Result(task, task.outcome or CANCELLED, watch, figures, diff)


def _text(run: VariantsRun, result: _Result) -> str:
    """Return a variant's heading and answer, or why there is none."""
    figures = result.figures
    cost = f"${figures.cost_usd:.4f}" if figures.cost_known else "no price"
    tests = describe_tests(figures.tests)
    facts = (
        f"variant {figures.number}",
        figures.model,
        "done" if result.outcome.outcome == "completed" else result.outcome.outcome,
        f"{figures.worked_s:.1f} s",
        f"{figures.tokens:,} tokens",
        cost,
        f"changed: {describe_files(figures) or 'not known'}",
        f"tests: {tests}" if tests else "",
    )
    answer = answer_of(result.outcome) or result.outcome.reason
    text = f"== {' · '.join(filter(None, facts))}\n{answer}\n"
    return clean(text) if run.is_terminal else text


def _object(run: VariantsRun, results: Sequence[_Result]) -> dict[str, Any]:
    """Return the result object of all variants."""
    return {
        "type": "variants",
        "is_error": _code(results) != OK,
        "variants": [_variant_object(run, result) for result in results],
        "not_started": [{"number": number, "error": error} for number, error in run.problems.items()],
        "total_cost_usd": round(sum(result.figures.cost_usd for result in results), 6),
        "session_id": run.session_id,
    }


def _variant_object(run: VariantsRun, result: _Result) -> dict[str, Any]:
    figures, tree = result.figures, result.task.workspace.worktree
    outcome = RunResult(
        outcome=result.outcome,
        answer=answer_of(result.outcome),
        usage=result.task.meter.total,
        cost_usd=figures.cost_usd,
        duration_ms=round(figures.worked_s * 1000),
        denials=tuple(result.watch.denials),
        missing=tuple(result.watch.missing),
    )
    files = [
        {"path": file.path, "change": file.change, "added": file.added, "removed": file.removed}
        for file in result.diff.files
    ]
    return {
        "number": figures.number,
        "task": figures.task_id,
        "model": figures.model,
        "state": result.outcome.outcome,
        "worktree": tree.path if tree is not None else "",
        "branch": tree.branch if tree is not None else "",
        "files": files,
        "files_problem": figures.problem,
        "tests": msgspec.to_builtins(figures.tests),
        **result_object(outcome, run.session_id),
    }


def _code(results: Sequence[_Result]) -> int:
    codes = [
        exit_code(
            result.outcome,
            approval_missing=bool(result.watch.missing),
            terminated=result.watch.terminated,
        )
        for result in results
    ]
    return next((code for code in (OK, APPROVAL) if code in codes), codes[0])
