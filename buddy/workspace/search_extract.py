"""The search itself: matching lines of a list of files. Only the standard library and `file_bytes`, because
it is also run in a bare child process, which can be killed in the middle of a pattern that never ends.

A match is a line (with `multiline`: a match, however many lines it spans), numbered as read_file numbers
them: "\\n", "\\r\\n" and "\\r" end a line.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypedDict

from buddy.workspace.file_bytes import UTF_16, decoded, file_bytes

BLOCK_CHARS = 256 * 1024
"""Searched at a stretch; the next look at the clock comes after it."""
BYTES_BETWEEN_LOOKS = 32 * 1024
"""Of files that are searched before the next look at the clock."""
BYTES_PER_FILE = 2048
"""What opening a file counts for."""
CHARS_BETWEEN = 200
"""Between two places with the text a match needs: with more it is faster to go from one to the next."""
CHARS_PER_SIGN = 40
"""At least so many for each sign a match needs: with fewer most lines hold one."""
SHOWN_CHARS = 300
SHOWN_LINES = 20


class Job(TypedDict):
    """What to search: files relative to a folder, a Python pattern, ASCII texts of which every match contains
    one (none: unknown), ASCII characters of which it contains one or else one beyond ASCII (None: unknown),
    which matches to give in full, counted from 0 over all files in order, after how many
    the counting may end, whether one match of a file is enough, and how many characters a line may have for a
    pattern that takes long on long ones (0: no limit)."""

    top: str
    files: list[str]
    source: str
    flags: int
    literals: list[str]
    signs: str | None
    multiline: bool
    first: int
    last: int
    enough: int
    once: bool
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
    `done` is False when the search was stopped before the last one. `more`: counting ended with `enough`."""

    total: int
    files: list[tuple[str, int]]
    hits: list[Hit]
    binary: list[str]
    large: list[str]
    unreadable: list[str]
    searched: int
    done: bool
    more: bool


def nothing(*, done: bool) -> Found:
    """Nothing found in no file."""
    return Found(0, [], [], [], [], [], 0, done=done, more=False)


def never(_number: int) -> bool:
    """A search does not pause."""
    return False


def search(
    job: Job,
    stopped: Callable[[], bool],
    at_file: Callable[[int], None],
    pauses: Callable[[int], bool] = never,
) -> Found:
    """Search the files in order. `at_file` is told between files and blocks, `stopped` asked every few files
    and between blocks; `pauses` is asked as often whether the search ends before a file. So it does before
    one with a line too long for the pattern (`searched` tells where)."""
    regex = re.compile(job["source"], job["flags"])
    seeker, literal = _seeker(job, regex), _sought_text(job)
    lines_in, anywhere = _line_counter(job, regex), _anywhere(job, regex)
    place = _filter(job)
    longest = job["longest"]
    between_looks = 0 if longest else BYTES_BETWEEN_LOOKS
    unlooked = between_looks
    top = job["top"].rstrip("/") + "/"
    found = nothing(done=True)
    total = 0
    for number, name in enumerate(job["files"]):
        at_file(number)
        if total >= job["enough"]:
            return found._replace(total=total, searched=number, more=True)
        if unlooked >= between_looks:
            if stopped() or pauses(number):
                return found._replace(total=total, searched=number, done=False)
            unlooked = 0
        unlooked += BYTES_PER_FILE
        data = _read(top, name, found)
        unlooked += len(data)
        first = place(data)
        if first < 0:
            continue
        text = decoded(data)
        if longest and _has_longer_line(data.decode("latin-1") if text is None else text, longest):
            return found._replace(total=total, searched=number, done=False)
        if text is None:
            if regex.search(data.decode("latin-1")):
                found.binary.append(name)
            continue
        begin = text.rfind("\n", 0, first) + 1 if first and len(text) == len(data) else 0
        seek = seeker(text)
        count = lines_in(text, begin) if total >= job["last"] and (seek is None or literal) else -1
        if count < 0:
            seek = seek or anywhere(text)
            count = _collect(job, seek, text, begin, total, found, partial(at_file, number), stopped)
        if count:
            found.files.append((name, count))
            total += count
    return found._replace(total=total, searched=len(job["files"]), done=not stopped())


Seek = Callable[[int, int], "re.Match[str] | None"]
"""From the places in a text where to begin (a line's, without `multiline`) and to end to the first match."""


def _seeker(job: Job, regex: re.Pattern[str]) -> Callable[[str], Seek | None]:
    """For a text: how its matches are found where it is known what every match contains, and few lines hold
    that. Only those are looked at; that is found ten times as fast as anything else."""
    literal, signs = _sought_text(job), job["signs"]
    if literal:
        return lambda text: _by_line(regex, text, partial(text.find, literal))
    if signs is None or job["multiline"]:
        return lambda _text: None
    table = bytes(chr(byte) in signs for byte in range(256))
    beyond = bytes(mark or chr(byte) == "?" for byte, mark in enumerate(table))

    def by_signs(text: str) -> Seek | None:
        # A byte for each character, so that places are the same in both; "?" for those beyond ASCII.
        marks = text.encode("ascii", "replace").translate(table if text.isascii() else beyond)
        few = marks.count(1) * CHARS_PER_SIGN < len(text)
        return _by_line(regex, text, partial(marks.find, 1)) if few else None

    return by_signs


