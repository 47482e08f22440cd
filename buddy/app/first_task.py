"""The first task of a session, and the worktrees of resumed tasks."""

from __future__ import annotations

from buddy.agent.tool import ToolError
from buddy.app.options import Options
from buddy.config.settings import ConfigError
from buddy.tasks.board import TaskBoard
from buddy.tasks.task import TaskError
from buddy.workspace.worktrees.worktrees import Worktree, read_origin


async def open_first_task(board: TaskBoard, options: Options) -> tuple[str, ...]:
    """Open the first task; return notes about the folder it works in. Raises `ConfigError`."""
    if not options.in_worktree:
        board.open(model=options.model)
        return ()
    try:
        tree, notice = await _get_worktree(board, options)
    except (ToolError, TaskError) as error:
        raise ConfigError(f"--worktree: {error}") from error
    board.open(model=options.model, worktree=tree.name)
    sentence = f"this session works in {tree.display_path}, on the branch {tree.branch}"
    return (f"{sentence}; {notice}" if notice else sentence,)


async def _get_worktree(board: TaskBoard, options: Options) -> tuple[Worktree, str]:
    """Return the worktree named on the command line, existing or new; without a name, a new one. The second
    value is a notice."""
    trees = board.workspaces.parts().trees
    if not options.worktree:
        return await board.workspaces.make(" ".join(options.words) or "session", carrying=options.carry)
    known = trees.by_name(options.worktree)
    if read_origin(known) is not None and not trees.missing(known):
        return known, "it already existed" if options.carry else ""
    return await board.workspaces.make(options.worktree, exact=True, carrying=options.carry)


async def restore_worktrees(board: TaskBoard) -> tuple[str, ...]:
    """Recreate the foreground task's unchanged worktree; return one notice per missing worktree."""
    notices: list[str] = []
    for task in board.tasks.values():
        tree = task.workspace.worktree
        if tree is None or task.closed:
            continue
        missing = board.workspaces.parts().trees.missing(tree)
        if not missing or (read_origin(tree) is None and task.task_id != board.focus):
            continue
        try:
            notices.append(await board.workspaces.prepare(task))
        except TaskError as error:
            notices.append(f"task {task.task_id}: {error}")
    return tuple(notices)
