"""The output of `buddy exec --variants`: text, one JSON object, or stream-json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import msgspec

from buddy.agent.display import Diff
from buddy.agent.events import AgentUiEvent
from buddy.agent.host import Outcome
from buddy.agent.messages import UserMessage
from buddy.headless.exec import RunWatch, answer_of
from buddy.headless.exit_codes import APPROVAL, OK, exit_code
from buddy.headless.formats import ProgressLines, RunFacts, RunResult, Write, json_line, result_object
from buddy.headless.stream_format import StreamJsonFormat
from buddy.safety.sanitise import clean
from buddy.tasks.task import Task
from buddy.tasks.variant_results import VariantFigures, describe_files, describe_tests


class EndedVariant(msgspec.Struct, frozen=True):
    """A variant at its end."""

    task: Task
    outcome: Outcome
    watch: RunWatch
    figures: VariantFigures
    diff: Diff

    def run_result(self) -> RunResult:
        """Return the facts of a run by itself."""
        return RunResult(
            outcome=self.outcome,
            answer=answer_of(self.outcome),
            usage=self.task.meter.total,
            cost_usd=self.figures.cost_usd,
            duration_ms=round(self.figures.worked_s * 1000),
            denials=tuple(self.watch.denials),
            missing=tuple(self.watch.missing),
        )


class VariantsFormat(Protocol):
    """An output format for several tasks at work at once."""

    def start(self, task: Task, prompt: UserMessage) -> None:
        """Write the start of a variant."""
        ...

    def event(self, variant: Task, task: Task, event: AgentUiEvent) -> None:
        """Write an event of a variant, or of a subagent (`task`) that works for it."""
        ...

    def end(self, ended: EndedVariant) -> None:
        """Write the result of one variant; others may still be at work."""
        ...

    def finish(self, variants: Sequence[EndedVariant]) -> None:
        """Write the result of all, in their order."""
        ...


class VariantsProgress:
    """The progress of variants on stderr, each line with the number of its variant."""

    def __init__(self, err: Write) -> None:
        self._err = err
        self._lines: dict[int, ProgressLines] = {}

    def start(self, task: Task, prompt: UserMessage) -> None:
        """Prepare the lines of a variant."""
        self._lines[task.task_id] = ProgressLines(partial(_write_prefixed, self._err, _number_of(task)))

    def event(self, variant: Task, task: Task, event: AgentUiEvent) -> None:
        """Write the progress of a variant; a subagent's is its own."""
        if task is variant:
            self._lines[variant.task_id].event(event)

    def end(self, ended: EndedVariant) -> None:
        """Write nothing: the results stand together at the end."""


class TextVariants(VariantsProgress):
    """Each answer below a heading with its figures. `is_terminal`: answers are sanitised for one."""

    def __init__(self, out: Write, err: Write, *, is_terminal: bool) -> None:
        super().__init__(err)
        self._out = out
        self._is_terminal = is_terminal

    def finish(self, variants: Sequence[EndedVariant]) -> None:
        """Write the headings and answers."""
        for ended in variants:
            text = _text(ended)
            self._out(clean(text) if self._is_terminal else text)


class JsonVariants(VariantsProgress):
    """One JSON object at the end. `problems` are the variants that could not be started."""

    def __init__(self, out: Write, err: Write, session_id: str, problems: Mapping[int, str]) -> None:
        super().__init__(err)
        self._out = out
        self._session_id = session_id
        self._problems = problems

    def finish(self, variants: Sequence[EndedVariant]) -> None:
        """Write the object."""
        self._out(json_line(variants_object(variants, self._problems, self._session_id)))


class StreamJsonVariants:
    """One JSON object a line in Claude's shape, with two keys more: `variant`, its number, and `task`, its
    id. Each variant has its own `init` and `result`; the last line is the object of the format json."""

    def __init__(
        self, out: Write, facts: Mapping[int, RunFacts], problems: Mapping[int, str], *, partial: bool
    ) -> None:
        self._out = out
        self._facts = facts
        self._problems = problems
        self._partial = partial
        self._streams: dict[int, StreamJsonFormat] = {}

    def start(self, task: Task, prompt: UserMessage) -> None:
        """Write the `system/init` object of a variant."""
        marks = {"variant": _number_of(task), "task": task.task_id}
        stream = StreamJsonFormat(self._out, partial=self._partial, marks=marks)
        self._streams[task.task_id] = stream
        stream.start(self._facts[task.task_id], prompt)

    def event(self, variant: Task, task: Task, event: AgentUiEvent) -> None:
        """Write the objects of an event."""
        stream = self._streams[variant.task_id]
        if task is variant:
            stream.event(event)
        else:
            stream.subagent_event(task, event)

    def end(self, ended: EndedVariant) -> None:
        """Write the `result` object of a variant."""
        self._streams[ended.task.task_id].finish(ended.run_result())

    def finish(self, variants: Sequence[EndedVariant]) -> None:
        """Write the object of all."""
        session_id = next(iter(self._facts.values())).session_id
        self._out(json_line(variants_object(variants, self._problems, session_id)))


def _number_of(task: Task) -> int:
    assert task.variant is not None
    return task.variant.number


def _write_prefixed(err: Write, number: int, text: str) -> None:
    err("".join(f"[{number}] {line}" for line in text.splitlines(keepends=True)))


def _text(ended: EndedVariant) -> str:
    """Return a variant's heading and answer, or why there is none."""
    figures = ended.figures
    cost = f"${figures.cost_usd:.4f}" if figures.cost_known else "no price"
    tests = describe_tests(figures.tests)
    facts = (
        f"variant {figures.number}",
        figures.model,
        "done" if ended.outcome.outcome == "completed" else ended.outcome.outcome,
        f"{figures.worked_s:.1f} s",
        f"{figures.tokens:,} tokens",
        cost,
        f"changed: {describe_files(figures) or 'not known'}",
        f"tests: {tests}" if tests else "",
    )
    answer = answer_of(ended.outcome) or ended.outcome.reason
    return f"== {' · '.join(filter(None, facts))}\n{answer}\n"


def variants_object(
    variants: Sequence[EndedVariant], problems: Mapping[int, str], session_id: str
) -> dict[str, Any]:
    """Return the result object of all variants."""
    return {
        "type": "variants",
        "is_error": variants_code(variants) != OK,
        "variants": [_variant_object(ended, session_id) for ended in variants],
        "not_started": [{"number": number, "error": error} for number, error in problems.items()],
        "total_cost_usd": round(sum(ended.figures.cost_usd for ended in variants), 6),
        "session_id": session_id,
    }


def _variant_object(ended: EndedVariant, session_id: str) -> dict[str, Any]:
    figures, tree = ended.figures, ended.task.workspace.worktree
    files = [
        {"path": file.path, "change": file.change, "added": file.added, "removed": file.removed}
        for file in ended.diff.files
    ]
    return {
        "number": figures.number,
        "task": figures.task_id,
        "model": figures.model,
        "state": ended.outcome.outcome,
        "worktree": tree.path if tree is not None else "",
        "branch": tree.branch if tree is not None else "",
        "files": files,
        "files_problem": figures.problem,
        "tests": msgspec.to_builtins(figures.tests),
        **result_object(ended.run_result(), session_id),
    }


def variants_code(variants: Sequence[EndedVariant]) -> int:
    """Return the exit code: 0 when one of them is done, whatever became of the others."""
    codes = [
        exit_code(
            ended.outcome,
            approval_missing=bool(ended.watch.missing),
            terminated=ended.watch.terminated,
        )
        for ended in variants
    ]
    return next((code for code in (OK, APPROVAL) if code in codes), codes[0])
