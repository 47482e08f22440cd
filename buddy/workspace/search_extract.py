"""The search itself: matching lines of a list of files. Only the standard library, because it is also run as
a program in a child process, which can be killed in the middle of a pattern that never ends.

A match is a line (with `multiline`: a match, however many lines it spans), numbered as read_file numbers
them: "\\n", "\\r\\n" and "\\r" end a line.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypedDict

BLOCK_CHARS = 256 * 1024
"""Searched at a stretch; the next look at the clock comes after it."""
MAX_FILE_BYTES = 64_000_000
SHOWN_CHARS = 300
SHOWN_LINES = 20
PROBE_BYTES = 8192
UTF_16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
UTF_32 = (b"\xff\xfe\0\0", b"\0\0\xfe\xff")


class Job(TypedDict):
    """What to search: files relative to a folder, a Python pattern, ASCII text every match contains (or ""),
    which matches to give in full, counted from 0 over all files in order, and how many characters a line may
    have for a pattern that takes long on long ones (0: no limit)."""

    top: str
    files: list[str]
    source: str
    flags: int
    literal: str
    multiline: bool
    first: int
    last: int
    longest: int


class Hit(NamedTuple):
    """A match in full: number of the file in `Found.files`, first line, that line cut to size, further
    lines of a match that spans several."""

    file: int
    line: int
    text: str
    more: list[str]


class Found(NamedTuple):
    """What was found. `files` are paths with their number of matches; `searched` counts files looked at, and
    `done` is False when the search was stopped before the last one."""

    total: int
    files: list[tuple[str, int]]
    hits: list[Hit]
    binary: list[str]
    large: list[str]
    unreadable: list[str]
    searched: int
    done: bool


def search(job: Job, stopped: Callable[[], bool], at_file: Callable[[int], None]) -> Found:
    """Search the files in order. `stopped` is asked and `at_file` told between files and blocks. A file with
    a line too long for the pattern ends the search before it (`searched` tells where)."""
    regex = re.compile(job["source"], job["flags"])
    counter = _line_counter(job, regex)
    too_long = re.compile(f"[^\n]{{{job['longest'] + 1}}}") if job["longest"] else None
    literal = job["literal"].encode()
    top = job["top"].rstrip("/") + "/"
    found = Found(0, [], [], [], [], [], 0, done=True)
    total = 0
    for number, name in enumerate(job["files"]):
        at_file(number)
        if stopped():
            return found._replace(total=total, searched=number, done=False)
        data = _read(top + name, name, found)
        if data is None or (literal and literal not in data and data[:2] not in UTF_16):
            continue
        text = decoded(data)
        if too_long is not None and too_long.search(data.decode("latin-1") if text is None else text):
            return found._replace(total=total, searched=number, done=False)
        if text is None:
            if regex.search(data.decode("latin-1")):
                found.binary.append(name)
            continue
        if counter and total >= job["last"] and len(text) <= _block_chars(job) and text.endswith("\n"):
            count = sum(1 for _ in counter.finditer(text))
        else:
            count = _collect(job, regex, text, total, found, partial(at_file, number), stopped)
        if count:
            found.files.append((name, count))
            total += count
    return found._replace(total=total, searched=len(job["files"]), done=not stopped())


def _collect(
    job: Job,
    regex: re.Pattern[str],
    text: str,
    before: int,
    found: Found,
    beat: Callable[[], None],
    stopped: Callable[[], bool],
) -> int:
    """Count the matches of a text and keep those that are to be given in full; `before`: how many came
    earlier."""
    count = 0
    for start, end in _spans(job, regex, text, stopped, beat):
        if job["first"] <= before + count < job["last"]:
            found.hits.append(_hit(text, start, end, len(found.files), found.hits))
        count += 1
    return count


def _line_counter(job: Job, regex: re.Pattern[str]) -> re.Pattern[str] | None:
    """A pattern that matches once for each matching line, several times as fast as looking from one to the
    next; None where it would not count the same."""
    if job["multiline"] or regex.search("") or regex.search("\n"):
        return None
    return re.compile(f"(?:{job['source']})[^\n]*\n?", job["flags"])


def _read(path: str, name: str, found: Found) -> bytes | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                found.unreadable.append(name)
                return None
            if status.st_size > MAX_FILE_BYTES:
                found.large.append(name)
                return None
            return _all(descriptor, status.st_size)
        finally:
            os.close(descriptor)
    except OSError:
        found.unreadable.append(name)
        return None


def regular_bytes(path: str, limit: int) -> bytes | None:
    """A regular file's content, at most so much; None when it is gone or has become something else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read(limit) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None


