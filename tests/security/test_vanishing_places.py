"""Places that go between the moment they are listed and the moment bubblewrap covers them."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from buddy.workspace.processes.launch import Launch, shell_argv
from buddy.workspace.processes.pool import CommandRequest, ConfinedLaunch
from buddy.workspace.processes.process_tree import Tag
from buddy.workspace.sandbox.profile import Confinement, Kind
from buddy.workspace.sandbox.sandbox import Sandbox
from tests.capabilities import requires
from tests.support.sandbox_machine import SandboxMachine, sandbox_machine


class Interrupted:
    """A sandbox with something happening after it looked."""

    def __init__(self, sandbox: Sandbox, meanwhile: Callable[[], None]) -> None:
        self._sandbox = sandbox
        self._meanwhile = meanwhile
        self.places: tuple[str, ...] = ()

    def confine(self, launch: Launch, confinement: Confinement, tag: Tag) -> ConfinedLaunch:
        confined = self._sandbox.confine(launch, confinement, tag)
        self.places = confined.launch.argv
        self._meanwhile()
        return confined

    async def check(self) -> None:
        await self._sandbox.check()


async def ran(
    machine: SandboxMachine, command: str, path: Path, meanwhile: Callable[[], None], kind: Kind = "workspace"
) -> tuple[str, int | None]:
    """Run a command while a place goes that is on the list."""
    await machine.sandbox.survey(machine.boundary)
    interrupted = Interrupted(machine.sandbox, meanwhile)
    machine.children.sandbox = interrupted
    finished = await machine.finished(command, machine.confinement(kind))
    assert str(path) in interrupted.places  # otherwise this tests nothing
    return finished.text, finished.exit.code


def listening(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.bind(str(path))
    made.listen()
    return made


@requires("bwrap")
@pytest.mark.parametrize("command", ["echo fine", "echo fine; exit 1", "printf '%s\\n' fine -- --bind /x /y"])
async def test_a_socket_that_goes_before_it_is_hidden_stops_no_command(command: str) -> None:
    async with sandbox_machine() as machine:
        path, other = machine.outside / "service", machine.outside / "stays"
        with listening(path), listening(other):
            text, code = await ran(machine, f"{CONNECT.format(other)}; {command}", path, path.unlink)

    assert "bwrap" not in text
    assert text.splitlines().count("fine") == 1
    assert "connected" not in text
    assert code == (1 if "exit 1" in command else 0)


CONNECT = (
    'python3 -c \'import socket; socket.socket(socket.AF_UNIX).connect("{}"); print("connected")\' || true'
)


OTHERS = 12_345
"""The id of a user and a group that are not those who run the tests."""
ALLOWS_ROOT = struct.pack("<I" + "HHi" * 5, 2, 1, 7, -1, 2, 7, 0, 4, 0, -1, 16, 7, -1, 32, 0, -1)
"""An access control list: everything for the owner and for user 0, nothing for others."""


@requires("bwrap", "root")
@pytest.mark.parametrize(
    ("owner", "group", "mode"),
    [
        (OTHERS, OTHERS, 0o700),
        (OTHERS, OTHERS, 0o750),
        (OTHERS, OTHERS, 0o711),
        (OTHERS, OTHERS, 0o701),
        (OTHERS, 0, 0o700),
        (OTHERS, 0, 0o710),
        (0, OTHERS, 0o700),
        (0, 0, 0o700),
    ],
    ids=lambda value: oct(value) if value < OTHERS else "other",
)
@pytest.mark.parametrize("below", [".", "open/further"])
async def test_a_socket_in_a_folder_of_another_user_stops_no_command_of_root(
    owner: int, group: int, mode: int, below: str
) -> None:
    async with sandbox_machine() as machine:
        folder = machine.outside / "theirs"
        (folder / below).mkdir(parents=True)
        path = folder / below / "service"
        with listening(path):
            path.chmod(0o777)
            os.chown(folder, owner, group)
            folder.chmod(mode)
            ran = await machine.run(f"{CONNECT.format(path)}; echo fine", machine.confinement())
    assert ran.text.splitlines()[-1] == "fine"
    assert "connected" not in ran.text
    assert str(machine.top) not in ran.text  # it could be covered, or needed no cover


@requires("bwrap", "root", "extended attributes")
async def test_a_socket_that_a_list_of_another_user_opens_to_root_is_not_reached() -> None:
    async with sandbox_machine() as machine:
        folder = machine.outside / "theirs"
        folder.mkdir()
        path = folder / "service"
        with listening(path):
            path.chmod(0o777)
            os.chown(folder, OTHERS, OTHERS)
            os.setxattr(folder, "system.posix_acl_access", ALLOWS_ROOT)
            ran = await machine.run(f"{CONNECT.format(path)}; echo fine", machine.confinement())
    assert "connected" not in ran.text


@requires("bwrap")
async def test_a_protected_folder_that_goes_stops_no_command() -> None:
    async with sandbox_machine() as machine:
        gone = machine.work / "sub/.claude"
        text, code = await ran(machine, "echo fine; touch .vscode/x", gone, lambda: shutil.rmtree(gone))
        assert text.startswith("fine\n")
        assert os.listdir(machine.work / ".vscode") == ["settings.json"]
        assert code == 1


GOING = {
    "a file of the home folder": (".netrc", ()),
    "a file and a folder": (".netrc", (".ssh",)),
    "a folder": (".ssh", ()),
    "a file with its folder": (".config/buddy/buddy.toml", (".config",)),
    "everything hidden": (".netrc", (".ssh", ".aws", ".config")),
}


@requires("bwrap")
@pytest.mark.parametrize("kind", ["workspace", "read-only"])
@pytest.mark.parametrize("case", GOING)
async def test_a_hidden_place_that_goes_is_not_complained_about(case: str, kind: Kind) -> None:
    name, others = GOING[case]

    async with sandbox_machine() as machine:

        def go() -> None:
            for path in (machine.home / one for one in (name, *others)):
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)

        text, code = await ran(machine, "echo fine; echo err >&2; exit 1", machine.home / name, go, kind)

    assert (text, code) == ("fine\nerr\n", 1)


@requires("bwrap")
async def test_a_failure_that_does_not_pass_is_told() -> None:
    async with sandbox_machine() as machine:
        temporary = (await machine.run("cat /proc/self/mountinfo", machine.confinement())).text
        scratch = next(line.split()[3] for line in temporary.splitlines() if line.split()[4] == "/tmp")
        await machine.sandbox.survey(machine.boundary)
        machine.children.sandbox = Interrupted(machine.sandbox, lambda: shutil.rmtree(scratch))
        finished = await machine.finished("echo fine", machine.confinement())
        os.mkdir(scratch)
    assert finished.exit.code == 1
    assert finished.text.startswith("bwrap: ")
    assert scratch in finished.text
    assert len(finished.text.splitlines()) == 1


@requires("bwrap")
async def test_a_command_that_fails_runs_once() -> None:
    async with sandbox_machine() as machine:
        finished = await machine.finished("echo once >> log; exit 1", machine.confinement())
        assert (finished.exit.code, (machine.work / "log").read_text()) == (1, "once\n")


@requires("bwrap")
async def test_a_command_cannot_get_at_what_starts_it_again() -> None:
    async with sandbox_machine() as machine:
        command = "echo once >> log; ls -l /proc/self/fd; : > /proc/self/fd/8; : > /proc/self/fd/9; exit 1"
        finished = await machine.finished(command, machine.confinement())
        assert (machine.work / "log").read_text() == "once\n", finished.text
        assert "status-" not in finished.text


FAILURES = """
exit 1
exit 2
exit 3
exit 77
exit 126
exit 255
false
[ 1 = 2 ]
cd /nowhere
kill -TERM $$
kill -KILL $$
/nowhere/program
nosuchprogram
test -e gone
( exit 1 )
/bin/sh -c 'exit 1'
echo '"exit-code": 0'; exit 1
printf 'no line end'; exit 1
exec 1>&- 2>&-; exit 1
true
"""


@requires("bwrap")
@pytest.mark.parametrize("path", ["{work}/bin", "bin", ".", "", "./bin", "{work}/sub/../bin", "{work}/link"])
async def test_a_command_that_fails_starts_no_program_of_the_workspace_outside(path: str) -> None:
    """The script around bubblewrap has the command's `PATH`: a virtual environment in the workspace, which
    earlier commands may have changed."""
    async with sandbox_machine() as machine:
        mark = machine.outside / "ran"
        for folder in (machine.work / "bin", machine.work):
            folder.mkdir(exist_ok=True)
            for name in PROGRAMS.split():
                (folder / name).write_text(f'#!/bin/bash\necho {name} >>{mark}\nexec /usr/bin/{name} "$@"\n')
                (folder / name).chmod(0o755)
        (machine.work / "link").symlink_to("bin")
        await machine.sandbox.survey(machine.boundary)
        variables = {"PATH": f"{path.format(work=machine.work)}:{os.environ['PATH']}"}
        for command in filter(None, FAILURES.splitlines()):
            request = CommandRequest(
                shell_argv(command), str(machine.work), 1, env=variables, confinement=machine.confinement()
            )
            await machine.children.run(request, timeout_s=60, cancelled=asyncio.Event())

        assert not mark.exists(), mark.read_text()


PROGRAMS = (
    "grep sed awk cat head tail cut tr rm mv cp test [ sleep env expr "
    "seq printf echo true false bash sh bwrap nsenter"
)
