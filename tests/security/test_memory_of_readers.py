"""Commands that run without a question may not take the machine's memory."""

from __future__ import annotations

import mmap
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from buddy.safety.paths import Boundary
from buddy.safety.policy.try_command import judge_command
from buddy.safety.shell.analysis import Analyser
from buddy.tools.shell import run_shell
from buddy.workspace.processes.limits import (
    READERS_SHARE,
    ProcessLimits,
    limit_reached,
    memory_for_readers,
    total_memory,
)
from buddy.workspace.processes.pool import ProcessSettings
from tests.capabilities import requires
from tests.support.sandbox_machine import LOOKS, sandbox_machine
from tests.support.tool_project import CommandProject, tool_project

BOUND = 600_000_000
GREEDY = "dd if=/dev/zero of=/dev/null bs=700M count=1"
"""Takes all of it at once, so that the refusal comes without filling the memory."""


def bound(project: CommandProject) -> None:
    """Give the commands of a project the bound of these tests."""
    settings = project.children.settings
    project.children.settings = ProcessSettings(settings.spill_folder, settings.limits, reader_bytes=BOUND)


async def call(project: CommandProject, command: str, *, reads: bool) -> str:
    project.approved.harden("call", {"LC_ALL": "C.UTF-8"} if reads else {})
    return (await project.call(run_shell, call_id="call", command=command)).text


async def test_M3_a_command_that_runs_unasked_is_refused_more_memory_and_says_so(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        bound(project)
        text = await call(project, GREEDY, reads=True)
        assert "memory exhausted" in text
        assert "a command that runs without a question may use 600 MB of memory" in text
        assert "[tools] shell_memory_mb" in text


async def test_M3_an_approved_command_has_no_such_bound(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        bound(project)
        assert "exit code 0" in await call(project, GREEDY, reads=False)


async def test_M3_the_persons_own_bound_takes_its_place(tmp_path: Path) -> None:
    async with tool_project(tmp_path, limits=ProcessLimits(memory_bytes=2_000_000_000)) as project:
        bound(project)
        assert "exit code 0" in await call(project, GREEDY, reads=True)


@pytest.mark.parametrize(
    "command",
    [
        *(f"timeout 20 {GREEDY}", f"( {GREEDY} )", f"env -i {GREEDY}", f"bash -c '{GREEDY}'"),
        *(f"setsid -w {GREEDY}", f"x=1; {GREEDY} && true", f"for i in 1; do {GREEDY}; done"),
        f"nice {GREEDY} | cat; exit ${{PIPESTATUS[0]}}",
    ],
)
async def test_M3_no_way_around_it(tmp_path: Path, command: str) -> None:
    async with tool_project(tmp_path) as project:
        bound(project)
        assert "memory exhausted" in await call(project, command, reads=True)


@pytest.mark.parametrize(
    "command",
    [
        *("ulimit -d unlimited; awk 1 a", "ulimit -S -d hard && sort a", "prlimit --data=9 sort a"),
        *("setpriv sort a", "bash -c 'ulimit -d unlimited; sort a'", "echo 0 > /proc/self/oom_score_adj"),
    ],
)
def test_M3_who_raises_the_bound_is_asked_about(tmp_path: Path, command: str) -> None:
    boundary = Boundary(str(tmp_path), str(tmp_path), str(tmp_path))
    assert judge_command(command, boundary, Analyser()).decision == "ask"


@requires("bwrap", "landlock")
@pytest.mark.parametrize("level", sorted(LOOKS))
async def test_M3_the_read_only_profile_is_bounded_and_the_other_is_not(level: int) -> None:
    async with sandbox_machine(look=LOOKS[level]) as project:
        project.children.settings = ProcessSettings(
            project.children.settings.spill_folder, reader_bytes=BOUND
        )
        assert "memory exhausted" in (await project.run(GREEDY, project.confinement("read-only"))).text
        assert (await project.run(GREEDY, project.confinement())).code == 0


@pytest.fixture
def own_memory() -> Iterator[None]:
    """Memory of this process above the bound of the commands; reserved, not filled."""
    with mmap.mmap(-1, BOUND + 100_000_000, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS):
        yield


@pytest.mark.usefixtures("own_memory")
async def test_a_program_above_the_bound_still_starts_bounded_commands(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        bound(project)
        assert "exit code 0" in await call(project, "true", reads=True)
        assert "memory exhausted" in await call(project, GREEDY, reads=True)


@requires("bwrap", "landlock")
@pytest.mark.parametrize("level", sorted(LOOKS))
@pytest.mark.usefixtures("own_memory")
async def test_a_program_above_the_bound_still_starts_commands_in_the_sandbox(level: int) -> None:
    async with sandbox_machine(look=LOOKS[level]) as project:
        project.children.settings = ProcessSettings(
            project.children.settings.spill_folder, reader_bytes=BOUND
        )
        assert "memory exhausted" in (await project.run(GREEDY, project.confinement("read-only"))).text


@pytest.mark.parametrize(
    "command",
    [
        *("node --version", "java -version", "cargo --version", "go version", "npm --version"),
        *("python3 --version", "rg -c def .", "git log -1", "sort a | uniq -c", "jq -n 1", "awk 1 a"),
    ],
)
async def test_M3_programs_that_reserve_much_and_use_little_run(tmp_path: Path, command: str) -> None:
    if shutil.which(command.split()[0]) is None:
        return  # nothing to break
    async with tool_project(tmp_path, variables={"HOME": os.environ["HOME"]}) as project:
        bound(project)
        (project.root / "a").write_text("def\n")
        assert "memory" not in await call(project, command, reads=True)


async def test_M3_commands_are_ended_before_others_when_memory_runs_out(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        own = Path("/proc/self/oom_score_adj").read_text()
        text = await call(project, "cat /proc/self/oom_score_adj", reads=False)
        assert int(text.split("\n")[0]) > int(own)
        assert Path("/proc/self/oom_score_adj").read_text() == own


def test_the_share_is_of_what_the_machine_or_its_container_has(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal:       16000000 kB\nMemFree: 1 kB\n")
    (tmp_path / "max").write_text("max\n")
    paths = (str(tmp_path / "meminfo"), (str(tmp_path / "max"), str(tmp_path / "missing")))
    assert total_memory(*paths) == 16_384_000_000
    (tmp_path / "max").write_text("8000000000\n")
    assert total_memory(*paths) == 8_000_000_000
    assert memory_for_readers(8_000_000_000) == 8_000_000_000 // READERS_SHARE
    assert memory_for_readers(500_000_000) == 1_000_000_000
    assert memory_for_readers(None) is None
    assert total_memory(str(tmp_path / "missing"), ()) is None


@pytest.mark.parametrize(
    "text",
    [
        *(
            "awk: run time error: out of memory",
            "jq: error: cannot allocate memory",
            "sort: memory exhausted",
        ),
        *(
            "memory allocation of 1073741824 bytes failed",
            "MemoryError",
            "gawk: fatal: Cannot allocate memory",
        ),
    ],
)
def test_the_words_of_programs_without_memory_are_known(text: str) -> None:
    limits = ProcessLimits(data_bytes=BOUND)
    assert "600 MB of memory" in limit_reached(limits, 2, "", text)
    assert limit_reached(limits, 0, "", text) == ""
