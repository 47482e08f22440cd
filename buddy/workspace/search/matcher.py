"""The search itself: matching lines of a list of files. Only the standard library and `file_bytes`, because
it is also run in a bare child process, which can be killed in the middle of a pattern that never ends.

A match is a line (with `multiline`: a match, however many lines it spans), numbered as read_file numbers
them: "\\n", "\\r\\n" and "\\r" end a line. Places in a file's text count bytes of UTF-8.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple, Protocol, TypedDict

from buddy.workspace.files.bulk_read import UTF_16, DecodedText, file_bytes, text_of

BYTES_BETWEEN_LOOKS = 64 * 1024
"""Of files that are searched before the next look at the clock."""
BYTES_PER_FILE = 2048
"""What opening a file counts for."""
LINES_BETWEEN_BEATS = 64
SHOWN_CHARS = 300
SHOWN_LINES = 20

Span = tuple[int, int]
Stopped = Callable[[], bool]


class SearchJob(TypedDict):
    """Parameters of a search: `files` relative to `top`; the pattern `source` for `re`; ASCII text that every
    match contains (`literal`), and a character that every match contains (`rare`); the range of matches to
    give in full, counted from 0 over all files in order (`first`, `last`); the number of matches after which
    counting may end (`enough`); one match per file is enough (`once`)."""

    top: str
    files: list[str]
    source: str
    flags: int
    literal: str
    rare: str
    multiline: bool
    first: int
    last: int
    enough: int
    once: bool


class Matcher(Protocol):
    """One way to find matches."""

    def spans(self, text: DecodedText, stopped: Stopped) -> Iterable[Span] | None:
        """Return the spans of matches, until stopped: at most one per line, or successive ones for a
        multi-line pattern. None: this matcher cannot tell."""
        ...

    def count(self, text: DecodedText, stopped: Stopped) -> int | None:
        """Count the matches; None where that is not known without `spans`."""
        ...


class Hit(NamedTuple):
    """A match in full: number of the file in `Found.files`, first line, that line cut to size, further
    lines of a match that spans several."""

    file: int
    line: int
    text: str
    more: list[str]


class Found(NamedTuple):
    """Result of a search. `files` are paths with their number of matches; `searched` counts the files
    searched, and `done` is False when the search was stopped before the last one. `more`: counting ended at
    `enough`. `undecided`: files the matcher could not decide."""

    total: int
    files: list[tuple[str, int]]
    hits: list[Hit]
    binary: list[str]
    large: list[str]
    unreadable: list[str]
    searched: int
    done: bool
    more: bool
    undecided: list[str]


def nothing(*, done: bool) -> Found:
    """Return an empty result."""
    return Found(0, [], [], [], [], [], 0, done=done, more=False, undecided=[])


def search(job: SearchJob, matcher: Matcher, stopped: Stopped, at_file: Callable[[int], None]) -> Found:
    """Search the files in order. `at_file` is called before each, `stopped` every few files and inside of
    large ones."""
    unlooked = BYTES_BETWEEN_LOOKS
    top = job["top"].rstrip("/") + "/"
    literal, rare = job["literal"].encode(), job["rare"].encode()
    found = nothing(done=True)
    total = 0
    for number, name in enumerate(job["files"]):
        at_file(number)
        if total >= job["enough"]:
            return found._replace(total=total, searched=number, more=True)
        if unlooked >= BYTES_BETWEEN_LOOKS:
            if stopped():
                return found._replace(total=total, searched=number, done=False)
            unlooked = 0
        data = file_bytes(top + name)
        unlooked += BYTES_PER_FILE
        if not isinstance(data, bytes):
            (found.large if data == "large" else found.unreadable).append(name)
            continue
        unlooked += len(data)
        # One character is found in an eighth of the time that a text takes.
        if (rare not in data or literal not in data) and data[:2] not in UTF_16:
            continue
        text = text_of(data)
        count = None if text.binary else _count(job, matcher, text, total, stopped)
        if count is None:
            spans = matcher.spans(text, stopped)
            if spans is None:
                found.undecided.append(name)
                continue
            if text.binary:
                found.binary.extend(name for _ in islice(spans, 1))
                continue
            count = _collect(job, text.data, spans, total, found)
        if count:
            found.files.append((name, count))
            total += count
    return found._replace(total=total, searched=len(job["files"]), done=not stopped())


def _count(job: SearchJob, matcher: Matcher, text: DecodedText, before: int, stopped: Stopped) -> int | None:
    """Return the matches of a text of which none is to be given in full."""
    return matcher.count(text, stopped) if before >= job["last"] and not job["once"] else None


def _collect(job: SearchJob, data: bytes, spans: Iterable[Span], before: int, found: Found) -> int:
    """Count the matches of a text, and keep those that are to be given in full; `before`: how many came
    earlier."""
    count = 0
    for start, end in spans:
        if job["first"] <= before + count < job["last"]:
            found.hits.append(_hit(data, start, end, len(found.files)))
        count += 1
        if job["once"]:
            break
    return count


def line_end(data: bytes, at: int) -> int:
    """Return the end of the line that contains a position."""
    end = data.find(b"\n", at)
    return len(data) if end < 0 else end


def _hit(data: bytes, start: int, end: int, file: int) -> Hit:
    begin = data.rfind(b"\n", 0, start) + 1
    line = data.count(b"\n", 0, begin) + 1
    stop = line_end(data, start)
    before, match = data[begin:start].decode(), data[start : min(end, stop)].decode()
    shown = cut(data[begin:stop].decode(), len(before), len(before) + len(match))
    rest = data[stop + 1 : max(stop + 1, line_end(data, max(end - 1, start)))] if end > stop + 1 else b""
    more = [cut(part.decode(), 0, 0) for part in rest.split(b"\n", SHOWN_LINES)[:SHOWN_LINES]] if rest else []
    return Hit(file, line, shown, more)


def cut(line: str, start: int, end: int) -> str:
    """Return a line, or the part of a long one around a match."""
    if len(line) <= SHOWN_CHARS:
        return line
    room = max(0, SHOWN_CHARS - (end - start))
    first = max(0, min(start - room // 2, len(line) - SHOWN_CHARS))
    shown = line[first : first + SHOWN_CHARS]
    return f"{'…' if first else ''}{shown}{'…' if first + SHOWN_CHARS < len(line) else ''}"


class ReMatcher:
    """Python's `re`: it can tell everything, and may take for ever. `beat` is called as long as it gets
    anywhere."""

    def __init__(self, job: SearchJob, beat: Callable[[], None]) -> None:
        self._regex = re.compile(job["source"], job["flags"])
        self._multiline = job["multiline"]
        self._beat = beat

    def spans(self, text: DecodedText, stopped: Stopped) -> Iterator[Span]:
        """Return the spans of matches."""
        whole = text.data.decode()
        found = self._over_lines(whole) if self._multiline else self._in_lines(whole, stopped)
        return found if text.ascii else _in_bytes(whole, found)

    def count(self, text: DecodedText, stopped: Stopped) -> int | None:
        """Not known without `spans`."""

    def _over_lines(self, text: str) -> Iterator[Span]:
        size = len(text)
        last = size - 1 if text.endswith("\n") else size  # nothing begins behind the last line end
        at = 0
        while at < size:
            match = self._regex.search(text, at)
            if match is None or match.start() > last:
                return
            yield match.span()
            at = match.end() + (match.start() == match.end())
            self._beat()

    def _in_lines(self, text: str, stopped: Stopped) -> Iterator[Span]:
        at = 0
        search = self._regex.search
        for number, line in enumerate(text.removesuffix("\n").split("\n") if text else ()):
            if number % LINES_BETWEEN_BEATS == 0:
                self._beat()
                if stopped():
                    return
            if match := search(line):
                yield at + match.start(), at + match.end()
            at += len(line) + 1


def _in_bytes(text: str, spans: Iterator[Span]) -> Iterator[Span]:
    """Yield places in a text as places in its UTF-8."""
    at = size = 0
    for start, end in spans:
        size += len(text[at:start].encode())
        length = len(text[start:end].encode())
        yield size, size + length
        at, size = end, size + length


def found_from(data: dict[str, Any]) -> Found:
    """Rebuild the result from the child process's data."""
    files = [(name, count) for name, count in data.pop("files")]
    return Found(files=files, hits=[Hit(*hit) for hit in data.pop("hits")], **data)


def main(job_path: str, answer_path: str, place_path: str) -> None:
    """Search as a program. The file `place_path` changes as long as it gets anywhere: a count of steps and
    the number of the file."""
    with open(job_path, encoding="ascii") as file:
        job: SearchJob = json.load(file)
    place = os.open(place_path, os.O_WRONLY | os.O_CREAT, 0o600)
    steps = number = 0

    def beat() -> None:
        nonlocal steps
        steps += 1
        os.pwrite(place, b"%020d %020d" % (steps, number), 0)

    def at_file(at: int) -> None:
        nonlocal number
        number = at
        beat()

    found = search(job, ReMatcher(job, beat), lambda: False, at_file)
    with open(answer_path, "w", encoding="ascii") as file:
        json.dump(found._asdict(), file)
