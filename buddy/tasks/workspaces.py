"""The trees in which the tasks of a board work: the project's own tree and worktrees of it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from msgspec.structs import replace

from buddy.agent.formatting import format_count
from buddy.agent.messages import Text, UserMessage
from buddy.agent.tool import ToolError
from buddy.safety.paths import is_beneath
from buddy.safety.sanitise import visible
from buddy.tasks.dependencies import BoardParts, TaskServices, Workspace, WorktreeParts
from buddy.tasks.task import Task, TaskError
from buddy.workspace.processes.jobs import Jobs
from buddy.workspace.processes.termination import run_to_end
from buddy.workspace.undo.log import UndoLog
from buddy.workspace.worktrees.changes import WorktreeChanges, WorktreeStates, carry
from buddy.workspace.worktrees.worktrees import Worktree, WorktreeStanding, read_origin

_INTRODUCTION = (
    "[From now on this conversation works in its own git worktree: {path}, on the branch {branch}. "
    "Relative paths start there; {main} is outside of it. The files you read before were those of {main}: "
    "read them again before you change them. Your changes stay in the worktree until the person merges them "
    "into {main}.]"
)

MAX_NAMED = 5
MAX_WRITTEN = 1000


class TaskWorkspaces:
    """The workspaces of a board. `given` adds the board's own services to those of a task."""

    def __init__(
        self,
        parts: BoardParts,
        tasks: Mapping[int, Task],
        add_services: Callable[[Callable[[int], TaskServices]], Callable[[int], TaskServices]],
    ) -> None:
        self._parts = parts
        self._tasks = tasks
        self._add_services = add_services
        self.main = self._with_board(parts.workspace)
        self.home = self.main
        """The workspace of tasks that start from no other one: the project's own tree, or a target."""
        self._worktrees: dict[str, Workspace] = {}
        self._looking: dict[str, asyncio.Lock] = {}
        self._targets: dict[str, Workspace] = {}

    def of(self, task: Task | None, worktree: str = "") -> Workspace:
        """Return the workspace of the named worktree, else the task's, else that of new tasks. Raises
        `TaskError`."""
        if worktree:
            return self.by_name(worktree)
        return task.workspace if task is not None else self.home

    def on_target(self, name: str) -> Workspace:
        """Return the workspace on a target ("": the project's own tree), connected or not. Raises
        `TaskError`."""
        if not name:
            return self.main
        if self._parts.target is None:
            raise TaskError("targets are not available here")
        if name not in self._targets:
            self._targets[name] = self._with_board(self._parts.target(name))
        return self._targets[name]

    def by_name(self, name: str) -> Workspace:
        """Return the workspace of a worktree by its name ("": the project's own tree). Its folder may be
        missing. Raises `TaskError`."""
        if not name:
            return self.main
        if name not in self._worktrees:
            parts = self.parts()
            try:
                tree = parts.trees.by_name(name)
            except ToolError as error:
                raise TaskError(str(error)) from error
            self._worktrees[name] = self._with_board(parts.workspace(tree))
        return self._worktrees[name]

    def parts(self) -> WorktreeParts:
        """Return the services for worktrees. Raises `TaskError` when there are none."""
        if self._parts.worktrees is None:
            raise TaskError("worktrees are not available here")
        return self._parts.worktrees

    async def make(
        self,
        wanted: str,
        *,
        start: Task | None = None,
        exact: bool = False,
        carrying: bool = False,
        like: Worktree | None = None,
    ) -> tuple[Worktree, str]:
        """Make a worktree from the commit of the workspace of `start`; `carrying` copies the uncommitted
        changes of the main tree. `like`: commit and changes are those of this worktree. Return it with a
        notice for the person. Raises `ToolError`, `TaskError`."""
        place = self.of(start)
        if like is None and place.target:
            raise TaskError(f"a worktree is made on this machine, and the task works on {place.target}")
        beginning = like.path if like is not None else place.boundary.root
        source = like.path if like is not None else self.main.boundary.root
        tree = await self.parts().trees.make(wanted, start=beginning, exact=exact)
        try:
            changed = await self.parts().trees.uncommitted_paths(source)
            # To its end: a cancelled thread would go on writing into the folder that is then removed.
            notice = await run_to_end(asyncio.to_thread(self._fill, tree, source, changed, carrying=carrying))
        except asyncio.CancelledError:
            await run_to_end(self.parts().trees.remove(tree, discard=True))
            raise
        except (ToolError, OSError) as error:
            await self.parts().trees.remove(tree, discard=True)
            raise ToolError(f"the worktree could not be filled: {error}") from error
        return tree, notice

    def _fill(self, tree: Worktree, source: str, changed: tuple[str, ...], *, carrying: bool) -> str:
        notice = self._carry_changes(tree, source, changed, carrying=carrying)
        self.states().begin(tree)
        return notice

    def _carry_changes(self, tree: Worktree, source: str, changed: tuple[str, ...], *, carrying: bool) -> str:
        if not carrying:
            many = format_count(len(changed), "uncommitted change")
            return (
                f"it starts from the last commit, without your {many} (--carry copies them)"
                if changed
                else ""
            )
        left_out = carry(tree, changed, self.main.boundary.home, source=source)
        names = ", ".join(visible(path) for path in left_out[:MAX_NAMED])
        return f"not carried over (secret by name, too large, or no file): {names}" if left_out else ""

    def states(self) -> WorktreeStates:
        """Return the store of worktree states. Raises `TaskError`."""
        return WorktreeStates(self.parts().variables, self.parts().seal)

    async def changes(self, tree: Worktree) -> WorktreeChanges:
        """Return the changes since the worktree was made, one look at a time: two would share git's index.
        Raises `ToolError`, `TaskError`."""
        async with self._looking.setdefault(tree.name, asyncio.Lock()):
            return await asyncio.to_thread(self.states().changes, tree)

    def introduce(self, task: Task) -> tuple[UserMessage, ...]:
        """Return the message that introduces the task's worktree, if its conversation does not have it yet.
        Raises `TaskError` when the worktree is gone, before anything is sent."""
        tree = task.workspace.worktree
        if tree is None:
            return ()
        self._was_removed(task, tree)
        message_id = f"worktree-{tree.name}"  # the same in a copy of the task, which knows it too
        if any(message.id == message_id for message in task.history):
            return ()
        text = _INTRODUCTION.format(path=tree.path, branch=tree.branch, main=tree.main)
        return (UserMessage(message_id, (Text(text),), "instructions"),)

    async def prepare(self, task: Task) -> str:
        """Recreate the task's worktree before a turn if it was removed unchanged; return a notice for the
        person. Raises `TaskError` when it is gone otherwise."""
        tree = task.workspace.worktree
        if tree is None or not self._was_removed(task, tree):
            return ""
        try:
            await self.make(tree.name, exact=True)
        except ToolError as error:
            raise TaskError(f"{tree.display_path} can't be recreated: {error}") from error
        return f"{tree.display_path} was recreated from the main tree's commit"

    def _was_removed(self, task: Task, tree: Worktree) -> bool:
        """Tell whether the worktree was removed because nothing had changed in it. Raises `TaskError` when
        somebody else removed it."""
        missing = self.parts().trees.missing(tree)
        if missing and read_origin(tree) is not None:
            raise TaskError(
                f"{missing}. Its commits are still on that branch; "
                f"/worktree drop {task.task_id} forgets the rest"
            )
        return bool(missing)

    async def clean_up_after(self, task: Task) -> str:
        """Note after a turn what it left in its worktree, and remove an unchanged worktree unless the task is
        in the foreground. Return a notice about the removal, "" otherwise."""
        task.worktree_state = ""
        tree = task.workspace.worktree
        if tree is None or self.parts().trees.missing(tree):
            return ""
        trees = self.parts().trees
        try:
            standing, ignored = await trees.standing(tree), await self._find_ignored(tree)
            if ignored or not standing.is_untouched:
                task.worktree_state = self._describe(tree, standing, task.task_id, ignored)
            elif task.variant is not None and not task.closed:
                return ""  # it would come back from a later commit than the other variants'
            elif (task.background or task.closed) and not self._is_used(task, tree):
                await trees.remove(tree, untouched=True)
                await asyncio.to_thread(self.forget_changes, tree)
                return f"task {task.task_id} changed nothing: its worktree {tree.display_path} is removed"
        except ToolError as error:
            task.worktree_state = f"its worktree {tree.display_path} can't be read: {error}"
        return ""

    async def clean_up(self) -> None:
        """When the board closes, remove unchanged worktrees (the next turn recreates them) and note what is
        in the others."""
        for task in self._tasks.values():
            tree = task.workspace.worktree
            if tree is None or self.parts().trees.missing(tree):
                continue
            with suppress(ToolError):
                standing, ignored = await self.parts().trees.standing(tree), await self._find_ignored(tree)
                untouched = standing.is_untouched and not ignored
                task.worktree_state = (
                    "" if untouched else self._describe(tree, standing, task.task_id, ignored)
                )
                if untouched and not has_running_jobs(task):
                    await self.parts().trees.remove(tree, untouched=True)
                    await asyncio.to_thread(self.forget_changes, tree)

    async def _find_ignored(self, tree: Worktree) -> tuple[str, ...]:
        """Return files that calls wrote in a worktree and git ignores: no commit or merge contains them."""
        written = await asyncio.to_thread(self._find_written, tree)
        return await self.parts().trees.ignored_of(tree, written[:MAX_WRITTEN]) if written else ()

    def forget_changes(self, tree: Worktree) -> int:
        """Drop the undo entries of a removed worktree, so that they do not block others; return their number.
        Blocks."""
        count = 0
        for log in self._logs():
            for entry in (*log.entries(), *log.entries(undone=True)):
                if entry.paths and all(is_beneath(path, tree.path) for path in entry.paths):
                    log.drop(entry)
                    count += 1
        return count

    def forget_missing(self) -> tuple[str, ...]:
        """Do the same for every worktree whose folder somebody removed; return notices for the person.
        Blocks."""
        trees = {task.workspace.worktree for task in self._tasks.values()}
        lost = (tree for tree in trees if tree is not None and not os.path.lexists(tree.path))
        dropped = [(tree, self.forget_changes(tree)) for tree in sorted(lost, key=lambda tree: tree.name)]
        return tuple(
            f"{tree.display_path} is gone: {format_count(count, 'change')} made in it can no longer be undone"
            for tree, count in dropped
            if count
        )

    def _logs(self) -> list[UndoLog]:
        logs = {task.services.find(UndoLog) for task in self._tasks.values()}
        return [log for log in logs if log is not None]

    def _find_written(self, tree: Worktree) -> list[str]:
        entries = [entry for log in self._logs() for entry in log.entries()]
        paths = {file.real for entry in entries for file in entry.files if is_beneath(file.real, tree.path)}
        return sorted(path for path in paths if os.path.lexists(path))

    def _is_used(self, task: Task, tree: Worktree) -> bool:
        """Tell whether another task works in the worktree, or a job still runs."""
        others = (other for other in self._tasks.values() if other is not task and not other.closed)
        return any(other.workspace.worktree == tree for other in others) or has_running_jobs(task)

    def _describe(
        self, tree: Worktree, standing: WorktreeStanding, task_id: int, ignored: tuple[str, ...]
    ) -> str:
        return describe_worktree(tree, standing, task_id, ignored, attended=self._parts.attended)

    def _with_board(self, workspace: Workspace) -> Workspace:
        return replace(workspace, services=self._add_services(workspace.services))


