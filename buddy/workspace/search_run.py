"""Running a search: buddy's own engine says what matches, in a child process wherever a pattern might take
for ever. Where that takes long, rg or git tell which of the other files need no look.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Literal, TypeVar

import msgspec

from buddy.agent.tool import ToolError
from buddy.workspace.file_bytes import MAX_FILE_BYTES
from buddy.workspace.git_config import inert_options
from buddy.workspace.ignore import repository_above
from buddy.workspace.launch import trusted_program
from buddy.workspace.processes import ChildProcesses, Request
from buddy.workspace.search_extract import Found, Job, found_from, never, nothing, search
from buddy.workspace.search_pattern import SearchPattern

T = TypeVar("T")
UNAIDED_S = 0.03
"""Searched alone; as much as starting a program and reading its answer costs."""
MATCHING_SHARE = 5
"""Where more than one file in so many matches, a program would not save enough."""
LONG_LITERAL = 3
"""Text so long is found by buddy as fast as by git."""
STUCK_S = 1.5
"""A pattern that gets nowhere for so long never will."""
POLL_S = 0.05


Engine = Literal["auto", "rg", "git", "own"]


class SearchSettings(msgspec.Struct, frozen=True):
    """How searches are run. `engine`: which program may help, "own" is none; `unaided_s`: after what time."""

    time_limit_s: float = 10
    engine: Engine = "auto"
    unaided_s: float = UNAIDED_S


class SearchRun(msgspec.Struct, frozen=True):
    """One search: who runs children (None: nobody), until when (`time.monotonic`), for which task."""

    children: ChildProcesses | None
    workspace: str
    task_id: int
    cancelled: asyncio.Event
    deadline: float
    engine: Engine = "auto"
    unaided_s: float = UNAIDED_S

    @property
    def left_s(self) -> float:
        """How much time is left."""
        return max(0.0, self.deadline - time.monotonic())


class Corpus(msgspec.Struct, frozen=True):
    """Files to search, in order, relative to a real path. `among`: how many there are in that place, ignored
    ones aside; `ruled`: ignore rules were applied."""

    top: str
    files: tuple[str, ...]
    among: int
    ruled: bool = True


class Wanted(msgspec.Struct, frozen=True):
    """What is to be told of the matches: those from `first` to `last` in full, how many there are up to
    `enough`, in a file no more than one when `once`."""

    first: int = 0
    last: int = 0
    enough: int = sys.maxsize
    once: bool = False


async def stoppable(run: SearchRun, work: Callable[[Callable[[], bool]], T]) -> T:
    """Blocking work in a thread; it is given a function that says when to stop: at the deadline, or when the
    call is cancelled. Nobody waits for cancelled work: it only reads, and ends at its next look."""
    stop = threading.Event()

    def stopped() -> bool:
        return stop.is_set() or run.cancelled.is_set() or time.monotonic() > run.deadline

    running = asyncio.get_running_loop().run_in_executor(None, work, stopped)
    waiter = asyncio.ensure_future(run.cancelled.wait())
    try:
        await asyncio.wait({running, waiter}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiter.cancel()
        if not running.done() or run.cancelled.is_set():
            stop.set()
            running.add_done_callback(_looked_at)
    if run.cancelled.is_set():
        raise asyncio.CancelledError
    return await running


def _looked_at(done: asyncio.Future[Any]) -> None:
    """So that an error nobody waits for is not reported as lost."""
    if not done.cancelled():
        done.exception()


async def find(run: SearchRun, pattern: SearchPattern, corpus: Corpus, wanted: Wanted) -> Found:
    """Search files in the order given. Raises `ToolError` for a pattern that takes for ever."""
    job = Job(
        top=corpus.top,
        files=list(corpus.files),
        source=pattern.source,
        flags=pattern.flags,
        literals=list(pattern.literals),
        signs=pattern.signs,
        multiline=pattern.multiline,
        first=wanted.first,
        last=wanted.last,
        enough=wanted.enough,
        once=wanted.once,
        longest=0 if pattern.linear else pattern.longest,
    )
    here = pattern.linear or pattern.longest > 0
    found = nothing(done=not job["files"])
    if here:
        found = await _here(run, job, _after(run.unaided_s, len(job["files"])))
    if found.done or not run.left_s:
        return found
    job = _rest(job, found)
    if len(found.files) * MATCHING_SHARE <= found.searched:
        needless = await narrow(run, pattern, corpus, len(job["files"]))
        job["files"] = [name for name in job["files"] if name not in needless]
    if here:
        part = await _here(run, job, never)
        found, job = _joined(found, part), _rest(job, part)
    if not pattern.linear and not found.done and run.left_s:
        found = _joined(found, await _in_child(run, job))
        job["files"] = []
    left = job["files"]
    return found._replace(searched=corpus.files.index(left[0]) if left else len(corpus.files))


async def _here(run: SearchRun, job: Job, pauses: Callable[[int], bool]) -> Found:
    return await stoppable(run, lambda stopped: search(job, stopped, lambda _number: None, pauses))


def _after(seconds: float, files: int) -> Callable[[int], bool]:
    """Pause after some time, unless most of the files are done by then."""
    until = time.monotonic() + seconds
    return lambda number: number * 2 < files and time.monotonic() >= until


def _rest(job: Job, found: Found) -> Job:
    """The job from the file on before which a search ended."""
    return {
        **job,
        "files": job["files"][found.searched :],
        "first": max(0, job["first"] - found.total),
        "last": max(0, job["last"] - found.total),
        "enough": max(0, job["enough"] - found.total),
    }


def _joined(one: Found, other: Found) -> Found:
    """What was found in some files, and then in the files after them."""
    before = len(one.files)
    return Found(
        one.total + other.total,
        [*one.files, *other.files],
        [*one.hits, *(hit._replace(file=hit.file + before) for hit in other.hits)],
        [*one.binary, *other.binary],
        [*one.large, *other.large],
        [*one.unreadable, *other.unreadable],
        one.searched + other.searched,
        other.done,
        other.more,
    )


# Narrowing down


async def narrow(run: SearchRun, pattern: SearchPattern, corpus: Corpus, left: int) -> frozenset[str]:
    """Files a program found no match in, so that nobody needs to look at them. All it says nothing about are
    looked at: those it could not read or left out, and every one where it failed or took too long. `left`:
    how many files are still to be searched; a program looks at the whole place."""
    if run.children is None or run.engine == "own" or left * 4 < corpus.among:
        return frozenset()
    path = run.children.environment.variables.get("PATH", "")
    rg = trusted_program("rg", path, run.workspace) if run.engine in ("auto", "rg") else None
    expression = pattern.loose_rust or _spelled_out(pattern)
    if rg is not None and expression:
        return await unmatched(run, run.children, _rg_command(rg, expression, corpus), corpus.top)
    git = trusted_program("git", path, run.workspace) if run.engine in ("auto", "git") else None
    quick = run.engine == "auto" and min(map(len, pattern.literals), default=0) >= LONG_LITERAL
    if git is not None and pattern.loose_pcre and not quick:
        names = await unmatched(run, run.children, _git_command(git, pattern.loose_pcre, corpus), corpus.top)
        return names - await stoppable(run, lambda stopped: _large(corpus.top, names, stopped))
    return frozenset()


def _spelled_out(pattern: SearchPattern) -> str:
    """What rg looks for where the pattern spans lines: the text it holds, in case that matters."""
    if pattern.ignore_case:
        return ""
    return "|".join("".join(f"\\x{ord(char):02x}" for char in text) for text in pattern.literals)


def _rg_command(rg: str, expression: str, corpus: Corpus) -> tuple[str, ...]:
    """Bytes as they are, so that no guess about an encoding loses a file; UTF-16 is always looked at. What is
    ignored need not be the same to rg: it only decides what rg looks at."""
    options = "--no-config --no-messages --color=never --files-without-match --null --text --encoding=none"
    places = "--hidden --no-require-git --no-ignore-dot --no-ignore-global --glob=!.git --glob=!.buddyx"
    ruled = () if corpus.ruled else ("--no-ignore",)
    size = f"--max-filesize={MAX_FILE_BYTES}"
    expressions = ("--regexp", expression, "--regexp", "(?-u:\\xff\\xfe|\\xfe\\xff)")
    return (rg, *options.split(), *places.split(), *ruled, size, *expressions, "--", ".")


def _git_command(git: str, expression: str, corpus: Corpus) -> tuple[str, ...]:
    """git looks at bytes where the locale has no characters. It walks by itself, not into repositories
    inside."""
    repository = repository_above(corpus.top) or corpus.top
    before = (
        "--no-pager",
        f"--work-tree={repository}",
        *inert_options(()),
        "-c",
        "core.excludesFile=/dev/null",
    )
    options = "--no-index --exclude-standard --no-full-name --files-without-match -z -a -P"
    expressions = ("-e", expression, "-e", "\\xff\\xfe|\\xfe\\xff")
    return (git, *before, "grep", *options.split(), *expressions, "--", ".")


_PROGRAM_ENVIRONMENT = {
    "LC_ALL": "C",  # with a UTF-8 locale git would lose files in other encodings
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_LITERAL_PATHSPECS": "1",
}


async def unmatched(
    run: SearchRun, children: ChildProcesses, argv: tuple[str, ...], top: str
) -> frozenset[str]:
    """The NUL-separated names a program prints, in half of the time that is left; whether it succeeds makes
    no difference. A name that is cut off is none of the files."""
    output: list[bytes] = []
    request = Request(argv, top, run.task_id, env=_PROGRAM_ENVIRONMENT, kept=False, limited=False)
    try:
        await children.run(request, timeout_s=run.left_s / 2, cancelled=run.cancelled, listener=output.append)
    except ToolError:  # it cannot be started: then it helps nobody
        return frozenset()
    return await stoppable(run, lambda _stopped: _names(b"".join(output)))


def _large(top: str, names: frozenset[str], stopped: Callable[[], bool]) -> set[str]:
    """Those that git read though they are too large: whoever reads them tells so, whatever program helps."""
    found: set[str] = set()
    for name in names:
        try:
            if stopped() or os.lstat(f"{top}/{name}").st_size > MAX_FILE_BYTES:
                found.add(name)
        except OSError:
            found.add(name)
    return found


def _names(output: bytes) -> frozenset[str]:
    return frozenset(name.removeprefix("./") for name in os.fsdecode(output).split("\0")[:-1])


# A child process for patterns that may never end


_PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_BARE_CHILD = (  # the standard library stays first: nothing that is installed can take its place
    "import sys; sys.path.append(sys.argv[1]); "
    "from buddy.workspace.search_extract import main; main(*sys.argv[2:])"
)


async def _in_child(run: SearchRun, job: Job) -> Found:
    import tempfile  # here: 3 ms that only such a pattern needs

    if not job["files"]:
        return nothing(done=True)
    if run.children is None:
        raise ToolError("this pattern may take very long and nothing can watch over it here; make it simpler")
    with tempfile.TemporaryDirectory(prefix=f"buddy-search-{os.getpid()}-") as folder:
        names = [os.path.join(folder, name) for name in ("job", "answer", "place")]
        _write_job(names[0], {**job, "longest": 0})
        request = Request(
            (sys.executable, "-I", "-S", "-B", "-X", "utf8", "-c", _BARE_CHILD, _PACKAGES, *names),
            job["top"],
            run.task_id,
            limited=False,
        )
        await _watched(run, run.children, request, job, names[2])
        return _answer(names[1])


def _write_job(path: str, job: Job) -> None:
    with open(path, "w", encoding="ascii") as file:
        json.dump(job, file)


def _answer(path: str) -> Found:
    with open(path, encoding="ascii") as file:
        data: dict[str, Any] = json.load(file)
    return found_from(data)


async def _watched(
    run: SearchRun, children: ChildProcesses, request: Request, job: Job, place_path: str
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


def _too_slow(job: Job, place: bytes, *, stuck: bool) -> str:
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
