"""Staged files as git lists them, and an index of its own for a commit that takes only some of them.

git has one index for each working tree. A commit of one task is made from a copy that holds HEAD and just the
versions the task staged; the shared index is not written, so whatever else is staged there stays so.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager

import msgspec

from buddy.agent.tool import ToolError
from buddy.safety.git_repository import git_folders
from buddy.workspace.git.run import GitRun, run_git
from buddy.workspace.git.staging_record import NO_MODE, IndexEntry, StagedFile
from buddy.workspace.processes.output import OutputBounds
from buddy.workspace.processes.pool import FinishedCommand

UNFINISHED = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")
"""In the folder of git while a commit must hold the whole index."""
LISTING = OutputBounds(head_bytes=32 * 1024 * 1024)
ENTRIES_AT_ONCE = 500


async def staged_changes(run: GitRun, arguments: tuple[str, ...] = ()) -> dict[str, StagedFile]:
    """Return the staged files, by their path from the top of the working tree; `arguments`: the ones to look
    at, after `--`. Raises `ToolError`."""
    plain = ("diff-index", "--cached", "--raw", "-z", "--no-renames", "--abbrev=64", "HEAD", *arguments)
    if await _has_commit(run):
        return dict(_raw_changes((await _read(run, plain)).text))
    listed = (await _read(run, ("ls-files", "--stage", "--full-name", "-z", *arguments))).text
    return dict(_first_entries(listed))


async def changed_names(run: GitRun, arguments: tuple[str, ...], *, untracked: bool) -> tuple[str, ...]:
    """Return the files that differ from HEAD, and those not tracked where asked for, by their path from the
    top; `arguments`: the ones to look at, after `--`. Raises `ToolError`."""
    changed = ("diff-index", "--name-only", "--no-renames", "-z", "HEAD", *arguments)
    added = ("ls-files", "--full-name", "-z", *arguments)
    names = (await _read(run, changed if await _has_commit(run) else added)).text.split("\0")
    if untracked:
        more = ("ls-files", "--full-name", "-z", "--others", "--exclude-standard", *arguments)
        names += (await _read(run, more)).text.split("\0")
    return tuple(dict.fromkeys(filter(None, names)))


def is_merging(top: str) -> bool:
    """Tell whether a merge, a rebase or the like is under way: its commit is the whole index."""
    folder = git_folders(top)[0]
    return any(os.path.lexists(os.path.join(folder, name)) for name in UNFINISHED)


@asynccontextmanager
async def index_of(
    run: GitRun, changes: Mapping[str, StagedFile], wanted: Mapping[str, IndexEntry]
) -> AsyncGenerator[GitRun]:
    """Yield a git with its own index: the shared one, with only `wanted` among the staged files."""
    import shutil  # here: 2 ms, with the compressors it knows, that a start need not pay

    folder = git_folders(run.repository.top)[0]
    index = os.path.join(folder, f"buddy-{run.task_id}-{os.urandom(4).hex()}.index")
    try:
        with contextlib.suppress(FileNotFoundError):
            import shutil  # here: 2 ms that only staging for a task needs

            shutil.copyfile(os.path.join(folder, "index"), index)
        apart = msgspec.structs.replace(run, index=index)
        entries = {path: change.head for path, change in changes.items()} | dict(wanted)
        await put_entries(apart, entries)
        yield apart
    except OSError as error:
        raise ToolError(f"the index for this commit cannot be written: {error}") from error
    finally:
        for path in (index, f"{index}.lock"):
            with contextlib.suppress(OSError):
                os.unlink(path)


async def put_entries(run: GitRun, entries: Mapping[str, IndexEntry]) -> None:
    """Write versions of files into the index. Raises `ToolError`."""
    top = msgspec.structs.replace(
        run, repository=msgspec.structs.replace(run.repository, cwd=run.repository.top)
    )
    items = list(entries.items())
    for at in range(0, len(items), ENTRIES_AT_ONCE):
        batch = items[at : at + ENTRIES_AT_ONCE]
        arguments = [word for path, entry in batch for word in _index_arguments(path, entry)]
        done = await run_git(top, ("update-index", "--replace", *arguments), "inert")
        if not done.ok:
            raise ToolError(f"git cannot prepare the commit: {done.text.strip()[:500]}")


def _index_arguments(path: str, entry: IndexEntry) -> tuple[str, ...]:
    if entry.mode == NO_MODE:
        return ("--force-remove", path)
    return ("--add", "--cacheinfo", f"{entry.mode},{entry.blob},{path}")


async def committed_paths(run: GitRun) -> tuple[str, ...]:
    """Return the files that the newest commit changes. Raises `ToolError`."""
    command = ("diff-tree", "-r", "--root", "--no-commit-id", "--name-only", "--no-renames", "-z", "HEAD")
    return tuple(filter(None, (await _read(run, command)).text.split("\0")))


async def _has_commit(run: GitRun) -> bool:
    return (await run_git(run, ("rev-parse", "--verify", "--quiet", "HEAD^{commit}"), "read")).ok


async def _read(run: GitRun, command: tuple[str, ...]) -> FinishedCommand:
    done = await run_git(msgspec.structs.replace(run, bounds=LISTING), command, "read")
    if not done.ok:
        raise ToolError(f"git failed: {done.text.strip()[:500]}")
    if "\ufffd" in done.text:
        raise ToolError("a staged file has a name that is not UTF-8; use git in run_shell for it")
    return done


def _raw_changes(text: str) -> Iterator[tuple[str, StagedFile]]:
    """`:MODE MODE BLOB BLOB STATUS`, path, and so on, as `diff-index --raw -z` writes them."""
    fields = iter(text.split("\0"))
    for head in fields:
        if head:
            old_mode, mode, old_blob, blob, _ = head[1:].split(" ")
            yield next(fields), StagedFile(IndexEntry(old_mode, old_blob), IndexEntry(mode, blob))


def _first_entries(text: str) -> Iterator[tuple[str, StagedFile]]:
    """`MODE BLOB STAGE<TAB>PATH`, as `ls-files --stage -z` writes them; nothing is in HEAD yet."""
    for line in filter(None, text.split("\0")):
        facts, _, path = line.partition("\t")
        mode, blob, _ = facts.split(" ")
        yield path, StagedFile(IndexEntry(NO_MODE, "0" * len(blob)), IndexEntry(mode, blob))
