"""The keys that answer a request for approval, and those that never do: the whole program on a pty."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program
from tests.support.terminal import ENTER_S, Terminal, on_terminal

GUARD_S = 0.3
SEEN_S = 0.4
TOO_SOON = "came while you typed"


def touches(asked: Asked) -> Reply:
    """Asks for the file that the prompt names last."""
    if asked.turns[-1][0] == "tool":
        return reply("END of it.")
    return reply(call("run_shell", command=f"touch {asked.last_user_text.split()[-1]}"))


def program_of(folder: Path, server: FakeLLM) -> Program:
    program = Program(folder, server.url)
    program.files(main__py="print(1)\n")
    return program


def said(terminal: Terminal, text: str) -> bool:
    return any(text in row for row in terminal.rows())


async def answered_anew(terminal: Terminal, letter: str) -> None:
    """The line is emptied, the request has been on the screen for long enough, and a letter is typed."""
    terminal.keys("\x15")
    await terminal.until(lambda: terminal.input_line() == "", "an empty line")
    await asyncio.sleep(SEEN_S)
    await terminal.line(letter)


async def enter(terminal: Terminal) -> None:
    await asyncio.sleep(ENTER_S)
    terminal.keys("\r")


@pytest.mark.slow
async def test_SEC_038_an_answer_begun_for_a_request_that_went_away_does_not_answer_the_next(
    tmp_path: Path,
) -> None:
    async with FakeLLM(touches) as server:
        program = program_of(tmp_path, server)
        async with on_terminal(program) as terminal:
            await terminal.shows("sandbox")
            for number, name in ((2, "first"), (3, "second")):
                await terminal.line(f"make {name} &")
                await terminal.shows(f"(task {number}) high run_shell touch {name}")
            await terminal.line("/timeout 2 7s")
            await terminal.until(lambda: terminal.input_line() == "", "sent")
            await asyncio.sleep(SEEN_S)
            await terminal.type("y")
            await terminal.until(lambda: terminal.input_line() == "y", "typed")
            await terminal.shows("▸ request 1 (task 2) high run_shell touch first")
            await terminal.shows("withdrawn (the task ended): run_shell touch first")
            await terminal.shows("▸ request 2 (task 3) high run_shell touch second")
            await asyncio.sleep(SEEN_S)
            await enter(terminal)
            await terminal.shows(TOO_SOON)
            await terminal.shows("1 approval waiting", "▸ request 2 (task 3) high run_shell touch second")
            await answered_anew(terminal, "y")
            await terminal.has_shown("task 3 make second: done")
        assert not (program.repo / "first").exists()
        assert (program.repo / "second").exists()


@pytest.mark.slow
async def test_SEC_039_a_key_that_comes_right_after_the_request_does_not_answer_it(tmp_path: Path) -> None:
    asked_at = [0.0]

    def model(asked: Asked) -> Reply:
        asked_at[0] = asyncio.get_running_loop().time()
        return touches(asked)

    async with FakeLLM(model) as server:
        program = program_of(tmp_path, server)
        async with on_terminal(program) as terminal:
            await terminal.shows("sandbox")
            for turn in range(12):
                await terminal.line(f"make file{turn}")
                await terminal.shows(f"high run_shell touch file{turn}")
                terminal.keys("y")
                await terminal.until(lambda: terminal.input_line() == "y", "typed")
                took_s = asyncio.get_running_loop().time() - asked_at[0]
                await enter(terminal)
                file = program.repo / f"file{turn}"
                await terminal.until(lambda: said(terminal, TOO_SOON) or file.exists(), "an answer or none")  # noqa: B023
                if not file.exists():
                    break
                assert took_s > GUARD_S, "from before it was asked until after the key was there"
                await terminal.shows_not("y yes")
            else:
                return  # this machine is too slow to type so soon
            assert said(terminal, "y yes")
            await answered_anew(terminal, "y")
            await terminal.until(file.exists, "the command ran")


@pytest.mark.slow
async def test_SEC_039_a_letter_that_was_there_before_the_request_does_not_answer_it(tmp_path: Path) -> None:
    def model(asked: Asked) -> Reply:
        return reply(*touches(asked).parts, first_s=0 if asked.turns[-1][0] == "tool" else 1.5)

    async with FakeLLM(model) as server:
        program = program_of(tmp_path, server)
        async with on_terminal(program) as terminal:
            await terminal.shows("sandbox")
            await terminal.line("make file")
            await terminal.type("y")
            await terminal.until(lambda: terminal.input_line() == "y", "typed")
            assert "y yes" not in "\n".join(terminal.rows())
            await terminal.shows("high run_shell touch file", "y yes")
            await asyncio.sleep(SEEN_S)
            await enter(terminal)
            await terminal.shows(TOO_SOON)
            assert not (program.repo / "file").exists()
            await answered_anew(terminal, "n")
            await terminal.has_shown("END of it.")
        assert not (program.repo / "file").exists()
