"""Cancelling a tool at a random moment, again and again: what is called, and what must hold afterwards."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import subprocess
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from buddy.agent.messages import ToolMessage
from buddy.agent.provider import ModelRequest
from buddy.llm.scripted import Pause, Reply, Say, ScriptedCall
from buddy.tools.ask_user import Questions
from buddy.tools.todo import WallClock
from buddy.tools.web import WebAccess, WebResult
from buddy.workspace.files.read_tracking import FileViews
from buddy.workspace.processes.jobs import Jobs
from buddy.workspace.processes.launch import TerminalSize, shell_argv
from buddy.workspace.processes.pool import CommandRequest
from buddy.workspace.processes.process_tree import own_children
from buddy.workspace.web import Fetcher
from tests.support.legal_history import is_legal
from tests.support.scripted_session import ScriptedSession, first_text, last_result, scripted_session
from tests.support.web_server import LOOPBACK, Names, reply, serving

SUBAGENT = "count the files"
SETTLED_S = 50.0
"""A deadline against hanging: worker threads of a cancelled search end at their next look."""
GIT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
IDENTITY = ("-c", "user.name=t", "-c", "user.email=t@t")

Tree = dict[str, bytes]


class Scenario(msgspec.Struct, frozen=True):
    """One tool's call. `arguments` for a round; `prepare` before it; `may_become`: what files may hold
    afterwards besides what they held before (None: may be gone)."""

    arguments: Callable[[CancelSession, int], Mapping[str, Any]]
    prepare: Callable[[CancelSession, int], Awaitable[None]] | None = None
    may_become: Callable[[CancelSession, int], dict[str, set[bytes | None]]] = lambda _session, _round: {}
    free: bool = False
    """Whether the call itself changes files as it goes (a command, git): only what buddy leaves is judged."""
    model: str = ""
    answered: bool = True
    """Whether the call ends by itself when nobody cancels it."""


class CancelSession:
    """A project, a board with one task, and what the next reply of the model is."""

    def __init__(self, session: ScriptedSession, url: str) -> None:
        self.session = session
        self.url = url
        self.next_call: ScriptedCall | None = None
        self.job = 0

    @property
    def root(self) -> Path:
        return self.session.root

    def git(self, *words: str) -> None:
        subprocess.run(
            ("git", *IDENTITY, *words), cwd=self.root, check=True, capture_output=True, env=GIT, timeout=120
        )

    def committed(self, name: str) -> bytes:
        """A file as it is in the last commit."""
        return subprocess.run(
            ("git", "show", f"HEAD:{name}"), cwd=self.root, check=True, capture_output=True, env=GIT
        ).stdout

    def put(self, name: str, content: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    def tree(self) -> Tree:
        """Every file's content, git's and buddy's own folders aside."""
        found: Tree = {}
        for folder, folders, names in os.walk(self.root):
            folders[:] = [name for name in folders if name not in (".git", ".buddyx")]
            for name in names:
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    found[os.path.relpath(path, self.root)] = file.read()
        return found

    async def job_on_a_terminal(self) -> None:
        """A job to look after, started when the last one is gone."""
        jobs = self.session.board.task(1).services.services[Jobs]
        assert isinstance(jobs, Jobs)
        alive = [one for one in jobs.all() if one.state != "ended"]
        if not alive:
            loop = "while read line; do sleep 0.05; done"
            request = CommandRequest(shell_argv(loop), str(self.root), 1, terminal=TerminalSize())
            jobs.start(request, command=loop)
            alive = [one for one in jobs.all() if one.state != "ended"]
        self.job = alive[-1].id

    async def turn(self, call: ScriptedCall, cancel_after_s: float | None) -> str:
        """A turn with one call, cancelled after a while; the status of its result, "" when it never began."""
        board = self.session.board
        self.next_call = call
        board.submit(1, "go")
        if cancel_after_s is not None:
            await asyncio.wait({board.task(1).runner}, timeout=cancel_after_s)
            board.cancel(1)
        await asyncio.wait_for(board.wait(1), 60)
        results = [message for message in board.task(1).history if isinstance(message, ToolMessage)]
        return results[-1].status if results else ""

    def last_result(self) -> str:
        """Return the last tool result the model got."""
        history = self.session.board.task(1).history
        return next((message.text for message in reversed(history) if isinstance(message, ToolMessage)), "")

    def reset(self) -> None:
        """An empty conversation, so that the next one is short, and nothing known of files that went."""
        self.session.board.reset(1)
        views = self.session.board.task(1).services.services[FileViews]
        assert isinstance(views, FileViews)
        views.forget_below(str(self.root))
        self.next_call = None


