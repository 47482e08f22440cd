"""Changing a git repository. One call at a time; hooks and filters the person set up do run, those the
repository brings once the person trusts the folder, and the approval shows which. Of several tasks, nobody's
files go into another one's commit."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

import msgspec

from buddy.agent.display import Command, Plain
from buddy.agent.lazy_regex import pattern
from buddy.agent.tool import Access, Survey, ToolContext, ToolError, ToolResult, any_access, tool
from buddy.safety.paths import Boundary, locate
from buddy.safety.sanitise import one_line
from buddy.tools.git import (
    DIFF_OPTIONS,
    check_ref,
    diff_result,
    git_run,
    is_trusted,
    output_of,
    path_arguments,
    repository_of,
)
from buddy.tools.shell import tail_for_display
from buddy.workspace.git.run import GitKind, GitLock, GitRun, run_git
from buddy.workspace.git.staging import (
    changed_names,
    committed_paths,
    index_of,
    is_merging,
    put_entries,
    staged_changes,
)
from buddy.workspace.git.staging_record import IndexEntry, StagedFile, StagingRecord
from buddy.workspace.git.survey import (
    repository_programs,
    survey_programs,
    survey_restore,
    survey_stash,
    survey_switch,
)
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
        log = self._ctx.find(UndoLog)
        if log is None:
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


REMOTE = pattern(r"[A-Za-z0-9_][A-Za-z0-9._/-]*")
OFF = "they are switched off: you do not trust this folder yet (/trust)"
StashAction = Literal["push", "pop", "apply", "list", "show", "drop"]


def _writes_workspace(_arguments: Any) -> Access:
    return Access(reads=(".",), writes=(".",))


async def _git(ctx: ToolContext, arguments: tuple[str, ...], kind: GitKind = "write") -> ToolResult:
    run = git_run(ctx)
    async with ctx.service(GitLock):
        done = await run_git(run, arguments, kind)
    text = output_of(done)
    command = shlex.join(("git", *arguments))
    display = Command(command, tail_for_display(text), done.exit.code, "", done.exit.seconds)
    return ToolResult(text or f"done: {command[:200]}\n", display)


def _answer(arguments: tuple[str, ...], done: Done) -> ToolResult:
    """Return the result of a git command that succeeded."""
    command = shlex.join(("git", *arguments))
    text = done.text or f"done: {command[:200]}\n"
    text += "".join(f"[{note}]\n" for note in done.notes)
    return ToolResult(text, Command(command, tail_for_display(text), 0, "", done.seconds))


def _preview(arguments_of: Callable[[Any], tuple[str, ...]]) -> Callable[[ToolContext, Any], Plain]:
    def preview(ctx: ToolContext, arguments: Any) -> Plain:
        command = shlex.join(("git", *arguments_of(arguments)))
        return Plain(command, _what_it_runs(ctx))

    return preview


def _what_it_runs(ctx: ToolContext) -> str:
    brings = repository_programs(repository_of(ctx).top)
    if not brings:
        return ""
    return f"{brings}; {'they run' if is_trusted(ctx) else OFF}"


def _survey_programs(boundary: Boundary, _arguments: Any) -> Survey:
    return survey_programs(boundary)


def _survey_checkout(boundary: Boundary, arguments: Any) -> Survey:
    if arguments.paths:
        return survey_restore(boundary, arguments.ref, arguments.paths)
    if arguments.create or not arguments.ref:
        return survey_programs(boundary)
    return survey_switch(boundary, check_ref(arguments.ref))


def _survey_stash(boundary: Boundary, arguments: Any) -> Survey:
    if arguments.action in ("pop", "apply"):
        return survey_stash(boundary, _entry(arguments.index))
    return survey_stash(boundary, "") if arguments.action == "push" else Survey()


def _entry(index: int) -> str:
    return f"stash@{{{max(0, index)}}}"


def _stash_arguments(arguments: Any) -> tuple[str, ...]:
    """Return git's arguments for a stash call, as the approval shows them."""
    match arguments.action:
        case "push":
            return ("stash", "push", *((f"--message={arguments.message}",) if arguments.message else ()))
        case "list":
            return ("stash", "list")
        case action:
            return ("stash", action, _entry(arguments.index))


@tool(
    risk="medium",
    category="git",
    confined=True,
    access=_writes_workspace,
    survey=_survey_programs,
    preview=_preview(lambda arguments: ("add", "--", *arguments.paths)),
    argument_aliases={"files": "paths", "path": "paths", "file": "paths"},
)
async def git_add(ctx: ToolContext, paths: list[str]) -> ToolResult:
    """Stage files, or everything under a folder ("." for the working directory)."""
    if not paths:
        raise ToolError('expected at least one path; give "." for everything in the working directory')
    named = tuple(paths)
    async with ctx.service(GitLock) as lock:
        done = await TaskCommits(ctx, git_run(ctx), lock.record).add(named)
    return _answer(("add", "--", *named), done)


