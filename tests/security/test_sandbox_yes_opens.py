"""A yes to a request that names a place outside of the workspace lets the command write there, and nowhere
else."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from buddy.agent.messages import ToolMessage
from tests.capabilities import requires
from tests.fake_llm.script import call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program
from tests.support.terminal import Terminal, on_terminal


@pytest.fixture(params=["~", "/tmp"])
def folder(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder in the home folder, and one in /tmp, which is private inside."""
    parent = os.path.expanduser(request.param)
    made = Path(os.path.realpath(tempfile.mkdtemp(prefix=".walk-test-", dir=parent)))
    yield made
    shutil.rmtree(made)


@asynccontextmanager
async def asked(folder: Path, command: str, mode: str = "ask") -> AsyncIterator[tuple[Program, Terminal]]:
    """A model runs a command; the program asks the person."""
    async with FakeLLM([reply(call("run_shell", command=command)), reply("All done.")]) as server:
        program = Program(folder, server.url)
        program.configure({"sandbox": {"level": "auto"}, "permissions": {"mode": mode}})
        program.files(main__py="print(1)\n")
        (program.home / "other").mkdir(parents=True, exist_ok=True)
        async with on_terminal(program, columns=110) as terminal:
            await terminal.line("go")
            yield program, terminal


async def answered(terminal: Terminal, answer: str) -> None:
    await asyncio.sleep(0.5)
    await terminal.line(answer)


async def result(program: Program) -> str:
    (only,) = [one.text for one in await program.history() if isinstance(one, ToolMessage)]
    return only


@pytest.mark.slow
@requires("bwrap")
async def test_WALK_S4_a_yes_to_a_request_that_names_a_folder_opens_it(folder: Path) -> None:
    command = "touch ~/other/x; touch ~/beside; touch ~/other/.env; true"
    async with asked(folder, command) as (program, terminal):
        (program.home / "other/.env").write_text("as it was\n")
        os.utime(program.home / "other/.env", (1, 1))
        await terminal.has_shown("your yes opens ~/other to this command")
        assert not (program.home / "other/x").exists()
        await answered(terminal, "y")
        await terminal.has_shown("the sandbox blocked writing to")
        await answered(terminal, "n")
        await terminal.has_shown("All done.")
        assert (program.home / "other/x").exists()
        assert not (program.home / "beside").exists()
        assert (program.home / "other/.env").stat().st_mtime == 1


@pytest.mark.slow
@requires("bwrap")
async def test_WALK_S4_mode_auto_asks_for_the_blocked_folder(folder: Path) -> None:
    async with asked(folder, "touch ~/other/x", "auto") as (program, terminal):
        await terminal.has_shown(
            "the sandbox blocked writing to ~/other. Allow that and run the command again?"
        )
        await answered(terminal, "y")
        await terminal.has_shown("All done.")
        assert (program.home / "other/x").exists()


@pytest.mark.slow
@requires("bwrap")
async def test_WALK_S1_a_file_in_tmp_is_said_to_be_in_the_sandboxs_own(folder: Path) -> None:
    path = f"/tmp/{folder.name[-8:]}"
    async with asked(folder, f"echo s > {path}; cat {path}") as (program, terminal):
        await terminal.has_shown("is in the sandbox's own /tmp, not in yours")
        await answered(terminal, "y")
        await terminal.has_shown("All done.")
    assert not Path(path).exists()
    assert f"[{path} is in the sandbox's own /tmp; outside of the sandbox it does not exist]" in await result(
        program
    )


@pytest.mark.slow
@requires("bwrap")
async def test_WALK_S1_a_folder_in_tmp_that_was_approved_by_name_gets_the_file(folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="walk-", dir="/tmp") as walk:
        async with asked(folder, f"cd {walk} && touch outside.txt") as (_program, terminal):
            await terminal.has_shown("your yes opens", "to this command")
            await answered(terminal, "y")
            await terminal.has_shown("All done.")
        assert os.listdir(walk) == ["outside.txt"]
