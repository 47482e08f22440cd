"""Commands judged to only read: what they run with, and what takes the judgement away."""

from __future__ import annotations

import os
from pathlib import Path

from buddy.agent.messages import ToolMessage
from tests.fake_llm.script import call, reply
from tests.fake_llm.server import FakeLLM
from tests.headless.program import YOLO, Desk


async def _answers(desk: Desk) -> list[str]:
    return [one.text for one in await desk.history() if isinstance(one, ToolMessage)]


async def _ran(folder: Path, command: str, *options: str, path: str = "") -> tuple[Desk, str]:
    async with FakeLLM([reply(call("run_shell", command=command)), reply("Done.")]) as server:
        desk = Desk(folder, server.url, environment={"PATH": path} if path else {})
        code = (await desk.run("exec", "go", *options)).code
        (answer,) = await _answers(desk)
        assert code == (3 if "needs an approval" in answer else 0)
        return desk, answer


async def test_git_runs_hardened_when_nobody_was_asked(tmp_path: Path) -> None:
    _, answer = await _ran(tmp_path, "git config core.fsmonitor; git config log.showSignature")
    assert answer.startswith("false\nfalse\n[exit code 0")


async def test_git_runs_as_usual_when_the_command_was_allowed_as_a_change(tmp_path: Path) -> None:
    _, answer = await _ran(tmp_path, "touch x; git config core.fsmonitor", *YOLO)
    assert answer.startswith("[exit code 1")


async def test_SEC_051_a_configuration_that_starts_programs_is_named_and_nothing_starts(
    tmp_path: Path,
) -> None:
    Desk(tmp_path, "http://127.0.0.1:9").git("config", "core.fsmonitor", "touch OWNED; false")
    desk, answer = await _ran(tmp_path, "git status")
    assert "core.fsmonitor" in answer
    assert not (desk.repo / "OWNED").exists()


async def test_a_program_of_the_workspace_on_the_persons_path_is_asked_about(tmp_path: Path) -> None:
    planted = Desk(tmp_path, "http://127.0.0.1:9").repo / "bin" / "wc"
    planted.parent.mkdir()
    planted.write_text("#!/bin/sh\ntouch OWNED\n")
    planted.chmod(0o755)
    desk, answer = await _ran(tmp_path, "wc -l bin/wc", path=f"{planted.parent}:{os.environ['PATH']}")
    assert "would be the workspace's own" in answer
    assert not (desk.repo / "OWNED").exists()


async def test_a_job_that_ends_while_the_session_goes_on_is_told(tmp_path: Path) -> None:
    replies = [
        reply(call("run_shell", command="echo started; sleep 1.5; exit 3", wait=False)),
        reply(call("read_job", job=1, offset=8, wait=10)),
        reply("Done."),
    ]
    async with FakeLLM(replies) as server:
        desk = Desk(tmp_path, server.url)
        ran = await desk.run("exec", "go", *YOLO)
    assert ran.code == 0
    told = [line.removeprefix("  info: ") for line in ran.err.splitlines() if line.startswith("  info: job")]
    assert len(told) == 1
    assert told[0].startswith("job 1 ended (exit code 3, ")
    assert told[0].endswith("s): echo started; sleep 1.5; exit 3")
