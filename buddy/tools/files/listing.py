"""`list_files` and `find_files`: what is in a folder, and files by name."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import Annotated

import msgspec
from msgspec import Meta

from buddy.agent.display import FileList
from buddy.agent.formatting import format_count, format_size
from buddy.agent.tool import ToolContext, ToolError, ToolResult, reads_path, tool
from buddy.safety.paths import Boundary, Located
from buddy.safety.sanitise import visible
from buddy.tools.files.change import locate_checked
from buddy.tools.files.rejections import missing
from buddy.tools.grep import SearchPlace, place_of, search_run
from buddy.workspace.elsewhere import TargetFiles, target_files
from buddy.workspace.files.locks import in_thread
from buddy.workspace.files.store import explain_errors, status_of
from buddy.workspace.search.ignore import IgnoreTree
from buddy.workspace.search.runner import stoppable
from buddy.workspace.search.walk import below, glob_matcher, walk

MAX_ENTRIES = 500
MAX_LOOKED_AT = 100_000


class IgnoreRules(msgspec.Struct, frozen=True):
    """The host's ignore rules for listings. The arguments are a real path and whether it is a folder."""

    ignored: Callable[[str, bool], bool]


NO_RULES = IgnoreRules(lambda _path, _folder: False)


class FolderEntry(msgspec.Struct, frozen=True):
    """One thing in a folder."""

    name: str
    kind: str
    size: int


def list_folder(ctx: ToolContext, target: Located) -> ToolResult:
    """Return the entries of a folder, folders first, with sizes."""
    with explain_errors(f"list {target.shown}"):
        entries, ignored, more = _entries(ctx, target)
    notes = [f"{ignored} ignored"] if ignored else []
    if more:
        notes.append(f"only {MAX_LOOKED_AT:,} were looked at")
    return _render(target.shown, entries, notes)


def list_folder_there(there: TargetFiles, target: Located) -> ToolResult:
    """Return the entries of a folder of another machine."""
    from buddy.tools.files.elsewhere import entries_there  # only with a target

    entries = [FolderEntry(*entry) for entry in entries_there(there, target.real)]
    return _render(f"{target.shown} on {there.name}", entries, [])


def _render(shown: str, entries: list[FolderEntry], more_notes: list[str]) -> ToolResult:
    entries.sort(key=lambda entry: (entry.kind != "folder", entry.name.lower(), entry.name))
    lines = [_line(entry) for entry in entries[:MAX_ENTRIES]]
    notes = [format_count(len(entries), "entry", "entries") if entries else "empty"]
    if len(entries) > MAX_ENTRIES:
        notes.append(f"the first {MAX_ENTRIES} are shown")
    notes += more_notes
    where = f"{shown}: {', '.join(notes)}"
    paths = tuple(entry.name + ("/" if entry.kind == "folder" else "") for entry in entries[:MAX_ENTRIES])
    return ToolResult("\n".join([where, *lines]), FileList(where, paths, len(entries)))


def _entries(ctx: ToolContext, target: Located) -> tuple[list[FolderEntry], int, bool]:
    """Return the entries that are not ignored, how many are, and whether there are more than were looked at.
    A folder that is itself ignored was asked for by name: then nothing in it is left out."""
    rules = ctx.find(IgnoreRules) or IgnoreRules(IgnoreTree(ctx.service(Boundary).root).is_ignored)
    if rules.ignored(target.real, True):
        rules = NO_RULES
    found: list[FolderEntry] = []
    ignored = 0
    with os.scandir(target.real) as entries:
        for entry in entries:
            if len(found) + ignored >= MAX_LOOKED_AT:
                return found, ignored, True
            if rules.ignored(entry.path, entry.is_dir(follow_symlinks=False)):
                ignored += 1
            else:
                found.append(_entry(entry))
    return found, ignored, False


def _entry(entry: os.DirEntry[str]) -> FolderEntry:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return FolderEntry(entry.name, "gone", 0)
    if stat.S_ISLNK(status.st_mode):
        return FolderEntry(entry.name, f"link to {visible(os.readlink(entry.path))}", 0)
    if stat.S_ISDIR(status.st_mode):
        return FolderEntry(entry.name, "folder", 0)
    if stat.S_ISREG(status.st_mode):
        return FolderEntry(entry.name, "file", status.st_size)
    return FolderEntry(entry.name, "special", 0)


def _line(entry: FolderEntry) -> str:
    match entry.kind:
        case "folder":
            return f"{visible(entry.name)}/"
        case "file":
            return f"{visible(entry.name)}  {format_size(entry.size)}"
        case _:
            return f"{visible(entry.name)}  ({entry.kind})"


@tool(
    anywhere=True,
    risk="low",
    category="files",
    access=reads_path,
    aliases=("ls", "list_dir", "list_directory"),
    argument_aliases={"dir": "path", "directory": "path", "dir_path": "path", "file_path": "path"},
    cache_s=30,
)
async def list_files(ctx: ToolContext, path: str = ".") -> ToolResult:
    """List one folder, with sizes: folders first. Ignored entries are only counted. find_files looks in the
    folders below as well."""

    there = target_files(ctx)

    def work() -> ToolResult:
        target = locate_checked(ctx, path)
        if there is not None:
            status = there.status(target.real)
            if status is None or not stat.S_ISDIR(status.mode):
                raise ToolError(f"{target.shown} is no folder on {there.name}")
            return list_folder_there(there, target)
        status = status_of(target.real)
        if status is None:
            raise ToolError(missing(target, ctx.service(Boundary)))
        if not stat.S_ISDIR(status.st_mode):
            raise ToolError(f"{target.shown} is not a folder; read it with read_file")
        return list_folder(ctx, target)

    return await in_thread(work)


