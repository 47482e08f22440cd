"""A whole piece of work through `buddy exec`, on every lane: read, edit, run the tests, fix, answer. The
requests are compared whole, and a run that was killed is continued."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from buddy.agent.messages import INTERRUPTED_TEXT, text_of
from buddy.workspace.processes.process_tree import end_left, left_commands, strays
from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Fault, Reply, Stall, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import DIRECT, LANES, YOLO, Program, check_golden, running, sent
from tests.support.waiting import until

TOOLS = ("read_file", "edit_file", "run_shell")
CALC = "def add(a, b):\n    return a - b\n"
TEST = "from calc import add\n\nassert add(2, 2) == 4, add(2, 2)\nprint('passed')\n"
SHOWN = "Mended: `add` su"
PROMPT = "The test fails. Mend calc.py."


def mend() -> list[Reply]:
    """The model's side of the work: the first edit is wrong, the tests say so, the second is right."""
    return [
        reply("I look at it first.", call("read_file", path="calc.py")),
        reply(call("edit_file", path="calc.py", old="return a - b", new="return a * b + 1")),
        reply(
            "Now the test.",
            call("run_shell", command="PYTHONDONTWRITEBYTECODE=1 python3 check.py 2>&1 | tail -1"),
        ),
        reply(call("edit_file", path="calc.py", old="return a * b + 1", new="return a + b")),
        reply(call("run_shell", command="PYTHONDONTWRITEBYTECODE=1 python3 check.py")),
        reply("Mended: `add` subtracted."),
    ]


def program_of(tmp_path: Path, url: str, lane: str) -> Program:
    program = Program(tmp_path, url, lane, TOOLS)
    program.files(calc__py=CALC, check__py=TEST)
    return program


@pytest.mark.slow
@pytest.mark.parametrize("lane", LANES)
async def test_read_edit_run_fix_answer(tmp_path: Path, lane: str) -> None:
    async with FakeLLM(mend()) as server:
        program = program_of(tmp_path, server.url, lane)
        ran = await program.run("exec", *YOLO, PROMPT)
        requests = await server.ended(6)

    assert (ran.code, ran.out) == (0, "Mended: `add` subtracted.\n"), ran.err
    assert (program.repo / "calc.py").read_text() == "def add(a, b):\n    return a + b\n"
    assert [text_of(one) for one in await program.history()][-1] == "Mended: `add` subtracted."
    assert len(server.requests) == 6
    check_golden(f"journeys/{lane}.json", sent(program, requests))


# --- killed and continued ---------------------------------------------------------------------------------


class Model:
    """Does the work step by step, by the results it is shown; misbehaves once, where it is told to."""

    def __init__(self, at: int, fault: Fault) -> None:
        self.at = at
        self.fault: Fault | None = fault

    def __call__(self, asked: Asked) -> Reply:
        step = mend()[len(asked.tool_results)]
        if self.fault is None or len(asked.tool_results) != self.at:
            return step
        fault, self.fault = self.fault, None
        return replace(step, fault=fault)


def acknowledged(program: Program) -> list[str]:
    """Ids of the messages that were on the disk, from the journal's own lines."""
    (session,) = program.sessions()
    found: list[str] = []
    for line in (program.repo / ".buddyx/sessions" / session / "journal.jsonl").read_bytes().splitlines():
        record = json.loads(line)
        if record.get("kind") == "message":
            found.append(record["data"]["id"])
    return found


def journal(program: Program) -> str:
    """The journal as it lies on the disk, "" before there is one."""
    return "".join(
        path.read_text(errors="replace")
        for path in (program.repo / ".buddyx/sessions").glob("*/journal.jsonl")
    )


async def continued(program: Program, server: FakeLLM) -> None:
    """Go on after a kill: the work is done, nothing of the disk is missing, nothing is there twice."""
    before = acknowledged(program)
    ran = await program.run("exec", *YOLO, "--continue")
    assert (ran.code, ran.out) == (0, "Mended: `add` subtracted.\n"), ran.err
    history = await program.history()
    ids = [message.id for message in history]
    assert [one for one in ids if one in before] == before
    assert len(set(ids)) == len(ids)
    assert (await program.prompts()).count(PROMPT) == 1
    assert server.requests[-1].turns.count(("user", PROMPT)) == 1
    assert len(program.sessions()) == 1
    assert (program.repo / "calc.py").read_text() == "def add(a, b):\n    return a + b\n"


