"""The trees in which the tasks of a board work: in the project's own tree, or in worktrees of it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from msgspec.structs import replace

from buddy.agent.formatting import format_count
from buddy.agent.messages import Text, UserMessage, text_of
from buddy.agent.tool import ToolError
from buddy.safety.paths import is_beneath
from buddy.safety.sanitise import visible
from buddy.tasks.dependencies import BoardParts, TaskServices, Workspace, WorktreeParts
from buddy.tasks.task import Task, TaskError
from buddy.workspace.processes.jobs import Jobs
from buddy.workspace.processes.termination import run_to_end
from buddy.workspace.undo.log import UndoLog
from buddy.workspace.worktrees.changes import WorktreeStates, carry
from buddy.workspace.worktrees.worktrees import Worktree, WorktreeStanding, read_origin

_TOLD = (
    "[From here on this conversation works in a git worktree of its own: {path}, on the branch {branch}. "
    "Relative paths start there; {main} lies outside of it. Files you have read before were those of {main}: "
    "read them again before you change them. Your changes stay in the worktree until the person brings them "
    "over.]"
)

MAX_NAMED = 5
MAX_WRITTEN = 1000


class TaskWorkspaces:
    """The workspaces of a board. `given` adds what the board itself has for tasks to their services."""

    def __init__(
        self,
        parts: BoardParts,
        tasks: Mapping[int, Task],
        given: Callable[[Callable[[int], TaskServices]], Callable[[int], TaskServices]],
    ) -> None:
        self._parts = parts
        self._tasks = tasks
        self._given = given
        self.main = self._with_board(parts.workspace)
        self._worktrees: dict[str, Workspace] = {}

    def of(self, task: Task | None, worktree: str = "") -> Workspace:
        """The workspace of a worktree where one is named, else where a task works, else the project's own
        tree. Raises `TaskError`."""
        if worktree:
            return self.named(worktree)
        return task.workspace if task is not None else self.main

    def named(self, name: str) -> Workspace:
        """The workspace of a worktree, by its name ("" is the project's own tree). It may be gone. Raises
        `TaskError`."""
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
        """The parts worktrees are made with. Raises `TaskError` where there are none."""
        if self._parts.worktrees is None:
            raise TaskError("worktrees are not available here")
        return self._parts.worktrees

    async def make(
        self, wanted: str, *, start: Task | None = None, exact: bool = False, carrying: bool = False
    ) -> tuple[Worktree, str]:
        """A new worktree from the commit the workspace of `start` stands on, `carrying` with what is not
        committed in the main tree; and what the person has to know of that. Raises `ToolError`,
        `TaskError`."""
        beginning = self.of(start).boundary.root
        tree = await self.parts().trees.make(wanted, start=beginning, exact=exact)
        try:
            changed = await self.parts().trees.uncommitted_paths()
            # To its end: what a cancelled call still writes would come back into a folder that was removed.
            said = await run_to_end(asyncio.to_thread(self._filled, tree, changed, carrying=carrying))
        except asyncio.CancelledError:
            await run_to_end(self.parts().trees.remove(tree, discard=True))
            raise
        except (ToolError, OSError) as error:
            await self.parts().trees.remove(tree, discard=True)
            raise ToolError(f"the worktree could not be filled: {error}") from error
        return tree, said

    def _filled(self, tree: Worktree, changed: tuple[str, ...], *, carrying: bool) -> str:
        said = self._carried(tree, changed, carrying=carrying)
        self.states().begin(tree)
        return said

    def _carried(self, tree: Worktree, changed: tuple[str, ...], *, carrying: bool) -> str:
        if not carrying:
            many = format_count(len(changed), "uncommitted change")
            return (
                f"it starts from the last commit, without your {many} (--carry takes them along)"
                if changed
                else ""
            )
        left_out = carry(tree, changed, self.main.boundary.home)
        names = ", ".join(visible(path) for path in left_out[:MAX_NAMED])
        return f"not carried over (secret by name, too large, or no file): {names}" if left_out else ""

    def states(self) -> WorktreeStates:
        """The states of worktrees. Raises `TaskError`."""
        return WorktreeStates(self.parts().variables, self.parts().seal)

    def told(self, task: Task) -> tuple[UserMessage, ...]:
        """Return what a conversation has to know of its workspace and has not been told. Raises `TaskError`
        where its worktree is gone: before anything is sent there."""
        tree = task.workspace.worktree
        if tree is None:
            return ()
        self._gone(task, tree)
        text = _TOLD.format(path=tree.path, branch=tree.branch, main=tree.main)
        if any(isinstance(one, UserMessage) and text_of(one) == text for one in task.history):
            return ()
        return (UserMessage(self._parts.clock.new_id(), (Text(text),), "instructions"),)

    async def ready(self, task: Task) -> str:
        """Before a turn: its worktree is there. One that was removed because nothing had changed in it is
        made again; the person is told what is answered. Raises `TaskError` where it is gone otherwise."""
        tree = task.workspace.worktree
        if tree is None or not self._gone(task, tree):
            return ""
        try:
            await self.make(tree.name, exact=True)
        except ToolError as error:
            raise TaskError(f"{tree.display_path} can't be made again: {error}") from error
        return f"{tree.display_path} was made again, from the main tree's commit"

    def _gone(self, task: Task, tree: Worktree) -> bool:
        """Tell whether its worktree was removed because nothing had changed in it. Raises `TaskError` where
        somebody else removed it."""
        missing = self.parts().trees.missing(tree)
        if missing and read_origin(tree) is not None:
            raise TaskError(
                f"{missing}. What was committed in it is on that branch; "
                f"/worktree drop {task.number} forgets the rest"
            )
        return bool(missing)

    async def settled(self, task: Task) -> str:
        """After a turn: what it left in its worktree is noted; nothing but a task in front keeps one without
        changes. What there is to say of one that went, "" where none did."""
        task.left = ""
        tree = task.workspace.worktree
        if tree is None or self.parts().trees.missing(tree):
            return ""
        trees = self.parts().trees
        try:
            standing, ignored = await trees.standing(tree), await self._ignored(tree)
            if ignored or not standing.is_untouched:
                task.left = self._left_in(tree, standing, task.number, ignored)
            elif (task.background or task.closed) and not self._is_used(task, tree):
                await trees.remove(tree, untouched=True)
                await asyncio.to_thread(self.forget_changes, tree)
                return f"task {task.number} changed nothing: its worktree {tree.display_path} is removed"
        except ToolError as error:
            task.left = f"its worktree {tree.display_path} can't be read: {error}"
        return ""

    async def tidied(self) -> None:
        """When the board closes: worktrees nothing was changed in go, until the next turn makes them again;
        what stands in the others is noted."""
        for task in self._tasks.values():
            tree = task.workspace.worktree
            if tree is None or self.parts().trees.missing(tree):
                continue
            with suppress(ToolError):
                standing, ignored = await self.parts().trees.standing(tree), await self._ignored(tree)
                untouched = standing.is_untouched and not ignored
                task.left = "" if untouched else self._left_in(tree, standing, task.number, ignored)
                if untouched and not jobs_run(task):
                    await self.parts().trees.remove(tree, untouched=True)
                    await asyncio.to_thread(self.forget_changes, tree)

    async def _ignored(self, tree: Worktree) -> tuple[str, ...]:
        """Files that calls wrote in a worktree and git ignores: no commit and no merge has them."""
        found = await asyncio.to_thread(self._written, tree)
        return await self.parts().trees.ignored_of(tree, found[:MAX_WRITTEN]) if found else ()

    def forget_changes(self, tree: Worktree) -> int:
        """Its worktree is gone: what calls changed there can't be taken back or applied again, and must not
        stand in the way of what can. How many changes that were. Blocks."""
        count = 0
        for log in self._logs():
            for entry in (*log.entries(), *log.entries(undone=True)):
                if entry.paths and all(is_beneath(path, tree.path) for path in entry.paths):
                    log.drop(entry)
                    count += 1
        return count

    def forget_lost(self) -> tuple[str, ...]:
        """The same for every worktree whose folder somebody removed; what the person has to know. Blocks."""
        trees = {task.workspace.worktree for task in self._tasks.values()}
        lost = (tree for tree in trees if tree is not None and not os.path.lexists(tree.path))
        found = [(tree, self.forget_changes(tree)) for tree in sorted(lost, key=lambda tree: tree.name)]
        return tuple(
            f"{tree.display_path} is gone: {format_count(count, 'change')} made in it can no longer be undone"
            for tree, count in found
            if count
        )

    def _logs(self) -> list[UndoLog]:
        logs = {task.services.services.get(UndoLog) for task in self._tasks.values()}
        return [log for log in logs if isinstance(log, UndoLog)]

    def _written(self, tree: Worktree) -> list[str]:
        entries = [entry for log in self._logs() for entry in log.entries()]
        paths = {file.real for entry in entries for file in entry.files if is_beneath(file.real, tree.path)}
        return sorted(path for path in paths if os.path.lexists(path))

    def _is_used(self, task: Task, tree: Worktree) -> bool:
        """Tell whether another task works in it, or a job still runs."""
        others = (one for one in self._tasks.values() if one is not task and not one.closed)
        return any(one.workspace.worktree == tree for one in others) or jobs_run(task)

    def _left_in(
        self, tree: Worktree, standing: WorktreeStanding, number: int, ignored: tuple[str, ...]
    ) -> str:
        return left_in(tree, standing, number, ignored, attended=self._parts.attended)

    def _with_board(self, workspace: Workspace) -> Workspace:
        return replace(workspace, services=self._given(workspace.services))


def jobs_run(task: Task) -> bool:
    """Tell whether a job of any task still runs."""
    jobs = task.services.services.get(Jobs)
    return isinstance(jobs, Jobs) and any(job.state != "ended" for job in jobs.all())


def jobs_in(tree: Worktree, tasks: Iterable[Task]) -> tuple[int, ...]:
    """The numbers of the jobs that tasks of a worktree left running."""
    found: set[int] = set()
    for task in tasks:
        jobs = task.services.services.get(Jobs)
        if task.workspace.worktree == tree and isinstance(jobs, Jobs):
            found |= {job.id for job in jobs.all() if job.task_id == task.number and job.state != "ended"}
    return tuple(sorted(found))


def left_in(
    tree: Worktree,
    standing: WorktreeStanding,
    number: int,
    ignored: tuple[str, ...] = (),
    *,
    attended: bool = True,
) -> str:
    """Say what a worktree holds, and what can be done with it. Commands are typed in the session: where it is
    not `attended` it has to be opened first."""
    what = [format_count(len(standing.changed), "changed file")] if standing.changed else []
    what += [format_count(standing.own, "commit")] if standing.own else []
    can = f"/worktree diff {number} shows them, merge {number} brings them over, drop {number} removes it"
    if ignored:
        names = ", ".join(map(visible, ignored[:MAX_NAMED])) + (" …" if len(ignored) > MAX_NAMED else "")
        alone = f"copy what you need, /worktree drop {number} removes it"
        can = f"copy what you need of what git ignores; {can}" if what else alone
        what.append(f"{format_count(len(ignored), 'file')} that git ignores ({names})")
    where = "" if attended else "after `buddy resume --last`, "
    return (
        f"{' and '.join(what)} of task {number} in {tree.display_path} (branch {tree.branch}): {where}{can}"
    )