@asynccontextmanager
async def cancel_session(folder: Path) -> AsyncIterator[CancelSession]:
    """A repository with a remote, 300 source files, a slow web server, a subagent that takes its time."""

    def script(request: ModelRequest) -> Reply:
        if first_text(request) == SUBAGENT:
            return (Pause(0.15), Say("300"))
        call = holder[0].next_call
        return (Say("done"),) if last_result(request) is not None or call is None else (call,)

    async def page(_path: str, writer: asyncio.StreamWriter) -> None:
        whole = reply(b"<h1>Hello</h1>" + b"<p>words</p>" * 2000, "text/html")
        for at in range(0, len(whole), 4096):
            writer.write(whole[at : at + 4096])
            await writer.drain()
            await asyncio.sleep(0.02)

    holder: list[CancelSession] = []
    async with (
        serving(page) as server,
        scripted_session(folder, script, repository=True) as session,
    ):
        found = CancelSession(session, server.url())
        holder.append(found)
        _fill(found)
        services = dict(session.board.task(1).services.services)
        fetcher = Fetcher(resolver=Names(site_example=("127.0.0.1",)), exceptions=LOOPBACK)
        services[WebAccess] = WebAccess(fetcher, SlowSearch(), time.monotonic)
        services[WallClock] = WallClock(lambda: datetime.now().astimezone())
        task = session.board.task(1)
        task.services = msgspec.structs.replace(task.services, services=services)
        watching = asyncio.ensure_future(_watched(session))
        try:
            yield found
        finally:
            watching.cancel()


async def _watched(session: ScriptedSession) -> None:
    """A front end that keeps up: the provider is not read while nobody looks."""
    while True:
        session.events(1)
        await asyncio.sleep(0.005)


class SlowSearch:
    """A web search that takes a while."""

    async def search(self, query: str, limit: int) -> list[WebResult]:
        await asyncio.sleep(0.1)
        return [WebResult(f"about {query}", "https://example.com/", "words")][:limit]


def _fill(session: CancelSession) -> None:
    for number in range(300):
        words = "".join(f"def function_{number}_{line}(value): return value + {line}\n" for line in range(30))
        session.put(f"src/pkg{number % 10}/file_{number}.py", words)
    session.put("a.txt", "one\ntwo\nthree\n")
    session.put("big.txt", "words and more words\n" * 50_000)
    session.put("slow.txt", "a" * 5000 + "b\n")
    session.put("Makefile", "test:\n\t@for i in 1 2 3; do sleep 0.05; echo ok $$i; done\n")
    session.git("add", "-A")
    session.git("commit", "-qm", "begin")
    session.git("branch", "-qM", "main")
    subprocess.run(
        ("git", "clone", "-q", "--bare", str(session.root), str(session.root.parent / "remote.git")),
        check=True,
        env=GIT,
        timeout=120,
    )
    session.git("remote", "add", "origin", str(session.root.parent / "remote.git"))
    session.git("config", "user.name", "t")
    session.git("config", "user.email", "t@t")


# What is called


LONG = "".join(f"line {number}\n" for number in range(2_000))
PATCH = "*** Begin Patch\n*** Update File: a.txt\n@@\n-two\n+2\n*** Add File: n.txt\n+new\n*** End Patch\n"


async def _plain_a(session: CancelSession, _round: int) -> None:
    session.put("a.txt", "one\ntwo\nthree\n")
    for name in ("n.txt", "copy.txt", "moved.txt"):
        (session.root / name).unlink(missing_ok=True)


async def _with_job(session: CancelSession, _round: int) -> None:
    await session.job_on_a_terminal()


async def _changed(session: CancelSession, round_: int) -> None:
    await _clean(session, round_)
    session.put("a.txt", f"one\n{round_}\n")


async def _staged(session: CancelSession, round_: int) -> None:
    await _changed(session, round_)
    session.git("add", "a.txt")


async def _clean(session: CancelSession, _round: int) -> None:
    session.git("reset", "-q", "--hard")


async def _ahead(session: CancelSession, round_: int) -> None:
    await _staged(session, round_)
    session.git("commit", "-qm", f"change {round_}", "--allow-empty")


async def _behind(session: CancelSession, _round: int) -> None:
    session.git("reset", "-q", "--hard")
    session.git("clean", "-qfd", "-e", ".buddyx")


