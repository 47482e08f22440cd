"""A command that the sandbox blocked, in a terminal: the person opens what it needs."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from buddy.agent.messages import ToolMessage
from tests.capabilities import requires
from tests.fake_llm.script import call, reply
from tests.fake_llm.server import FakeLLM
from tests.headless.program import Desk
from tests.journeys.terminal import on_terminal


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that is not in /tmp, which is private inside."""
    made = Path(os.path.realpath(tempfile.mkdtemp(prefix=".buddy-test-", dir=os.path.expanduser("~"))))
    yield made
    shutil.rmtree(made)


@pytest.mark.slow
@requires("bwrap")
async def test_a_blocked_folder_is_opened_by_one_answer(folder: Path) -> None:
    made = "mkdir -p ~/.tool && echo kept > ~/.tool/file"
    async with FakeLLM([reply(call("run_shell", command=made)), reply("All done.")]) as server:
        desk = Desk(folder, server.url)
        desk.configure({"sandbox": {"level": "auto"}, "permissions": {"mode": "auto"}})
        desk.files(main__py="print(1)\n")
        async with on_terminal(desk, columns=110) as terminal:
            await terminal.line("go")
            await terminal.has_shown("the sandbox blocked writing to ~/.tool")
            assert not (desk.home / ".tool").exists()
            await asyncio.sleep(0.5)
            await terminal.line("y")
            await terminal.has_shown("All done.")
        assert (desk.home / ".tool" / "file").read_text() == "kept\n"
        (answer,) = [one.text for one in await desk.history() if isinstance(one, ToolMessage)]
    assert "[the sandbox blocked writing to ~/.tool; the person allowed it, and it ran again]" in answer
