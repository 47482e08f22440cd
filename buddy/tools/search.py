"""`grep`: lines that match, in files that are not ignored."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import Meta

from buddy.agent.tool import Access, ToolContext, ToolError, ToolResult, tool
from buddy.safety.paths import Boundary, Located, is_beneath
from buddy.safety.protected import ProtectedPlaces, is_plain_name, secret_reason
from buddy.tools.changing import located
from buddy.tools.near_names import missing
from buddy.tools.search_text import Asked, SearchScope, rendered
from buddy.workspace.files import status_of
from buddy.workspace.globs import below, glob_matcher
from buddy.workspace.ignore import IgnoreTree
from buddy.workspace.processes import ChildProcesses
from buddy.workspace.search_extract import Found, nothing
from buddy.workspace.search_pattern import SearchPattern, prepare
from buddy.workspace.search_run import Corpus, SearchLimits, SearchRun, SearchSettings, find, stoppable
from buddy.workspace.search_tokens import PatternError
from buddy.workspace.walk import Walked, walk

MAX_LIMIT = 1000
MAX_COUNTED = 5_000
"""Matches after which nobody counts on where lines are shown; nobody looks at so many."""
IGNORED_S = 0.5
"""Spent at most on counting what ignored files hold."""


class SearchPlace(msgspec.Struct, frozen=True):
    """Files a search covers. `prefix` is put before displayed paths; `walked` also lists what was left out;
    `named` is True for one file."""

    located: Located
    prefix: str
    corpus: Corpus
    walked: Walked
    secret: tuple[str, ...]
    named: bool


def search_run(ctx: ToolContext) -> SearchRun:
    """One search of this call, with its time limit."""
    settings = cast(SearchSettings, ctx.services.get(SearchSettings, SearchSettings()))
    return SearchRun(
        children=cast("ChildProcesses | None", ctx.services.get(ChildProcesses)),
        workspace=ctx.service(Boundary).root,
        task_id=ctx.task_id,
        cancelled=ctx.cancelled,
        deadline=time.monotonic() + settings.time_limit_s,
    )


def place_of(
    ctx: ToolContext, path: str, wanted: Callable[[str], bool] | None, stopped: Callable[[], bool]
) -> SearchPlace:
    """The files to search. Raises `ToolError`."""
    boundary = ctx.service(Boundary)
    target = located(ctx, path)
    status = status_of(target.real)
    if status is None:
        raise ToolError(missing(target, boundary))
    if not stat.S_ISDIR(status.st_mode):
        if not stat.S_ISREG(status.st_mode):
            raise ToolError(f"{target.shown} is neither a file nor a folder; nothing in it can be searched")
        top, name = os.path.split(target.real)
        corpus = Corpus(top, (name,))
        return SearchPlace(target, _prefix(boundary, top), corpus, Walked(files=[name]), (), named=True)
    rules = IgnoreTree(boundary.root)
    ruled = not rules.ignored(target.real, True)
    found = walk(target.real, rules if ruled else None, stopped)
    prefix = _prefix(boundary, target.real)
    names = found.files
    if wanted is not None:
        names = [name for name in names if wanted(name) or wanted(prefix + name)]
    secret = () if target.secret else tuple(secrets_among(boundary, target.real, names))
    if secret:
        left_out = frozenset(secret)
        names = [name for name in names if name not in left_out]
    corpus = Corpus(target.real, tuple(names))
    return SearchPlace(target, prefix, corpus, found, secret, named=False)


def secrets_among(boundary: Boundary, top: str, names: list[str]) -> list[str]:
    """The paths that look like secret files: never searched unless named. Where names alone decide, each
    folder is judged once and most names at a glance: judging every path would cost as much as the walk."""
    places = ProtectedPlaces(boundary.home, boundary.own, boundary.trees)
    if _place_matters(boundary, top) or secret_reason(f"{top}/x", places):
        return [name for name in names if secret_reason(f"{top}/{name}", places)]
    plain = {"": True}

    def is_plain_folder(folder: str) -> bool:
        known = plain.get(folder)
        if known is None:
            above, _, last = folder.rpartition("/")
            known = is_plain_folder(above) and (
                is_plain_name(last) or not secret_reason(f"{top}/{folder}/x", places)
            )
            plain[folder] = known
        return known

    found: list[str] = []
    for name in names:
        folder, _, last = name.rpartition("/")
        glance = is_plain_name(last) and (plain.get(folder) or is_plain_folder(folder))
        if not glance and secret_reason(f"{top}/{name}", places):
            found.append(name)
    return found


def _place_matters(boundary: Boundary, top: str) -> bool:
    """Tell whether the location of a folder can make a file in it secret, apart from the names on the way to
    it: in the home folder, and outside the workspace."""
    root, home = boundary.root, boundary.home
    if not is_beneath(top, root) or is_beneath(home, root):
        return True
    return is_beneath(root, home) and root[len(home) :][:2].lower() in ("/.", "/l")


def _prefix(boundary: Boundary, folder: str) -> str:
    """Return the prefix that makes a path below a folder usable in other tools."""
    if folder == boundary.cwd:
        return ""
    if is_beneath(folder, boundary.root) or is_beneath(boundary.cwd, folder):
        return os.path.relpath(folder, boundary.cwd).rstrip("/") + "/"
    return folder.rstrip("/") + "/"


def checked_pattern(pattern: str, *, literal: bool, ignore_case: bool, multiline: bool) -> SearchPattern:
    """The pattern made ready. Raises `ToolError` saying why it cannot be used."""
    try:
        return prepare(pattern, literal=literal, ignore_case=ignore_case, multiline=multiline)
    except PatternError as error:
        raise ToolError(f"{error}. Nothing was searched.") from error


def wanted_names(glob: str, cwd: str) -> Callable[[str], bool] | None:
    """Return a predicate for the paths a glob below `cwd` selects; "!…" selects all others; None: all."""
    if not glob:
        return None
    if glob.startswith("!"):
        unwanted = glob_matcher(below(glob[1:], cwd))
        return lambda path: not unwanted(path)
    return glob_matcher(below(glob, cwd))


def _access(arguments: Any) -> Access:
    return Access(reads=(arguments.path,))


@tool(
    risk="low",
    category="search",
    access=_access,
    aliases=("grep_search", "search", "rg", "ripgrep", "search_files", "search_file_content", "search_code"),
    argument_aliases={
        "regex": "pattern",
        "query": "pattern",
        "search_pattern": "pattern",
        "include": "glob",
        "include_pattern": "glob",
        "file_pattern": "glob",
        "case_insensitive": "ignore_case",
        "-i": "ignore_case",
        "-C": "context",
        "fixed_strings": "literal",
        "output_mode": "mode",
        "directory": "path",
        "dir_path": "path",
        "head_limit": "limit",
        "max_results": "limit",
    },
    cache_s=30,
)
async def grep(
    ctx: ToolContext,
    pattern: Annotated[str, Meta(description="Regular expression; each line is matched alone")],
    path: Annotated[str, Meta(description="File or folder")] = ".",
    glob: Annotated[str, Meta(description='Only these files: "*.py", "src/**/*.{ts,tsx}"')] = "",
    ignore_case: bool = False,
    literal: Annotated[bool, Meta(description="The pattern is plain text")] = False,
    context: Annotated[
        int | None, Meta(description="Lines around each match; left out: chosen by the number of matches")
    ] = None,
    multiline: Annotated[bool, Meta(description="Matches may span lines; . matches line ends")] = False,
    mode: Annotated[
        Literal["content", "files", "count", "files_with_matches"],
        Meta(description="Lines, paths only, or matches per file"),
    ] = "content",
    limit: int = 100,
    offset: int = 0,
) -> ToolResult:
    """Search file contents: matching lines with their numbers, grouped by file. Ignored, binary and secret
    files are left out, and the answer says so; name one as `path` to search it all the same. find_files
    searches for names, find_definition for where something is defined."""
    if limit < 1 or offset < 0 or (context or 0) < 0:
        raise ToolError("expected limit of at least 1, offset and context of at least 0")
    prepared = checked_pattern(pattern, literal=literal, ignore_case=ignore_case, multiline=multiline)
    wanted = wanted_names(glob, ctx.service(Boundary).cwd)
    run = search_run(ctx)
    place = await stoppable(run, lambda stopped: place_of(ctx, path, wanted, stopped))
    limit = min(limit, MAX_LIMIT)
    kind = "files" if mode == "files_with_matches" else mode
    found = await find(run, prepared, place.corpus, _wanted(kind, offset, offset + limit))
    ignored = nothing(done=True)
    if not found.total and place.walked.ignored:
        ignored = await _in_ignored(ctx, run, prepared, place, wanted)
    asked = Asked(pattern, glob, kind, limit, offset, context)
    answer = SearchScope(asked, place.located.shown, place.prefix, place.corpus, place.walked, place.secret)
    return await stoppable(run, lambda _stopped: rendered(answer, found, ignored))


def _wanted(mode: str, first: int, last: int) -> SearchLimits:
    if mode == "content":
        return SearchLimits(first, last, max(last, MAX_COUNTED))
    return SearchLimits(once=mode == "files")


async def _in_ignored(
    ctx: ToolContext,
    run: SearchRun,
    pattern: SearchPattern,
    place: SearchPlace,
    wanted: Callable[[str], bool] | None,
) -> Found:
    """Count the matches in ignored files, within a short time limit."""
    deadline = min(run.deadline, time.monotonic() + IGNORED_S)
    run = msgspec.structs.replace(run, deadline=deadline)
    top = place.corpus.top
    boundary = ctx.service(Boundary)

    def work(stopped: Callable[[], bool]) -> tuple[tuple[str, ...], bool]:
        names = [name for name in place.walked.ignored if not name.endswith("/")]
        whole = True
        for folder in place.walked.ignored:
            if folder.endswith("/") and folder.rstrip("/").rpartition("/")[2] not in (".git", ".buddyx"):
                below = walk(os.path.join(top, folder.rstrip("/")), None, stopped)
                names += [folder + name for name in below.files]
                whole = whole and below.whole
        names = [name for name in names if wanted is None or wanted(name) or wanted(place.prefix + name)]
        left_out = frozenset(secrets_among(boundary, top, names))
        return tuple(name for name in names if name not in left_out), whole

    names, whole = await stoppable(run, work)
    try:
        corpus = Corpus(top, names)
        found = await find(run, pattern, corpus, SearchLimits(enough=MAX_COUNTED))
    except ToolError:  # too slow for the little time: then it is told that they were not searched
        return nothing(done=False)
    return found._replace(done=found.done and whole)
