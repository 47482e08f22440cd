"""A shared pane that a command, a program or a person left in a state of its own."""

from __future__ import annotations

import asyncio
import shlex
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
SHELLS = {
    "bash": ("bash", "--norc", "-i"),
    "zsh": ("zsh", "-f"),
    "dash": ("dash", "-i"),
    "fish": ("fish", "--no-config"),
}
BASH, ZSH, DASH, FISH = (pytest.param(shell, marks=requires(shell)) for shell in SHELLS)
SPOILS = ("stty -echo", "stty raw", "stty -icanon min 0")
SCREEN = "printf '\\033[?1049h'"


@pytest.fixture
def server() -> Iterator[PaneServer]:
    with pane_server() as running:
        yield running


async def run(session: ScriptedSession, command: str) -> str:
    task = session.board.task(1)
    return (await session.call(task.workspace.fit(run_shell), {"command": command}, task=task)).text


@pytest.mark.parametrize("shell", [BASH, ZSH, DASH])
async def test_the_shell_outlives_a_failure_with_set_e(
    server: PaneServer, tmp_path: Path, shell: str
) -> None:
    (tmp_path / "work").mkdir()
    server.open(*SHELLS[shell])
    server.type("set -e; echo rea''dy", "Enter")
    await asyncio.to_thread(server.until_shows, "ready")
    settings = TargetSettings(kind="tmux", socket=server.socket)
    async with scripted_session(tmp_path, targets={"box": settings}, options=YOLO) as session:
        assert "exit code 3" in await run(session, "(exit 3)")
        text = await run(session, "set -e; echo on; false; echo further")
        assert text.startswith("on\n[exit code 1")
        server.type("echo still $-", "Enter")
        await asyncio.to_thread(server.until, lambda: "e" in server.screen().rpartition("\nstill ")[2][:20])


@pytest.mark.parametrize(
    ("shell", "spoil"),
    [
        pytest.param(shell, spoil, marks=requires(shell))
        for shell in SHELLS
        for spoil in (*SPOILS, SCREEN)
        if (shell, spoil) != ("dash", SCREEN)
    ],
)
async def test_a_terminal_that_a_command_spoiled_is_mended(
    server: PaneServer, tmp_path: Path, shell: str, spoil: str
) -> None:
    (tmp_path / "work").mkdir()
    server.open(*SHELLS[shell])
    settings = TargetSettings(kind="tmux", socket=server.socket)
    async with scripted_session(tmp_path, targets={"box": settings}, options=YOLO) as session:
        await run(session, spoil)
        for _ in range(2):
            assert (await run(session, "echo on")).startswith("on\n")


@requires("dash")
async def test_a_screen_left_in_a_shell_that_draws_no_prompt_again_is_told(
    server: PaneServer, tmp_path: Path
) -> None:
    (tmp_path / "work").mkdir()
    server.open(*SHELLS["dash"])
    settings = TargetSettings(kind="tmux", socket=server.socket)
    async with scripted_session(tmp_path, targets={"box": settings}, options=YOLO) as session:
        await run(session, SCREEN)
        with pytest.raises(ToolError, match=r"left its full screen behind dash.*types tput rmcup"):
            await run(session, "touch made")
        server.type("tput rmcup", "Enter")
        await asyncio.to_thread(server.until, lambda: server.ask("#{alternate_on}") == "0")
        assert (await run(session, "echo on")).startswith("on\n")
    assert not (tmp_path / "work/made").exists()


@pytest.mark.parametrize(
    ("shell", "shown", "cancel"),
    [
        pytest.param("bash", "i-search)`need'", "C-g", marks=requires("bash")),
        pytest.param("zsh", "bck-i-search: need", "C-g", marks=requires("zsh")),
        pytest.param("fish", "search: need", "Escape", marks=requires("fish")),
    ],
)
async def test_a_search_in_the_history_is_left_alone(
    server: PaneServer, tmp_path: Path, shell: str, shown: str, cancel: str
) -> None:
    (tmp_path / "work").mkdir()
    server.open(*SHELLS[shell])
    settings = TargetSettings(kind="tmux", socket=server.socket)
    async with scripted_session(tmp_path, targets={"box": settings}, options=YOLO) as session:
        await run(session, "true")
        server.type("echo needle", "Enter")
        await asyncio.to_thread(server.until_shows, "needle\n")
        server.type("C-r")
        server.type("need")
        await asyncio.to_thread(server.until_shows, shown)
        before = server.screen()
        with pytest.raises(ToolError, match="searches the shell's history"):
            await run(session, "touch made")
        assert server.screen() == before
        server.type(cancel)
        await asyncio.to_thread(server.until, lambda: "search" not in server.screen().rpartition("needle")[2])
        server.type("C-u")
        assert (await run(session, "echo on")).startswith("on\n")
    assert not (tmp_path / "work/made").exists()


