"""Preparations of bubblewrap for a command are not judged; a command that runs bubblewrap's program is."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.capabilities import requires
from tests.support.sandbox_machine import sandbox_machine

PLANT = """
#include <fcntl.h>
#include <stdio.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>
__attribute__((constructor)) static void plant(void) {
    int made = mkdir(".idea", 0700), why = errno;
    int file = open(".mcp.json", O_CREAT | O_WRONLY, 0600);
    printf("planted %d %d as %d\\n", made == 0 || why != EROFS, file >= 0, getpid());
    fflush(stdout);
    _exit(0);
}
"""
WAYS = (
    "LD_PRELOAD=$PWD/plant.so bwrap --version",
    "exec env LD_PRELOAD=$PWD/plant.so bwrap --version",
    "LD_PRELOAD=$PWD/plant.so bwrap --unshare-user --unshare-pid --ro-bind / / true",
    "LD_PRELOAD=$PWD/plant.so unshare --pid --fork bwrap --version",
    "(LD_PRELOAD=$PWD/plant.so setsid -w bwrap --version)",
    "sleep 0.1; LD_PRELOAD=$PWD/plant.so exec -a bwrap bwrap --version",
)


@requires("bwrap")
@pytest.mark.parametrize("way", WAYS)
async def test_a_command_that_runs_bubblewrap_plants_nothing(tmp_path: Path, way: str) -> None:
    if shutil.which("cc") is None:
        return  # there is no such library to load
    (tmp_path / "plant.c").write_text(PLANT)
    library = tmp_path / "plant.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "plant.c"], check=True)  # noqa: ASYNC221 - once
    async with sandbox_machine() as machine:
        shutil.copyfile(library, machine.work / "plant.so")
        done = await machine.run(way, machine.confinement())
        assert "planted" in done.text
        assert "planted 0 0 as" in done.text
        assert not (machine.work / ".idea").exists()
        assert not (machine.work / ".mcp.json").exists()


@requires("bwrap")
async def test_what_the_launcher_does_is_not_the_commands_attempt() -> None:
    async with sandbox_machine() as machine:
        request = machine.confinement()
        done = await machine.run("true", request)
        assert done.blocked.paths == ()
        done = await machine.run("mkdir .idea", request)
        assert [Path(path).name for path in done.blocked.paths] == [".idea"]
