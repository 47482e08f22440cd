"""Tools that people add: loaded in order, told apart, reloaded, and never a reason to stop."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from buddy.agent.tool import ToolContext, ToolRegistry, tool
from buddy.extend.plugins.isolation import PluginLoop
from buddy.extend.plugins.loader import PluginTools, Reloaded, from_entry_points, from_source
from tests.capabilities import requires
from tests.support.waiting import until

SHOUT = '''
from buddy.agent.tool import ToolContext, tool

@tool(risk="low", aliases=("yell",))
async def shout(ctx: ToolContext, text: str) -> str:
    """Say it loud."""
    return text.upper()
'''
RECORDS = '''
from __future__ import annotations
import msgspec
from buddy.agent.tool import ToolContext, tool

class Place(msgspec.Struct):
    name: str

@tool()
async def visit(ctx: ToolContext, places: list[Place]) -> str:
    """Visit places."""
    return ", ".join(place.name for place in places)
'''


@tool(risk="low")
async def read_file(ctx: ToolContext, path: str) -> str:
    """Read."""
    return path


class Folder:
    """A folder of plug-ins and the registry they go into."""

    def __init__(self, root: Path, *, trusted: bool = True) -> None:
        self.path = root / "ext"
        self.path.mkdir()
        self.registry = ToolRegistry([read_file])
        self.own = PluginTools(str(self.path), self.registry, trusted=trusted)

    def put(self, name: str, text: str) -> str:
        (self.path / name).write_text(text)
        return str(self.path / name)

    def names(self) -> list[str]:
        return [tool.name for tool in self.registry.list_all()]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    folder = Folder(tmp_path)
    yield folder
    folder.own.close()


async def test_a_function_in_a_file_is_a_tool_with_its_file_as_source(folder: Folder) -> None:
    path = folder.put("a.py", SHOUT)
    assert folder.own.load() == Reloaded(("shout",), (), ())
    found = folder.registry.get("yell")
    assert found is not None
    assert (found.name, found.risk, found.source) == ("shout", "low", path)
    context = ToolContext(1, "c", lambda _text: None, asyncio.Event(), {})
    assert (await found.run(context, found.decode('{"text": "hi"}'))).text == "HI"


@requires("proc")
async def test_closed_plug_ins_leave_no_thread_and_no_descriptor(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd")), threading.active_count()
    for turn in range(5):
        top = tmp_path / str(turn)
        top.mkdir()
        folder = Folder(top)
        folder.put("a.py", SHOUT)
        folder.own.load()
        shout = folder.registry.get("shout")
        assert shout is not None
        context = ToolContext(1, "c", lambda _text: None, asyncio.Event(), {})
        await shout.run(context, shout.decode('{"text": "hi"}'))
        folder.own.close()
    await until(lambda: (len(os.listdir("/proc/self/fd")), threading.active_count()) == before)


def test_a_tool_that_names_no_risk_is_high_and_may_use_records_of_its_file(folder: Folder) -> None:
    folder.put("a.py", RECORDS)
    folder.own.load()
    found = folder.registry.get("visit")
    assert found is not None
    assert found.risk == "high"
    assert found.decode('{"places": [{"name": "Bath"}]}') is not None


def test_nothing_is_run_where_the_folder_is_not_trusted(tmp_path: Path) -> None:
    folder = Folder(tmp_path, trusted=False)
    folder.put("a.py", f"open({str(tmp_path / 'ran')!r}, 'w')\n{SHOUT}")
    assert folder.own.load() == Reloaded((), (), ())
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("x = 1\nimport no_such_module_here\n", 2, "ModuleNotFoundError: No module named"),
        ("x = 1\n\ndef broken(:\n", 3, "SyntaxError"),
        ("\n\n\nraise SystemExit(3)\n", 4, "SystemExit: 3"),
        ("def f():\n    return 1 / 0\nf()\n", 2, "ZeroDivisionError"),
        ("from buddy.agent.tool import tool\n@tool()\nasync def x(ctx) -> str: ...\n", 2, "TypeError"),
    ],
)
def test_a_file_that_fails_is_told_with_its_line_and_the_others_are_loaded(
    folder: Folder, text: str, line: int, said: str
) -> None:
    path = folder.put("a.py", text)
    folder.put("b.py", SHOUT)
    done = folder.own.load()
    assert done.added == ("shout",)
    assert len(done.problems) == 1
    assert done.problems[0].startswith(f"{path}:{line}: not loaded: ")
    assert said in done.problems[0]


def test_the_name_of_another_tool_is_not_taken_over(folder: Folder) -> None:
    path = folder.put("mine.py", SHOUT.replace("shout", "read_file"))
    folder.put("one.py", SHOUT)
    two = folder.put("two.py", SHOUT)
    done = folder.own.load()
    assert folder.registry.get("read_file") is read_file
    assert done.problems == (
        f"{path}: a tool named 'read_file' is there already (built-in); name this one mine_read_file "
        "(@tool(name=…))",
        f"{two}: a tool named 'shout' is there already ({folder.path / 'one.py'}); name this one two_shout "
        "(@tool(name=…))",
    )


def test_hidden_private_and_other_files_are_not_loaded(folder: Folder) -> None:
    for name in ("_a.py", ".b.py", "c.txt"):
        folder.put(name, SHOUT)
    os.mkdir(folder.path / "d.py")
    os.mkfifo(folder.path / "e.py")
    assert folder.own.load() == Reloaded((), (), ())


def test_a_reload_sees_new_changed_and_removed_files_and_leaves_equal_ones(folder: Folder) -> None:
    folder.put("a.py", SHOUT)
    folder.put("b.py", SHOUT.replace("shout", "whisper").replace('("yell",)', "()"))
    folder.own.load()
    same = folder.registry.get("whisper")
    folder.put("a.py", SHOUT.replace("Say it loud.", "Say it very loud."))
    folder.put("c.py", RECORDS)
    assert folder.own.load() == Reloaded(("shout", "visit"), (), ())
    assert folder.registry.get("whisper") is same
    shout = folder.registry.get("shout")
    assert shout is not None
    assert shout.description == "Say it very loud."
    os.unlink(folder.path / "a.py")
    assert folder.own.load() == Reloaded((), ("shout",), ())
    assert folder.registry.get("yell") is None
    assert folder.names() == ["read_file", "visit", "whisper"]


def test_a_file_that_broke_takes_its_tools_away_until_it_is_mended(folder: Folder) -> None:
    folder.put("a.py", SHOUT)
    folder.own.load()
    folder.put("a.py", "1 / 0")
    done = folder.own.load()
    assert done.removed == ("shout",)
    assert "ZeroDivisionError" in done.problems[0]
    folder.put("a.py", SHOUT)
    assert folder.own.load().added == ("shout",)


def test_a_tool_that_a_file_only_imports_is_not_its_own(folder: Folder) -> None:
    from buddy.tools.todo import todo

    folder.registry.register(todo)
    folder.put("a.py", "from buddy.tools.todo import todo\n" + SHOUT)
    assert folder.own.load() == Reloaded(("shout",), (), ())


def test_packages_name_tools_by_entry_points(tmp_path: Path) -> None:
    (tmp_path / "plugin_for_this_test.py").write_text(SHOUT + "several = [shout]\nwrong = 3\n")
    sys.path.insert(0, str(tmp_path))
    try:
        points = [
            EntryPoint(name, f"plugin_for_this_test:{value}", "buddy.tools")
            for name, value in (("a", "shout"), ("b", "several"), ("c", "wrong"), ("d", "missing"))
        ]
        found = from_entry_points(points, PluginLoop())
    finally:
        sys.path.remove(str(tmp_path))
    assert [(tool.name, tool.source) for tool in found.tools] == [
        ("shout", "plugin_for_this_test:shout"),
        ("shout", "plugin_for_this_test:several"),
    ]
    assert "expected a tool or a list of tools" in found.problems[0]
    assert "AttributeError" in found.problems[1]


ODD = '''
import asyncio, os, sys, threading, time
from buddy.agent.tool import ToolContext, ToolResult, tool
print("while loading")
sys.stderr.write("and this\\n")

@tool(risk="low")
def slow(ctx: ToolContext, until: str) -> str:
    """Not async."""
    print("from", threading.current_thread() is threading.main_thread())
    for _ in range(4000):
        if os.path.exists(until):
            return "slept"
        time.sleep(0.005)
    return "in vain"

@tool(risk="low")
async def leaves(ctx: ToolContext, how: str) -> str:
    """Raises."""
    raise {"exit": SystemExit(3), "key": KeyboardInterrupt(), "base": BaseException("odd")}[how]

@tool(risk="low")
async def talks(ctx: ToolContext, word: str, first: float) -> str:
    """Prints."""
    await asyncio.sleep(first)
    print(word)
    sys.stderr.write(word.upper())
    return "said"

@tool(risk="low")
async def nothing(ctx: ToolContext) -> None:
    """Returns nothing."""

@tool(risk="low")
async def number(ctx: ToolContext) -> int:
    """Returns a number."""
    return 7
'''


async def called(folder: Folder, name: str, progress: list[str] | None = None, **given: object) -> str:
    tool = folder.registry.get(name)
    assert tool is not None
    heard = progress if progress is not None else []
    context = ToolContext(1, "c", heard.append, asyncio.Event(), {})
    return (await tool.run(context, tool.arguments(**given))).text


async def test_what_a_tool_prints_reaches_the_model_and_never_the_terminal(
    folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    folder.put("odd.py", ODD)
    outs = (sys.stdout, sys.stderr)
    assert folder.own.load().problems == ()
    heard: list[str] = []
    assert await called(folder, "talks", heard, word="hi", first=0.0) == "said\n[printed]\nhi\nHI"
    assert "".join(heard) == "hi\nHI"
    assert await called(folder, "nothing") == "the tool returned nothing"
    assert await called(folder, "number") == "7"
    assert (sys.stdout, sys.stderr) == outs
    assert capfd.readouterr() == ("", "")


async def test_tools_that_overlap_and_end_in_any_order_leave_the_streams_as_they_were(folder: Folder) -> None:
    folder.put("odd.py", ODD)
    folder.own.load()
    outs = (sys.stdout, sys.stderr)
    waits = (0.05, 0.0, 0.03, 0.01)
    answers = await asyncio.gather(
        *(called(folder, "talks", word=f"w{n}", first=s) for n, s in enumerate(waits))
    )
    assert all(answer.startswith("said") for answer in answers)
    assert (sys.stdout, sys.stderr) == outs


async def test_a_function_that_is_not_async_keeps_nobody_waiting(folder: Folder) -> None:
    folder.put("odd.py", ODD)
    folder.own.load()
    until = folder.path / "until"
    slow = asyncio.ensure_future(called(folder, "slow", until=str(until)))
    for _ in range(5):
        await asyncio.sleep(0.01)
    until.touch()
    assert await slow == "slept\n[printed]\nfrom False"


BLOCKING = '''
import asyncio
import os
import time
from buddy.agent.tool import ToolContext, tool

lock = asyncio.Lock()

@tool(risk="low")
async def blocks(ctx: ToolContext, until: str) -> str:
    """Blocks."""
    ctx.progress("begun")
    while not os.path.exists(until):
        time.sleep(0.005)
    return "blocked"

@tool(risk="low")
async def waits(ctx: ToolContext) -> str:
    """Waits to be cancelled."""
    async with lock:
        ctx.progress("waits")
        await ctx.cancelled.wait()
        return "heard of it"

@tool(risk="low")
async def locked(ctx: ToolContext) -> str:
    """Takes the lock that all of them share."""
    async with lock:
        return "locked"
'''


async def test_an_async_tool_that_blocks_keeps_nobody_waiting_and_can_be_cancelled(folder: Folder) -> None:
    folder.put("blocking.py", BLOCKING)
    assert folder.own.load().problems == ()
    heard: list[str] = []
    until = folder.path / "until"
    blocked = asyncio.ensure_future(called(folder, "blocks", heard, until=str(until)))
    while heard != ["begun"]:
        await asyncio.sleep(0.01)
    blocked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await blocked
    until.touch()


async def test_after_a_tool_blocked_their_loop_the_next_gets_a_new_one_and_says_who_it_was(
    tmp_path: Path,
) -> None:
    loop = PluginLoop(answers_within_s=0.1)
    found = from_source(str(tmp_path / "blocking.py"), BLOCKING.encode(), {}, loop)
    tools = {tool.name: tool for tool in found.tools}
    heard: list[str] = []
    ctx = ToolContext(1, "c", heard.append, asyncio.Event(), {})
    until = tmp_path / "until"
    blocked = asyncio.ensure_future(tools["blocks"].run(ctx, tools["blocks"].arguments(until=str(until))))
    while heard != ["begun"]:
        await asyncio.sleep(0.01)
    assert (await tools["locked"].run(ctx, tools["locked"].arguments())).text == "locked"
    assert heard[1:] == ["[blocks blocks the event loop of plug-ins; use asyncio.to_thread]\n"]
    assert not blocked.done()
    until.touch()
    assert (await blocked).text == "blocked"


async def test_a_loop_that_answered_while_the_whole_program_stood_still_is_not_taken_to_be_blocked() -> None:
    loop = PluginLoop(answers_within_s=0.05)

    async def where(_ctx: ToolContext) -> object:
        return asyncio.get_running_loop()

    context = ToolContext(1, "c", lambda _text: None, asyncio.Event(), {})
    there = await loop.run("where", where, context)
    assert isinstance(there, asyncio.AbstractEventLoop)
    asked = asyncio.ensure_future(loop.run("where", where, context))
    await asyncio.sleep(0)
    # This loop stands still for longer than the other may take, which has answered long before.
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0.2), there).result(20)
    assert await asked is there


async def test_calls_that_find_the_loop_blocked_together_share_the_new_one() -> None:
    loop = PluginLoop(answers_within_s=0.1)
    go_on = threading.Event()

    async def blocks(_ctx: ToolContext) -> object:
        return go_on.wait(60)

    async def where(_ctx: ToolContext) -> object:
        return asyncio.get_running_loop()

    context = ToolContext(1, "c", lambda _text: None, asyncio.Event(), {})
    blocked = asyncio.ensure_future(loop.run("blocks", blocks, context))
    await asyncio.sleep(0)
    try:
        first, second = await asyncio.gather(*(loop.run("where", where, context) for _ in range(2)))
    finally:
        go_on.set()
    assert first is second
    assert await blocked is True


async def test_own_tools_share_a_loop_and_hear_of_a_cancel(folder: Folder) -> None:
    folder.put("blocking.py", BLOCKING)
    folder.own.load()
    tool = folder.registry.get("waits")
    assert tool is not None
    heard: list[str] = []
    context = ToolContext(1, "c", heard.append, asyncio.Event(), {})
    waiting = asyncio.ensure_future(tool.run(context, tool.arguments()))
    while not heard:
        await asyncio.sleep(0.01)
    locked = asyncio.ensure_future(called(folder, "locked"))
    await asyncio.sleep(0.05)
    assert not locked.done()
    context.cancelled.set()
    assert (await waiting).text == "heard of it"
    assert await locked == "locked"


@pytest.mark.parametrize("how", ["exit", "key", "base"])
async def test_a_tool_that_wants_to_end_the_program_only_crashes(folder: Folder, how: str) -> None:
    folder.put("odd.py", ODD)
    folder.own.load()
    with pytest.raises(RuntimeError, match="the tool raised"):
        await called(folder, "leaves", how=how)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise BaseException('odd')", "BaseException: odd"),
        ("import sys\nsys.exit(0)", "SystemExit: 0"),
        ("def f(): f()\nf()", "RecursionError"),
    ],
)
def test_a_file_that_wants_to_end_the_program_is_not_loaded(folder: Folder, code: str, said: str) -> None:
    folder.put("a.py", code)
    folder.put("shout.py", SHOUT)
    (problem,) = folder.own.load().problems
    assert said in problem
    assert "shout" in folder.names()


def test_a_file_that_never_ends_is_left_behind(tmp_path: Path) -> None:
    found = from_source(
        str(tmp_path / "a.py"), b"import time\nwhile True: time.sleep(1)", {}, PluginLoop(), 0.2
    )
    assert [problem.partition(": ")[2] for problem in found.problems] == [
        "not loaded: TimeoutError: it was still running after 0.2 s"
    ]
