"""Keys typed before the screen is ready are not echoed, not lost, not doubled; and the terminal is given
back whatever ends the start."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import termios
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.fake_llm.server import FakeLLM
from tests.support.program import Program
from tests.support.terminal import Terminal, on_terminal

SLOW = """
import sys, time
from importlib.abc import MetaPathFinder

class Slow(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "buddy.cli.interactive":
            sys.stdout.write("importing\\n")
            sys.stdout.flush()
            {then}
        return None

sys.meta_path.insert(0, Slow())
from buddy.__main__ import main
sys.argv[0] = "buddy"
sys.exit(main())
"""
"""The program on a machine that takes its time to import the terminal's side."""
WAIT = """
            import os
            while not os.path.exists(os.environ["GO_ON"]):
                time.sleep(0.01)
"""


def slow(then: str = WAIT) -> Sequence[str]:
    return (sys.executable, "-c", SLOW.replace("{then}", then.strip()))


def program_for(folder: Path, url: str) -> Program:
    program = Program(folder, url, environment={"GO_ON": str(folder / "go-on")})
    program.files(main__py="print(1)\n")
    return program


def go_on(folder: Path) -> None:
    (folder / "go-on").touch()


def echoes(terminal: Terminal) -> bool:
    return bool(termios.tcgetattr(terminal.tty)[3] & termios.ECHO)


def canonical(terminal: Terminal) -> bool:
    return bool(termios.tcgetattr(terminal.tty)[3] & termios.ICANON)


async def test_keys_typed_while_it_starts_arrive_in_the_line_once_and_nowhere_else(tmp_path: Path) -> None:
    async with FakeLLM([]) as server:
        program = program_for(tmp_path, server.url)
        async with on_terminal(program, command=slow(), ready="importing") as terminal:
            assert not echoes(terminal)
            terminal.keys("fix the büg, thén\x7f\x7fen \x1b[D\x1b[C")
            await asyncio.sleep(0.1)
            assert terminal.rows() == ["importing"]
            go_on(tmp_path)
            await terminal.until(lambda: terminal.input_line() == "fix the büg, then", "the line")
            assert sum("fix" in row for row in terminal.everything()) == 1
            assert await terminal.leaves("\x15\x04") == 0
            assert terminal.is_restored()


async def test_a_line_sent_while_it_starts_is_sent(tmp_path: Path) -> None:
    async with FakeLLM([]) as server:
        program = program_for(tmp_path, server.url)
        async with on_terminal(program, command=slow(), ready="importing") as terminal:
            terminal.keys("/keys\r")
            await asyncio.sleep(0.1)
            go_on(tmp_path)
            await terminal.has_shown("new background task")
            assert await terminal.leaves() == 0


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, 130),
        (signal.SIGTERM, -signal.SIGTERM),
        (signal.SIGHUP, -signal.SIGHUP),
        (signal.SIGQUIT, -signal.SIGQUIT),
    ],
    ids=["INT", "TERM", "HUP", "QUIT"],
)
async def test_REL_056_a_signal_while_it_starts_gives_the_terminal_back(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    async with FakeLLM([]) as server:
        program = program_for(tmp_path, server.url)
        async with on_terminal(program, command=slow(), ready="importing") as terminal:
            assert not echoes(terminal)
            os.kill(terminal.process.pid, number)
            assert await terminal.exit_code() == code
            assert terminal.is_restored()
            assert "Traceback" not in terminal.output.decode()


async def test_ctrl_c_while_it_starts_interrupts_and_ctrl_z_does_not_stop_it(tmp_path: Path) -> None:
    async with FakeLLM([]) as server:
        program = program_for(tmp_path, server.url)
        async with on_terminal(program, command=slow(), ready="importing") as terminal:
            terminal.keys("\x1a\x1c")
            await asyncio.sleep(0.1)
            assert terminal.process.poll() is None
            terminal.keys("\x03")
            assert await terminal.exit_code() == 130
            assert terminal.is_restored()


async def test_REL_060_a_start_that_fails_gives_the_terminal_back(tmp_path: Path) -> None:
    async with FakeLLM([]) as server:
        program = program_for(tmp_path, server.url)
        command = slow("raise ZeroDivisionError('broken installation')")
        async with on_terminal(program, command=command, ready="ZeroDivisionError") as terminal:
            assert await terminal.exit_code() == 1
            assert terminal.is_restored()
            assert "This is a bug in buddy" in "\n".join(terminal.rows())


async def test_settings_that_are_wrong_end_it_with_the_terminal_restored(tmp_path: Path) -> None:
    async with FakeLLM([]) as server:
        program = program_for(tmp_path, server.url)
        (program.config / "buddy.toml").write_text("[api\n")
        async with on_terminal(program, ready="not valid TOML") as terminal:
            assert await terminal.exit_code() == 4
            assert terminal.is_restored()


async def test_the_editor_finds_the_terminal_as_it_was_before_buddy(tmp_path: Path) -> None:
    async with FakeLLM([]) as server:
        program = program_for(tmp_path, server.url)
        modes = tmp_path / "modes"
        program.environment = {**program.environment, "EDITOR": f"sh -c 'stty -g > {modes}' --"}
        async with on_terminal(program) as terminal:
            terminal.keys("\x07")
            await terminal.until(lambda: modes.exists() and modes.read_text() != "", "the editor")
            await terminal.until(lambda: not canonical(terminal), "the screen again")
            assert await terminal.leaves() == 0
            stty = ("stty", "-g")
            now = await asyncio.to_thread(subprocess.check_output, stty, stdin=terminal.tty, text=True)
            assert modes.read_text() == now


SHELL = """
import os, signal, sys, termios, tty
from buddy.cli.early_keys import hold_keys

before = termios.tcgetattr(0)
tty.setraw(0)  # the shell edits its line
job = os.fork()
if job == 0:
    os.setpgid(0, 0)
    with hold_keys(0) as modes:
        os._exit(10 if modes == before else 11)
stopped = os.WIFSTOPPED(os.waitpid(job, os.WUNTRACED)[1])
termios.tcsetattr(0, termios.TCSANOW, before)  # fg
os.tcsetpgrp(0, job)
os.kill(job, signal.SIGCONT)
code = os.waitstatus_to_exitcode(os.waitpid(job, 0)[1])
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
os.tcsetpgrp(0, os.getpgrp())
termios.tcsetattr(0, termios.TCSANOW, before)
print("stopped" if stopped else "went on", code)
"""
"""A shell that starts a job in the background and brings it to the front."""


async def test_started_in_the_background_it_takes_the_terminal_as_it_is_when_brought_to_the_front(
    tmp_path: Path,
) -> None:
    async with FakeLLM([]) as server:
        program = program_for(tmp_path, server.url)
        async with on_terminal(program, command=(sys.executable, "-c", SHELL), ready="10") as terminal:
            assert terminal.rows() == ["stopped 10"]
            assert await terminal.exit_code() == 0
