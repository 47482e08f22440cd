"""The answer of a search as a model reads it. What was not searched is always told."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal

import msgspec

from buddy.agent.counting import counted
from buddy.agent.display import FileList, Plain
from buddy.agent.tool import ToolResult
from buddy.safety.sanitise import visible
from buddy.workspace.file_bytes import MAX_FILE_BYTES, decoded, regular_bytes
from buddy.workspace.search_extract import Found, Hit, cut
from buddy.workspace.search_run import Corpus
from buddy.workspace.walk import Walked

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
        """A path as it is shown."""
        return visible(self.prefix + name)


def rendered(answer: SearchScope, found: Found, ignored: Found) -> ToolResult:
    """Text and display. Reads the files of the matches again for the lines around them."""
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
    matches = counted(found.total, "match", "matches")
    files = counted(len(found.files), "file")
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
    searched = counted(found.searched, "file")
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
    return f"{counted(len(names), what)} ({_list(names, answer)})"


def _list(names: Sequence[str], answer: SearchScope) -> str:
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return ", ".join(answer.path(name) for name in names[:NAMED]) + more


# Lines


def _content(answer: SearchScope, found: Found) -> tuple[list[str], int]:
    """The lines, grouped by file, and the number of the last match that found room."""
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
    """Lines with how many matches each finishes."""
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
    """The matches with lines around them: `12:match`, `13-other`, `--` where lines are left out."""
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
    """The file once more; None when it is gone or has become something else."""
    data = regular_bytes(path, MAX_FILE_BYTES)
    return None if data is None else decoded(data)
