"""The results of variants: figures to compare them by, the difference of two, and the parts that another
variant may read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from buddy.agent.display import Diff, Plain
from buddy.agent.formatting import format_count, keep_ends, name_first
from buddy.agent.tool import ToolContext, ToolError, ToolResult
from buddy.safety.paths import Boundary, hides_its_target, locate
from buddy.safety.sanitise import visible
from buddy.sessions.records import LastTests
from buddy.tasks.task import Task, TaskError, TaskState
from buddy.tasks.workspaces import TaskWorkspaces
from buddy.tools.delegate import MAX_REPORT_CHARS
from buddy.tools.files.read import read_file
from buddy.tools.variants import ResultPart
from buddy.tools.worktree_merge import changes_diff, main_tree
from buddy.workspace.files.approved_versions import Approved
from buddy.workspace.files.read_tracking import FileViews
from buddy.workspace.worktrees.changes import WorktreeChanges, between
from buddy.workspace.worktrees.worktrees import Worktree

NEVER_RAN = "it has not worked yet"
MAX_NAMED = 20

MayRead = Callable[[Boundary, str], bool]
"""Tells whether the reader may read a file without being asked about. It blocks."""


class VariantFigures(msgspec.Struct, frozen=True):
    """A variant as a row of a comparison. `worked_s` includes a running turn. `problem` says why its changes
    can't be read; `dropped`: its worktree was removed."""

    number: int
    task_id: int
    model: str
    state: TaskState
    reason: str
    worked_s: float
    tokens: int
    cost_usd: float
    cost_known: bool
    tests: LastTests | None
    files: int = 0
    added: int = 0
    removed: int = 0
    problem: str = ""
    dropped: bool = False


async def figures_of(workspaces: TaskWorkspaces, task: Task, *, model: str, now: float) -> VariantFigures:
    """Return the figures of a variant; `model` is its model's name for people. Reads its worktree."""
    assert task.variant is not None
    total = task.meter.total
    figures = VariantFigures(
        number=task.variant.number,
        task_id=task.task_id,
        model=model,
        state=task.state,
        reason="" if task.running else task.reason,
        worked_s=task.worked_s + (now - task.started_at if task.running else 0.0),
        tokens=total.input_tokens + total.output_tokens,
        cost_usd=task.meter.cost_usd,
        cost_known=task.meter.cost_known,
        tests=task.tests,
    )
    tree = task.workspace.worktree
    if tree is None or workspaces.parts().trees.missing(tree):
        return msgspec.structs.replace(figures, dropped=True)
    try:
        diff = await diff_of_variant(workspaces, task)
    except (ToolError, TaskError) as error:
        return msgspec.structs.replace(figures, problem=str(error))
    return msgspec.structs.replace(
        figures,
        files=len(diff.files),
        added=sum(file.added for file in diff.files),
        removed=sum(file.removed for file in diff.files),
    )


def worktree_of(task: Task) -> Worktree:
    """Return the worktree of a variant. Raises `TaskError` when it works in none."""
    tree = task.workspace.worktree
    if tree is None:
        raise TaskError(f"task {task.task_id} works in the main tree")
    return tree


async def changes_of(workspaces: TaskWorkspaces, task: Task) -> WorktreeChanges:
    """Return what a variant changed. Raises `ToolError`, `TaskError`."""
    tree = worktree_of(task)
    if missing := workspaces.parts().trees.missing(tree):
        raise ToolError(missing)
    return await workspaces.changes(tree)


async def diff_of_variant(workspaces: TaskWorkspaces, task: Task) -> Diff:
    """Return the diff of what a variant changed. Raises `ToolError`, `TaskError`."""
    return await asyncio.to_thread(changes_diff, await changes_of(workspaces, task))


async def diff_between(workspaces: TaskWorkspaces, one: Task, other: Task) -> Diff:
    """Return what is different in the second of two variants of a prompt. Raises `ToolError`,
    `TaskError`."""
    first, second = await changes_of(workspaces, one), await changes_of(workspaces, other)
    changes = WorktreeChanges(between(first, second), "", ())
    return await asyncio.to_thread(changes_diff, changes)


