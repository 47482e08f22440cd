"""Named pipes in the place of files that git reads: git would wait for them without end.

Looking for them before every command would mean a walk through the tree. A git that has not ended after
`SLOW_S` is the only one that may be waiting, so the walk happens then.
"""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
from collections.abc import Coroutine, Iterator
from typing import TypeVar

from buddy.agent.tool import ToolError
from buddy.safety.git_repository import IN_FOLDERS, IN_GIT_FOLDER, git_folders, read_regular
from buddy.safety.sanitise import visible

SLOW_S = 1.0
MAX_ENTRIES = 300_000
"""About two seconds of walking."""

_TREE_NAMES = frozenset(IN_FOLDERS)
_GIT_NAMES = frozenset({*IN_GIT_FOLDER, "MERGE_HEAD", "FETCH_HEAD", "ORIG_HEAD", "gitdir", ".git"})
_GIT_FOLDERS = ("refs", "objects", "logs", "info", "modules", "worktrees")
"""Folders of git's data; a pipe elsewhere beneath `.git` belongs to another program."""

Result = TypeVar("Result")


class WaitingError(Exception):
    """Git waits for the named pipe at `path`."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


def find_waiting(top: str, max_entries: int = MAX_ENTRIES) -> str:
    """Return the first pipe or device that git would read as a file in a working tree, "" for none. Walks
    the repository's data, then the tree; ends after `max_entries`. Blocks for as long as that takes."""
    folders = dict.fromkeys((os.path.join(top, ".git"), *git_folders(top)))
    return next(_pipes((*folders, top), max_entries), "")


def waits(path: str) -> bool:
    """Tell whether opening a path would block, as a named pipe does until somebody writes into it."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return False
    if stat.S_ISCHR(status.st_mode):
        return status.st_rdev != os.stat(os.devnull).st_rdev  # people link ignore files to /dev/null
    return stat.S_ISFIFO(status.st_mode)


def describe_waiting(path: str, top: str) -> str:
    """Return the sentence about such a path, relative to the working tree where it lies inside."""
    name = path.removeprefix(top.rstrip("/") + "/")
    return f"{visible(name)} is a named pipe or a device, and git would wait for it without end; remove it"


def communicate(
    process: subprocess.Popen[bytes], top: str, limit_s: float, given: bytes = b""
) -> tuple[bytes, bytes]:
    """Return both outputs of a started git. Raises `WaitingError`, or `TimeoutExpired` after `limit_s`; the
    caller ends the process then."""
    try:
        return process.communicate(given, timeout=min(SLOW_S, limit_s))
    except subprocess.TimeoutExpired:
        path = find_waiting(top)
        if path:
            raise WaitingError(path) from None
        if limit_s <= SLOW_S:
            raise
    return process.communicate(timeout=limit_s - SLOW_S)


async def end_when_waiting(work: Coroutine[None, None, Result], top: str) -> Result:
    """Await a git in `work`; cancel it and raise `ToolError` when it waits for a pipe."""
    working = asyncio.ensure_future(work)
    try:
        await asyncio.wait({working}, timeout=SLOW_S)
        path = "" if working.done() else await asyncio.to_thread(find_waiting, top)
        if path and not working.done():
            raise ToolError(
                "git was ended: expected a file, found a named pipe or a device that git would wait for: "
                f"{visible(path.removeprefix(top.rstrip('/') + '/'))}; remove it"
            )
        return await working
    finally:
        if not working.done():
            working.cancel()
            await asyncio.wait({working})


def _pipes(roots: tuple[str, ...], max_entries: int) -> Iterator[str]:
    """Yield the pipes of git folders and of working trees. Each pending folder carries the git folder it
    belongs to, "" in a working tree."""
    pending = [(root, root if _is_data(root) else "") for root in reversed(roots)]
    seen: set[str] = set()
    entries_left = max_entries
    while pending and entries_left > 0:
        folder, data = pending.pop()
        if folder in seen:
            continue
        seen.add(folder)
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    entries_left -= 1
                    if entry.is_dir(follow_symlinks=False):
                        inner = data or (entry.path if entry.name == ".git" else "")
                        if not data or _is_gits(entry.path, data):
                            pending.append((entry.path, inner))
                        continue
                    is_read = _is_gits(entry.path, data) if data else entry.name in _TREE_NAMES
                    if is_read and not entry.is_file(follow_symlinks=False) and waits(entry.path):
                        yield entry.path
        except OSError:
            continue  # git can't read an unreadable folder either


def _is_data(folder: str) -> bool:
    return os.path.basename(folder) == ".git" or bool(read_regular(os.path.join(folder, "HEAD"), 1))


def _is_gits(path: str, data: str) -> bool:
    """Tell whether a path in a git folder is one that git itself reads."""
    name = path[len(data) + 1 :]
    return name in _GIT_NAMES or name.partition("/")[0] in _GIT_FOLDERS
