"""A session around a target: rewinding, changes, hooks and worktrees keep to the right machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from buddy.app.options import UsageError
from buddy.cli.arguments import parse
from buddy.headless.serve.requests import SessionRequests
from buddy.tasks.task import TaskError
from tests.capabilities import requires
from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program
from tests.support.repl import open_repl_in
from tests.support.ssh_server import SshServer, ssh_server

pytestmark = requires("sshd", "linux")
YOLO = ("--permission-mode", "yolo", "--i-know")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SshServer]:
    with ssh_server(tmp_path / "machine") as running:
        yield running


def writes(asked: Asked) -> Reply:
    """`write NAME TEXT` writes a file; anything else is only heard."""
    if asked.turns[-1][0] == "user" and asked.last_user_text.startswith("write "):
        _, name, text = asked.last_user_text.split(" ", 2)
        return reply(call("write_file", path=name, content=text + "\n"))
    return reply("done")


def program_with_box(root: Path, model: FakeLLM, server: SshServer) -> Program:
    box = {"host": "machine", "folder": str(server.folder), "config": str(server.config)}
    root.mkdir()
    program = Program(root, model.url, settings={"targets": {"box": box}})
    program.files(main__py="print(1)\n")
    return program


async def test_rewind_takes_back_what_was_done_over_there_and_nothing_here(
    server: SshServer, tmp_path: Path
) -> None:
    async with FakeLLM(writes) as model:
        program = program_with_box(tmp_path / "here", model, server)
        async with open_repl_in(program, model, *YOLO) as repl:
            await repl.turn("write a.txt of this machine")
            await repl.said("/target box", "works on box")
            await repl.turn("write b.txt over there")
            text = await repl.said("/rewind 2", "1 file changed since prompt 2")
            assert f"box:{server.folder}/b.txt" in text
            await repl.said("/rewind 2 files", f"box:{server.folder}/b.txt")
            assert not (server.folder / "b.txt").exists()
            assert (program.repo / "a.txt").read_text() == "of this machine\n"


async def test_the_page_shows_the_changes_of_every_machine(server: SshServer, tmp_path: Path) -> None:
    async with FakeLLM(writes) as model:
        program = program_with_box(tmp_path / "here", model, server)
        async with open_repl_in(program, model, *YOLO) as repl:
            await repl.turn("write a.txt here")
            await repl.said("/target box", "works on box")
            await repl.turn("write a.txt there")
            requests = SessionRequests(repl.context.session)
            assert [file.path for file in (await requests.diff(None)).files] == [
                "a.txt",
                f"box:{server.folder}/a.txt",
            ]
            assert [file.path for file in (await requests.diff(1)).files] == [f"box:{server.folder}/a.txt"]


async def test_a_hook_hears_of_the_machine_and_finds_no_file_of_that_name_here(
    server: SshServer, tmp_path: Path
) -> None:
    async with FakeLLM(writes) as model:
        program = program_with_box(tmp_path / "here", model, server)
        log = tmp_path / "log"
        hook = {"type": "command", "command": f"cat >> {log}; echo >> {log}"}
        group = {"matcher": "Write", "hooks": [hook]}
        settings = program.home / ".claude/settings.json"
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(json.dumps({"hooks": {"PreToolUse": [group], "PostToolUse": [group]}}))
        async with open_repl_in(program, model, *YOLO) as repl:
            await repl.said("/target box", "works on box")
            await repl.turn("write a.txt there")
            await repl.said("/target local", "works on this machine")
            await repl.turn("write a.txt here")
        seen = [json.loads(line) for line in log.read_text().splitlines() if line]
        assert [(one.get("target"), one["tool_input"]["file_path"]) for one in seen] == [
            ("box", "a.txt"),
            ("box", "box:a.txt"),
            (None, "a.txt"),
            (None, "a.txt"),
        ]
        assert seen[1]["tool_response"]["filePath"] == "box:a.txt"


async def test_a_task_stays_in_its_worktree(server: SshServer, tmp_path: Path) -> None:
    async with FakeLLM(writes) as model:
        program = program_with_box(tmp_path / "here", model, server)
        async with open_repl_in(program, model, *YOLO, "--worktree=side") as repl:
            task = repl.context.board.task(1)
            tree = task.workspace.worktree
            assert tree is not None
            with pytest.raises(TaskError, match="worktree side"):
                repl.context.board.change_target(1, "box")
            repl.context.board.change_target(1, "")
            assert task.workspace.worktree is tree


def test_an_editor_gets_no_session_on_another_machine() -> None:
    with pytest.raises(UsageError, match="--target is not for acp"):
        parse(["acp", "--target", "box"])
