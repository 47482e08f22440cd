"""A command on a terminal uses its own one by name, and no other."""

from __future__ import annotations

import asyncio
import os

import pytest

from buddy.workspace.processes.launch import TerminalSize, shell_argv
from buddy.workspace.processes.pool import CommandRequest
from tests.capabilities import requires
from tests.support.sandbox_machine import LOOKS, sandbox_machine

LEVELS = [pytest.param(3, marks=requires("bwrap")), pytest.param(2, marks=requires("landlock"))]


@pytest.mark.parametrize("level", LEVELS)
async def test_a_job_opens_its_own_terminal_and_not_that_of_the_person(level: int) -> None:
    ours, theirs = os.openpty()
    try:
        async with sandbox_machine(look=LOOKS[level]) as machine:
            own = "/dev/console" if level == 3 else "$(tty)"  # bubblewrap's own /dev has it under that name
            command = (
                f"echo one > {own}; echo two > /dev/tty; stty rows 5 && stty size; "
                f": 2>/dev/null > {os.ttyname(theirs)} && echo ESCAPED"
            )
            request = CommandRequest(
                shell_argv(command),
                str(machine.work),
                1,
                terminal=TerminalSize(),
                confinement=machine.confinement(),
            )
            done = await machine.children.run(request, timeout_s=60, cancelled=asyncio.Event())
            assert done.text.split("\r\n")[:3] == ["one", "two", "5 80"]
            assert "ESCAPED" not in done.text
    finally:
        os.close(ours)
        os.close(theirs)