@pytest.mark.parametrize("line", ["", "x"])
@pytest.mark.parametrize("shell", [BASH, ZSH])
async def test_the_command_mode_of_vi_is_told_and_nothing_runs(
    server: PaneServer, tmp_path: Path, shell: str, line: str
) -> None:
    (tmp_path / "work").mkdir()
    server.open(*SHELLS[shell])
    server.type("set -o vi; echo rea''dy" if shell == "bash" else "bindkey -v; echo rea''dy", "Enter")
    await asyncio.to_thread(server.until_shows, "ready")
    settings = TargetSettings(kind="tmux", socket=server.socket)
    async with scripted_session(tmp_path, targets={"box": settings}, options=YOLO) as session:
        column = int(server.ask("#{cursor_x}"))
        server.type("x")
        await asyncio.to_thread(server.until, lambda: int(server.ask("#{cursor_x}")) == column + 1)
        server.type("Escape")
        await asyncio.to_thread(server.until, lambda: int(server.ask("#{cursor_x}")) == column)
        if not line:
            server.type("x")  # deletes it
            await asyncio.to_thread(server.until, lambda: server.screen().endswith(("#", "$", "%")))
        before = server.screen()
        with pytest.raises(ToolError, match="vi's command mode"):
            await run(session, "touch made")
        assert server.screen() == before
        server.type("A", "C-c")
        assert (await run(session, "echo on")).startswith("on\n")
    assert not (tmp_path / "work/made").exists()


@requires("zsh")
async def test_a_command_that_dies_of_a_signal_shows_nothing_of_its_set_up(
    server: PaneServer, tmp_path: Path
) -> None:
    (tmp_path / "work").mkdir()
    server.open(*SHELLS["zsh"])
    settings = TargetSettings(kind="tmux", socket=server.socket)
    async with scripted_session(tmp_path, targets={"box": settings}, options=YOLO) as session:
        text = await run(session, "zmodload zsh/system; kill -KILL $sysparams[pid]")
        assert "exit code 137" in text
        assert "BUDDY" not in text


@pytest.mark.parametrize("shell", [BASH, ZSH, FISH])
async def test_modes_of_the_terminal_that_a_command_left_are_off(
    server: PaneServer, tmp_path: Path, shell: str
) -> None:
    (tmp_path / "work").mkdir()
    server.open(*SHELLS[shell])
    settings = TargetSettings(kind="tmux", socket=server.socket)
    flags = "#{mouse_any_flag} #{insert_flag} #{wrap_flag} #{cursor_flag}"
    async with scripted_session(tmp_path, targets={"box": settings}, options=YOLO) as session:
        await run(session, "printf '\\033[?1000;1003h\\033[?7l\\033[?25l\\033[4h\\033(0'; exit 1")
        await asyncio.to_thread(server.until, lambda: server.ask(flags) == "0 0 1 1")
        assert (await run(session, "echo letters")).startswith("letters\n")
        server.until_shows("\nletters\n")


@pytest.mark.parametrize("shell", [BASH, ZSH, FISH])
@pytest.mark.parametrize("signals", ["", "trap '' INT TERM; "])
async def test_a_cancelled_editor_leaves_no_screen_behind(
    server: PaneServer, tmp_path: Path, shell: str, signals: str
) -> None:
    (tmp_path / "work").mkdir()
    server.open(*SHELLS[shell])
    settings = TargetSettings(kind="tmux", socket=server.socket)
    editor = f"{signals}printf '\\033[?1049h\\033[Hedi''ting'; sleep 1000"
    async with scripted_session(tmp_path, targets={"box": settings}, options=YOLO) as session:
        await run(session, "echo before")
        call = asyncio.create_task(run(session, f"sh -c {shlex.quote(editor)}"))
        await asyncio.to_thread(server.until_shows, "editing")
        session.board.task(1).cancelled.set()
        await asyncio.wait({call})
        session.board.task(1).cancelled.clear()
        await asyncio.to_thread(server.until, lambda: server.ask("#{alternate_on}") == "0")
        assert (await run(session, "echo on")).startswith("on\n")
