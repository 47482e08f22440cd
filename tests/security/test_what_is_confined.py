"""Everything that starts a program for the model starts it in the sandbox: each at level 3 and at level 2."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from buddy.agent.messages import ToolMessage
from tests.capabilities import requires
from tests.fake_llm.script import ToolCall, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program
from tests.support.sandbox_machine import WITHOUT_NAMESPACES

LEVELS = [pytest.param(3, marks=requires("bwrap")), pytest.param(2, marks=requires("bwrap", "landlock"))]
ESCAPE = "touch inside; touch ~/outside; grep -c NoNewPrivs:.1 /proc/self/status > confined"
OWN_TOOL = f"""
import asyncio
from buddy.agent.tool import ToolContext, tool
from buddy.workspace.processes.launch import shell_argv
from buddy.workspace.processes.pool import ChildProcesses, CommandRequest

@tool(risk="low")
async def own(ctx: ToolContext) -> str:
    "Run something."
    request = CommandRequest(shell_argv({ESCAPE!r}), {{folder!r}}, ctx.task_id)
    done = await ctx.service(ChildProcesses).run(request, timeout_s=30, cancelled=asyncio.Event())
    return done.text
"""
TEST = f"""
import subprocess

def test_it():
    subprocess.run({ESCAPE!r}, shell=True)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that is not in /tmp, which is private inside."""
    made = Path(os.path.realpath(tempfile.mkdtemp(prefix=".buddy-test-", dir=os.path.expanduser("~"))))
    yield made
    shutil.rmtree(made)


CALLS: dict[str, tuple[ToolCall, ...]] = {
    "command": (call("run_shell", command=ESCAPE),),
    "job": (
        call("run_shell", command=f"sleep 0.2; {ESCAPE}", background=True),
        call("read_job", job=1, wait=20),
    ),
    "terminal": (call("run_shell", command=ESCAPE, pty=True), call("read_job", job=1, wait=20)),
    "tests": (call("run_tests", target="test_it.py", framework="pytest"),),
    "git with a hook": (
        call("git_add", paths=["main.py"]),
        call("git_commit", message="x"),
    ),
    "plug-in": (call("own"),),
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", CALLS)
async def test_it_is_confined(folder: Path, kind: str, level: int) -> None:
    async with FakeLLM([*(reply(one) for one in CALLS[kind]), reply("Done.")]) as server:
        program = Program(folder, server.url, before=() if level == 3 else WITHOUT_NAMESPACES)
        program.configure({"sandbox": {"level": "require"}})
        program.files(main__py="print(1)\n", test_it__py=TEST)
        for key, value in (("name", "A"), ("email", "a@example.org")):
            program.git("config", f"user.{key}", value)
        (program.repo / "main.py").write_text("print(2)\n")
        hook = program.repo / ".git/hooks/pre-commit"
        hook.write_text(f"#!/bin/sh\n{ESCAPE}\n")
        hook.chmod(0o755)
        (program.repo / ".buddyx/ext").mkdir(parents=True)
        (program.repo / ".buddyx/ext/plugin.py").write_text(
            OWN_TOOL.replace("{folder!r}", repr(str(program.repo)))
        )
        await program.run("exec", "--trust", "go", "--permission-mode", "auto")
        answers = [one.text for one in await program.history() if isinstance(one, ToolMessage)]

    assert (program.repo / "inside").exists(), answers
    assert (program.repo / "confined").read_text() == "1\n"
    assert not (program.home / "outside").exists()