@pytest.mark.parametrize("at", range(6))
@pytest.mark.parametrize("lane", DIRECT)
async def test_killed_while_the_model_is_asked_and_continued(tmp_path: Path, lane: str, at: int) -> None:
    async with FakeLLM(Model(at, Stall(after=-1))) as server:
        program = program_of(tmp_path, server.url, lane)
        async with running(program, "exec", *YOLO, PROMPT) as process:
            await server.arrived(at + 1)
            process.kill()
        await continued(program, server)


@pytest.mark.parametrize("lane", DIRECT)
async def test_killed_in_the_middle_of_an_answer_and_continued(tmp_path: Path, lane: str) -> None:
    async with FakeLLM(Model(5, Stall(after=2 if lane == "chat" else 3))) as server:
        program = program_of(tmp_path, server.url, lane)
        async with running(program, "exec", *YOLO, PROMPT) as process:
            # an Anthropic text block opens with a frame of its own
            await until(lambda: SHOWN in journal(program))
            process.kill()
        await continued(program, server)

    last = server.requests[-1].turns
    assert last[-2:] == [("assistant", SHOWN), ("user", "Continue exactly where you stopped.")]


@pytest.mark.parametrize("lane", DIRECT)
async def test_killed_in_the_middle_of_a_call_and_continued(tmp_path: Path, lane: str) -> None:
    """The call was not complete: it is not run, and the model is asked for it again."""
    async with FakeLLM(Model(1, Stall(after=5))) as server:
        program = program_of(tmp_path, server.url, lane)
        async with running(program, "exec", *YOLO, PROMPT) as process:
            await server.arrived(2)
            await until(lambda: '"partial"' in journal(program))
            process.kill()
        assert (program.repo / "calc.py").read_text() == CALC
        await continued(program, server)


async def test_killed_while_a_command_runs_and_continued(tmp_path: Path) -> None:
    """A call that may have run is not repeated: the model is told, and continues."""
    slow = reply(call("run_shell", command="echo once >> ran.txt; touch began; sleep 31.4159"))

    def model(asked: Asked) -> Reply:
        return slow if not asked.tool_results else reply("I was interrupted.")

    async with FakeLLM(model) as server:
        program = program_of(tmp_path, server.url, "chat")
        async with running(program, "exec", *YOLO, PROMPT) as process:
            await until((program.repo / "began").exists)
            process.kill()
        ran = await program.run("exec", *YOLO, "--continue")

    (left,) = {one.session_id for one in strays() if "31.4159" in one.command}
    (command,) = left_commands(left)
    assert await end_left(command) is None
    assert (ran.code, ran.out) == (0, "I was interrupted.\n")
    assert ran.told() == [
        f"still running from before: {command.command} ({command.pids})",
        "no prompt given: task 1 (The test fails. Mend calc.py.) continues where it stopped ("
        "buddy ended while this task was running)",
    ]
    assert (program.repo / "ran.txt").read_text() == "once\n"
    assert server.requests[-1].tool_results == [INTERRUPTED_TEXT]
    assert await program.prompts() == [PROMPT]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
async def test_killed_anywhere_and_continued(tmp_path: Path, seed: int) -> None:
    """Killed when the journal has some number of lines, whatever happens then."""
    lines = random.Random(seed).randrange(3, 40)
    async with FakeLLM(Model(9, Stall())) as server:
        program = program_of(tmp_path, server.url, "chat")
        async with running(program, "exec", *YOLO, PROMPT) as process:
            await until(lambda: journal(program).count("\n") >= lines or process.returncode is not None)
            if process.returncode is None:
                process.kill()
        before = acknowledged(program)
        done = "Mended" in journal(program)
        ran = await program.run("exec", *YOLO, *(["--continue"] if before else ["--continue", PROMPT]))
    assert ran.code == 0 or (done and "nothing to continue" in ran.err), ran.err
    history = await program.history()
    assert [one.id for one in history if one.id in before] == before
    assert (await program.prompts()).count(PROMPT) == 1