def _all(descriptor: int, size: int) -> bytes:
    data = os.read(descriptor, max(size, PROBE_BYTES) + 1)
    while size < MAX_FILE_BYTES and len(data) > size:  # it grew, or /proc says 0
        more = os.read(descriptor, 1 << 20)
        if not more or len(data) > MAX_FILE_BYTES:
            break
        data += more
    return data


def decoded(data: bytes) -> str | None:
    """The text with newlines only; None when it is binary. Invalid UTF-8 is read as latin-1."""
    encoding = UTF_16.get(data[:2])
    if encoding is None or data.startswith(UTF_32):
        if b"\0" in data[:PROBE_BYTES]:
            return None
        data, encoding = data.removeprefix(b"\xef\xbb\xbf"), "utf-8"
    else:
        data = data[2:]
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        if encoding != "utf-8":
            return None
        text = data.decode("latin-1")
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _spans(
    job: Job, regex: re.Pattern[str], text: str, stopped: Callable[[], bool], beat: Callable[[], None]
) -> Iterator[tuple[int, int]]:
    """Where matches are: at most one a line, or, over lines, one after the other."""
    size = len(text)
    multiline = job["multiline"]
    block = _block_chars(job)
    last = size - 1 if text.endswith("\n") else size  # nothing begins behind the final line end
    at = 0
    while at < size:
        end = size if multiline else _block_end(text, at, block)
        while at < end:
            match = regex.search(text, at, end)
            if match is None or match.start() > last or (match.start() == end and end < size):
                break
            yield match.span()
            at = max(match.end(), at + 1) if multiline else _line_end(text, match.start()) + 1
        at = max(at, end)
        beat()
        if stopped():
            return


def _block_chars(job: Job) -> int:
    """The shorter lines must be, the longer matching may take: nobody waits more than about 50 ms."""
    return BLOCK_CHARS if not job["longest"] else 8192 if job["longest"] > 200 else 1024


def _block_end(text: str, at: int, block: int) -> int:
    if len(text) - at <= block:
        return len(text)
    return _line_end(text, at + block) + 1


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _hit(text: str, start: int, end: int, file: int, before: list[Hit]) -> Hit:
    begin = text.rfind("\n", 0, start) + 1
    line = text.count("\n", 0, begin) + 1
    stop = _line_end(text, start)
    shown = cut(text[begin:stop], start - begin, min(end, stop) - begin)
    rest = text[stop + 1 : max(stop + 1, _line_end(text, max(end - 1, start)))] if end > stop + 1 else ""
    more = [cut(part, 0, 0) for part in rest.split("\n")[:SHOWN_LINES]] if rest else []
    return Hit(file, line, shown, more)


def cut(line: str, start: int, end: int) -> str:
    """A line, or the part of a long one around a match."""
    if len(line) <= SHOWN_CHARS:
        return line
    room = max(0, SHOWN_CHARS - (end - start))
    first = max(0, min(start - room // 2, len(line) - SHOWN_CHARS))
    shown = line[first : first + SHOWN_CHARS]
    return f"{'…' if first else ''}{shown}{'…' if first + SHOWN_CHARS < len(line) else ''}"


def found_from(data: dict[str, Any]) -> Found:
    """What the child process wrote."""
    files = [(name, count) for name, count in data.pop("files")]
    return Found(files=files, hits=[Hit(*hit) for hit in data.pop("hits")], **data)


def main(job_path: str, answer_path: str, place_path: str) -> None:
    """Search as a program. The file `place_path` changes as long as it gets anywhere: a count of steps and
    the number of the file."""
    with open(job_path, encoding="ascii") as file:
        job: Job = json.load(file)
    place = os.open(place_path, os.O_WRONLY | os.O_CREAT, 0o600)
    steps = [0]

    def at_file(number: int) -> None:
        steps[0] += 1
        os.pwrite(place, b"%020d %020d" % (steps[0], number), 0)

    found = search(job, lambda: False, at_file)
    with open(answer_path, "w", encoding="ascii") as file:
        json.dump(found._asdict(), file)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3])
