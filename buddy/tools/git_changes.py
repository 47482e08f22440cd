"""Changing a git repository. One call at a time; hooks and filters the person set up do run, and the approval
shows which the repository brings."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from buddy.agent.display import Command, Plain
from buddy.agent.pattern import pattern
from buddy.agent.tool import Access, ToolContext, ToolError, ToolResult, any_access, tool
from buddy.tools.git import (
    DIFF_OPTIONS,
    checked_ref,
    diff_result,
    git_run,
    path_arguments,
    repository_of,
    succeeded,
)
from buddy.tools.shell import shown
from buddy.workspace.git import GitKind, GitLock, run_git
from buddy.workspace.git_config import active_hooks, executing_keys

REMOTE = pattern(r"[A-Za-z0-9_][A-Za-z0-9._/-]*")
StashAction = Literal["push", "pop", "apply", "list", "show", "drop"]


def _writes_workspace(_arguments: Any) -> Access:
    return Access(reads=(".",), writes=(".",))


async def _git(ctx: ToolContext, arguments: tuple[str, ...], kind: GitKind = "write") -> ToolResult:
    run = git_run(ctx)
    async with ctx.service(GitLock):
        done = await run_git(run, arguments, kind)
    text = succeeded(done)
    command = shlex.join(("git", *arguments))
    display = Command(command, shown(text), done.exit.code, "", done.exit.seconds)
    return ToolResult(text or f"done: {command[:200]}\n", display)


def _preview(arguments_of: Callable[[Any], tuple[str, ...]]) -> Callable[[ToolContext, Any], Plain]:
    def preview(ctx: ToolContext, arguments: Any) -> Plain:
        command = shlex.join(("git", *arguments_of(arguments)))
        return Plain(command, _what_it_runs(ctx))

    return preview


def _what_it_runs(ctx: ToolContext) -> str:
    top = repository_of(ctx).top
    keys, hooks = executing_keys(top), active_hooks(top)
    lines = [f"the repository's configuration runs programs: {', '.join(keys)}"] if keys else []
    lines += [f"hooks that may run: {', '.join(hooks)}"] if hooks else []
    return "\n".join(lines)


def _plain_paths(paths: list[str]) -> tuple[str, ...]:
    if not paths:
        raise ToolError('expected at least one path; give "." for everything in the working directory')
    return tuple(paths)


@tool(
    risk="medium",
    category="git",
    access=_writes_workspace,
    preview=_preview(lambda arguments: ("add", "--", *arguments.paths)),
    argument_aliases={"files": "paths", "path": "paths", "file": "paths"},
)
async def git_add(ctx: ToolContext, paths: list[str]) -> ToolResult:
    """Stage files, or everything under a folder ("." for the working directory)."""
    run = git_run(ctx)
    return await _git(ctx, ("add", *path_arguments(ctx, _plain_paths(paths), run.repository)))


@tool(
    risk="medium",
    category="git",
    access=_writes_workspace,
    preview=_preview(
        lambda arguments: ("commit", f"--message={arguments.message}", *(arguments.paths or ()))
    ),
    argument_aliases={"msg": "message", "m": "message", "files": "paths", "path": "paths"},
)
async def git_commit(ctx: ToolContext, message: str, paths: list[str] | None = None) -> ToolResult:
    """Commit what is staged, or exactly the named files."""
    if not message.strip():
        raise ToolError("the commit message is empty; say what changed and why")
    run = git_run(ctx)
    named = path_arguments(ctx, tuple(paths), run.repository) if paths else ()
    return await _git(ctx, ("commit", "--no-edit", f"--message={message}", *named))


@tool(
    risk="medium",
    category="git",
    access=_writes_workspace,
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
    name = (checked_ref(ref),) if ref else ()
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
    access=_writes_workspace,
    preview=_preview(lambda arguments: ("stash", arguments.action)),
)
async def git_stash(
    ctx: ToolContext, action: StashAction = "push", message: str = "", index: int = 0
) -> ToolResult:
    """Put changes aside (push) and bring them back (pop, apply); list, show, drop entries. `index` is the
    entry's number."""
    entry = f"stash@{{{max(0, index)}}}"
    match action:
        case "push":
            note = (f"--message={message}",) if message else ()
            return await _git(ctx, ("stash", "push", *note))
        case "list":
            return await _git(ctx, ("stash", "list"))
        case "show":
            done = await run_git(git_run(ctx), ("stash", "show", "--patch", *DIFF_OPTIONS, entry), "read")
            return diff_result(ctx, done, named="", empty="nothing")
        case "pop" | "apply" | "drop":
            return await _git(ctx, ("stash", action, entry))


def _remote(name: str) -> str:
    """A configured remote's name; never an address, which could name a program."""
    if not REMOTE().fullmatch(name) or "::" in name or os.path.isabs(name):
        raise ToolError(f"expected the name of a configured remote, found {name[:80]!r}")
    return name


def _push_arguments(arguments: Any) -> tuple[str, ...]:
    upstream = ("--set-upstream",) if arguments.set_upstream else ()
    # Always named: without it the configuration decides, which may say all branches, or none.
    branch = checked_ref(arguments.branch, "branch") if arguments.branch else "HEAD"
    if branch.startswith(("+", ":")):
        raise ToolError("a forced push or a deletion is not offered here; use run_shell")
    return ("push", *upstream, _remote(arguments.remote), branch)


def _pull_arguments(arguments: Any) -> tuple[str, ...]:
    how = "--rebase" if arguments.rebase else "--no-rebase"
    branch = (checked_ref(arguments.branch, "branch"),) if arguments.branch else ()
    return ("pull", how, "--no-edit", _remote(arguments.remote), *branch)


class _Push(msgspec.Struct, frozen=True):
    remote: str
    branch: str
    set_upstream: bool


class _Pull(msgspec.Struct, frozen=True):
    remote: str
    branch: str
    rebase: bool


@tool(risk="high", category="git", access=any_access, preview=_preview(_push_arguments))
async def git_push(
    ctx: ToolContext, remote: str = "origin", branch: str = "", set_upstream: bool = False
) -> ToolResult:
    """Push a branch (the current one unless named) to a configured remote. Never forced."""
    return await _git(ctx, _push_arguments(_Push(remote, branch, set_upstream)), "network")


@tool(risk="high", category="git", access=any_access, preview=_preview(_pull_arguments))
async def git_pull(
    ctx: ToolContext, remote: str = "origin", branch: str = "", rebase: bool = False
) -> ToolResult:
    """Fetch from a configured remote and merge, or rebase onto it."""
    return await _git(ctx, _pull_arguments(_Pull(remote, branch, rebase)), "network")
