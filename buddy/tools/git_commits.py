"""Staging and committing for one task among several: nobody's files go into another one's commit."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Mapping

import msgspec

from buddy.agent.tool import ToolContext, ToolError
from buddy.safety.paths import Boundary, locate
from buddy.safety.sanitise import one_line
from buddy.tools.git import output_of, path_arguments
from buddy.workspace.git.run import GitRun, run_git
from buddy.workspace.git.staging import (
    changed_names,
    committed_paths,
    index_of,
    is_merging,
    put_entries,
    staged_changes,
)
from buddy.workspace.git.staging_record import IndexEntry, StagedFile, StagingRecord
from buddy.workspace.undo.log import UndoLog

MOST_NAMES = 20


class Done(msgspec.Struct, frozen=True):
    """Git's output, and notes for the model."""

    text: str
    seconds: float
    notes: tuple[str, ...] = ()


class TaskCommits:
    """`git add` and `git commit` for the task of a call. Made while the `GitLock` is held."""

    def __init__(self, ctx: ToolContext, run: GitRun, record: StagingRecord) -> None:
        self._ctx = ctx
        self._run = run
        self._record = record
        self._top = run.repository.top

    async def add(self, paths: tuple[str, ...]) -> Done:
        """Stage the named files, and of folders what no other task changed or staged. Raises `ToolError`."""
        arguments, notes = await self._without_foreign(paths, untracked=True)
        if not arguments:
            raise ToolError(f"nothing is staged: {'; '.join(notes)}")
        done = await run_git(self._run, ("add", *arguments), "write")
        text = output_of(done)
        changes = await staged_changes(self._run, arguments)
        self._record.add(
            self._top, self._ctx.task_id, {path: change.index for path, change in changes.items()}
        )
        return Done(text, done.exit.seconds, notes)

    async def commit(self, options: tuple[str, ...], paths: tuple[str, ...]) -> Done:
        """Commit the named files, or the versions this task staged; where it staged nothing, all that no
        other task staged. Raises `ToolError`."""
        if paths:
            return await self._commit_paths(options, paths)
        if is_merging(self._top):
            return await self._commit_index(options)
        changes = await staged_changes(self._run)
        others = self._record.others(self._top, self._ctx.task_id, changes)
        mine = self._record.own(self._top, self._ctx.task_id, changes)
        wanted = mine or {path: change.index for path, change in changes.items() if path not in others}
        if wanted == {path: change.index for path, change in changes.items()}:
            return await self._commit_index(options)
        if not wanted:
            raise ToolError(
                f"this task has staged nothing; {_by_task(others)}. Stage your files with git_add, or name "
                "them as paths"
            )
        async with index_of(self._run, changes, wanted) as apart:
            done = await run_git(apart, ("commit", *options), "write")
            text = output_of(done)
        await self._bring_over(changes, wanted)
        left = {path: others.get(path, []) for path in changes if path not in wanted}
        shared = {path: tasks for path, tasks in others.items() if path in wanted}
        notes = (f"still staged, not in this commit: {_by_task(left)}",) if left else ()
        if shared:
            notes += (f"also staged by another task: {_by_task(shared)}; the commit has your version",)
        return Done(text, done.exit.seconds, notes)

    async def _commit_index(self, options: tuple[str, ...]) -> Done:
        done = await run_git(self._run, ("commit", *options), "write")
        text = output_of(done)
        await self._forget()
        return Done(text, done.exit.seconds)

    async def _commit_paths(self, options: tuple[str, ...], paths: tuple[str, ...]) -> Done:
        arguments, notes = await self._without_foreign(paths, untracked=False)
        if not arguments:
            raise ToolError(f"nothing is committed: {'; '.join(notes)}")
        changes = await staged_changes(self._run, arguments)
        shared = self._record.others(self._top, self._ctx.task_id, changes)
        done = await run_git(self._run, ("commit", *options, *arguments), "write")
        text = output_of(done)
        await self._forget()
        if shared:
            notes += (f"the commit also holds {_by_task(shared)}",)
        return Done(text, done.exit.seconds, notes)

    async def _forget(self) -> None:
        paths = await committed_paths(self._run)
        self._record.forget_committed(self._top, self._ctx.task_id, paths, whole=True)

    async def _bring_over(self, before: Mapping[str, StagedFile], mine: Mapping[str, IndexEntry]) -> None:
        """Forget what was committed, and take what a hook added to the commit into the shared index: there
        it would look like a change that undoes it."""
        paths = await committed_paths(self._run)
        self._record.forget_committed(self._top, self._ctx.task_id, paths, whole=False)
        after = await staged_changes(self._run)
        changed_by_hooks = {
            path: after[path].head
            for path in paths
            if path in after and (path not in before or after[path].index == mine.get(path))
        }
        await put_entries(self._run, changed_by_hooks)

    async def _without_foreign(
        self, paths: tuple[str, ...], *, untracked: bool
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the paths as arguments, folders without the files of other tasks; and what was left out."""
        boundary = self._ctx.service(Boundary)
        located = [locate(boundary, path).path for path in paths if path]
        folders = tuple(path for path in located if os.path.isdir(path) and not os.path.islink(path))
        plain = path_arguments(self._ctx, paths, self._run.repository)
        if not folders:
            return plain, ()
        foreign = self._record.staged_by_others(self._top, self._ctx.task_id)
        foreign |= await asyncio.to_thread(self._files_of_others)
        if not foreign:
            return plain, ()
        names = await changed_names(self._run, ("--", *folders), untracked=untracked)
        left = {name: [foreign[name]] for name in names if name in foreign}
        if not left:
            return plain, ()
        files = [f"{self._top}/{name}" for name in names if name not in foreign]
        files += [path for path in located if path not in folders]
        note = f"left out, as another task changed it: {_by_task(left)}; name a file to take it along"
        return (("--", *files) if files else ()), (note,)

    def _files_of_others(self) -> dict[str, int]:
        """Return files that another task was the last to write, by their path from the top. Reads the undo
        log."""
        log = self._ctx.services.get(UndoLog)
        if not isinstance(log, UndoLog):
            return {}
        top = os.path.realpath(self._top)
        last = {path: entry.task_id for entry in log.entries() for path in entry.paths}
        return {
            os.path.relpath(path, top): task_id
            for path, task_id in last.items()
            if task_id != self._ctx.task_id and path.startswith(f"{top}/")
        }


def _by_task(paths: Mapping[str, Collection[int]]) -> str:
    """`a.txt (task 2), b.txt`; at most some of them."""
    shown = [_path_label(path, tasks) for path, tasks in list(paths.items())[:MOST_NAMES]]
    more = len(paths) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _path_label(path: str, tasks: Collection[int]) -> str:
    name = one_line(path, 120)
    return f"{name} (task {', '.join(map(str, tasks))})" if tasks else name
