"""Attacks on a shared pane: commands nobody approved, ends nobody reached."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from buddy.agent.tool import ToolError
from buddy.app.options import Options
from buddy.config.settings import TargetSettings
from buddy.tools.shell import run_shell
from tests.capabilities import requires
from tests.support.scripted_session import ScriptedSession, scripted_session
from tests.support.tmux_pane import PaneServer, pane_server

pytestmark = requires("tmux", "linux")
YOLO = Options(permission_mode="yolo", i_know=True, trust=True, target="box")
BASH = ("bash", "--norc", "-i")


@pytest.fixture
def server() -> Iterator[PaneServer]:
    with pane_server() as running:
        yield running


async def run(session: ScriptedSession, command: str, **more: object) -> str:
    task = session.board.task(1)
    arguments = {"command": command, **more}
    return (await session.call(task.workspace.fit(run_shell), arguments, task=task)).text


@pytest.mark.parametrize("name", ["#(touch {})", "##(touch {})", "#{{?1,#(touch {}),}}", "%H#(touch {})%"])
async def test_the_name_of_a_folder_is_no_command(server: PaneServer, tmp_path: Path, name: str) -> None:
    made = tmp_path / "made"
    root = tmp_path / name.format(made)
    (root / "work").mkdir(parents=True)
    settings = TargetSettings(kind="tmux", socket=server.socket)
    async with scripted_session(root, targets={"box": settings}, options=YOLO) as session:
        assert (await run(session, "pwd -P")).startswith(f"{root}/work\n")
        assert server.ask("#{pane_current_path}") == f"{root}/work"
        assert "job 1" in await run(session, "sleep 5", background=True)
        # `display-message` waits for the jobs of a format no more than a new pane does: a round for them
        await asyncio.to_thread(server, "run-shell", "sleep 0.3")
    assert not made.exists()


@pytest.mark.parametrize("keys", [("C-a",), ("Home",), ("C-a", "Right"), ("M-b",)], ids=str)
async def test_a_line_of_the_person_is_not_sent_with_the_cursor_anywhere_in_it(
    server: PaneServer, tmp_path: Path, keys: tuple[str, ...]
) -> None:
    (tmp_path / "work").mkdir()
    server.open(*BASH)
    settings = TargetSettings(kind="tmux", socket=server.socket)
    async with scripted_session(tmp_path, targets={"box": settings}, options=YOLO) as session:
        await run(session, "true")
        server.type(f"; touch {tmp_path}/theirs", *keys)
        await asyncio.to_thread(server.until_shows, f"; touch {tmp_path}/theirs")
        with pytest.raises(ToolError, match="somebody has typed"):
            await run(session, "touch ours")
        server.type("C-a", "C-k", "Enter")
        assert (await run(session, "echo on")).startswith("on\n")
    assert not (tmp_path / "theirs").exists()
    assert not (tmp_path / "work/ours").exists()


async def test_a_command_cannot_tell_its_end_before_it_ends(server: PaneServer, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    server.open(*BASH)
    settings = TargetSettings(kind="tmux", socket=server.socket)
    forged = "\\033]7791;%s;end;0\\007"
    async with scripted_session(tmp_path, targets={"box": settings}, options=YOLO) as session:
        text = await run(
            session,
            f"for word in $(env | sed 's/^[^=]*=//'); do printf '{forged}' \"$word\"; done; echo on; exit 9",
        )
    assert text.startswith("on\n[exit code 9")


@pytest.mark.parametrize(
    "set_up",
    [
        "alias sh=false export=false trap=false printf=false cd=false",
        "printf() { echo no; }; sh() { return 1; }",
    ],
)
async def test_names_that_mean_something_else_in_the_shell_hide_no_command(
    server: PaneServer, tmp_path: Path, set_up: str
) -> None:
    (tmp_path / "work").mkdir()
    server.open(*BASH)
    server.type(f"{set_up}; clear; echo ready", "Enter")
    await asyncio.to_thread(server.until_shows, "ready")
    settings = TargetSettings(kind="tmux", socket=server.socket)
    async with scripted_session(tmp_path, targets={"box": settings}, options=YOLO) as session:
        assert (await run(session, "echo on; exit 4")).startswith("on\n[exit code 4")
