"""The first task of a session: in the folder buddy was started in, or in a worktree where that was asked for;
and what a resumed session has to say of its worktrees."""

from __future__ import annotations

from buddy.agent.tool import ToolError
from buddy.cli.arguments import Options
from buddy.config.settings import ConfigError
from buddy.tasks.board import TaskBoard
from buddy.tasks.task import TaskError
from buddy.workspace.worktrees import Worktree, kept_of


async def first_task(board: TaskBoard, options: Options) -> tuple[str, ...]:
    """Open it; what the person should know of where it works. Raises `ConfigError`."""
    if not options.in_worktree:
        board.open(model=options.model)
        return ()
    try:
        tree, more = await _asked_for(board, options)
    except (ToolError, TaskError) as error:
        raise ConfigError(f"--worktree: {error}") from error
    board.open(model=options.model, worktree=tree.name)
    said = f"this session works in {tree.shown}, on the branch {tree.branch}"
    return (f"{said}; {more}" if more else said,)


async def _asked_for(board: TaskBoard, options: Options) -> tuple[Worktree, str]:
    """The worktree of the name that was given, as it is or new; without a name a new one."""
    trees = board.places.parts().trees
    if not options.worktree:
        return await board.places.make(" ".join(options.words) or "session", carrying=options.carry)
    known = trees.named(options.worktree)
    if kept_of(known) is not None and not trees.missing(known):
        return known, "it was there already" if options.carry else ""
    return await board.places.make(options.worktree, exact=True, carrying=options.carry)


async def worktrees_again(board: TaskBoard) -> tuple[str, ...]:
    """The worktree of the task in front is there again where nothing had changed in it; what is said of those
    that are gone."""
    said: list[str] = []
    for task in board.tasks.values():
        tree = task.workspace.worktree
        if tree is None or task.closed:
            continue
        missing = board.places.parts().trees.missing(tree)
        if not missing or (kept_of(tree) is None and task.number != board.focus):
            continue
        try:
            said.append(await board.places.ready(task))
        except TaskError as error:
            said.append(f"task {task.number}: {error}")
    return tuple(said)