def _anywhere(job: Job, regex: re.Pattern[str]) -> Callable[[str], Seek]:
    """For a text: how its matches are found where nothing is known of them. Where each begins a line, line
    ends are looked for: that takes a fifth of the time."""
    if not _begins_line(job):
        return lambda text: partial(regex.search, text)
    line_before = re.compile(f"\n(?={job['source']})", job["flags"])

    def by_line_ends(text: str) -> Seek:
        def seek(at: int, end: int) -> re.Match[str] | None:
            match = regex.match(text, at, end)
            if match is None and (found := line_before.search(text, at, end)):
                match = regex.match(text, found.end(), end)
            return match

        return seek

    return by_line_ends


def _begins_line(job: Job) -> bool:
    return not job["multiline"] and job["source"].startswith("^") and "|" not in job["source"]


def _by_line(regex: re.Pattern[str], text: str, place: Callable[[int, int], int]) -> Seek:
    """Look only at lines with a place."""

    def seek(at: int, end: int) -> re.Match[str] | None:
        while (found := place(at, end)) >= 0:
            stop = _line_end(text, found)
            match = regex.search(text, text.rfind("\n", at, found) + 1 or at, stop)
            if match is not None:
                return match
            at = stop + 1
        return None

    return seek


def _filter(job: Job) -> Callable[[bytes], int]:
    """For a file's bytes: before which of them no line with a match begins, -1 when none does. A quick look,
    and an exact one only where there is one text to look for."""
    signs = None if job["signs"] is None else job["signs"].encode()

    def has_signs(data: bytes) -> bool:
        return signs is None or any(map(data.__contains__, signs)) or not data.isascii()

    if min(map(len, job["literals"]), default=0) < 2:
        return lambda data: has_signs(data) - 1
    if not job["flags"] & re.IGNORECASE:
        return _text_filter(job, has_signs)
    folded = [text.lower().encode() for text in job["literals"]]
    # The only ASCII letters that are equal to other characters when case does not count.
    special = any(letter in text for text in folded for letter in (b"i", b"k", b"s"))

    def may_match(data: bytes) -> bool:
        if not data.isascii() and (special or data[:2] in UTF_16):
            return True
        return has_signs(data) and any(map(data.lower().__contains__, folded))

    return lambda data: may_match(data) - 1


def _text_filter(job: Job, has_signs: Callable[[bytes], bool]) -> Callable[[bytes], int]:
    first, *others = (text.encode() for text in job["literals"])
    # One sign is found six times as fast as a text.
    hasty = job["signs"] is not None

    def place(data: bytes) -> int:
        if hasty and not has_signs(data):
            return -1
        at = data.find(first)
        if at < 0 or others or job["multiline"]:
            possible = at >= 0 or any(map(data.__contains__, others)) or data[:2] in UTF_16  # rare
            return possible - 1
        return at

    return place


def _read(top: str, name: str, found: Found) -> bytes:
    """What a file holds: nothing where it is told that it cannot be had."""
    data = file_bytes(top + name)
    if isinstance(data, bytes):
        return data
    (found.large if data == "large" else found.unreadable).append(name)
    return b""


def _has_longer_line(text: str, longest: int) -> bool:
    """Whether a line has more characters; looks at one place in so many."""
    at = 0
    while len(text) - at > longest:
        end = text.rfind("\n", at, at + longest + 1)
        if end < 0:
            return True
        at = end + 1
    return False


def _collect(
    job: Job,
    seek: Seek,
    text: str,
    begin: int,
    before: int,
    found: Found,
    beat: Callable[[], None],
    stopped: Callable[[], bool],
) -> int:
    """Count the matches of a text from the line that begins at `begin` on, and keep those that are to be
    given in full; `before`: how many came earlier."""
    count = 0
    for start, end in _spans(job, seek, text, begin, stopped, beat):
        if job["first"] <= before + count < job["last"]:
            found.hits.append(_hit(text, start, end, len(found.files)))
        count += 1
        if job["once"]:
            break
    return count


def _line_counter(job: Job, regex: re.Pattern[str]) -> Callable[[str, int], int]:
    """How many lines of a text match, from the beginning of one of them on, several times as fast as looking
    from one to the next; -1 where that would not count the same, or where so few are to be expected that it
    is not faster."""
    if job["once"] or job["multiline"] or regex.search("") or regex.search("\n"):
        return lambda _text, _begin: -1
    counter = re.compile(f"(?:{job['source']})[^\n]*\n?", job["flags"])
    literal = _sought_text(job)

    def lines_in(text: str, begin: int) -> int:
        if len(text) > _block_chars(job) or not text.endswith("\n"):
            return -1
        if literal:
            places = text.count(literal, begin)
            if places == 1 and begin:  # in this line
                return int(regex.search(text, begin, _line_end(text, begin)) is not None)
            if places * CHARS_BETWEEN < len(text):
                return -1
        return len(counter.findall(text, begin))

    return lines_in


def _sought_text(job: Job) -> str:
    """The text to look for: every line with a match holds it; "" when it is not known exactly, or when signs
    are rarer."""
    exact = len(job["literals"]) == 1 and not job["multiline"] and not job["flags"] & re.IGNORECASE
    literal = job["literals"][0] if exact else ""
    return literal if len(literal) > 1 or job["signs"] in (None, literal) else ""


def _spans(
    job: Job, seek: Seek, text: str, at: int, stopped: Callable[[], bool], beat: Callable[[], None]
) -> Iterator[tuple[int, int]]:
    """Where matches are: at most one a line, or, over lines, one after the other."""
    size = len(text)
    multiline = job["multiline"]
    block = _block_chars(job)
    last = size - 1 if text.endswith("\n") else size  # nothing begins behind the final line end
    while at < size:
        end = size if multiline else _block_end(text, at, block)
        while at < end:
            match = seek(at, end)
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


def _hit(text: str, start: int, end: int, file: int) -> Hit:
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
