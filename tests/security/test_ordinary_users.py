"""The sandbox works for ordinary users, whose namespaces have fewer rights than root's."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import thread
from pathlib import Path

import msgspec

from buddy.workspace.sandbox.network import open_network
from buddy.workspace.sandbox.probe import ProbeResult, probe
from tests.capabilities import NOBODY, requires
from tests.support.sandbox_machine import sandbox_machine

LIMIT_S = 60
LOOK = "cat /proc/net/dev; echo entered"


async def _enter_network() -> str:
    network = await open_network(str(shutil.which("bwrap")))
    try:
        argv = (*network.enter_argv(str(shutil.which("nsenter"))), "sh", "-c", LOOK)
        done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd="/")  # noqa: ASYNC221 - a few milliseconds
    finally:
        network.close()
    return done.stdout + done.stderr


def _as_ordinary_user(writing: int) -> None:
    """Write the outcome, in a child process that has given up root's rights: every module is loaded, and the
    namespace's holder gets an interpreter that everybody may read."""
    assert thread  # loaded: asyncio imports it on first use, and may not read it any more
    signal.alarm(LIMIT_S)  # forked from a process with threads it may hang, and would outlive a killed run
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        sys.executable = str(shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin"))
    try:
        text = asyncio.run(_enter_network())
    except OSError as error:
        text = str(error)
    os.write(writing, text.encode())


@requires("bwrap", "linux")
def test_an_ordinary_user_enters_the_network_of_the_session() -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _as_ordinary_user(writing)
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as file:
        text = file.read()
    os.waitpid(child, 0)
    assert text.endswith("entered\n"), text
    assert [line.split(":")[0].strip() for line in text.splitlines()[2:-1]] == ["lo"]


@requires("bwrap", "linux")
async def test_a_network_that_cannot_be_entered_leaves_each_command_an_empty_one(tmp_path: Path) -> None:
    refusing = tmp_path / "nsenter"
    refusing.write_text("#!/bin/sh\necho refused >&2\nexit 1\n")
    refusing.chmod(0o755)

    def look() -> ProbeResult:
        return msgspec.structs.replace(probe(), nsenter=str(refusing))

    async with sandbox_machine(look=look) as machine:
        done = await machine.run("echo works; cat /proc/net/dev", machine.confinement())
        assert done.code == 0, done.text
        assert done.text.startswith("works\n")
        assert [line.split(":")[0].strip() for line in done.text.splitlines()[3:]] == ["lo"]
