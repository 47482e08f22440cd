"""The whole program on a terminal that can only print lines: an editor's shell buffer, a screen reader."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from buddy.repl.input.bursts import AFTER_S
from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program
from tests.support.terminal import Terminal, on_terminal


def model(asked: Asked) -> Reply:
    """A call that asks, a short answer, or one that does not end by itself."""
    if "push" in asked.last_user_text:
        return (
            reply("I did.") if asked.turns[-1][0] == "tool" else reply(call("run_shell", command="touch x"))
        )
    if "short" in asked.last_user_text:
        return reply("That was short.")
    return reply("".join(f"word{number}\n\n" for number in range(4000)), chars=8, delay_s=0.02)


def transcript(terminal: Terminal) -> str:
    """Return the output of the terminal, including echoed keys."""
    return terminal.output.decode().replace("\r\n", "\n")


async def said(terminal: Terminal, line: str, *texts: str) -> None:
    """A line as a person sends it, apart from the one before, and what the transcript has after it."""
    await asyncio.sleep(AFTER_S + 0.1)
    before = len(transcript(terminal))
    terminal.keys(line)
    await terminal.until(lambda: all(text in transcript(terminal)[before:] for text in texts), str(texts))


@pytest.mark.slow
async def test_a_sitting_on_a_dumb_terminal_reads_as_one_text(tmp_path: Path) -> None:
    async with FakeLLM(model) as server:
        program = Program(tmp_path, server.url)
        program.files(main__py="print(1)\n")
        async with on_terminal(program, ready=">", term="dumb") as terminal:
            await said(terminal, "a short one\n", "That was short.", "tokens\n> ")
            await said(
                terminal, "/copy\n", "this terminal has no clipboard; /export FILE.md writes a file\n> "
            )
            assert "copied" not in transcript(terminal)
            await said(
                terminal,
                "push it\n",
                "[waiting for you] request 1 (task 1), high: run_shell touch x",
                "withdraws this\n> ",
            )
            await asyncio.sleep(0.4)
            await said(terminal, "y\n", "! approved once", "I did.", "tokens\n> ")
            for number in (1, 2):
                await said(terminal, f"stream {number} &\n", f"task {number + 1} started in the background")
            await said(terminal, "stream 3\n", "word3\n")
            await said(terminal, "\x03", "^C\n", "cancelled")
            await said(
                terminal,
                "\x04",
                "Task 2 (stream 1) and task 3 (stream 2) are running. Ctrl+D again within 10 s ends them",
            )
            await asyncio.sleep(0.2)
            terminal.keys("\x04")
            assert await terminal.exit_code() == 0
            text = transcript(terminal)
            assert "\x1b" not in text
            assert text.startswith("buddy ")
            assert "\n> a short one\nThat was short.\n\ndone - " in text
            assert "> push it\nThere is no sandbox here: " in text
            assert "\nrequest 1 (task 1) high run_shell touch x\n" in text
            assert "> y\n! approved once: run_shell touch x\n" in text
            assert "\n> \n> " not in text, "a prompt that nobody answered stands there twice"
            assert text.rstrip("\n").split("\n")[-1].startswith("resume with: buddy resume ")


@pytest.mark.slow
async def test_who_listens_to_the_terminal_gets_lines_only_whatever_the_terminal_can(tmp_path: Path) -> None:
    async with FakeLLM(model) as server:
        program = Program(tmp_path, server.url, environment={"FORCE_COLOR": "1"})
        program.files(main__py="print(1)\n")
        async with on_terminal(program, "--plain", ready=">") as terminal:
            await said(terminal, "a short one\n", "That was short.", "tokens\n> ")
            terminal.keys("\x04")
            assert await terminal.exit_code() == 0
            assert "\x1b" not in transcript(terminal)
            assert "\n> a short one\nThat was short.\n\ndone - " in transcript(terminal)


@pytest.mark.slow
async def test_a_dumb_terminal_is_one_whatever_colours_are_forced(tmp_path: Path) -> None:
    async with FakeLLM([reply("Coloured.")]) as server:
        program = Program(tmp_path, server.url, environment={"FORCE_COLOR": "1"})
        program.files(main__py="print(1)\n")
        async with on_terminal(program, ready=">", term="dumb") as terminal:
            await said(terminal, "a short one\n", "Coloured.")
            assert b"\x1b[?" not in terminal.output, "no mode is set"


@pytest.mark.slow
async def test_a_dumb_terminal_is_suspended_and_goes_on(tmp_path: Path) -> None:
    async with FakeLLM(model) as server:
        program = Program(tmp_path, server.url)
        program.files(main__py="print(1)\n")
        async with on_terminal(program, ready=">", term="dumb") as terminal:
            await said(terminal, "a short one\n", "tokens\n> ")
            before = len(transcript(terminal))
            os.kill(terminal.process.pid, signal.SIGSTOP)
            os.kill(terminal.process.pid, signal.SIGCONT)
            await terminal.until(lambda: "> " in transcript(terminal)[before:], "a new prompt")
            await said(terminal, "another short one\n", "That was short.", "tokens\n> ")


@pytest.mark.slow
async def test_what_a_session_says_when_it_opens_stands_above_the_first_prompt_and_every_sign_is_ascii(
    tmp_path: Path,
) -> None:
    async with FakeLLM(model) as server:
        program = Program(tmp_path, server.url)
        program.files(main__py="print(1)\n")
        (program.repo / "buddy.toml").write_text("[display]\nvi = false\n")
        async with on_terminal(program, ready="You can decide later.", term="dumb") as terminal:
            await terminal.until(
                lambda: transcript(terminal).endswith("You can decide later.\n> "), "the prompt"
            )
            assert not transcript(terminal).startswith(">"), "no prompt above it"
            await said(terminal, "/ps\n", "> 1  | new   |      0", "\n> ")
            await said(terminal, "/model\n", "> | openai/fake-model", "\n> ")
            await said(terminal, "/session\n", "/session resume ID switches to one\n> ")
            assert transcript(terminal).isascii(), transcript(terminal)
