"""`find_files`: files by name, newest first."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Annotated, Any

from msgspec import Meta

from buddy.agent.counting import counted
from buddy.agent.display import FileList
from buddy.agent.tool import Access, ToolContext, ToolError, ToolResult, tool
from buddy.safety.paths import Boundary
from buddy.safety.sanitise import visible
from buddy.tools.search import SearchPlace, place_of, search_run
from buddy.workspace.globs import below, glob_matcher
from buddy.workspace.search_run import stoppable
from buddy.workspace.walk import walk

MAX_LIMIT = 1000
NEAR = 10


def _access(arguments: Any) -> Access:
    return Access(reads=(arguments.path,))


@tool(
    risk="low",
    category="search",
    access=_access,
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
    pattern: Annotated[str, Meta(description='"*.py", "src/**/*.{ts,tsx}", "Makefile"')],
    path: Annotated[str, Meta(description="Folder to look in")] = ".",
    limit: int = 200,
) -> ToolResult:
    """Find files by name, newest first. A pattern without a slash is about the name, in any folder; with one
    about the path below `path`, where ** stands for any folders. Ignored files are only counted."""
    if limit < 1:
        raise ToolError(f"limit is {limit}; expected how many paths to give, at least 1")
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
    found = [(_changed(f"{top}/{name}"), name) for name in names if both(name)]
    found.sort(key=lambda pair: (-pair[0], pair[1]))
    paths = tuple(visible(prefix + name) for _, name in found[:limit])
    notes: list[str] = []
    if not place.walked.whole:
        notes.append("not every folder was looked at: too many files or too little time; use a smaller path")
    if place.walked.unreadable:
        notes.append(f"{counted(len(place.walked.unreadable), 'folder')} could not be read")
    total = len(found)
    if not total:
        summary = f"no file matches {visible(pattern)} in {place.located.shown}"
        notes += _near(place, pattern) + _ignored(place, both, stopped)
    elif total > len(paths):
        summary = (
            f"the newest {len(paths):,} of {total:,} files; a narrower pattern or limit={total} for more"
        )
    else:
        summary = counted(total, "file")
    text = "\n".join([*paths, f"[{summary}]" if paths else summary, *(f"[{note}]" for note in notes)])
    return ToolResult(text, FileList(summary, paths, total))


def _near(place: SearchPlace, pattern: str) -> list[str]:
    """Names that contain what was asked for, where it has no wildcards."""
    wanted = pattern.strip("*/").lower()
    if not wanted or any(sign in wanted for sign in "*?[{"):
        return []
    near = [name for name in place.walked.files if wanted in name.lower()]
    shown = ", ".join(visible(place.prefix + name) for name in near[:NEAR])
    return [f"{len(near)} with {visible(wanted)} in the path: {shown}"] if near else []


def _ignored(place: SearchPlace, matches: Callable[[str], bool], stopped: Callable[[], bool]) -> list[str]:
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
    count = counted(len(found), "ignored file matches", "ignored files match")
    return [f"{count} (name the folder as path): {shown}"]


def _changed(path: str) -> int:
    try:
        return os.lstat(path).st_mtime_ns
    except OSError:
        return 0
