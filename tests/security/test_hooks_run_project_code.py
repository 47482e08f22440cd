"""A hook of the person that runs the project's code, which the model just wrote, runs it in the sandbox."""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.capabilities import requires
from tests.fake_llm.script import call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program, Ran
from tests.support.sandbox_machine import WITHOUT_NAMESPACES

LEVELS = [pytest.param(3, marks=requires("bwrap")), pytest.param(2, marks=requires("bwrap", "landlock"))]
CONNECT = "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 2)'"
MAKEFILE = f"all:\n\t-touch inside\n\t-touch {{home}}/outside\n\t-touch .git/hooks/x\n\t-{CONNECT}\n"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that is not in /tmp, which is private inside."""
    made = Path(os.path.realpath(tempfile.mkdtemp(prefix=".buddy-test-", dir=os.path.expanduser("~"))))
    yield made
    shutil.rmtree(made)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


def port_of(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


def was_reached(listener: socket.socket) -> bool:
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


async def edit_and_stop(
    folder: Path, listener: socket.socket, command: str, *, level: int = 3, rules: str = ""
) -> tuple[Program, Ran]:
    """Let the model write a Makefile in a session with this Stop hook of the person."""
    content = MAKEFILE.format(home=folder / "home", port=port_of(listener))
    async with FakeLLM(
        [reply(call("write_file", path="Makefile", content=content)), reply("Done.")]
    ) as server:
        program = Program(folder, server.url, before=() if level == 3 else WITHOUT_NAMESPACES)
        program.configure({"sandbox": {"level": "auto"}})
        entry = {"matcher": "", "hooks": [{"type": "command", "command": command}]}
        settings = program.home / ".claude" / "settings.json"
        settings.parent.mkdir(parents=True)
        settings.write_text(json.dumps({"hooks": {"Stop": [entry]}}))
        with (program.home / ".config" / "buddy" / "buddy.toml").open("a") as file:
            file.write(rules)
        program.git("init", "-q")
        return program, await program.run("exec", "--permission-mode", "edit", "go")


@requires("make")
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("command", ["make", "cd . && timeout 20 make all", 'bash -c "make"'])
async def test_it_changes_nothing_outside_and_reaches_nobody(
    folder: Path, listener: socket.socket, level: int, command: str
) -> None:
    program, ran = await edit_and_stop(folder, listener, command, level=level)
    assert (program.repo / "inside").exists(), ran.err
    assert not (program.home / "outside").exists()
    assert not (program.repo / ".git/hooks/x").exists()
    assert not was_reached(listener)


@requires("make", "bwrap")
@pytest.mark.parametrize(("way", "leaves"), [("off", True), ("network", False)])
async def test_a_rule_of_the_person_opens_what_it_says(
    folder: Path, listener: socket.socket, way: str, leaves: bool
) -> None:
    rule = f'\n[[rule]]\ntool = "shell"\nargv = ["make", "*"]\ndecision = "allow"\nsandbox = "{way}"\n'
    program, ran = await edit_and_stop(folder, listener, "make", rules=rule)
    assert (program.repo / "inside").exists(), ran.err
    assert (program.home / "outside").exists() is leaves
    assert was_reached(listener) is leaves


@requires("bwrap")
async def test_a_hook_that_runs_nothing_of_the_project_may_write_its_log(
    folder: Path, listener: socket.socket
) -> None:
    program, ran = await edit_and_stop(folder, listener, "echo stopped >> ~/hooks.log")
    assert (program.home / "hooks.log").read_text() == "stopped\n", ran.err


@requires("make", "bwrap")
async def test_a_hook_that_fails_says_what_the_sandbox_blocked(folder: Path, listener: socket.socket) -> None:
    program, ran = await edit_and_stop(folder, listener, "make && touch ~/outside")
    assert not (program.home / "outside").exists()
    assert f"the sandbox blocked {program.home}/outside" in ran.err, ran.err
