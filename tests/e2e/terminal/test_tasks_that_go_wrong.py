"""Tasks that go in circles, break, collide or are killed, in the whole program: the others go on, and files
are what somebody meant."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, Stall, Tokens, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import YOLO, Program
from tests.support.terminal import on_terminal

SEEN_S = 0.4
BREAKS = """
import sys
from buddy.tasks.turn_host import _TaskTurn
steering = _TaskTurn.steering

async def broken(self):
    if self._task.task_id == 2:
        raise {error}
    return await steering(self)

_TaskTurn.steering = broken
from buddy.__main__ import main
sys.exit(main())
"""


def program_of(folder: Path, server: FakeLLM) -> Program:
    program = Program(folder, server.url)
    program.files(main__py="print(1)\n")
    return program


async def test_REL_040_calls_that_alternate_are_stopped_by_the_eighth(tmp_path: Path) -> None:
    def model(_asked: Asked) -> Reply:
        return reply(call("run_shell", command=("echo one", "echo two")[len(server.requests) % 2]))

    async with FakeLLM(model) as server:
        ran = await program_of(tmp_path, server).run("exec", *YOLO, "Work")
    assert ran.code == 1
    assert ran.told()[-1].startswith("the model goes round in circles: run_shell")
    assert len(server.requests) <= 8


async def test_REL_040_asking_again_what_changes_is_allowed(tmp_path: Path) -> None:
    def model(asked: Asked) -> Reply:
        if len(asked.tool_results) == 12:
            return reply("It is ready.")
        return reply(call("run_shell", command="echo x >> state; wc -l state"))

    async with FakeLLM(model) as server:
        ran = await program_of(tmp_path, server).run("exec", *YOLO, "Wait for it")
    assert (ran.code, ran.out) == (0, "It is ready.\n")


async def test_REL_041_the_limit_of_tokens_ends_the_run_with_5_and_it_can_be_continued(
    tmp_path: Path,
) -> None:
    script = [reply(call("read_file", path="main.py"), usage=Tokens(900, 100)), reply("Done.")]
    async with FakeLLM(script) as server:
        program = program_of(tmp_path, server)
        program.configure({"budget": {"task_tokens": 900}})
        ran = await program.run("exec", "Read")
        assert ran.code == 5
        assert "budget" in ran.told()[-1]
        program.configure({"budget": {"task_tokens": 1_000_000}})
        again = await program.run("exec", "--continue")
    assert (again.code, again.out) == (0, "Done.\n")


@pytest.mark.slow
@pytest.mark.parametrize("error", ["RecursionError()", "MemoryError()", "SystemExit(7)", "GeneratorExit()"])
async def test_REL_053_a_task_that_breaks_fails_alone(tmp_path: Path, error: str) -> None:
    async with FakeLLM(lambda _asked: reply("healthy and well")) as server:
        program = program_of(tmp_path, server)
        command = (sys.executable, "-c", BREAKS.format(error=error))
        async with on_terminal(program, *YOLO, command=command) as terminal:
            await terminal.shows("sandbox")
            await terminal.line("go wrong &")
            await terminal.has_shown("task 2 go wrong: failed")
            await terminal.line("healthy")
            await terminal.has_shown("healthy and well")
            assert await terminal.leaves() == 0
            assert terminal.is_restored()


BREAKS_EARLY = """
import sys
import buddy.tasks.turn_runner as running
build_host = running.build_host

def broken(shared, task):
    if task.task_id == 2:
        raise RecursionError("too deep")
    return build_host(shared, task)

running.build_host = broken
from buddy.__main__ import main
sys.exit(main())
"""


@pytest.mark.slow
async def test_REL_053_a_background_task_that_fails_before_its_turn_is_told_in_front(tmp_path: Path) -> None:
    async with FakeLLM([reply("healthy and well")]) as server:
        program = program_of(tmp_path, server)
        async with on_terminal(program, command=(sys.executable, "-c", BREAKS_EARLY)) as terminal:
            await terminal.shows("sandbox")
            await terminal.line("go wrong &")
            await terminal.has_shown("task 2 failed: RecursionError: too deep")
            await terminal.line("healthy")
            await terminal.has_shown("healthy and well")


@pytest.mark.slow
async def test_REL_054_the_second_of_two_tasks_that_write_a_file_is_refused(tmp_path: Path) -> None:
    def model(asked: Asked) -> Reply:
        mine = asked.last_user_text.split()[-1]
        match len(asked.tool_results):
            case 0:
                return reply(call("read_file", path="main.py"))
            case 1:
                return reply(call("write_file", path="main.py", content=f"print('{mine}')\n"))
            case _:
                return reply(f"END of {mine}")

    async with FakeLLM(model) as server:
        program = program_of(tmp_path, server)
        async with on_terminal(program) as terminal:
            await terminal.shows("sandbox")
            for number, name in ((2, "first"), (3, "second")):
                await terminal.line(f"be {name} &")
                await terminal.shows(f"{number - 1} approval", f"(task {number}) medium write_file main.py")
            for number, name in ((2, "first"), (3, "second")):
                await terminal.shows(f"(task {number}) medium write_file main.py")
                await asyncio.sleep(SEEN_S)
                await terminal.line("y")
                await terminal.has_shown(f"task {number} be {name}: done")
        told = [asked for asked in server.requests if len(asked.tool_results) == 2]
        results = {asked.last_user_text: asked.tool_results[-1] for asked in told}
        assert "+1 −1" in results["be first"]
        assert "changed since" in results["be second"]
        assert (program.repo / "main.py").read_text() == "print('first')\n"


@pytest.mark.slow
async def test_REL_065_an_edit_is_taken_back_after_a_crash(tmp_path: Path) -> None:
    def model(asked: Asked) -> Reply:
        if asked.tool_results:
            return reply("I go on for ever and ever", fault=Stall(after=1))
        return reply(call("edit_file", path="main.py", old="1", new="2"))

    async with FakeLLM(model) as server:
        program = program_of(tmp_path, server)
        async with on_terminal(program, *YOLO) as terminal:
            await terminal.line("edit it")
            await terminal.has_shown("I go on")
            assert (program.repo / "main.py").read_text() == "print(2)\n"
            os.kill(terminal.process.pid, signal.SIGKILL)
            await terminal.exit_code()
        async with on_terminal(program, "-c") as terminal:
            await terminal.has_shown("edit it")
            await terminal.line("/undo")
            await terminal.until(lambda: (program.repo / "main.py").read_text() == "print(1)\n", "taken back")
            assert await terminal.leaves() == 0
