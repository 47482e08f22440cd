"""Plug-ins that could never be offered, or fail unexpectedly: reported, and confined to one call."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from buddy.agent.display import NOTHING, Plain
from buddy.agent.messages import ToolMessage
from buddy.agent.tool import Access, Tool, ToolContext, ToolError, ToolRegistry, ToolResult, tool
from buddy.extend.plugins.isolation import MAX_RESULT_CHARS, careful, run_code
from buddy.extend.plugins.loader import PluginTools, Reloaded
from tests.fake_llm.script import call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import YOLO, Program

HEAD = "import msgspec\nfrom typing import Any\nfrom buddy.agent.tool import ToolContext, ToolResult, tool\n"


def loaded(folder: Path, text: str, *, off: tuple[str, ...] = ()) -> tuple[Reloaded, ToolRegistry]:
    (folder / "a.py").write_text(HEAD + text)
    registry = ToolRegistry()
    return PluginTools(str(folder), registry, trusted=True, off=off).load(), registry


def declared(line: str, *, with_: str = "", before: str = "") -> str:
    return f'{before}\n@tool({with_})\n{line}\n    """What it does."""\n    return "x"\n'


UNFIT = {
    "a name with a blank": (declared("def a(ctx):", with_="name='has space'"), "providers refuse the name"),
    "a name that is not ASCII": (declared("def größe(ctx):"), "refuse the name 'größe'"),
    "a name that is too long": (declared("def a(ctx):", with_="name='x' * 65"), "refuse the name 'xxx"),
    "a name that is a number": (declared("def a(ctx):", with_="name=7"), "refuse the name 7"),
    "a risk there is not": (declared("def a(ctx):", with_="risk='none'"), "risk one of low, medium, high"),
    "a category there is not": (declared("def a(ctx):", with_="category='my'"), "as category one of files"),
    "a default JSON has not": (declared("def a(ctx, x: float = float('nan')):"), "not JSON compliant"),
    "a lifetime that is a word": (declared("def a(ctx):", with_="cache_s='soon'"), "Expected `float`"),
    "any number of arguments": (declared("def a(ctx, *x: int):"), "expected parameters with names, found *x"),
    "arguments without names": (declared("def a(ctx, x: int, /):"), "expected parameters with names"),
    "a record that holds itself": (
        declared("def a(ctx, x: Node):", before="class Node(msgspec.Struct):\n    more: list['Node']"),
        "Node contains itself",
    ),
    "results one by one": (declared("def a(ctx):") + "    yield 1\n", "yields; expected one result"),
}


@pytest.mark.parametrize(("text", "said"), UNFIT.values(), ids=UNFIT)
def test_a_tool_that_would_spoil_every_request_is_told_and_left_out(
    tmp_path: Path, text: str, said: str
) -> None:
    done, registry = loaded(tmp_path, text)
    assert (done.added, registry.list_all()) == ((), ())
    assert len(done.problems) == 1
    assert done.problems[0].startswith(str(tmp_path / "a.py"))
    assert said in done.problems[0]


def test_a_name_the_person_switched_off_is_taken_by_no_other_tool(tmp_path: Path) -> None:
    done, registry = loaded(
        tmp_path, declared("def run_shell(ctx):") + declared("def b(ctx):"), off=("run_shell",)
    )
    assert (done.added, done.problems, registry.get("run_shell")) == (("b",), (), None)


@tool(access=lambda _arguments: Access(reads=("a",)), preview=lambda _ctx, _arguments: Plain("look"))
async def fine(ctx: ToolContext) -> str:
    """Fine."""
    return "x"


def fails(*_given: object) -> Any:
    raise KeyError("k")


def refuses(*_given: object) -> Any:
    raise ToolError("there is nothing to look at")


def asked(limit_s: float = 20, **changed: Any) -> Tool:
    return careful(msgspec.structs.replace(fine, **changed), lambda work: run_code(work, limit_s))


CONTEXT = ToolContext(1, "c", lambda _text: None, asyncio.Event(), {})


@pytest.mark.parametrize(
    ("wrong", "limit_s"),
    [
        (fails, 20),
        (lambda _: None, 20),
        (lambda _: Access(reads=7), 20),
        (lambda _: threading.Event().wait(30), 0.2),
    ],
)
def test_who_does_not_say_what_it_touches_may_touch_anything(wrong: Any, limit_s: float) -> None:
    assert asked().access(None) == Access(reads=("a",))
    assert asked(limit_s, access=wrong).access(None) == Access(anything=True)


def test_a_preview_that_fails_says_so_and_one_that_refuses_is_heard() -> None:
    found = [one.preview(CONTEXT, None) for one in (asked(), asked(preview=fails)) if one.preview is not None]
    assert found == [Plain("look"), Plain("the preview of fine failed: KeyError: 'k'")]
    wrong, refused = asked(preview=lambda *_: "text").preview, asked(preview=refuses).preview
    assert wrong is not None
    assert wrong(CONTEXT, None) == NOTHING
    assert refused is not None
    with pytest.raises(ToolError, match="nothing to look at"):
        refused(CONTEXT, None)
    assert asked(preview=None).preview is None


RESULTS = {
    "5": ToolResult("5"),
    "{'a': 1}": ToolResult('{"a":1}'),
    "None": ToolResult("the tool returned nothing"),
    "ToolResult(5)": ToolResult("5"),
    "ToolResult('x', 'shown', ['a.png'])": ToolResult("x"),
    "'x' * 100_001": ToolResult("x" * 50_000 + "\n[… 1 character left out …]\n" + "x" * 50_000),
}


@pytest.mark.parametrize(("returned", "result"), RESULTS.items())
async def test_whatever_a_tool_returns_is_a_result_that_can_be_kept_and_sent(
    tmp_path: Path, returned: str, result: ToolResult
) -> None:
    _done, registry = loaded(tmp_path, declared("async def a(ctx):").replace('"x"', returned))
    found = registry.get("a")
    assert found is not None
    assert await found.run(CONTEXT, found.arguments()) == result


async def test_through_the_program_one_tool_that_fails_everywhere_costs_one_call(tmp_path: Path) -> None:
    text = declared(
        "async def a(ctx):", with_="access=lambda given: 1 / 0, preview=lambda ctx, given: 1 / 0"
    ) + declared("async def b(ctx):").replace('"x"', "'x' * 3_000_000")
    async with FakeLLM([reply(call("a"), call("b")), reply("Done.")]) as server:
        program = Program(tmp_path, server.url, tools=["read_file"])
        (program.repo / ".buddyx" / "ext").mkdir(parents=True)
        (program.repo / ".buddyx" / "ext" / "a.py").write_text(HEAD + text)
        ran = await program.run("exec", "hi", "--trust", *YOLO)
    assert (ran.code, ran.out) == (0, "Done.\n"), ran.err
    results = [one.text for one in await program.history() if isinstance(one, ToolMessage)]
    assert results[0] == "x"
    assert len(results[1]) < MAX_RESULT_CHARS + 100
