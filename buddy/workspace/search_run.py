"""Running a search: rg or git narrow down the files where they are installed, buddy's own engine says what
matches, in a child process wherever a pattern might take for ever.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import msgspec

from buddy.agent.tool import ToolError
from buddy.workspace import search_extract
from buddy.workspace.git_config import inert_options
from buddy.workspace.ignore import repository_above
from buddy.workspace.launch import trusted_program
from buddy.workspace.processes import ChildProcesses, Request
from buddy.workspace.search_extract import Found, Job, found_from, search
from buddy.workspace.search_pattern import SearchPattern

T = TypeVar("T")
NOTHING = Found(0, [], [], [], [], [], 0, done=True)
FEW_FILES = 1500
FEW_BYTES = 20_000_000
"""So much is read faster than a program is started and told about it."""
ARGUMENT_BYTES = 900_000
"""Of file names for one command line; Linux takes 2 MB together with the environment."""
STUCK_S = 1.5
"""A pattern that gets nowhere for so long never will."""
POLL_S = 0.05


class SearchSettings(msgspec.Struct, frozen=True):
    """How searches are run. `engine`: which program narrows down the files; "own" is none."""

    time_limit_s: float = 10
    engine: Literal["auto", "rg", "git", "own"] = "auto"


class SearchRun(msgspec.Struct, frozen=True):
    """One search: who runs children (None: nobody), until when (`time.monotonic`), for which task."""

    children: ChildProcesses | None
    workspace: str
    task_id: int
    cancelled: asyncio.Event
    deadline: float
    engine: Literal["auto", "rg", "git", "own"] = "auto"

    @property
    def left_s(self) -> float:
        """How much time is left."""
        return max(0.0, self.deadline - time.monotonic())


class Corpus(msgspec.Struct, frozen=True):
    """Files to search, in order, relative to a real path. `apart`: folders (with a final slash) that are
    repositories of their own; `ruled`: ignore rules were applied; `size`: all their bytes."""

    top: str
    files: tuple[str, ...]
    apart: tuple[str, ...] = ()
    ruled: bool = True
    size: int = 0


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


async def find(run: SearchRun, pattern: SearchPattern, corpus: Corpus, *, first: int, last: int) -> Found:
    """Search files in the order given; matches `first` to `last` in full. Raises
    `ToolError` for a pattern that takes for ever."""
    narrowed = await narrow(run, pattern, corpus)
    job = Job(
        top=corpus.top,
        files=[name for name in corpus.files if narrowed is None or name in narrowed],
        source=pattern.source,
        flags=pattern.flags,
        literal=pattern.literal,
        multiline=pattern.multiline,
        first=first,
        last=last,
        longest=0 if pattern.linear else pattern.longest,
    )
    if pattern.linear or job["longest"]:
        found = await stoppable(run, lambda stopped: search(job, stopped, lambda _number: None))
    else:
        found = NOTHING._replace(done=not job["files"])
    if not pattern.linear and not found.done and run.left_s:
        found = _joined(found, await _in_child(run, _rest(job, found)))
    return found if narrowed is None or not found.done else found._replace(searched=len(corpus.files))


def _rest(job: Job, found: Found) -> Job:
    """The job from the file on that a search left to a child process."""
    skipped = found.total
    return {
        **job,
        "files": job["files"][found.searched :],
        "first": max(0, job["first"] - skipped),
        "last": max(0, job["last"] - skipped),
        "longest": 0,
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
    )


# Narrowing down


async def narrow(run: SearchRun, pattern: SearchPattern, corpus: Corpus) -> frozenset[str] | None:
    """The files that may hold a match; None when nothing is known, which is never wrong."""
    auto = run.engine == "auto"
    if run.children is None or run.engine == "own" or (auto and _is_little(corpus)):
        return None
    path = run.children.environment.variables.get("PATH", "")
    rg = trusted_program("rg", path, run.workspace) if run.engine in ("auto", "rg") else None
    if rg is not None:
        return await _by_rg(run, run.children, rg, pattern, corpus)
    git = trusted_program("git", path, run.workspace) if run.engine in ("auto", "git") else None
    if git is not None and pattern.loose_pcre:
        return await _by_git(run, run.children, git, pattern, corpus)
    return None


def _is_little(corpus: Corpus) -> bool:
    return len(corpus.files) <= FEW_FILES and corpus.size <= FEW_BYTES


async def _by_rg(
    run: SearchRun, children: ChildProcesses, rg: str, pattern: SearchPattern, corpus: Corpus
) -> frozenset[str] | None:
    """Files by name, so that what is searched is decided in one place; bytes as they are, so that no guess
    about an encoding loses a file. UTF-16 files are always kept."""
    wanted = pattern.loose_rust or _spelled_out(pattern.literal)
    if not wanted:
        return None
    options = "--no-config --no-messages --color=never --no-heading --files-with-matches --null --text"
    argv = (rg, *options.split(), "--encoding=none", "--no-ignore", "--hidden", "--regexp")
    # Anywhere, not only at the beginning: that way rg looks for plain bytes, three times as fast.
    expression = f"(?:{wanted})|(?-u:\\xff\\xfe|\\xfe\\xff)"
    kept: set[str] = set()
    for batch in batches(corpus.files):
        names = await _names(run, children, (*argv, expression, "--", *batch), corpus.top, {})
        if names is None:
            return None
        kept |= names
    return frozenset(kept)


def _spelled_out(literal: str) -> str:
    return "".join(f"\\x{ord(char):02x}" for char in literal)


async def _by_git(
    run: SearchRun, children: ChildProcesses, git: str, pattern: SearchPattern, corpus: Corpus
) -> frozenset[str] | None:
    """git walks by itself; repositories inside, which it does not enter, are kept."""
    repository = repository_above(corpus.top)
    if not corpus.ruled or not repository:
        return None
    options = (
        "-c",
        "core.excludesFile=/dev/null",
        "grep",
        "--no-index",
        "--exclude-standard",
        "-l",
        "-z",
        "-a",
    )
    argv = (git, "--no-pager", f"--work-tree={repository}", *inert_options(()), *options)
    # Bytes, not characters: with a UTF-8 locale files in other encodings would be lost.
    env = {
        "LC_ALL": "C",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_LITERAL_PATHSPECS": "1",
    }
    # Two at the same time: one pattern with an alternative for UTF-16 would be several times as slow.
    found, wide = await asyncio.gather(
        *(
            _names(run, children, (*argv, "-P", "-e", expression, "--", "."), corpus.top, env)
            for expression in (pattern.loose_pcre, "\\xff\\xfe|\\xfe\\xff")
        )
    )
    if found is None or wide is None:
        return None
    return found | wide | {name for name in corpus.files if name.startswith(corpus.apart)}


def batches(files: Sequence[str]) -> list[list[str]]:
    """File names for command lines of bounded length."""
    found: list[list[str]] = [[]]
    size = 0
    for name in files:
        size += len(name) * (1 if name.isascii() else 4) + 9
        if size > ARGUMENT_BYTES and found[-1]:
            found.append([])
            size = len(name)
        found[-1].append(name)
    return found


async def _names(
    run: SearchRun, children: ChildProcesses, argv: tuple[str, ...], cwd: str, env: dict[str, str]
) -> frozenset[str] | None:
    """The NUL-separated names a program prints; None when it failed or took too long, whatever the reason:
    without its help the search is only slower."""
    output: list[bytes] = []
    request = Request(argv, cwd, run.task_id, env=env, sandboxed=False)
    finished = await children.run(
        request, timeout_s=run.left_s, cancelled=run.cancelled, listener=output.append
    )
    if finished.timed_out or finished.exit.code not in (0, 1):
        return None
    return frozenset(os.fsdecode(name) for name in b"".join(output).split(b"\0"))


# A child process for patterns that may never end


async def _in_child(run: SearchRun, job: Job) -> Found:
    import tempfile  # here: 3 ms that only such a pattern needs

    if run.children is None:
        raise ToolError("this pattern may take very long and nothing can watch over it here; make it simpler")
    with tempfile.TemporaryDirectory(prefix=f"buddy-search-{os.getpid()}-") as folder:
        names = [os.path.join(folder, name) for name in ("job", "answer", "place")]
        _write_job(names[0], job)
        script = os.path.abspath(search_extract.__file__)
        request = Request(
            (sys.executable, "-I", "-S", "-B", "-X", "utf8", script, *names),
            job["top"],
            run.task_id,
            sandboxed=False,
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
    """Wait for the search's end; end it when it gets nowhere. Raises `ToolError`."""
    child = children.start(request)
    place, since = b"", time.monotonic()
    while True:
        exit_ = await children.attend(child, timeout_s=POLL_S, cancelled=run.cancelled)
        if exit_ is not None:
            break
        now, current = time.monotonic(), _bytes_of(place_path)
        if current != place:
            place, since = current, now
        if now - since > STUCK_S or now > run.deadline:
            await child.end("time limit")
            raise ToolError(_too_slow(job, place, stuck=now - since > STUCK_S))
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
