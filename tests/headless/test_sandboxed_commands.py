"""Commands of a model in the sandbox, through the real program."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from buddy.agent.messages import ToolMessage
from tests.capabilities import requires
from tests.fake_llm.script import call, reply
from tests.fake_llm.server import FakeLLM
from tests.headless.program import YOLO, Desk
from tests.workspace.test_racing_names import RACE

AUTO = ("--permission-mode", "auto")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that is not in /tmp, which is private inside."""
    made = Path(os.path.realpath(tempfile.mkdtemp(prefix=".buddy-test-", dir=os.path.expanduser("~"))))
    yield made
    shutil.rmtree(made)


def confined_desk(folder: Path, server: FakeLLM, **sandbox: object) -> Desk:
    """The program with its sandbox on."""
    desk = Desk(folder, server.url)
    desk.configure({"sandbox": {"level": "auto", **sandbox}})
    return desk


async def answers(
    folder: Path, *commands: str, options: tuple[str, ...] = AUTO, settings: dict[str, object] | None = None
) -> tuple[Desk, list[str]]:
    """Run commands as calls of a model; return what it was answered."""
    replies = [reply(call("run_shell", command=command)) for command in commands]
    async with FakeLLM([*replies, reply("Done.")]) as server:
        desk = confined_desk(folder, server, **(settings or {}))
        await desk.run("exec", "go", *options)
        return desk, [one.text for one in await desk.history() if isinstance(one, ToolMessage)]


@requires("bwrap")
async def test_auto_runs_a_command_inside_and_nothing_outside_changes(folder: Path) -> None:
    desk, (answer,) = await answers(folder, "echo made > made.txt; touch ~/outside; echo end")

    assert (desk.repo / "made.txt").read_text() == "made\n"
    assert not (desk.home / "outside").exists()
    assert "Read-only file system" in answer
    assert "end\n[exit code 0" in answer


@requires("bwrap")
async def test_a_blocked_command_says_to_the_model_what_was_blocked(folder: Path) -> None:
    _, (answer,) = await answers(folder, "curl -sS https://registry.example/ && true")

    assert "[the sandbox blocked the host registry.example; nobody is here to allow that]" in answer


@requires("bwrap")
async def test_a_blocked_folder_is_named_by_the_one_to_open(folder: Path) -> None:
    _, (answer,) = await answers(folder, "mkdir -p ~/.tool/deep/er")

    assert "[the sandbox blocked writing to ~/.tool; nobody is here to allow that]" in answer


@requires("bwrap")
async def test_a_name_created_by_racing_is_told_to_model_and_person(folder: Path) -> None:
    command = f"{sys.executable} -I race.py mkdir .codexx .codex"
    async with FakeLLM([reply(call("run_shell", command=command)), reply("Done.")]) as server:
        desk = confined_desk(folder, server)
        (desk.repo / "race.py").write_text(RACE)
        ran = await desk.run("exec", "go", *AUTO)
        (answer,) = [one.text for one in await desk.history() if isinstance(one, ToolMessage)]

    assert "RACED" in answer  # otherwise this tests nothing
    told = ".codex was created; it is now .buddyx/quarantine/"
    assert f"[a sandboxed command got at a protected name: {told}" in answer
    assert f"a sandboxed command got at a protected name: {told}" in ran.err
    assert not (desk.repo / ".codex").exists()


@requires("bwrap")
async def test_a_folder_of_the_settings_is_open(folder: Path) -> None:
    async with FakeLLM([reply(call("run_shell", command="touch ~/.tool/x")), reply("Done.")]) as server:
        again = confined_desk(folder, server, write=["~/.tool"])
        (again.home / ".tool").mkdir()
        await again.run("exec", "go", *AUTO)
    assert (again.home / ".tool" / "x").exists()


@requires("bwrap")
async def test_a_server_of_one_command_is_reached_by_the_next(folder: Path) -> None:
    serve = "python3 -m http.server 8123 --bind 127.0.0.1"
    ask = "until curl -s http://127.0.0.1:8123/ | grep -o 'Directory listing'; do sleep 0.1; done"
    async with FakeLLM(
        [
            reply(call("run_shell", command=serve, background=True)),
            reply(call("run_shell", command=ask)),
            reply("Done."),
        ]
    ) as server:
        desk = confined_desk(folder, server)
        await desk.run("exec", "go", *AUTO)
        found = [one.text for one in await desk.history() if isinstance(one, ToolMessage)]
    assert "Directory listing" in found[1]


async def test_yolo_runs_outside_of_the_sandbox(folder: Path) -> None:
    desk, _ = await answers(folder, "touch ~/outside", options=YOLO)

    assert (desk.home / "outside").exists()


async def test_a_required_sandbox_that_is_not_there_stops_commands(folder: Path) -> None:
    async with FakeLLM([reply(call("run_shell", command="ls")), reply("Done.")]) as server:
        desk = confined_desk(folder, server, level="require")
        (folder / "bin").mkdir()
        desk.environment = {"BUDDY_SANDBOX_LEVEL": "require"}
        await desk.run("exec", "go", *AUTO)
        (answer,) = [one.text for one in await desk.history() if isinstance(one, ToolMessage)]
    assert "exit code 0" in answer or 'level = "require"' in answer


@requires("bwrap")
async def test_what_only_reads_may_loop_unasked_and_sees_no_secret(folder: Path) -> None:
    async with FakeLLM(
        [
            reply(call("run_shell", command="for i in a b; do cat .env ~/.ssh/id_rsa; echo $i; done")),
            reply(call("run_shell", command="for i in a b; do wc -c main.py; done")),
            reply("Done."),
        ]
    ) as server:
        desk = confined_desk(folder, server)
        desk.files(main__py="print(1)\n")
        await desk.run("exec", "go", "--permission-mode", "plan")
        first, second = [one.text for one in await desk.history() if isinstance(one, ToolMessage)]
    assert "[exit code" not in first  # secrets ask, sandbox or not
    assert second.count("main.py") == 2
