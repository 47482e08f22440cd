"""Running a search: RE2 inside the program, and `re` in a child process, which can be killed, for the files
about which RE2 cannot tell.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

import buddy
from buddy.agent.tool import ToolError
from buddy.workspace.processes.pool import ChildProcesses, CommandRequest
from buddy.workspace.search.matcher import Found, Hit, SearchJob, found_from, nothing, search
from buddy.workspace.search.pattern import SearchPattern
from buddy.workspace.search.re2 import Re2Matcher

T = TypeVar("T")
STUCK_S = 1.5
"""A pattern that gets nowhere for so long never will."""
POLL_S = 0.05
GRACE_S = 0.5
"""After the deadline, for work that stops at its next look."""


class SearchSettings(msgspec.Struct, frozen=True):
    """Settings for searches."""

    time_limit_s: float = 10


class SearchRun(msgspec.Struct, frozen=True):
    """One search: who runs children (None: nobody), until when (`time.monotonic`), for which task."""

    children: ChildProcesses | None
    workspace: str
    task_id: int
    cancelled: asyncio.Event
    deadline: float

    @property
    def left_s(self) -> float:
        """Return the seconds until the deadline."""
        return max(0.0, self.deadline - time.monotonic())


class Corpus(msgspec.Struct, frozen=True):
    """Files to search, in order, relative to a real path."""

    top: str
    files: tuple[str, ...]


class SearchLimits(msgspec.Struct, frozen=True):
    """Matches to report: those from `first` to `last` in full, a count up to `enough`, at most one per file
    when `once`."""

    first: int = 0
    last: int = 0
    enough: int = sys.maxsize
    once: bool = False


async def stoppable(run: SearchRun, work: Callable[[Callable[[], bool]], T]) -> T:
    """Run blocking work in a thread; it is given a function that says when to stop: at the deadline, or when
    the call is cancelled. Nobody waits for cancelled work: it only reads, and ends at its next look."""
    stop = threading.Event()

    def is_stopped() -> bool:
        return stop.is_set() or run.cancelled.is_set() or time.monotonic() > run.deadline

    running = asyncio.get_running_loop().run_in_executor(None, work, is_stopped)
    waiter = asyncio.ensure_future(run.cancelled.wait())
    try:
        await asyncio.wait(
            {running, waiter}, timeout=run.left_s + GRACE_S, return_when=asyncio.FIRST_COMPLETED
        )
    finally:
        waiter.cancel()
        if not running.done() or run.cancelled.is_set():
            stop.set()
            running.add_done_callback(_retrieve_error)
    if run.cancelled.is_set():
        raise asyncio.CancelledError
    if not running.done():
        raise ToolError(
            "the search reached its time limit in the middle of a large file and was stopped: nothing is "
            "known. Search a smaller path, use glob, or a simpler pattern."
        )
    return running.result()


def _retrieve_error(done: asyncio.Future[Any]) -> None:
    """Retrieve the error, so that asyncio does not report it as never retrieved."""
    if not done.cancelled():
        done.exception()


async def find(run: SearchRun, pattern: SearchPattern, corpus: Corpus, wanted: SearchLimits) -> Found:
    """Search files in the order given. Raises `ToolError` for a pattern that takes for ever."""
    job = SearchJob(
        top=corpus.top,
        files=list(corpus.files),
        source=pattern.source,
        flags=pattern.flags,
        literal=pattern.literal,
        rare=pattern.rare,
        multiline=pattern.multiline,
        first=wanted.first,
        last=wanted.last,
        enough=wanted.enough,
        once=wanted.once,
    )
    matcher = Re2Matcher(pattern)
    if (
        wanted.first and not matcher.is_sure
    ):  # which matches are the first ones is known when the child has answered
        job["first"] = 0
    found = await stoppable(run, lambda stopped: search(job, matcher, stopped, lambda _number: None))
    if not found.undecided:
        return found._replace(hits=found.hits[wanted.first - job["first"] :])
    rest = nothing(done=False)
    if run.left_s:
        rest = await _in_child(run, {**job, "files": found.undecided})
    return merge_results(job["files"], found, rest, wanted)


def merge_results(files: Sequence[str], found: Found, rest: Found, wanted: SearchLimits) -> Found:
    """Merge two searches, the second over the files the first left undecided, into the result of one search
    over all files in order."""
    parts = (found, rest)
    place = {name: number for number, name in enumerate(files)}
    hits: dict[str, list[Hit]] = {}
    for part in parts:
        for hit in part.hits:
            hits.setdefault(part.files[hit.file][0], []).append(hit)
    searched = found.searched
    if rest.searched < len(found.undecided):
        searched = min(searched, place[found.undecided[rest.searched]])
    counts = sorted((place[name], name, count) for part in parts for name, count in part.files)
    whole = nothing(done=found.done and rest.done)
    total = 0
    for number, name, count in counts:
        for at, hit in enumerate(hits.get(name, ()), total):
            if wanted.first <= at < wanted.last:
                whole.hits.append(hit._replace(file=len(whole.files)))
        whole.files.append((name, count))
        total += count
        if total >= wanted.enough:
            searched = number + 1
            whole = whole._replace(done=True, more=searched < len(files))
            break
    for kind in ("binary", "large", "unreadable"):
        names = sorted((*getattr(found, kind), *getattr(rest, kind)), key=place.__getitem__)
        getattr(whole, kind).extend(name for name in names if place[name] < searched or not whole.more)
    return whole._replace(total=total, searched=searched)


# A child process for patterns that may never end


_PACKAGES = os.path.dirname(os.path.abspath(buddy.__path__[0]))
_BARE_CHILD = (  # the standard library stays first: nothing that is installed can take its place
    "import sys; sys.path.extend(sys.argv[1:3]); "
    "from buddy.workspace.search.matcher import main; main(*sys.argv[3:])"
)


def _encodings_folder() -> str:
    """Return the folder that holds charset-normalizer, with which the child reads old encodings as this
    program does. Installed as editable, buddy itself lies elsewhere."""
    spec = importlib.util.find_spec("charset_normalizer")
    return os.path.dirname(os.path.dirname(spec.origin)) if spec is not None and spec.origin else _PACKAGES


async def _in_child(run: SearchRun, job: SearchJob) -> Found:
    from buddy.workspace.temporary import TemporaryFolder  # tempfile: 3 ms that only such a pattern needs

    if run.children is None:
        raise ToolError("this pattern may take very long and nothing can watch over it here; make it simpler")
    with TemporaryFolder("search") as folder:
        names = [os.path.join(folder, name) for name in ("job", "answer", "place")]
        _write_job(names[0], job)
        paths = (_PACKAGES, _encodings_folder())
        request = CommandRequest(
            (sys.executable, "-I", "-S", "-B", "-X", "utf8", "-c", _BARE_CHILD, *paths, *names),
            job["top"],
            run.task_id,
            limited=False,
        )
        await _watch(run, run.children, request, job, names[2])
        return _answer(names[1])


def _write_job(path: str, job: SearchJob) -> None:
    with open(path, "w", encoding="ascii") as file:
        json.dump(job, file)


def _answer(path: str) -> Found:
    with open(path, encoding="ascii") as file:
        data: dict[str, Any] = json.load(file)
    return found_from(data)


async def _watch(
    run: SearchRun, children: ChildProcesses, request: CommandRequest, job: SearchJob, place_path: str
) -> None:
    """Wait for the search's end; end it when it gets nowhere. Raises `ToolError`. Looks are counted, not the
    time between them, in which this program, or the whole machine, may have stood still."""
    child = children.start(request)
    place, looks = b"", 0
    while True:
        exit_ = await children.attend(child, timeout_s=POLL_S, cancelled=run.cancelled)
        if exit_ is not None:
            break
        before, place = place, _bytes_of(place_path)
        looks = looks + 1 if place == before else 0
        stuck = looks * POLL_S > STUCK_S
        if stuck or time.monotonic() > run.deadline:
            await child.end("time limit")
            raise ToolError(_too_slow(job, place, stuck=stuck))
    if exit_.code != 0:
        raise ToolError(f"the search crashed ({exit_.code or exit_.signal}): {child.log.text()[-500:]}")


def _bytes_of(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def _too_slow(job: SearchJob, place: bytes, *, stuck: bool) -> str:
    number = int(place.split()[1]) if place else 0
    where = job["files"][number]
    if stuck:
        return (
            f"the pattern takes too long on {where!r} (file {number + 1} of {len(job['files'])}): nested or "
            "neighbouring repeats like (a+)+ try every way to match. Make it simpler, or use literal=true."
        )
    return (
        f"the search reached its time limit at file {number + 1} of {len(job['files'])} ({where!r}) and was "
        "stopped: nothing is known about the rest. Search a smaller path, use glob, or a simpler pattern."
    )
