"""Running git: one trusted binary, the repository's own programs switched off, one writer at a time."""

from __future__ import annotations

import asyncio
import os
from types import TracebackType
from typing import Literal

import msgspec

from buddy.agent.tool import ToolError
from buddy.safety.git_programs import names_file
from buddy.safety.git_repository import file_outside, files_that_wait, git_folders, repository_around
from buddy.safety.sanitise import visible
from buddy.workspace.git.config import (
    CONFIG_LIMIT_S,
    Setting,
    guarded_options,
    inert_options,
    list_command,
    parse_settings,
    quiet_options,
)
from buddy.workspace.git.staging_record import StagingRecord
from buddy.workspace.git.waiting import end_when_waiting
from buddy.workspace.processes.launch import trusted_program
from buddy.workspace.processes.output import OutputBounds
from buddy.workspace.processes.pool import ChildProcesses, CommandRequest, FinishedCommand
from buddy.workspace.processes.termination import run_to_end
from buddy.workspace.sandbox.profile import Confinement

GitKind = Literal["read", "write", "network", "inert"]
"""`inert` writes as well, for buddy itself: no hook and no filter runs with it, not even the person's."""
LIMIT_S: dict[GitKind, float] = {"read": 30.0, "write": 300.0, "network": 300.0, "inert": 300.0}
FINISH_S: dict[GitKind, float] = {"read": 0.0, "write": 3.0, "network": 1.0, "inert": 3.0}
"""How long a cancelled git may go on: ended in the middle of a stash or checkout it leaves files missing."""


class RepositoryTrust(msgspec.Struct, frozen=True):
    """The user's trust in the folder: hooks and filters of its repository may run only when it is trusted."""

    trusted: bool


class GitLock:
    """Held by whoever changes a repository, so that two tasks never meet at its index lock. Readers take no
    lock: they run with `GIT_OPTIONAL_LOCKS=0`. `record` is for the holder: which task staged what."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self.record = StagingRecord()

    async def __aenter__(self) -> GitLock:
        await self._lock.acquire()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()


class Repository(msgspec.Struct, frozen=True):
    """A repository and the place in it where git runs. `top` holds `.git`; `cwd` is beneath it; `workspace`
    limits the visible part; `main` is the main tree when this is a worktree, "" otherwise."""

    top: str
    cwd: str
    workspace: str
    main: str = ""

    @property
    def scope(self) -> tuple[str, ...]:
        """Path arguments that keep a command inside the workspace when the repository is larger."""
        inside = self.top == self.workspace or self.top.startswith(self.workspace.rstrip("/") + "/")
        return () if inside else (self.workspace,)


class GitRun(msgspec.Struct, frozen=True):
    """Settings for running git: the child processes and the event that stops it. `trusted`: hooks and filters
    of the repository may run; `bounds`: limits on its output, None for the usual ones; `index`: an index file
    other than the working tree's; `stays_inside`: git is not run when the configuration makes it read files
    outside; `confinement`: the sandbox for a git that runs programs of the repository."""

    children: ChildProcesses
    repository: Repository
    task_id: int
    cancelled: asyncio.Event
    bounds: OutputBounds | None = None
    confinement: Confinement | None = None
    trusted: bool = False
    index: str = ""
    stays_inside: bool = False


def find_repository(cwd: str, workspace: str, main: str = "") -> Repository:
    """Find the repository of a folder: the one git uses, whatever its configuration says about another place.
    Raises `ToolError` without one."""
    folder, _ = repository_around(cwd)
    if not folder:
        raise ToolError(f"expected a git repository, found no .git in {cwd} or above; git init makes one")
    return Repository(folder, cwd, workspace, main)


async def run_git(run: GitRun, arguments: tuple[str, ...], kind: GitKind) -> FinishedCommand:
    """Run one git command to its end. What one that reads says on the side is in `remarks`, and in the text
    only when it failed. Raises `ToolError` when git is missing or takes too long."""
    git = _program(run)
    _check_files(run.repository)
    if kind in ("read", "inert"):
        settings = parse_settings(await _configuration(run, git))
        if run.stays_inside:
            _check_named_files(settings, run.repository)
        options = inert_options(settings)
    elif run.trusted:
        options = quiet_options()
    else:
        options = guarded_options(parse_settings(await _configuration(run, git)), run.repository.top)
    argv = (git, "--no-pager", f"--work-tree={run.repository.top}", *options, *arguments)
    finished = await _run(run, argv, kind, LIMIT_S[kind])
    if finished.timed_out:
        raise ToolError(
            f"git {arguments[0]} was stopped after {LIMIT_S[kind]:.0f} s. Its output:\n{finished.text}"
        )
    return finished


def _check_files(repository: Repository) -> None:
    pointer = os.path.join(repository.top, ".git")
    for folder in dict.fromkeys((pointer, *git_folders(repository.top))):
        waiting = files_that_wait(repository.cwd, repository.top, folder)
        if waiting:
            raise ToolError(
                f"expected a file, found a pipe or a device that git would wait for: {visible(waiting[0])}"
            )


def _check_named_files(settings: tuple[Setting, ...], repository: Repository) -> None:
    """Raise `ToolError` where the repository's configuration names a file outside for git to read."""
    for setting in settings:
        if setting.is_own and names_file(setting.key) and file_outside(setting.value, repository.top):
            raise ToolError(
                "git is not run here: the repository's configuration makes it read a file outside, "
                f"{visible(setting.key)} = {visible(setting.value[:200])}; remove the line or trust the "
                "folder (/trust)"
            )


