"""The first task of a session, and the worktrees of the tasks that are resumed."""

from __future__ import annotations

from buddy.agent.tool import ToolError
from buddy.app.options import Options
from buddy.config.settings import ConfigError
from buddy.tasks.board import TaskBoard
from buddy.tasks.task import TaskError
from buddy.workspace.worktrees.worktrees import Worktree, read_origin


async def first_task(board: TaskBoard, options: Options) -> tuple[str, ...]:
    """Open the first task; return notes about the folder it works in. Raises `ConfigError`."""
    if not options.in_worktree:
        board.open(model=options.model)
        return ()
    try:
        tree, more = await _asked_for(board, options)
    except (ToolError, TaskError) as error:
        raise ConfigError(f"--worktree: {error}") from error
    board.open(model=options.model, worktree=tree.name)
    said = f"this session works in {tree.display_path}, on the branch {tree.branch}"
    return (f"{said}; {more}" if more else said,)


async def _asked_for(board: TaskBoard, options: Options) -> tuple[Worktree, str]:
    """The worktree named on the command line, as it is or new; a new one where none is named."""
    trees = board.workspaces.parts().trees
    if not options.worktree:
        return await board.workspaces.make(" ".join(options.words) or "session", carrying=options.carry)
    known = trees.by_name(options.worktree)
    if read_origin(known) is not None and not trees.missing(known):
        return known, "it was there already" if options.carry else ""
    return await board.workspaces.make(options.worktree, exact=True, carrying=options.carry)


async def worktrees_again(board: TaskBoard) -> tuple[str, ...]:
    """Recreate the foreground task's unchanged worktree; return one notice per missing worktree."""
    said: list[str] = []
    for task in board.tasks.values():
        tree = task.workspace.worktree
        if tree is None or task.closed:
            continue
        missing = board.workspaces.parts().trees.missing(tree)
        if not missing or (read_origin(tree) is None and task.task_id != board.focus):
            continue
        try:
            said.append(await board.workspaces.prepare(task))
        except TaskError as error:
            said.append(f"task {task.task_id}: {error}")
    return tuple(said)
