"""Files that a running command plants are removed while it runs, and after buddy was killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from buddy.workspace.processes.child import Child
from buddy.workspace.processes.launch import shell_argv
from buddy.workspace.processes.pool import CommandRequest
from buddy.workspace.sandbox.left_behind import ENDED, records_of
from buddy.workspace.sandbox.watch import restore_left
from tests.capabilities import requires
from tests.e2e.exec.test_sandboxed_commands import AUTO, confined_program, folder
from tests.fake_llm.script import call, reply
from tests.fake_llm.server import FakeLLM
from tests.security.test_git_data_is_guarded import git, prepare
from tests.security.test_racing_names import OVERWRITE, PYTHON
from tests.support.sandbox_machine import LOOKS, SandboxMachine, sandbox_machine

__all__ = ["folder"]

LEVELS = [pytest.param(3, marks=requires("bwrap")), pytest.param(2, marks=requires("landlock"))]
PLANT = "git init -q sub; git -C sub config core.fsmonitor 'touch {out}/ran;'; echo planted; sleep 600"
WITHIN_S = 30


async def until_planted(child: Child) -> None:
    async with asyncio.timeout(WITHIN_S):
        while "planted" not in child.log.text():
            await asyncio.sleep(0.01)


async def job(machine: SandboxMachine, command: str) -> Child:
    """A command that runs on when it has planted something."""
    await machine.sandbox.survey(machine.boundary)
    argv = shell_argv(command.format(out=machine.outside))
    child = machine.children.start(
        CommandRequest(argv, str(machine.work), 1, confinement=machine.confinement())
    )
    await until_planted(child)
    return child


async def told_meanwhile(machine: SandboxMachine) -> tuple[str, ...]:
    async with asyncio.timeout(WITHIN_S):
        while not (told := machine.sandbox.take_repairs()):
            await asyncio.sleep(0.05)
    return told


@pytest.mark.parametrize("level", LEVELS)
async def test_ATTACK5_a_nested_repository_is_disarmed_while_the_job_runs(level: int) -> None:
    async with sandbox_machine(look=LOOKS[level]) as machine:
        prepare(machine)
        child = await job(machine, PLANT)
        (told,) = await told_meanwhile(machine)
        await asyncio.to_thread(git, machine.work / "sub", "status", check=False)

        assert told.startswith("sub/.git/config was created; it is now .buddyx/quarantine/")
        assert child.exit is None
        assert not (machine.outside / "ran").exists()
        await child.end("test")
        assert machine.sandbox.take_repairs() == ()


@pytest.mark.parametrize("level", LEVELS)
async def test_ATTACK5_what_runs_outside_starts_after_a_look(level: int) -> None:
    async with sandbox_machine(look=LOOKS[level]) as machine:
        prepare(machine)
        await job(machine, PLANT)
        await machine.finished("git -C sub status", None)  # at once: long before the look that changes bring

        assert not (machine.outside / "ran").exists()
        assert len(machine.sandbox.take_repairs()) == 1


@pytest.mark.parametrize("level", LEVELS)
async def test_the_end_of_one_command_has_the_others_judged(level: int) -> None:
    async with sandbox_machine(look=LOOKS[level]) as machine:
        prepare(machine)
        await job(machine, PLANT)
        await machine.run("true", machine.confinement())

        assert len(machine.sandbox.take_repairs()) == 1
        assert not (machine.work / "sub/.git/config").exists()


@requires("bwrap")
async def test_a_rebase_with_commands_goes_on() -> None:
    async with sandbox_machine() as machine:
        prepare(machine)
        rebase = "git rebase -q --root -x 'touch file; echo planted; sleep 600; true' -x true"
        child = await job(machine, rebase)
        await machine.run("true", machine.confinement())

        assert machine.sandbox.take_repairs() == ()
        assert (machine.work / ".git/rebase-merge/git-rebase-todo").exists()
        await child.end("test")


# --- after a kill ------------------------------------------------------------------------------------------

KILLED = """
import asyncio, os, signal, sys
from buddy.safety.paths import Boundary
from buddy.workspace.processes.environment import ChildEnvironment
from buddy.workspace.processes.launch import shell_argv
from buddy.workspace.processes.pool import ChildProcesses, CommandRequest, ProcessSettings
from buddy.workspace.sandbox.profile import Confinement, SandboxRules
from buddy.workspace.sandbox.sandbox import Sandbox
from tests.support.sandbox_machine import LOOKS

