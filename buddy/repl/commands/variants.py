"""Commands about variants: one prompt worked on by several tries or models, compared, and one of them
picked."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable

from buddy.agent.formatting import format_count, whole_number
from buddy.agent.lazy_regex import pattern
from buddy.agent.tool import ToolError
from buddy.repl.commands.registry import CommandError, command
from buddy.repl.commands.worktrees import merge_into_tree, merged_call, name_left_out, show_diff
from buddy.repl.context import Context
from buddy.repl.render import numbers as words
from buddy.repl.view.blocks import NoteBlock, TableBlock
from buddy.safety.sanitise import one_line
from buddy.sessions.records import Note
from buddy.tasks.task import Task, TaskError
from buddy.tasks.variants import FEWEST, MOST
from buddy.workspace.worktrees.worktrees import Worktree

_TRIES = pattern(r"(\d+)\s+(\S.*)", re.DOTALL)
_MODELS = pattern(r"on\s+([^\s,]+(?:\s*,\s*[^\s,]+)*)\s+(\S.*)", re.DOTALL)
_PICK = pattern(r"(\S+)(\s+protected)?")
_DROP = pattern(r"(\S+)(\s+discard)?")
TITLE_CHARS = 60
REASON_CHARS = 300


@command(family="tasks", name="try", usage="N PROMPT | on MODEL,MODEL PROMPT", choices=("on",), sends=True)
async def try_(context: Context, argument: str) -> None:
    """Give one prompt to several tries or models at once, each in a worktree of its own"""
    models, prompt = _parse(argument.strip())
    for name in dict.fromkeys(filter(None, models)):
        if problem := await context.session.models.problem(name):
            raise CommandError(f"nothing was started: {problem}")
    board = context.board
    start = board.task(board.focus)
    opened = await board.variants.open(prompt, models, start=start)
    for number, problem in opened.problems.items():
        context.screen.print(NoteBlock("warning", f"variant {number} was not started: {problem}"))
    if opened.notice:
        context.screen.print(NoteBlock("warning", opened.notice))
    expanded = [(task, await context.session.expand(task.task_id, prompt)) for task in opened.tasks]
    for note in dict.fromkeys(note for _task, one in expanded for note in one.notes):
        context.screen.print(NoteBlock("warning", note))
    for task, one in expanded:
        board.submit(task.task_id, one.parts)
    names = ", ".join(f"{_number(task)} is task {task.task_id}" for task in opened.tasks)
    count = format_count(len(opened.tasks), "variant")
    context.screen.print(NoteBlock("info", f"{count} started: {names}; /variants compares them"))


def _parse(argument: str) -> tuple[list[str], str]:
    """Return a model for each variant ("" for the task's own) and the prompt. Raises `CommandError`."""
    if match := _TRIES().fullmatch(argument):
        count = whole_number(match[1])
        if count is None or not FEWEST <= count <= MOST:
            raise CommandError(f"expected {FEWEST} to {MOST} tries, found {match[1][:20]}")
        return [""] * count, match[2]
    if match := _MODELS().fullmatch(argument):
        models = [name.strip() for name in match[1].split(",")]
        if not FEWEST <= len(models) <= MOST:
            raise CommandError(f"expected {FEWEST} to {MOST} models, found {len(models)}: /try on A,B PROMPT")
        return models, match[2]
    raise CommandError("expected a number or models, then the prompt: /try 3 PROMPT, /try on A,B PROMPT")


@command(
    family="tasks",
    usage="[diff N [M] | pick N [protected] | cancel N | drop N|rest [discard]]",
    choices=("diff", "pick", "cancel", "drop"),
    completes=("variant",),
)
async def variants(context: Context, argument: str) -> None:
    """Compare the variants of a prompt, show their changes, merge one into your tree, drop the others"""
    what, _, rest = argument.strip().partition(" ")
    try:
        match what:
            case "" | "all":
                await _compare(context, every=what == "all")
            case "diff":
                await _diff(context, rest.split())
            case "pick":
                await _pick(context, rest.strip())
            case "cancel":
                _cancel(context, rest.strip())
            case "drop":
                await _drop(context, rest.strip())
            case _:
                raise CommandError(f"expected diff, pick, cancel or drop and a variant, found {what[:40]!r}")
    except (ToolError, TaskError) as error:
        raise CommandError(str(error)) from error


async def _compare(context: Context, *, every: bool) -> None:
    groups = list(context.board.variants.groups().values())
    if not groups:
        raise CommandError("there are no variants; /try 3 PROMPT starts some")
    picked = await asyncio.to_thread(_picked, context)
    for group in groups if every else groups[-1:]:
        title = one_line(group[0].title, TITLE_CHARS)
        context.screen.print(NoteBlock("info", f"{format_count(len(group), 'variant')} of: {title}"))
        table, reasons = await _table(context, group, picked)
        context.screen.print(table, *(NoteBlock("warning", reason) for reason in reasons))
    earlier = 0 if every else len(groups) - 1
    ways = "/variants diff 1 shows changes, diff 1 2 compares two, pick 1 merges one into your tree"
    more = f"; /variants all includes {format_count(earlier, 'earlier prompt')}" if earlier else ""
    context.screen.hint(ways + more)


async def _table(context: Context, group: list[Task], picked: frozenset[int]) -> tuple[TableBlock, list[str]]:
    """Return the table, and the reasons why variants ended early or can't be read."""
    from buddy.tasks.variant_results import (  # few sessions try a prompt several times
        describe_files,
        describe_tests,
        figures_of,
    )

    board = context.board
    rows: list[tuple[str, ...]] = []
    reasons: list[str] = []
    now = board.parts.clock.now()
    names = {task.task_id: board.parts.model(task.model).name for task in group}
    short_names = _short_names(names.values())
    for task in group:
        figures = await figures_of(board.workspaces, task, model=names[task.task_id], now=now)
        state = "dropped" if figures.dropped else words.state(figures.state)
        reasons += [
            f"variant {figures.number} ({state}): {one_line(reason, REASON_CHARS)}"
            for reason in (figures.reason, figures.problem)
            if reason and reason != figures.state and not figures.dropped
        ]
        rows.append(
            (
                str(figures.number),
                str(figures.task_id),
                short_names[figures.model],
                state + (", picked" if task.task_id in picked else ""),
                words.seconds(figures.worked_s),
                words.tokens(figures.tokens),
                words.cost(figures.cost_usd, known=figures.cost_known) if figures.tokens else "",
                # The heading says "files", and 80 columns have no room for the word in each row.
                re.sub(r" files?\b", "", describe_files(figures)),
                describe_tests(figures.tests) or "none",
            )
        )
    head = ("#", "task", "model", "state", "time", "tokens", "cost", "files ±", "tests")
    return TableBlock(head, tuple(rows)), reasons


def _short_names(models: Iterable[str]) -> dict[str, str]:
    """Return the models without their providers, where that is enough to tell them apart: 80 columns have
    room for little more."""
    short = {model: model.rpartition("/")[2] for model in models}
    return short if len(set(short.values())) == len(short) else {model: model for model in short}


async def _diff(context: Context, names: list[str]) -> None:
    from buddy.tasks.variant_results import changes_of, diff_between, diff_of_variant  # as in `_table`

    if not 1 <= len(names) <= 2:
        raise CommandError("expected one variant or two: /variants diff 2, /variants diff 1 2")
    tasks = [_find(context, name) for name in names]
    workspaces = context.board.workspaces
    if len(tasks) == 2:
        first, second = tasks
        if _group(first) != _group(second):
            raise CommandError("these are variants of different prompts; they began in different states")
        diff = await diff_between(workspaces, first, second)
        title = f"from variant {_number(first)} to variant {_number(second)}"
    else:
        left_out = (await changes_of(workspaces, tasks[0])).left_out
        if left_out:
            context.screen.print(NoteBlock("warning", name_left_out(left_out)))
        diff = await diff_of_variant(workspaces, tasks[0])
        title = f"diff of variant {_number(tasks[0])}"
    if not diff.files:
        raise CommandError(
            "The two are the same." if len(tasks) == 2 else f"Variant {_number(tasks[0])} changed no file."
        )
    show_diff(context, title, diff)


async def _pick(context: Context, argument: str) -> None:
    match = _PICK().fullmatch(argument)
    if match is None:
        raise CommandError("expected a variant: /variants pick 2")
    task = _find(context, match[1])
    if task.running:
        raise CommandError(
            f"variant {_number(task)} still works; pick it when it is done (/wait {task.task_id} reports "
            f"that, /variants cancel {_number(task)} ends it)"
        )
    group = context.board.variants.group_of(task)
    picked = await asyncio.to_thread(_picked, context)
    earlier = next((other for other in group if other.task_id in picked and other is not task), None)
    if earlier is not None:
        raise CommandError(
            f"variant {_number(earlier)} is in your tree already; /undo @{earlier.task_id} takes it out, "
            f"then pick {_number(task)}. Nothing was changed"
        )
    tree = _worktree(context, task)
    again = task.task_id in picked
    try:
        result, merged = await merge_into_tree(context, tree, task, protected=bool(match[2]))
    except ToolError as error:
        hint = f"\n/undo @{task.task_id} takes out the earlier pick of this variant" if again else ""
        raise CommandError(str(error).replace("/worktree merge N", "/variants pick N") + hint) from error
    if merged:
        context.board.notes.offer(_note(context, task, len(group)))
    undo = f"; /undo @{task.task_id} undoes it" if merged else ""
    others = [other for other in group if other is not task and not _is_dropped(context, other)]
    names = " and ".join(filter(None, (", ".join(map(_number, others[:-1])), *map(_number, others[-1:]))))
    offer = f". /variants drop rest removes {names} with what they changed" if others else ""
    sentence = f"Variant {_number(task)} picked, not committed: {result}{undo}{offer}"
    context.screen.print(NoteBlock("info", sentence))


def _note(context: Context, task: Task, count: int) -> Note:
    """Return the note that tells the foreground task whose changes are in its tree now."""
    heading = f"I picked variant {_number(task)} of {count} of {task.title!r}; its changes are in this tree"
    return Note(
        context.board.parts.clock.new_id(),
        task.task_id,
        f"the picked variant of {task.title}",
        task.last_answer(),
        heading,
        answer_of=task.task_id,
        lead=". Its answer:",
    )


def _cancel(context: Context, argument: str) -> None:
    task = _find(context, argument)
    if not task.running:
        raise CommandError(f"variant {_number(task)} is not running")
    context.board.cancel(task.task_id)
    context.screen.hint(f"variant {_number(task)} is cancelled; /continue {task.task_id} goes on with it")


async def _drop(context: Context, argument: str) -> None:
    match = _DROP().fullmatch(argument)
    if match is None:
        raise CommandError("expected a variant or rest: /variants drop 1, /variants drop rest")
    picked = await asyncio.to_thread(_picked, context)
    if match[1] == "rest":
        tasks = _rest(context, picked)
    else:
        task = _find(context, match[1])
        tasks = [task]
        group = {other.task_id for other in context.board.variants.group_of(task)}
        if not (group & picked or match[2]) and await _has_changes(context, task):
            raise CommandError(
                f"variant {_number(task)} has changes, and no variant is in your tree; /variants drop "
                f"{_number(task)} discard deletes them"
            )
    for task in tasks:
        await context.board.variants.drop(task)
    context.board.parts.cache.clear()
    names = ", ".join(_number(task) for task in tasks)
    context.screen.print(NoteBlock("info", f"dropped: variant {names}"))


def _rest(context: Context, picked: frozenset[int]) -> list[Task]:
    """Return the variants beside the picked one that are still there. Raises `CommandError`."""
    for group in reversed(context.board.variants.groups().values()):
        if any(task.task_id in picked for task in group):
            rest = [task for task in group if task.task_id not in picked and not _is_dropped(context, task)]
            if not rest:
                raise CommandError("nothing is left to drop")
            return rest
    raise CommandError("pick a variant first, or drop each by its number: /variants drop 1")


async def _has_changes(context: Context, task: Task) -> bool:
    from buddy.tasks.variant_results import changes_of  # as in `_table`

    if task.running:
        return True
    if _is_dropped(context, task):
        return False
    changes = await changes_of(context.board.workspaces, task)
    return bool(changes.files or changes.left_out)


def _picked(context: Context) -> frozenset[int]:
    """Return the ids of the variants whose changes were merged and not undone. Blocks."""
    calls = {entry.call_id for entry in context.session.undo.entries()}
    tasks = [task for group in context.board.variants.groups().values() for task in group]
    return frozenset(
        task.task_id
        for task in tasks
        if task.workspace.worktree is not None
        and any(call.startswith(merged_call(task.workspace.worktree)) for call in calls)
    )


def _worktree(context: Context, task: Task) -> Worktree:
    """Return the worktree of a variant. Raises `ToolError`, `TaskError` when it has none any more."""
    from buddy.tasks.variant_results import worktree_of  # as in `_table`

    tree = worktree_of(task)
    if missing := context.board.workspaces.parts().trees.missing(tree):
        raise ToolError(missing)
    return tree


def _is_dropped(context: Context, task: Task) -> bool:
    tree = task.workspace.worktree
    return tree is None or bool(context.board.workspaces.parts().trees.missing(tree))


def _find(context: Context, name: str) -> Task:
    """Return the variant of the newest prompt with this number, or the one of a task (`@5`). Raises
    `CommandError`."""
    groups = context.board.variants.groups()
    if not groups:
        raise CommandError("there are no variants; /try 3 PROMPT starts some")
    number = whole_number(name.removeprefix("@"))
    if name.startswith("@"):
        tasks = {task.task_id: task for group in groups.values() for task in group}
    else:
        newest = groups[max(groups)]
        tasks = {task.variant.number: task for task in newest if task.variant is not None}
    if number not in tasks:
        known = ", ".join(f"@{one}" if name.startswith("@") else str(one) for one in tasks)
        raise CommandError(f"expected a variant ({known}), found {name[:40]!r}")
    return tasks[number]


def _number(task: Task) -> str:
    return str(task.variant.number) if task.variant is not None else ""


def _group(task: Task) -> int:
    return task.variant.group if task.variant is not None else 0