async def read_result(
    workspaces: TaskWorkspaces,
    context: ToolContext,
    task: Task,
    part: ResultPart,
    path: str,
    *,
    may_read: MayRead,
) -> ToolResult:
    """Return a part of a variant's result for another one; `may_read` judges each file of a diff. Raises
    `ToolError`."""
    assert task.variant is not None
    name = f"variant {task.variant.number}"
    try:
        match part:
            case "answer":
                text = task.last_answer() if not task.has_only_a_copy else ""
                text = text or (f"{NEVER_RAN}." if not task.running else "No answer so far.")
            case "diff":
                text = await _readable_diff(workspaces, context, task, may_read)
            case "file":
                return await _read_file(context, task, path, name)
    except TaskError as error:
        raise ToolError(str(error)) from error
    heading = f"[{name}, {_describe_state(task)}]"
    return ToolResult(f"{heading}\n{keep_ends(text, MAX_REPORT_CHARS)}", Plain(f"{part} of {name}", text))


async def _readable_diff(
    workspaces: TaskWorkspaces, context: ToolContext, task: Task, may_read: MayRead
) -> str:
    """Return a variant's changes in the files that the reader could read itself, and the names of the
    others. A file is judged by its place in both trees: a link can make them different places."""
    changes = await changes_of(workspaces, task)
    boundaries = (main_tree(context.service(Boundary)), main_tree(task.workspace.boundary))

    def split() -> tuple[Diff, list[str]]:
        readable = tuple(
            file
            for file in changes.files
            if all(may_read(boundary, f"{boundary.root}/{file.path}") for boundary in boundaries)
        )
        paths = {file.path for file in readable}
        hidden = [file.path for file in changes.files if file.path not in paths]
        return changes_diff(msgspec.structs.replace(changes, files=readable)), hidden

    diff, hidden = await asyncio.to_thread(split)
    notes: list[str] = []
    if hidden:
        notes.append(f"Changed, and not shown because reading it is not allowed: {_names(hidden)}")
    if changes.left_out:
        notes.append(f"Not compared (secret by name, too large or unreadable): {_names(changes.left_out)}")
    if diff.files:
        notes.insert(0, _diff_text(diff))
    return "\n".join(notes) or "It changed no file."


def _names(paths: Sequence[str]) -> str:
    return name_first([visible(path) for path in paths], MAX_NAMED)


async def _read_file(context: ToolContext, task: Task, path: str, name: str) -> ToolResult:
    """Read a file of the variant's worktree as it would itself. The call was judged by the same name in the
    reader's tree; here it must not lead anywhere else."""
    boundary = main_tree(task.workspace.boundary)
    located = await asyncio.to_thread(locate, boundary, path)
    if not located.inside or not located.real.startswith(boundary.root + "/"):
        raise ToolError(f"expected a path inside the tree of {name}, found {visible(path[:200])}")
    if located.secret:
        raise ToolError(f"{located.shown} of {name} is not shown: {located.secret}")
    if await asyncio.to_thread(hides_its_target, boundary, located):
        raise ToolError(f"{visible(path[:200])} is a link in the tree of {name}; name that file itself")
    call_id = f"{context.call_id}-variant"
    services = {**context.services, Boundary: boundary, FileViews: FileViews()}
    inner = ToolContext(context.task_id, call_id, context.progress, context.cancelled, services)
    context.service(Approved).remember(call_id, path, located.real)
    result = await read_file.run(inner, read_file.arguments(path=path))
    return msgspec.structs.replace(result, text=f"[{name}, {_describe_state(task)}]\n{result.text}")


def _describe_state(task: Task) -> str:
    if task.running:
        return "still at work"
    state = {"finished": "finished", "idle": "finished"}.get(task.state, task.state)
    return f"{state} ({task.reason})" if task.reason and task.reason != task.state else state


def _diff_text(diff: Diff) -> str:
    return "\n".join(
        f"{file.change} {visible(file.path)} (+{file.added} −{file.removed})\n{file.diff}"
        for file in diff.files
    )


def describe_tests(tests: LastTests | None) -> str:
    """Return the last test run in a few words, "" when there was none."""
    if tests is None:
        return ""
    counts = tests.check.tests
    if counts is not None:
        numbers = ((counts.passed, "passed"), (counts.failed, "failed"), (counts.skipped, "skipped"))
        result = ", ".join(f"{count} {word}" for count, word in numbers if count) or "no tests"
    elif tests.check.exit_code is None:
        result = tests.check.ended or "not known"
    else:
        result = "passed" if tests.check.exit_code == 0 else f"failed (exit {tests.check.exit_code})"
    return f"{result}, then changed" if tests.outdated else result


def describe_files(figures: VariantFigures) -> str:
    """Return the changed files and lines in a few words, "" of a variant without its worktree."""
    if figures.dropped:
        return ""
    if figures.problem:
        return "not known"
    if not figures.files:
        return "none"
    return f"{format_count(figures.files, 'file')} +{figures.added} −{figures.removed}"