async def main(level, top, command):
    work = top + "/work"
    boundary = Boundary(work, work, top + "/home")
    sandbox = Sandbox(SandboxRules, cache=top + "/cache", records=top + "/records", look=LOOKS[level])
    await sandbox.ready()
    children = ChildProcesses(
        ChildEnvironment(dict(os.environ), "s"), ProcessSettings(top + "/spill"), sandbox
    )
    await sandbox.survey(boundary)
    request = CommandRequest(shell_argv(command), work, 1, confinement=Confinement("workspace", boundary))
    child = children.start(request)
    while "planted" not in child.log.text():
        await asyncio.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main(int(sys.argv[1]), sys.argv[2], sys.argv[3]))
"""


async def killed(machine: SandboxMachine, level: int, command: str) -> tuple[str, ...]:
    """Have another buddy killed that ran a command here; return its records once nothing of it runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", KILLED, str(level), str(machine.top), command.format(out=machine.outside)
    )
    assert await process.wait() == -signal.SIGKILL
    records = records_of(str(machine.top / "records"), str(machine.work))
    async with asyncio.timeout(WITHIN_S):
        while not all(os.path.exists(path + ENDED) for path in records):
            await asyncio.sleep(0.01)
    return records


@pytest.mark.parametrize("level", LEVELS)
async def test_what_a_killed_buddy_left_is_put_back_once_and_the_persons_own_stays(level: int) -> None:
    async with sandbox_machine(look=LOOKS[level]) as machine:
        prepare(machine)
        records = await killed(machine, level, PLANT)
        await asyncio.sleep(0.05)  # more than a step of the clock that files take their times from
        (machine.work / ".zed").mkdir()
        (machine.work / ".zed" / "tasks.json").write_text("the person's own")

        (told,) = restore_left(records)

        assert told.startswith("sub/.git/config was created; it is now .buddyx/quarantine/")
        assert not (machine.work / "sub/.git/config").exists()
        assert (machine.work / ".zed" / "tasks.json").exists()
        assert os.listdir(machine.top / "records") == []
        assert restore_left(records) == ()


@requires("landlock")
async def test_what_a_killed_buddy_had_kept_comes_back() -> None:
    async with sandbox_machine(look=LOOKS[2]) as machine:
        prepare(machine)
        before = (machine.work / ".git/config").read_bytes()
        (machine.work / "overwrite.py").write_text(OVERWRITE)
        command = f"{PYTHON} -I overwrite.py .git/config; echo planted; sleep 600"
        records = await killed(machine, 2, command)
        assert (machine.work / ".git/config").read_bytes() != before  # otherwise this tests nothing

        told = restore_left(records)

        assert (machine.work / ".git/config").read_bytes() == before
        assert told[0].startswith(".git/config was changed and put back; ")


@requires("bwrap")
async def test_the_record_of_a_living_buddy_is_left_alone() -> None:
    async with sandbox_machine() as machine:
        prepare(machine)
        child = await job(machine, "echo planted; sleep 600")
        records = records_of(str(machine.top / "records"), str(machine.work))

        assert len(records) == 1
        assert restore_left(records) == ()
        assert records_of(str(machine.top / "records"), str(machine.work)) == records
        await child.end("test")
        assert os.listdir(machine.top / "records") == []


def test_a_record_that_cannot_be_read_is_told_and_goes(tmp_path: Path) -> None:
    path = tmp_path / "0123456789abcdef-x"
    path.write_bytes(b"\xc1")
    (told,) = restore_left((str(path),))
    assert told == f"the record {path} cannot be read: what a command did meanwhile was not looked at"
    assert not path.exists()


@requires("bwrap")
async def test_the_next_start_tells_what_a_killed_one_left(folder: Path) -> None:
    plant = "git init -q sub; git -C sub config core.fsmonitor 'true;'; echo planted > done; sleep 600"
    replies = [reply(call("run_shell", command="sh plant.sh")), reply("Hello."), reply("Hello.")]
    async with FakeLLM(replies) as server:
        program = confined_program(folder, server)
        (program.repo / "plant.sh").write_text(plant)
        process = await program.start("exec", "go", *AUTO)
        async with asyncio.timeout(60):
            while not (program.repo / "done").exists():
                await asyncio.sleep(0.01)
        process.kill()
        await process.wait()
        (record,) = records_of(str(program.home / ".local/state/buddy/sandbox"), str(program.repo))
        async with asyncio.timeout(WITHIN_S):
            while not os.path.exists(record + ENDED):
                await asyncio.sleep(0.01)
        ran = await program.run("exec", "hi", *AUTO)

    (told,) = [one for one in ran.told() if "killed" in one]
    assert (
        "in a session that was killed, a sandboxed command changed a protected name: sub/.git/config" in told
    )
    assert not (program.repo / "sub/.git/config").exists()
