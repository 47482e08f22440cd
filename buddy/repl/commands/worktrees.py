"""The command about worktrees: a task in its own worktree, and merging or removing its changes."""

from __future__ import annotations

import asyncio

from buddy.agent.display import Diff
from buddy.agent.formatting import format_count, name_first, whole_number
from buddy.agent.lazy_regex import pattern
from buddy.agent.messages import Call
from buddy.agent.tool import ToolContext, ToolError
from buddy.config.settings import ConfigError
from buddy.repl.commands.registry import CommandError, command
from buddy.repl.context import Context
from buddy.repl.view.blocks import NoteBlock, TableBlock, ToolCall
from buddy.safety.paths import Boundary
from buddy.safety.sanitise import visible
from buddy.tasks.task import Task
from buddy.tasks.workspaces import jobs_in
from buddy.tools.worktree_merge import bring, changes_diff, is_there, links_by_hand, main_tree
from buddy.workspace.files.read_tracking import FileViews
from buddy.workspace.worktrees.changes import WorktreeChanges
from buddy.workspace.worktrees.worktrees import Worktree

_ABOUT = pattern(r"(diff|merge|drop)(?:\s+@?([A-Za-z0-9][\w-]*))?(?:\s+(discard|protected))?")


CARRY = "--carry "
"""Before the text of a task whose worktree gets the uncommitted changes."""
_WORDS = {"discard": "drop", "protected": "merge"}
"""The subcommand that accepts each last word."""


@command(
    family="tasks",
    usage="[[--carry] TEXT | diff N | merge N [protected] | drop N [discard]]",
    choices=("diff", "merge", "drop"),
    completes=("task",),
    sends=True,
)
async def worktree(context: Context, argument: str) -> None:
    """Start a task in its own git worktree; without text list them; show, merge or remove one"""
    about = _ABOUT().fullmatch(argument.strip())
    try:
        if not argument.strip():
            await _list(context)
        elif argument.strip() == CARRY.strip():
            raise CommandError("expected a prompt: /worktree --carry TEXT")
        elif about is None:
            await _start(context, argument.strip())
        elif not about[2] or _WORDS.get(about[3], about[1]) != about[1]:
            raise CommandError(
                f"expected /worktree {about[1]} N, where N is a task or the name of a worktree"
            )
        else:
            tree, task = _find_worktree(context, about[2])
            match about[1]:
                case "diff":
                    await _diff(context, tree)
                case "merge":
                    await _merge(context, tree, task, protected=bool(about[3]))
                case _:
                    await _drop(context, tree, task, discard=bool(about[3]))
    except ToolError as error:
        raise CommandError(str(error)) from error


async def _start(context: Context, text: str) -> None:
    board = context.board
    words = text.removeprefix(CARRY).strip()
    tree, notice = await board.workspaces.make(words, carrying=text.startswith(CARRY))
    try:
        task = board.open(copy_of=board.focus, worktree=tree.name)
    except ConfigError:
        await board.workspaces.parts().trees.remove(tree, discard=True)
        raise
    board.to_background(task.task_id)
    expanded = await context.session.expand(task.task_id, words)
    for note in expanded.notes:
        context.screen.print(NoteBlock("warning", note))
    board.submit(task.task_id, expanded.parts)
    sentence = (
        f"task {task.task_id} started in the background in {tree.display_path}, on the branch {tree.branch}"
    )
    context.screen.print(NoteBlock("info", f"{sentence}; {notice}" if notice else sentence))


async def _list(context: Context) -> None:
    trees = context.board.workspaces.parts().trees
    worktrees = await asyncio.to_thread(trees.all)
    if not worktrees:
        raise CommandError(
            "there are no worktrees (an unchanged one is removed when its task ends); "
            "/worktree TEXT starts a task in one"
        )
    rows: list[tuple[str, ...]] = []
    for tree in worktrees:
        numbers = ", ".join(str(task.task_id) for task in _tasks_in(context, tree))
        try:
            standing = await trees.standing(tree)
            changed = format_count(len(standing.changed), "file") if standing.changed else "none"
            rows.append(
                (numbers, tree.display_path, tree.branch, changed, f"+{standing.ahead} −{standing.behind}")
            )
        except ToolError as error:
            rows.append((numbers, tree.display_path, tree.branch, visible(str(error)), ""))
    head = ("task", "worktree", "branch", "not committed", "commits")
    context.screen.print(TableBlock(head, tuple(rows)))


async def _diff(context: Context, tree: Worktree) -> None:
    changes = await context.board.workspaces.changes(tree)
    if changes.left_out:
        context.screen.print(NoteBlock("warning", name_left_out(changes.left_out)))
    if not changes.files:
        raise CommandError(f"No changes in {tree.display_path}.")
    show_diff(context, f"diff of {tree.display_path}", changes_diff(changes))


async def _merge(context: Context, tree: Worktree, task: Task | None, *, protected: bool) -> None:
    _check_quiet(context, tree, "merge")
    result, merged = await merge_into_tree(context, tree, task, protected=protected)
    task_id = task.task_id if task is not None else context.board.focus
    advice = f"; /undo @{task_id} undoes it" if merged else ""
    sentence = f"Merged, not committed: {result}{advice}; /worktree drop {tree.name} removes the worktree"
    context.screen.print(NoteBlock("info", sentence))


