"""A whole piece of work through `buddy exec`, on every lane: read, edit, run the tests, fix, answer. The
requests are compared whole, and a run that was killed is continued."""

from __future__ import annotations

from pathlib import Path

import pytest

from buddy.agent.messages import text_of
from tests.fake_llm.script import Reply, call, reply
from tests.fake_llm.server import FakeLLM
from tests.headless.program import LANES, YOLO, Desk, check_golden, sent

TOOLS = ("read_file", "edit_file", "run_shell")
CALC = "def add(a, b):\n    return a - b\n"
TEST = "from calc import add\n\nassert add(2, 2) == 4, add(2, 2)\nprint('passed')\n"
PROMPT = "The test fails. Mend calc.py."


def mend() -> list[Reply]:
    """The model's side of the work: the first edit is wrong, the tests say so, the second is right."""
    return [
        reply("I look at it first.", call("read_file", path="calc.py")),
        reply(call("edit_file", path="calc.py", old="return a - b", new="return a * b + 1")),
        reply("Now the test.", call("run_shell", command="PYTHONDONTWRITEBYTECODE=1 python3 check.py 2>&1 | tail -1")),
        reply(call("edit_file", path="calc.py", old="return a * b + 1", new="return a + b")),
        reply(call("run_shell", command="PYTHONDONTWRITEBYTECODE=1 python3 check.py")),
        reply("Mended: `add` subtracted."),
    ]


def desk_of(tmp_path: Path, url: str, lane: str) -> Desk:
    desk = Desk(tmp_path, url, lane, TOOLS)
    desk.files(calc__py=CALC, check__py=TEST)
    return desk


@pytest.mark.slow
@pytest.mark.parametrize("lane", LANES)
async def test_read_edit_run_fix_answer(tmp_path: Path, lane: str) -> None:
    async with FakeLLM(mend()) as server:
        desk = desk_of(tmp_path, server.url, lane)
        ran = await desk.run("exec", *YOLO, PROMPT)
        requests = await server.ended(6)

    assert (ran.code, ran.out) == (0, "Mended: `add` subtracted.\n"), ran.err
    assert (desk.repo / "calc.py").read_text() == "def add(a, b):\n    return a + b\n"
    assert [text_of(one) for one in await desk.history()][-1] == "Mended: `add` subtracted."
    assert len(server.requests) == 6
    check_golden(f"journeys/{lane}.json", sent(desk, requests))