@tool(
    risk="medium",
    category="git",
    confined=True,
    access=_writes_workspace,
    survey=_survey_programs,
    preview=_preview(
        lambda arguments: ("commit", f"--message={arguments.message}", *(arguments.paths or ()))
    ),
    argument_aliases={"msg": "message", "m": "message", "files": "paths", "path": "paths"},
)
async def git_commit(ctx: ToolContext, message: str, paths: list[str] | None = None) -> ToolResult:
    """Commit what you staged with git_add, or exactly the named files. What other tasks or the person staged
    is no part of it; where you staged nothing, the person's staged files are."""
    if not message.strip():
        raise ToolError("the commit message is empty; say what changed and why")
    options, named = ("--no-edit", f"--message={message}"), tuple(paths or ())
    async with ctx.service(GitLock) as lock:
        done = await TaskCommits(ctx, git_run(ctx), lock.record).commit(options, named)
    return _answer(("commit", *options, *named), done)


@tool(
    risk="medium",
    category="git",
    confined=True,
    access=_writes_workspace,
    survey=_survey_checkout,
    preview=_preview(lambda a: ("checkout", *(("-b",) if a.create else ()), a.ref, "--", *(a.paths or ()))),
    aliases=("git_switch",),
    argument_aliases={"branch": "ref", "commit": "ref", "files": "paths", "new": "create"},
)
async def git_checkout(
    ctx: ToolContext, ref: str = "", create: bool = False, paths: list[str] | None = None
) -> ToolResult:
    """Switch to a branch or commit (`ref`), make a branch here and switch to it (`create`), or bring files
    back (`paths`) as they are in the index or in `ref`: their changes are lost."""
    run = git_run(ctx)
    name = (check_ref(ref),) if ref else ()
    if paths:
        if create:
            raise ToolError("expected create or paths, found both; make the branch first")
        return await _git(ctx, ("checkout", *name, *path_arguments(ctx, tuple(paths), run.repository)))
    if not name:
        raise ToolError("expected a branch or commit as ref, or paths to bring back; found neither")
    return await _git(ctx, ("checkout", "-b", *name) if create else ("checkout", *name, "--"))


@tool(
    risk="medium",
    category="git",
    confined=True,
    access=_writes_workspace,
    preview=_preview(_stash_arguments),
    survey=_survey_stash,
)
async def git_stash(
    ctx: ToolContext, action: StashAction = "push", message: str = "", index: int = 0
) -> ToolResult:
    """Put changes aside (push) and bring them back (pop, apply); list, show, drop entries. `index` is the
    entry's number."""
    if action == "show":
        shown_diff = ("stash", "show", "--patch", *DIFF_OPTIONS, _entry(index))
        done = await run_git(git_run(ctx), shown_diff, "read")
        return diff_result(ctx, done, named="", empty="nothing")
    return await _git(ctx, _stash_arguments(_Stash(action, message, index)))


class _Stash(msgspec.Struct, frozen=True):
    action: StashAction
    message: str
    index: int


def _remote(name: str) -> str:
    """Return a configured remote's name; never an address, which could name a program."""
    if not REMOTE().fullmatch(name) or "::" in name or os.path.isabs(name):
        raise ToolError(f"expected the name of a configured remote, found {name[:80]!r}")
    return name


def _push_arguments(arguments: Any) -> tuple[str, ...]:
    upstream = ("--set-upstream",) if arguments.set_upstream else ()
    # Always named: without it the configuration decides, which may say all branches, or none.
    branch = check_ref(arguments.branch, "branch") if arguments.branch else "HEAD"
    if branch.startswith(("+", ":")):
        raise ToolError("a forced push or a deletion is not offered here; use run_shell")
    return ("push", *upstream, _remote(arguments.remote), branch)


def _pull_arguments(arguments: Any) -> tuple[str, ...]:
    how = "--rebase" if arguments.rebase else "--no-rebase"
    branch = (check_ref(arguments.branch, "branch"),) if arguments.branch else ()
    return ("pull", how, "--no-edit", _remote(arguments.remote), *branch)


class _Push(msgspec.Struct, frozen=True):
    remote: str
    branch: str
    set_upstream: bool


class _Pull(msgspec.Struct, frozen=True):
    remote: str
    branch: str
    rebase: bool


@tool(
    risk="high",
    effect="it pushes commits",
    category="git",
    access=any_access,
    preview=_preview(_push_arguments),
    survey=_survey_programs,
)
async def git_push(
    ctx: ToolContext, remote: str = "origin", branch: str = "", set_upstream: bool = False
) -> ToolResult:
    """Push a branch (the current one unless named) to a configured remote. Never forced."""
    return await _git(ctx, _push_arguments(_Push(remote, branch, set_upstream)), "network")


@tool(
    risk="high",
    effect="it pulls commits",
    category="git",
    access=any_access,
    preview=_preview(_pull_arguments),
    survey=_survey_programs,
)
async def git_pull(
    ctx: ToolContext, remote: str = "origin", branch: str = "", rebase: bool = False
) -> ToolResult:
    """Fetch from a configured remote and merge, or rebase onto it."""
    return await _git(ctx, _pull_arguments(_Pull(remote, branch, rebase)), "network")