MAX_LIMIT = 1000
NEAR = 10


@tool(
    anywhere=True,
    risk="low",
    core=True,
    category="search",
    access=reads_path,
    aliases=("glob", "find", "file_search", "glob_file_search", "find_file"),
    argument_aliases={
        "glob": "pattern",
        "glob_pattern": "pattern",
        "query": "pattern",
        "name": "pattern",
        "directory": "path",
        "dir_path": "path",
        "target_directory": "path",
        "max_results": "limit",
        "head_limit": "limit",
    },
    cache_s=30,
)
async def find_files(
    ctx: ToolContext,
    pattern: Annotated[str, Meta(description='"*.py", "src/**/*.{ts,tsx}"')],
    path: Annotated[str, Meta(description="Folder to look in")] = ".",
    limit: int = 200,
) -> ToolResult:
    """Find files by name, newest first. A pattern without a slash is about the name, in any folder; with one
    about the path below `path`. Ignored files are only counted."""
    if limit < 1:
        raise ToolError(f"limit is {limit}; expected how many paths to give, at least 1")
    there = target_files(ctx)
    if there is not None:
        from buddy.tools.files.elsewhere import find_there  # only with a target

        named, most = glob_matcher(pattern), min(limit, MAX_LIMIT)
        return await stoppable(
            search_run(ctx), lambda stopped: find_there(ctx, there, path, named, most, stopped)
        )
    matches = glob_matcher(below(pattern, ctx.service(Boundary).cwd))
    run = search_run(ctx)

    def work(stopped: Callable[[], bool]) -> ToolResult:
        place = place_of(ctx, path, None, stopped)
        if place.named:
            raise ToolError(f"{place.located.shown} is a file; expected a folder to look in")
        return _answer(place, pattern, matches, min(limit, MAX_LIMIT), stopped)

    return await stoppable(run, work)


def _answer(
    place: SearchPlace, pattern: str, matches: Callable[[str], bool], limit: int, stopped: Callable[[], bool]
) -> ToolResult:
    top, prefix = place.corpus.top, place.prefix

    def both(name: str) -> bool:
        return matches(name) or matches(prefix + name)

    names = (*place.walked.files, *place.walked.links)
    found = [(_modified_ns(f"{top}/{name}"), name) for name in names if both(name)]
    found.sort(key=lambda pair: (-pair[0], pair[1]))
    paths = tuple(visible(prefix + name) for _, name in found[:limit])
    notes: list[str] = []
    if not place.walked.whole:
        notes.append("not every folder was looked at: too many files or too little time; use a smaller path")
    if place.walked.unreadable:
        notes.append(f"{format_count(len(place.walked.unreadable), 'folder')} could not be read")
    total = len(found)
    if not total:
        summary = f"no file matches {visible(pattern)} in {place.located.shown}"
        notes += _near(place, pattern) + _note_ignored(place, both, stopped)
    elif total > len(paths):
        summary = (
            f"the newest {len(paths):,} of {total:,} files; a narrower pattern or limit={total} for more"
        )
    else:
        summary = format_count(total, "file")
    text = "\n".join([*paths, f"[{summary}]" if paths else summary, *(f"[{note}]" for note in notes)])
    return ToolResult(text, FileList(summary, paths, total))


def _near(place: SearchPlace, pattern: str) -> list[str]:
    """Return names that contain what was asked for, where it has no wildcards."""
    wanted = pattern.strip("*/").lower()
    if not wanted or any(sign in wanted for sign in "*?[{"):
        return []
    near = [name for name in place.walked.files if wanted in name.lower()]
    shown = ", ".join(visible(place.prefix + name) for name in near[:NEAR])
    return [f"{len(near)} with {visible(wanted)} in the path: {shown}"] if near else []


def _note_ignored(
    place: SearchPlace, matches: Callable[[str], bool], stopped: Callable[[], bool]
) -> list[str]:
    """Note the number of ignored files that match, with some of their names; no note where there are none."""
    found: list[str] = []
    whole = True
    for name in place.walked.ignored:
        folder = name.rstrip("/")
        if not name.endswith("/"):
            found += [name] if matches(name) else []
        elif os.path.basename(folder) not in (".git", ".buddyx"):
            below = walk(os.path.join(place.corpus.top, folder), None, stopped)
            found += [name + file for file in below.files if matches(name + file)]
            whole = whole and below.whole
    if not found:
        return [] if whole else ["ignored folders were not looked at: too little time"]
    shown = ", ".join(visible(place.prefix + name) for name in found[:NEAR])
    count = format_count(len(found), "ignored file matches", "ignored files match")
    return [f"{count} (name the folder as path): {shown}"]


def _modified_ns(path: str) -> int:
    try:
        return os.lstat(path).st_mtime_ns
    except OSError:
        return 0
