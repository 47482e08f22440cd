"""Listing and searching on another machine, bounded by number, size and time; what was left out is told.

For a search the files are fetched into a private folder, so that the same engine finds the same matches."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

import msgspec

from buddy.agent.display import FileList
from buddy.agent.formatting import format_count
from buddy.agent.tool import ToolContext, ToolError, ToolResult
from buddy.safety.paths import Located
from buddy.safety.sanitise import visible
from buddy.tools.files.change import locate_checked
from buddy.workspace.elsewhere import RemoteStatus, TargetFiles
from buddy.workspace.search.walk import Walked
from buddy.workspace.targets.transport import TargetError

MAX_WALKED = 20_000
"""Files, and folders, of one walk."""
MAX_WALKED_CHARS = 4_000
"""Of a path: folders that hold each other without end are not followed."""
MAX_FETCHED = 2_000
MAX_FETCHED_BYTES = 40_000_000
MAX_FILE_BYTES = 2_000_000
LEFT_OUT = frozenset({".git", ".buddyx", "node_modules", "__pycache__", ".venv"})
"""Folders that are not entered: the ignore rules over there are not read."""
NOT_ENTERED = f"not looked into: folders named {', '.join(sorted(LEFT_OUT))}; ignore files are not read there"


def entries_there(there: TargetFiles, folder: str) -> list[tuple[str, str, int]]:
    """Return the name, kind and size of everything in a folder."""
    return [_entry(there, folder, name, status) for name, status in there.entries(folder)]


def _entry(there: TargetFiles, folder: str, name: str, status: RemoteStatus) -> tuple[str, str, int]:
    if stat.S_ISLNK(status.mode):
        return name, f"link to {visible(there.read_link(f'{folder}/{name}'))}", 0
    if stat.S_ISDIR(status.mode):
        return name, "folder", 0
    return name, "file" if stat.S_ISREG(status.mode) else "special", status.size


class WalkThere(msgspec.Struct):
    """A walk over there: the files with their sizes and times, by paths relative to the folder."""

    files: dict[str, RemoteStatus] = msgspec.field(default_factory=dict[str, RemoteStatus])
    walked: Walked = msgspec.field(default_factory=Walked)


def _walk(there: TargetFiles, top: str, stopped: Callable[[], bool]) -> WalkThere:
    found = WalkThere()
    pending = [""]
    folders = 0
    while pending:
        if stopped() or len(found.files) >= MAX_WALKED or folders >= MAX_WALKED:
            found.walked.whole = False
            break
        prefix = pending.pop()
        folders += 1
        try:
            entries = there.entries(f"{top}/{prefix}".rstrip("/") or "/")
        except TargetError:
            raise
        except ToolError:
            if not prefix:
                raise
            found.walked.unreadable.append(prefix.rstrip("/"))
            continue
        for name, status in entries:
            if stat.S_ISDIR(status.mode):
                if len(pending) >= MAX_WALKED or len(prefix) + len(name) > MAX_WALKED_CHARS:
                    found.walked.whole = False
                elif name not in LEFT_OUT:
                    pending.append(f"{prefix}{name}/")
            elif stat.S_ISREG(status.mode):
                found.files[prefix + name] = status
    found.walked.files = sorted(found.files)
    return found


def _top_of(ctx: ToolContext, there: TargetFiles, path: str) -> tuple[Located, bool]:
    """Return a path to search and whether it is a folder."""
    target = locate_checked(ctx, path)
    status = there.status(target.real)
    if status is None:
        raise ToolError(f"{target.shown} does not exist on {there.name}")
    return target, stat.S_ISDIR(status.mode)


def find_there(
    ctx: ToolContext,
    there: TargetFiles,
    path: str,
    matches: Callable[[str], bool],
    limit: int,
    stopped: Callable[[], bool],
) -> ToolResult:
    """Return files by name, newest first."""
    target, is_folder = _top_of(ctx, there, path)
    if not is_folder:
        raise ToolError(f"{target.shown} is a file; expected a folder to look in")
    found = _walk(there, target.real, stopped)
    prefix = _prefix(target)
    names = [name for name in found.files if matches(name) or matches(prefix + name)]
    names.sort(key=lambda name: (-found.files[name].modified_s, name))
    paths = tuple(visible(prefix + name) for name in names[:limit])
    summary = format_count(len(names), "file") + f" on {there.name}"
    if len(names) > len(paths):
        summary = f"the newest {len(paths):,} of {summary}"
    notes = [] if found.walked.whole else ["not every folder was looked at: use a smaller path"]
    notes.append(NOT_ENTERED)
    text = "\n".join([*paths, f"[{summary}]", *(f"[{note}]" for note in notes)])
    return ToolResult(text, FileList(summary, paths, len(names)))


def _prefix(target: Located) -> str:
    return "" if target.shown == "." else f"{target.shown.rstrip('/')}/"


class FetchedFiles(msgspec.Struct, frozen=True):
    """Files that were fetched for a search. `files` are paths below the folder they were put into, `prefix`
    stands before them; `secret` were left out; `notes` say what else was."""

    target: Located
    prefix: str
    files: tuple[str, ...]
    walked: Walked
    secret: tuple[str, ...]
    notes: tuple[str, ...]


def fetch_there(
    ctx: ToolContext,
    there: TargetFiles,
    path: str,
    wanted: Callable[[str], bool] | None,
    folder: str,
    stopped: Callable[[], bool],
) -> FetchedFiles:
    """Fetch the files to search into a folder of this machine."""
    target, is_folder = _top_of(ctx, there, path)
    if is_folder:
        found, top, prefix = _walk(there, target.real, stopped), target.real, _prefix(target)
    else:
        name = os.path.basename(target.real)
        found, top, prefix = WalkThere(), os.path.dirname(target.real), ""
        status = there.status(target.real)
        found.files |= {name: status} if status is not None else {}
    names = [name for name in sorted(found.files) if wanted is None or wanted(prefix + name)]
    sources = {name: f"{top.rstrip('/')}/{name}" for name in names}
    secret = {name for name in names if is_folder and there.is_secret(sources[name])}
    plain = {name: sources[name] for name in names if name not in secret}
    fetched, notes = _fetch(there, plain, found.files, folder, stopped)
    return FetchedFiles(target, prefix, fetched, found.walked, tuple(sorted(secret)), (*notes, NOT_ENTERED))


def _fetch(
    there: TargetFiles,
    sources: dict[str, str],
    statuses: dict[str, RemoteStatus],
    folder: str,
    stopped: Callable[[], bool],
) -> tuple[tuple[str, ...], list[str]]:
    """Fetch files, from a path over there by name; return those fetched, and notes about the others."""
    fetched: list[str] = []
    large = unreadable = total = 0
    notes: list[str] = []
    for name, real in sources.items():
        size = statuses[name].size
        if size > MAX_FILE_BYTES:
            large += 1
            continue
        if stopped() or len(fetched) >= MAX_FETCHED or total + size > MAX_FETCHED_BYTES:
            reason = "too much to fetch: narrow by path or glob, or use run_shell with grep -rn"
            notes.append(f"only {len(fetched):,} of {len(sources):,} files were searched; {reason}")
            break
        try:
            loaded = there.load(Located(name, real, real, True, name, "", ""), max_bytes=MAX_FILE_BYTES)
            if loaded is not None:
                total += len(loaded.data)
                _keep(os.path.join(folder, name), loaded.data)
                fetched.append(name)
        except TargetError:
            raise
        except (ToolError, OSError):  # not readable there, or a name that this machine's disk can't have
            unreadable += 1
    if unreadable:
        notes.append(f"{format_count(unreadable, 'file')} could not be read or kept, and were not searched")
    if large:
        notes.append(f"{format_count(large, 'file')} over 2 MB were not searched")
    return tuple(fetched), notes


def _keep(path: str, data: bytes) -> None:
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    with open(path, "xb") as file:
        file.write(data)