def has_running_jobs(task: Task) -> bool:
    """Tell whether any job still runs."""
    jobs = task.services.find(Jobs)
    return jobs is not None and any(job.state != "ended" for job in jobs.all())


def jobs_in(tree: Worktree, tasks: Iterable[Task]) -> tuple[int, ...]:
    """Return the ids of the running jobs that tasks of a worktree started."""
    ids: set[int] = set()
    for task in tasks:
        jobs = task.services.find(Jobs)
        if task.workspace.worktree == tree and jobs is not None:
            ids |= {job.id for job in jobs.all() if job.task_id == task.task_id and job.state != "ended"}
    return tuple(sorted(ids))


def describe_worktree(
    tree: Worktree,
    standing: WorktreeStanding,
    task_id: int,
    ignored: tuple[str, ...] = (),
    *,
    attended: bool = True,
) -> str:
    """Describe what a worktree holds and what can be done with it. Commands need a session: unless
    `attended`, it has to be opened first."""
    contents = [format_count(len(standing.changed), "changed file")] if standing.changed else []
    contents += [format_count(standing.own, "commit")] if standing.own else []
    advice = (
        f"/worktree diff {task_id} shows them, merge {task_id} applies them here, drop {task_id} removes it"
    )
    if ignored:
        names = ", ".join(map(visible, ignored[:MAX_NAMED])) + (" …" if len(ignored) > MAX_NAMED else "")
        copy_only = f"copy what you need, /worktree drop {task_id} removes it"
        advice = f"copy what you need of what git ignores; {advice}" if contents else copy_only
        contents.append(f"{format_count(len(ignored), 'file')} that git ignores ({names})")
    prefix = "" if attended else "after `buddy resume --last`, "
    return (
        f"{' and '.join(contents)} of task {task_id} in {tree.display_path} (branch {tree.branch}): "
        f"{prefix}{advice}"
    )