async def merge_into_tree(
    context: Context, tree: Worktree, task: Task | None, *, protected: bool
) -> tuple[str, bool]:
    """Merge a worktree's changes into the main tree as one change that can be undone, and show them. Return
    the result in words, and whether a file became different. Raises `ToolError`; then nothing has changed."""
    board = context.board
    changes = await board.workspaces.changes(tree)
    task_id = task.task_id if task is not None else board.focus
    call = _call(context, task_id, tree, changes)
    diff = await bring(call, changes, protected=protected)
    board.parts.cache.clear()
    if changes.left_out:
        context.screen.print(NoteBlock("warning", name_left_out(changes.left_out)))
    links = await asyncio.to_thread(links_by_hand, call, changes)
    if links:
        names = name_first(links, 20)
        note = f"symbolic links are not merged; make them by hand: {names}"
        context.screen.print(NoteBlock("warning", note))
    if diff.files:
        show_diff(context, f"merge of {tree.display_path}", diff)
        return format_count(len(diff.files), "file"), True
    rest = "the other" if links else "all"
    return f"nothing: the main tree already has {rest} changes", False


def merged_call(tree: Worktree) -> str:
    """Return the beginning of the names of the calls that merged a worktree."""
    return f"worktree {tree.name} "


async def _drop(context: Context, tree: Worktree, task: Task | None, *, discard: bool) -> None:
    _check_quiet(context, tree, "drop")
    jobs = jobs_in(tree, context.board.tasks.values())
    if jobs and not discard:
        numbers = ", ".join(map(str, jobs))
        running = f"job {numbers} still runs" if len(jobs) == 1 else f"jobs {numbers} still run"
        raise CommandError(
            f"{running} in {tree.display_path}. /jobs stop {jobs[0]} stops it, "
            f"/worktree drop {tree.name} discard removes the folder anyway."
        )
    places = context.board.workspaces
    trees = places.parts().trees
    missing = trees.missing(tree)
    if missing:
        await trees.forget(tree)
        await asyncio.to_thread(places.forget_changes, tree)
        context.screen.print(NoteBlock("info", f"{missing}; forgotten"))
        return
    standing = await trees.standing(tree)
    if standing.changed and not discard and not await _is_there(context, tree):
        raise CommandError(
            f"{tree.display_path} has {format_count(len(standing.changed), 'changed file')} that the main "
            f"tree does not have: /worktree merge {tree.name} applies them, "
            f"/worktree drop {tree.name} discard deletes them"
        )
    tip = await trees.remove(tree, discard=discard)
    await asyncio.to_thread(places.forget_changes, tree)
    sentence = f"{tree.display_path} is removed"
    if standing.own and not tip:
        sentence += f"; its {format_count(standing.own, 'commit')} stay on the branch {tree.branch}"
    elif standing.own:
        sentence += (
            f"; git branch {tree.branch} {tip[:12]} brings its {format_count(standing.own, 'commit')} back"
        )
    context.screen.print(NoteBlock("info", sentence))


async def _is_there(context: Context, tree: Worktree) -> bool:
    try:
        changes = await context.board.workspaces.changes(tree)
    except ToolError:
        return False
    return await asyncio.to_thread(is_there, _call(context, context.focus, tree, changes), changes)


def _call(context: Context, task_id: int, tree: Worktree, changes: WorktreeChanges) -> ToolContext:
    """Return the context of the user's own call in the main tree; its id names the merged state."""
    main = context.board.workspaces.main
    services = {
        **main.services(task_id).services,
        FileViews: FileViews(),
        Boundary: main_tree(main.boundary),
    }
    name = f"{merged_call(tree)}{changes.state}"
    return ToolContext(task_id, name, lambda _text: None, asyncio.Event(), services)


def _find_worktree(context: Context, word: str) -> tuple[Worktree, Task | None]:
    """Return the worktree of a task's id or with this name. Raises `CommandError`."""
    task_id = whole_number(word)
    if task_id in context.board.tasks:
        task = context.board.tasks[task_id]
        tree = task.workspace.worktree
        if tree is None:
            raise CommandError(f"task {word} works in the main tree")
        return tree, task
    trees = context.board.workspaces.parts().trees
    matches = [tree for tree in trees.all() if tree.name == word]
    if not matches:
        raise CommandError(f"there is no task and no worktree {word!r}; /worktree lists them")
    return matches[0], next(iter(_tasks_in(context, matches[0])), None)


def _tasks_in(context: Context, tree: Worktree) -> list[Task]:
    return [task for task in context.board.tasks.values() if task.workspace.worktree == tree]


def _check_quiet(context: Context, tree: Worktree, what: str) -> None:
    for task in _tasks_in(context, tree):
        if task.running:
            raise CommandError(
                f"task {task.task_id} still works in {tree.display_path}; {what} it when it is done"
            )


def name_left_out(paths: tuple[str, ...]) -> str:
    """Name the files that no comparison and no merge contains."""
    names = ", ".join(visible(path) for path in paths[:5]) + (" …" if len(paths) > 5 else "")
    return f"not shown and not brought over (secret by name, too large, or unreadable): {names}"


def show_diff(context: Context, title: str, diff: Diff) -> None:
    """Print a diff under a title."""
    call = Call("", "diff", "{}")
    context.screen.print(
        ToolCall(call, title, "low", "ok", "", diff, 0.0, cached=False, task_id=context.focus)
    )