def _job(session: CancelSession, _round: int) -> Mapping[str, Any]:
    return {"job": session.job}


def fixed(**arguments: Any) -> Callable[[CancelSession, int], Mapping[str, Any]]:
    return lambda _session, _round: arguments


def becoming(**files: str | None) -> Callable[[CancelSession, int], dict[str, set[bytes | None]]]:
    names = {name.replace("_", "."): None if text is None else text.encode() for name, text in files.items()}
    return lambda _session, _round: {name: {content} for name, content in names.items()}


SCENARIOS: dict[str, Scenario] = {
    "read_file": Scenario(fixed(path="big.txt", offset=40_000)),
    "write_file": Scenario(
        fixed(path="n.txt", content=LONG), prepare=_plain_a, may_become=becoming(n_txt=LONG)
    ),
    "edit_file": Scenario(
        fixed(path="a.txt", old="two", new="2"), _plain_a, becoming(a_txt="one\n2\nthree\n")
    ),
    "apply_patch": Scenario(
        fixed(patch=PATCH), _plain_a, becoming(a_txt="one\n2\nthree\n", n_txt="new\n"), model="gpt-5"
    ),
    "list_files": Scenario(fixed(path="src/pkg1")),
    "grep": Scenario(
        lambda _session, round_: {"pattern": ("(v+a*)+lue.*q$", "return.*x.*y.*z", "function_7")[round_ % 3]}
    ),
    "find_files": Scenario(fixed(pattern="**/*_7*.py")),
    "find_definition": Scenario(fixed(name="function_77_3")),
    "copy_file": Scenario(
        fixed(source="a.txt", target="copy.txt"), _plain_a, becoming(copy_txt="one\ntwo\nthree\n")
    ),
    "move_file": Scenario(
        fixed(source="a.txt", target="moved.txt"),
        _plain_a,
        becoming(moved_txt="one\ntwo\nthree\n", a_txt=None),
    ),
    "delete_file": Scenario(fixed(path="a.txt"), _plain_a, becoming(a_txt=None)),
    "run_shell": Scenario(
        fixed(command="sleep 0.15 & (setsid sleep 0.1 &); trap '' TERM; sleep 0.05; echo x")
    ),
    "list_jobs": Scenario(fixed(), _with_job),
    "read_job": Scenario(lambda session, _round: {"job": session.job, "wait": 0.2}, _with_job),
    "stop_job": Scenario(_job, _with_job),
    "write_job": Scenario(lambda session, _round: {"job": session.job, "text": "hello\n"}, _with_job),
    "send_keys": Scenario(lambda session, _round: {"job": session.job, "keys": ["x", "Enter"]}, _with_job),
    "capture_pane": Scenario(_job, _with_job),
    "git_status": Scenario(fixed(), _changed),
    "git_diff": Scenario(fixed(), _changed),
    "git_log": Scenario(fixed()),
    "git_show": Scenario(fixed()),
    "git_branch": Scenario(fixed()),
    "git_add": Scenario(fixed(paths=["."]), _changed),
    "git_commit": Scenario(fixed(message="a change"), _staged),
    "git_checkout": Scenario(
        lambda session, round_: {
            "ref": f"b{round_}-{len(os.listdir(session.root / '.git/refs/heads'))}",
            "create": True,
        }
    ),
    "git_stash": Scenario(fixed(), _changed, lambda session, _round: {"a.txt": {session.committed("a.txt")}}),
    "git_push": Scenario(fixed(), _ahead),
    "git_pull": Scenario(fixed(branch="main"), _behind, free=True),
    "run_tests": Scenario(fixed(framework="make")),
    "web_fetch": Scenario(lambda session, round_: {"url": f"{session.url}?{round_}{random.random()}"}),
    "web_search": Scenario(fixed(query="words")),
    "delegate": Scenario(fixed(task=SUBAGENT, background=False)),
    "ask_user": Scenario(fixed(questions=[{"question": "Which?", "options": ["a", "b"]}]), answered=False),
    "todo": Scenario(fixed(items=[{"text": "one", "state": "active"}])),
    "time": Scenario(fixed()),
}


# What must hold


