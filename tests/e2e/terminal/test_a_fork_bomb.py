"""A real fork bomb, as a user who may have 150 processes: the prompt lives, and after a cancel, a stop or the
end of the session nothing of it does."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.capabilities import IN_A_NAMESPACE, IN_LIMITS, NOBODY, requires
from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import YOLO, Program
from tests.support.terminal import Terminal, on_terminal

SEEN_S = 0.4
BOMBS = 40
"""Alive at once when it has gone off: of the user's 150 processes 37 stay free, some are dead already."""
BOMB = ":(){ :|:& };:"

INIT = """
import os, subprocess, sys
code = subprocess.call(sys.argv[2:])
states = []
for pid in os.listdir("/proc"):
    if pid.isdigit() and pid != "1":
        with open(f"/proc/{pid}/stat") as file:
            states.append(file.read().rpartition(")")[2].split()[0])
with open(sys.argv[1], "w") as file:
    file.write(str(sum(state not in "ZX" for state in states)))
sys.exit(code)
"""
"""The first process of the namespace: writes down how many are left when the program has ended."""


def command(folder: Path) -> tuple[str, ...]:
    """buddy in its limits, all of it in a namespace."""
    first = (sys.executable, "-c", INIT, str(folder / "left"))
    return (*IN_A_NAMESPACE, *first, *IN_LIMITS, sys.executable, "-m", "buddy")


def bombs() -> int:
    """Count the user's live processes, without buddy."""
    count = 0
    for entry in os.listdir("/proc"):
        try:
            status = Path(f"/proc/{entry}/status").read_text() if entry.isdigit() else ""
            command = Path(f"/proc/{entry}/cmdline").read_bytes() if entry.isdigit() else b""
        except OSError:
            continue
        is_ours = f"\nUid:\t{NOBODY}\t" in status and "\nState:\tZ" not in status
        count += is_ours and b"-m\0buddy" not in command
    return count


def program_of(folder: Path, server: FakeLLM) -> Program:
    program = Program(folder, server.url)
    program.files(main__py="print(1)\n")
    for path in (program.folder, *program.folder.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    return program


async def allowed(terminal: Terminal) -> None:
    """Even with all permissions it is asked about."""
    await terminal.shows("it starts itself without end", "y yes")
    await asyncio.sleep(SEEN_S)
    await terminal.line("y")


async def explodes(terminal: Terminal) -> None:
    """The bomb has gone off, and the prompt takes keys."""
    await terminal.until(lambda: bombs() > BOMBS, "the bomb")
    await terminal.type("still here")
    await terminal.until(lambda: terminal.input_line() == "still here", "keys")
    terminal.keys("\x15")
    await terminal.until(lambda: terminal.input_line() == "", "an empty line")


async def is_over(terminal: Terminal) -> None:
    """Nothing is left, and other commands run."""
    await terminal.until(lambda: bombs() == 0, f"all dead: {bombs()}")
    await terminal.line("then")
    await terminal.has_shown("after it")


def model(asked: Asked) -> Reply:
    """The bomb, or a look whether commands still run."""
    if asked.turns[-1][0] == "tool":
        return reply("That is all.")
    if asked.last_user_text == "then":
        return reply(call("run_shell", command="echo after it"))
    return reply(call("run_shell", command=asked.last_user_text.removeprefix("run ")))


@asynccontextmanager
async def at_prompt(tmp_path: Path) -> AsyncIterator[Terminal]:
    """A session in limits; at the end it is left with Ctrl+D, in order, with no process remaining."""
    async with (
        FakeLLM(model) as server,
        on_terminal(program_of(tmp_path, server), *YOLO, command=command(tmp_path)) as terminal,
    ):
        await terminal.shows("sandbox")
        yield terminal
        assert await terminal.leaves() == 0
        assert terminal.is_restored()
    assert (tmp_path / "left").read_text() == "0"


@requires("process limits")
@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_REL_042_a_fork_bomb_is_dead_after_esc(tmp_path: Path) -> None:
    async with at_prompt(tmp_path) as terminal:
        await terminal.line(f"run {BOMB} ; while true; do true; done")
        await allowed(terminal)
        await explodes(terminal)
        terminal.keys("\x1b")
        await terminal.has_shown("cancelled")
        await is_over(terminal)
        await terminal.shows("That is all.", "done")


@requires("process limits")
@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_REL_042_a_fork_bomb_left_running_is_dead_when_the_session_ends(tmp_path: Path) -> None:
    async with at_prompt(tmp_path) as terminal:
        await terminal.line(f"run {BOMB}")
        await allowed(terminal)
        await terminal.has_shown("That is all.")
        await explodes(terminal)
