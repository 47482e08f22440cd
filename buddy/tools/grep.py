"""`grep`: lines that match, in files that are not ignored; what was not searched is always told."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from buddy.agent.display import FileList, Plain
from buddy.agent.formatting import format_count, name_first
from buddy.agent.tool import ToolContext, ToolError, ToolResult, reads_path, tool
from buddy.safety.paths import Boundary, Located, is_beneath
from buddy.safety.protected import ProtectedPlaces, is_plain_name, secret_reason
from buddy.safety.sanitise import visible
from buddy.tools.files.change import locate_checked
from buddy.tools.files.rejections import missing
from buddy.workspace.elsewhere import TargetFiles, target_files
from buddy.workspace.files.bulk_read import MAX_FILE_BYTES, decode_text, regular_bytes
from buddy.workspace.files.store import status_of
from buddy.workspace.processes.pool import ChildProcesses
from buddy.workspace.search.ignore import IgnoreTree
from buddy.workspace.search.matcher import Found, Hit, cut, nothing
from buddy.workspace.search.pattern import PatternError, SearchPattern, prepare
from buddy.workspace.search.runner import Corpus, SearchLimits, SearchRun, SearchSettings, find, stoppable
from buddy.workspace.search.walk import Walked, below, glob_matcher, walk

MAX_TEXT_CHARS = 50_000
FEW: tuple[tuple[int, int], ...] = ((1, 25), (3, 8))
"""Up to so many matches: that many lines around each, where nobody asked for a number."""
NAMED = 5


class Asked(msgspec.Struct, frozen=True):
    """Parameters of a search call."""

    pattern: str
    glob: str
    mode: Literal["content", "files", "count"]
    limit: int
    offset: int
    context: int | None


class SearchScope(msgspec.Struct, frozen=True):
    """Context for rendering a search result: `shown` names the place, `prefix` stands before paths."""

    asked: Asked
    shown: str
    prefix: str
    corpus: Corpus
    walked: Walked
    secret: tuple[str, ...]

    def path(self, name: str) -> str:
        """Return a path as it is shown."""
        return visible(self.prefix + name)


def render(answer: SearchScope, found: Found, ignored: Found) -> ToolResult:
    """Render the result as text and display. Reads the files of the matches again for the lines around
    them."""
    notes = _notes(answer, found, ignored)
    if not found.total:
        return _nothing(answer, found, notes)
    offset, mode = answer.asked.offset, answer.asked.mode
    if mode == "content":
        body, upto = _content(answer, found)
        total = found.total
    else:
        names = found.files[offset:][: answer.asked.limit]
        body = [answer.path(name) + (f": {count}" if mode == "count" else "") for name, count in names]
        upto, total = offset + len(names), len(found.files)
    where = _position(answer.asked, upto, total, found)
    text = "\n".join([*body, f"[{where}]", *(f"[{note}]" for note in notes)])
    if mode == "content":
        return ToolResult(text, Plain(where, "\n".join(body)))
    return ToolResult(
        text, FileList(where, tuple(answer.path(name) for name, _ in found.files[:1000]), total)
    )


def _position(asked: Asked, upto: int, total: int, found: Found) -> str:
    least = "at least " if found.more else ""
    matches = format_count(found.total, "match", "matches")
    files = format_count(len(found.files), "file")
    match asked.mode:
        case "content":
            unit, rest = matches.partition(" ")[2], f" in {least}{files}"
        case "count":
            unit, rest = files.partition(" ")[2], f" with {matches}"
        case "files":
            unit, rest = files.partition(" ")[2], ""
    if asked.offset >= total:
        return f"offset {asked.offset} is past the last of {total:,} {unit}{rest}"
    if asked.offset == 0 and upto == total and not least:
        return f"{total:,} {unit}{rest}"
    more = f"; offset={upto} for more" if upto < total or least else ""
    hint = " (mode=count counts all)" if least else ""
    return f"shown {asked.offset + 1:,}–{upto:,} of {least}{total:,} {unit}{rest}{hint}{more}"


def _nothing(answer: SearchScope, found: Found, notes: list[str]) -> ToolResult:
    searched = format_count(found.searched, "file")
    glob = f" that match {visible(answer.asked.glob)}" if answer.asked.glob else ""
    pattern = visible(answer.asked.pattern)
    if not answer.corpus.files:
        summary = f"no files{glob} to search in {answer.shown}"
    elif found.done and answer.walked.whole:
        summary = f"no matches for {pattern} in {searched}{glob} in {answer.shown}"
    else:
        summary = f"nothing found so far for {pattern}: the search is not complete"
    return ToolResult("\n".join([summary, *(f"[{note}]" for note in notes)]), Plain(summary))


def _notes(answer: SearchScope, found: Found, ignored: Found) -> list[str]:
    """List the files that were not searched, with the reasons."""
    notes: list[str] = []
    if not found.done:
        count = len(answer.corpus.files)
        notes.append(
            f"stopped at the time limit after {found.searched:,} of {count:,} files; narrow by path or glob"
        )
    if not answer.walked.whole:
        notes.append("not every folder was looked at: too many files or too little time; use a smaller path")
    if found.binary:
        match = "matches" if len(found.binary) == 1 else "match"
        notes.append(f"{_files(found.binary, answer, 'binary file')} also {match}, lines are not shown")
    if found.large:
        limit = f"{MAX_FILE_BYTES // 1_000_000} MB"
        notes.append(f"not searched, over {limit} (use the shell): {_list(found.large, answer)}")
    unreadable = [*answer.walked.unreadable, *found.unreadable]
    if unreadable:
        notes.append(f"not readable: {_list(unreadable, answer)}")
    if answer.secret:
        notes.append(f"secret files are searched only by name: {_list(answer.secret, answer)}")
    notes.extend(_ignored_notes(answer, ignored))
    return notes


def _ignored_notes(answer: SearchScope, ignored: Found) -> list[str]:
    if ignored.total:
        matches = "match" if ignored.total == 1 else "matches"
        folders = [name for name, _ in ignored.files]
        more = "" if ignored.done and not ignored.more else " or more"
        return [
            f"{ignored.total:,} {matches}{more} in ignored files (name as path): {_list(folders, answer)}"
        ]
    return [] if ignored.done else ["ignored files were not searched: too many for the time"]


def _files(names: Sequence[str], answer: SearchScope, what: str) -> str:
    return f"{format_count(len(names), what)} ({_list(names, answer)})"


def _list(names: Sequence[str], answer: SearchScope) -> str:
    return name_first([answer.path(name) for name in names], NAMED)


# Lines


def _content(answer: SearchScope, found: Found) -> tuple[list[str], int]:
    """Return the lines, grouped by file, and the number of the last match that found room."""
    context = answer.asked.context
    if context is None:
        context = next((lines for most, lines in FEW if found.total <= most), 0)
    by_file: dict[int, list[Hit]] = {}
    for hit in found.hits:
        by_file.setdefault(hit.file, []).append(hit)
    out: list[str] = []
    size, upto = 0, answer.asked.offset
    for file, hits in by_file.items():
        name = found.files[file][0]
        lines = _around(os.path.join(answer.corpus.top, name), hits, context) if context else _plain(hits)
        block = [*([""] if out else []), answer.path(name)]
        for number, text in lines:
            size += len(text) + 1
            if size > MAX_TEXT_CHARS and upto > answer.asked.offset:
                return [*out, *block], upto
            block.append(text)
            upto += number
        out += block
    return out, upto


def _plain(hits: Sequence[Hit]) -> list[tuple[int, str]]:
    """Return lines with how many matches each finishes."""
    return [
        (
            1,
            "\n".join(
                [f"{hit.line}:{hit.text}", *(f"{hit.line + n + 1}:{t}" for n, t in enumerate(hit.more))]
            ),
        )
        for hit in hits
    ]


def _around(path: str, hits: Sequence[Hit], context: int) -> list[tuple[int, str]]:
    """Return the matches with lines around them: `12:match`, `13-other`, `--` where lines are left out."""
    text = _text_of(path)
    if text is None:
        return _plain(hits)
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    matched = {hit.line: (1, hit.text) for hit in hits}
    for hit in hits:
        matched |= {hit.line + n + 1: (0, more) for n, more in enumerate(hit.more)}
    wanted = sorted(
        {n for line in matched for n in range(max(1, line - context), min(len(lines), line + context) + 1)}
    )
    out: list[tuple[int, str]] = []
    last = 0
    for number in wanted:
        if out and number != last + 1:
            out.append((0, "--"))
        last = number
        if number in matched:
            out.append((matched[number][0], f"{number}:{matched[number][1]}"))
        else:
            out.append((0, f"{number}-{cut(lines[number - 1], 0, 0)}"))
    return out


def _text_of(path: str) -> str | None:
    """Return the file once more; None when it is gone or has become something else."""
    data = regular_bytes(path, MAX_FILE_BYTES)
    return None if data is None else decode_text(data)


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
    settings = ctx.find(SearchSettings) or SearchSettings()
    return SearchRun(
        children=ctx.find(ChildProcesses),
        workspace="/" if target_files(ctx) is not None else ctx.service(Boundary).root,
        task_id=ctx.task_id,
        cancelled=ctx.cancelled,
        deadline=time.monotonic() + settings.time_limit_s,
    )


def place_of(
    ctx: ToolContext, path: str, wanted: Callable[[str], bool] | None, stopped: Callable[[], bool]
) -> SearchPlace:
    """Return the files to search. Raises `ToolError`."""
    boundary = ctx.service(Boundary)
    target = locate_checked(ctx, path)
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
    ruled = not rules.is_ignored(target.real, True)
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
    """Return the paths that look like secret files: never searched unless named. Where names alone decide,
    each folder is judged once and most names at a glance: judging every path would cost as much as the
    walk."""
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


def compile_pattern(pattern: str, *, literal: bool, ignore_case: bool, multiline: bool) -> SearchPattern:
    """Return the pattern made ready. Raises `ToolError` saying why it cannot be used."""
    try:
        return prepare(pattern, literal=literal, ignore_case=ignore_case, multiline=multiline)
    except PatternError as error:
        raise ToolError(f"{error}. Nothing was searched.") from error


def glob_filter(glob: str, cwd: str) -> Callable[[str], bool] | None:
    """Return a predicate for the paths a glob below `cwd` selects; "!…" selects all others; None: all."""
    if not glob:
        return None
    if glob.startswith("!"):
        unwanted = glob_matcher(below(glob[1:], cwd))
        return lambda path: not unwanted(path)
    return glob_matcher(below(glob, cwd))


@tool(
    anywhere=True,
    risk="low",
    core=True,
    category="search",
    access=reads_path,
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
    pattern: str,
    path: Annotated[str, Meta(description="File or folder")] = ".",
    glob: Annotated[str, Meta(description='Only these files: "*.py", "src/**/*.{ts,tsx}"')] = "",
    ignore_case: bool = False,
    literal: Annotated[bool, Meta(description="The pattern is plain text")] = False,
    context: Annotated[int | None, Meta(description="Lines around each match")] = None,
    multiline: Annotated[bool, Meta(description="Matches may span lines; . matches line ends")] = False,
    mode: Annotated[
        Literal["content", "files", "count"], Meta(extra={"also": {"files_with_matches": "files"}})
    ] = "content",
    limit: int = 100,
    offset: int = 0,
) -> ToolResult:
    """Search file contents, line by line, for a regular expression. Ignored, binary and secret files are left
    out unless `path` names one."""
    if limit < 1 or offset < 0 or (context or 0) < 0:
        raise ToolError("expected limit of at least 1, offset and context of at least 0")
    prepared = compile_pattern(pattern, literal=literal, ignore_case=ignore_case, multiline=multiline)
    limit = min(limit, MAX_LIMIT)
    asked = Asked(pattern, glob, mode, limit, offset, context)
    there = target_files(ctx)
    if there is not None:
        return await _grep_there(ctx, there, path, asked, prepared)
    wanted = glob_filter(glob, ctx.service(Boundary).cwd)
    run = search_run(ctx)
    place = await stoppable(run, lambda stopped: place_of(ctx, path, wanted, stopped))
    found = await find(run, prepared, place.corpus, _limits(mode, offset, offset + limit))
    ignored = nothing(done=True)
    if not found.total and place.walked.ignored:
        ignored = await _count_ignored(ctx, run, prepared, place, wanted)
    answer = SearchScope(asked, place.located.shown, place.prefix, place.corpus, place.walked, place.secret)
    return await stoppable(run, lambda _stopped: render(answer, found, ignored))


async def _grep_there(
    ctx: ToolContext, there: TargetFiles, path: str, asked: Asked, pattern: SearchPattern
) -> ToolResult:
    """Search another machine's files: fetched into a private folder, they are searched as those of this
    one."""
    from buddy.tools.files.elsewhere import fetch_there  # here: only with a target
    from buddy.workspace.temporary import TemporaryFolder

    run, wanted = search_run(ctx), glob_filter(asked.glob, "/")
    with TemporaryFolder("search") as folder:
        fetched = await stoppable(run, lambda stopped: fetch_there(ctx, there, path, wanted, folder, stopped))
        corpus = Corpus(folder, fetched.files)
        found = await find(
            run, pattern, corpus, _limits(asked.mode, asked.offset, asked.offset + asked.limit)
        )
        shown = f"{fetched.target.shown} on {there.name}"
        scope = SearchScope(asked, shown, fetched.prefix, corpus, fetched.walked, fetched.secret)
        result = await stoppable(run, lambda _stopped: render(scope, found, nothing(done=True)))
    text = "\n".join([result.text, *(f"[{note}]" for note in fetched.notes)])
    return msgspec.structs.replace(result, text=text)


def _limits(mode: str, first: int, last: int) -> SearchLimits:
    if mode == "content":
        return SearchLimits(first, last, max(last, MAX_COUNTED))
    return SearchLimits(once=mode == "files")


async def _count_ignored(
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