async def rounds(
    session: CancelSession, name: str, count: int, chance: random.Random
) -> tuple[list[str], int]:
    """Cancel a tool so many times; what was wrong, and how many calls were cancelled in the middle."""
    scenario = SCENARIOS[name]
    numbers = itertools.count()
    if scenario.model:
        session.session.board.change_model(1, scenario.model)
    lasting = await _how_long(session, name, scenario, next(numbers))
    problems: list[str] = []
    cancelled = 0
    for at in range(count):
        number = next(numbers)
        if scenario.prepare is not None:
            await scenario.prepare(session, number)
        before = await _settled(session)
        tree = session.tree()
        status = await session.turn(_call(session, name, scenario, number), chance.uniform(0, lasting))
        cancelled += status == "cancelled"
        problems += [
            f"round {at}: {problem}" for problem in await _problems(session, scenario, number, before, tree)
        ]
        session.reset()
        if at == count - 1 or at % 20 == 19:
            again = await _how_it_ends(session, name, scenario, next(numbers))
            if again != "ok":
                problems.append(
                    f"round {at}: the next call ended as {again!r}: {session.last_result()[:500]}"
                )
            session.reset()
    return problems, cancelled


def _call(session: CancelSession, name: str, scenario: Scenario, number: int) -> ScriptedCall:
    return ScriptedCall(name, msgspec.json.encode(scenario.arguments(session, number)).decode())


async def _how_long(session: CancelSession, name: str, scenario: Scenario, number: int) -> float:
    """Return the duration of the call without cancellation, measured the second time, after all imports."""
    await _how_it_ends(session, name, scenario, number)
    session.reset()
    started = time.monotonic()
    await _how_it_ends(session, name, scenario, number + 1_000_000)
    session.reset()
    return min(time.monotonic() - started, 1.0)


async def _how_it_ends(session: CancelSession, name: str, scenario: Scenario, number: int) -> str:
    if scenario.prepare is not None:
        await scenario.prepare(session, number)
    if scenario.answered:
        return await session.turn(_call(session, name, scenario, number), None)
    questions = session.session.board.task(1).services.services[Questions]
    assert isinstance(questions, Questions)
    turn = asyncio.ensure_future(session.turn(_call(session, name, scenario, number), None))
    while not turn.done():
        if questions.waiting():
            questions.answer("a")
        await asyncio.sleep(0.005)
    return await turn


class Held(msgspec.Struct, frozen=True):
    """The resources the program holds at a quiet moment."""

    children: int
    descriptors: int
    tasks: int
    files: tuple[str, ...]


def _held(session: CancelSession) -> Held:
    # git's tmp_obj_… do not count: nobody reads them, and git takes them away by itself (gc).
    me = os.getpid()
    temporary = sorted(
        name for name in os.listdir(tempfile.gettempdir()) if name.startswith(f"buddy-search-{me}-")
    )
    inside = sorted(
        str(path.relative_to(session.root))
        for folder in (".git", ".buddyx")
        for path in (session.root / folder).rglob("*")
        if path.name.endswith((".lock", ".tmp", ".part")) or path.name.startswith(".tmp")
    )
    return Held(
        len(own_children()),
        len(os.listdir("/proc/self/fd")),
        len(asyncio.all_tasks()),
        tuple(temporary + inside),
    )


async def _settled(session: CancelSession) -> Held:
    """Return the held resources once they no longer change."""
    last, same = _held(session), 0
    end = time.monotonic() + SETTLED_S
    while same < 3 and time.monotonic() < end:
        await asyncio.sleep(0.005)
        now = _held(session)
        same = same + 1 if now == last else 0
        last = now
    return last


async def _problems(
    session: CancelSession, scenario: Scenario, number: int, before: Held, tree: Tree
) -> list[str]:
    found = list(is_legal(session.session.board.task(1).history))
    end = time.monotonic() + SETTLED_S
    after = _held(session)
    while _more(before, after) and time.monotonic() < end:
        await asyncio.sleep(0.01)
        after = _held(session)
    found += _more(before, after)
    if threading.active_count() > 60:
        found.append(f"{threading.active_count()} threads")
    if scenario.free:
        return found
    now = session.tree()
    allowed = scenario.may_become(session, number)
    for name in sorted({*tree, *now}):
        content = now.get(name)
        if content != tree.get(name) and content not in allowed.get(name, set()):
            found.append(f"{name} is neither old nor new: {content if content is None else content[:80]!r}")
    return found


def _more(before: Held, after: Held) -> list[str]:
    """Return the resources held now and not before."""
    counts = (
        ("processes", before.children, after.children),
        ("descriptors", before.descriptors, after.descriptors),
        ("asyncio tasks", before.tasks, after.tasks),
    )
    found = [f"{name}: {was} before, {now} after" for name, was, now in counts if now > was]
    return found + [f"left behind: {name}" for name in after.files if name not in before.files]
