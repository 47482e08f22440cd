"""Sandboxes and commands leave no descriptor open in a long session."""

from __future__ import annotations

import os

import pytest

from tests.capabilities import requires
from tests.support.sandbox_machine import LOOKS, sandbox_machine
from tests.support.waiting import until


def count_open() -> int:
    return len(os.listdir("/proc/self/fd"))


@requires("bwrap", "landlock")
@pytest.mark.parametrize("level", [2, 3])
async def test_a_closed_sandbox_leaves_no_descriptor(level: int) -> None:
    counts: list[int] = []
    for _ in range(3):
        async with sandbox_machine(look=LOOKS[level]) as machine:
            await machine.run("true", machine.confinement())
        counts.append(count_open())
    assert counts[1:] == [counts[0]] * 2


@requires("bwrap", "landlock")
@pytest.mark.parametrize("level", [2, 3])
async def test_ended_commands_leave_no_descriptor(level: int) -> None:
    async with sandbox_machine(look=LOOKS[level]) as machine:
        await machine.run("true", machine.confinement())
        before = count_open()
        for _ in range(20):
            await machine.run("true", machine.confinement())
        await until(lambda: count_open() <= before + 1)  # the reports of the last one end with its thread
