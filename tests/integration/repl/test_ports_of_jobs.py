"""/ps and /jobs name the ports a job listens on, and say whom they serve."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from buddy.repl.commands.tasks import INSIDE_ONLY, job_blocks
from buddy.repl.view.blocks import NoteBlock, TableBlock
from buddy.workspace.processes.jobs import Jobs
from buddy.workspace.processes.launch import shell_argv
from buddy.workspace.processes.pool import CommandRequest
from buddy.workspace.sandbox.profile import Confinement
from tests.capabilities import requires
from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, call, reply
from tests.support.repl import open_repl
from tests.support.sandbox_machine import SandboxMachine, sandbox_machine

SERVE = (
    f"{os.path.realpath(sys.executable)} -I -c 'import socket, time; "
    's = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1], flush=True); time.sleep(600)\''
)


async def served(machine: SandboxMachine, confinement: Confinement | None) -> tuple[str, tuple[object, ...]]:
    """Start a server as a job; return its port and the table of jobs."""
    await machine.sandbox.survey(machine.boundary)
    async with Jobs(machine.children) as jobs:
        request = CommandRequest(shell_argv(SERVE), str(machine.work), 1, confinement=confinement)
        job = jobs.start(request, command="serve")
        async with asyncio.timeout(30):
            while not (port := job.log.text().strip()):
                await asyncio.sleep(0.01)
        return port, await asyncio.to_thread(job_blocks, jobs, jobs.all())


def serves(block: object) -> str:
    assert isinstance(block, TableBlock)
    assert block.header[4] == "serves"
    return block.rows[0][4]


@requires("bwrap")
async def test_a_port_in_the_sandbox_is_named_with_who_reaches_it() -> None:
    async with sandbox_machine() as machine:
        port, (table, note) = await served(machine, machine.confinement())
    assert serves(table) == f"{port} inside"
    assert note == NoteBlock("info", INSIDE_ONLY)


async def test_a_port_outside_is_named_alone() -> None:
    async with sandbox_machine() as machine:
        port, blocks = await served(machine, None)
    assert len(blocks) == 1
    assert serves(blocks[0]) == port


async def test_ps_shows_running_jobs_below_the_tasks(tmp_path: Path) -> None:
    def script(asked: Asked) -> Reply:
        if asked.last_user_text.endswith("serve"):
            start = call("run_shell", command=SERVE, background=True)
            return reply("Done.") if asked.tool_results else reply(start)
        return reply("Hello.")

    async with open_repl(tmp_path, script, "--permission-mode", "yolo", "--i-know") as repl:
        repl.say("serve")
        await repl.shows("Done.")
        async with asyncio.timeout(30):
            while not (port := repl.context.session.jobs.get(1).log.text().strip()):
                await asyncio.sleep(0.01)
        await repl.said("/ps", "▸ 1", port)
        await repl.said("/jobs", port)