def _program(run: GitRun) -> str:
    path = run.children.environment.variables.get("PATH", "")
    found = trusted_program("git", path, run.repository.main or run.repository.workspace)
    if found is None:
        raise ToolError("expected git among the installed programs, found none; install git")
    return found


async def _configuration(run: GitRun, git: str) -> str:
    listing = await _run(run, list_command(git), "read", CONFIG_LIMIT_S)
    if not listing.ok or ("\0" not in listing.text and listing.text):
        raise ToolError(f"git cannot read the repository's configuration: {listing.text[:500]}")
    if listing.bytes_written > len(listing.text.encode("utf-8", "replace")):
        raise ToolError("the repository's git configuration is too long to be judged; look at .git/config")
    return listing.text


async def _run(run: GitRun, argv: tuple[str, ...], kind: GitKind, limit_s: float) -> FinishedCommand:
    request = CommandRequest(
        argv,
        run.repository.cwd,
        run.task_id,
        env=_environment(run, kind),
        limited=False,
        bounds=run.bounds,
        confinement=run.confinement if kind == "write" else None,
    )
    if kind == "read":
        reading = run.children.run_apart(request, timeout_s=limit_s, cancelled=run.cancelled)
        done = await end_when_waiting(reading, run.repository.top)
        return done if done.ok else msgspec.structs.replace(done, text=done.remarks + done.text)
    stop = asyncio.Event()
    writing = run.children.run(request, timeout_s=limit_s, cancelled=stop)
    working = asyncio.ensure_future(end_when_waiting(writing, run.repository.top))
    waiter = asyncio.ensure_future(run.cancelled.wait())
    try:
        await asyncio.wait({working, waiter}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiter.cancel()
        if not working.done():
            await run_to_end(_wait_for_writer(working, stop, FINISH_S[kind]))
    if run.cancelled.is_set():
        raise asyncio.CancelledError
    return working.result()


async def _wait_for_writer(
    working: asyncio.Future[FinishedCommand], stop: asyncio.Event, within_s: float
) -> None:
    """Let a git that writes come to its end before it is ended."""
    await asyncio.wait({working}, timeout=within_s)
    if not working.done():
        stop.set()
        await asyncio.wait({working})
    if not working.cancelled():
        working.exception()  # looked at, so that it is not reported as lost


def _environment(run: GitRun, kind: GitKind) -> dict[str, str]:
    found = {"LC_ALL": "C.UTF-8", "LANGUAGE": "C", "GIT_LITERAL_PATHSPECS": "1", "GIT_EDITOR": "false"}
    if run.index:
        found["GIT_INDEX_FILE"] = run.index
    match kind:
        case "read":
            # No transport at all: a partial clone would otherwise fetch what is missing, by programs of
            # the repository's choosing.
            found |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}
        case "inert":
            found |= {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}
        case "write":
            pass
        case "network":
            agent = run.children.environment.variables.get("SSH_AUTH_SOCK", "")
            found |= {"SSH_AUTH_SOCK": agent} if agent else {}
    return found
