"""Commands of a task in a shared pane of a real tmux."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from buddy.agent.tool import Tool, ToolError, ToolResult
from buddy.app.options import Options
from buddy.config.settings import TargetSettings
from buddy.tools.files.write import write_file
from buddy.tools.jobs import capture_pane, list_jobs, read_job, send_keys, stop_job
from buddy.tools.shell import run_shell
from tests.capabilities import requires
from tests.support.processes import sleepers
from tests.support.scripted_session import ScriptedSession, scripted_session
from tests.support.tmux_pane import PaneServer, pane_server

pytestmark = requires("tmux", "linux")
YOLO = Options(permission_mode="yolo", i_know=True, trust=True, target="box")
BASH = ("bash", "--norc", "-i")


@pytest.fixture
def server() -> Iterator[PaneServer]:
    with pane_server() as running:
        yield running


@asynccontextmanager
async def in_pane(server: PaneServer, root: Path, **changes: object) -> AsyncIterator[ScriptedSession]:
    """Open a session whose first task works in the pane."""
    root.mkdir(exist_ok=True)
    (root / "work").mkdir(exist_ok=True)
    settings = TargetSettings(kind="tmux", socket=server.socket, **changes)  # type: ignore[arg-type]
    async with scripted_session(root, targets={"box": settings}, options=YOLO) as session:
        yield session


async def call(session: ScriptedSession, tool: Tool, **arguments: object) -> ToolResult:
    """Run a call with the tool as the task's model is offered it."""
    task = session.board.task(1)
    return await session.call(task.workspace.fit(tool), arguments, task=task)


async def run(session: ScriptedSession, command: str, **more: object) -> str:
    return (await call(session, run_shell, command=command, **more)).text


async def test_a_command_runs_in_a_new_pane_with_its_output_and_exit_code(
    server: PaneServer, tmp_path: Path
) -> None:
    async with in_pane(server, tmp_path) as session:
        result = await call(session, run_shell, command="pwd; echo 'a  b' >&2; exit 7")
        assert result.text.startswith(f"{tmp_path}/work\na  b\n[exit code 7")
        assert not result.ok
        assert server.ask("#{session_name}") == "box"
        await asyncio.to_thread(server.until_shows, "buddy: pwd; echo 'a b' >&2; exit 7", "a  b")


@pytest.mark.parametrize(
    "shell",
    [
        pytest.param(argv, marks=requires(argv[0]), id=argv[0])
        for argv in (BASH, ("zsh", "-f"), ("fish", "--no-config"), ("dash", "-i"))
    ],
)
async def test_every_shell_says_how_a_command_ended(
    server: PaneServer, tmp_path: Path, shell: tuple[str, ...]
) -> None:
    server.open(*shell)
    async with in_pane(server, tmp_path) as session:
        assert (await run(session, "echo one; exit 3")).startswith("one\n[exit code 3")
        broken = await call(session, run_shell, command="echo 'not closed")
        assert not broken.ok
        assert (await run(session, "echo two\necho three")).startswith("two\nthree\n[exit code 0")
        text = await run(session, "true")
        assert ("ran it" in text) == (shell[0] != "bash")
        assert server.ask("#{pane_dead}") == "0"


async def test_the_shell_of_the_person_stays_as_it_was(server: PaneServer, tmp_path: Path) -> None:
    server.open(*BASH)
    server.type("alias hello='echo from-an-alias'; NAME=value", "Enter")
    async with in_pane(server, tmp_path) as session:
        assert (
            await run(session, "hello; echo $NAME; NAME=other; cd /usr; set -e; false; echo no")
        ).startswith("from-an-alias\nvalue\n[exit code 1")
        server.type("clear; pwd; echo $NAME", "Enter")
        await asyncio.to_thread(server.until_shows, "/\nvalue")


async def test_a_command_can_ask_the_person(server: PaneServer, tmp_path: Path) -> None:
    server.open(*BASH)
    async with in_pane(server, tmp_path) as session:
        asking = asyncio.ensure_future(run(session, "read -p 'name? ' name; echo hello $name"))
        await asyncio.to_thread(server.until_shows, "name?")
        server.type("ann", "Enter")
        assert "hello ann\n[exit code 0" in await asking


async def test_what_a_person_has_typed_is_kept_and_nothing_runs(server: PaneServer, tmp_path: Path) -> None:
    server.open(*BASH)
    async with in_pane(server, tmp_path) as session:
        await run(session, "true")
        server.type("echo half a li")
        await asyncio.to_thread(server.until_shows, "echo half a li")
        with pytest.raises(ToolError, match=r"somebody has typed .*echo half a li.*nothing was run"):
            await run(session, "touch made")
        server.type("ne", "Enter")
        await asyncio.to_thread(server.until_shows, "\nhalf a line\n")
        assert not (tmp_path / "work/made").exists()
        running = asyncio.ensure_future(run(session, "echo after"))
        assert (await running).startswith("after\n")


@pytest.mark.parametrize("begun", ["for i in a b; do", "cat <<END", "echo 'a"])
@pytest.mark.parametrize("shell", [BASH, ("zsh", "-f"), ("dash",)], ids=lambda words: words[0])
async def test_a_command_that_a_person_has_begun_is_kept(
    server: PaneServer, tmp_path: Path, shell: tuple[str, ...], begun: str
) -> None:
    server.open(*shell)
    async with in_pane(server, tmp_path) as session:
        await run(session, "true")
        server.type(begun, "Enter")
        await asyncio.to_thread(server.until, lambda: server.screen().rstrip().endswith(">"))
        with pytest.raises(ToolError, match=r"waits at .* for the rest of a command .*nothing was run"):
            await run(session, "touch made")
        assert server.screen().rstrip().endswith(">")
        assert not (tmp_path / "work/made").exists()
        server.type("C-c")
        assert (await run(session, "echo after")).startswith("after\n")


@pytest.mark.parametrize("keys", [("x",), ("ls", "C-a"), ("echo a b", "Left", "Left")], ids=str)
@pytest.mark.parametrize("shell", [BASH, ("zsh", "-f"), ("fish", "--no-config")], ids=lambda words: words[0])
async def test_any_text_on_the_line_is_seen_wherever_the_cursor_is(
    server: PaneServer, tmp_path: Path, shell: tuple[str, ...], keys: tuple[str, ...]
) -> None:
    server.open(*shell)
    async with in_pane(server, tmp_path) as session:
        await run(session, "true")
        server.type(*keys)
        await asyncio.to_thread(server.until, lambda: keys[0] in server.screen().splitlines()[-1])
        running = asyncio.ensure_future(run(session, "touch made"))
        await asyncio.sleep(1.5)
        assert not running.done()
        assert not (tmp_path / "work/made").exists()
        server.type("C-e", "C-u")
        assert "[exit code 0" in await running


async def test_a_command_waits_until_the_person_has_sent_their_line(
    server: PaneServer, tmp_path: Path
) -> None:
    server.open(*BASH)
    async with in_pane(server, tmp_path) as session:
        await run(session, "true")
        server.type("echo mine")
        await asyncio.to_thread(server.until_shows, "echo mine")
        running = asyncio.ensure_future(run(session, "echo ours"))
        await asyncio.sleep(0.6)
        assert not running.done()
        server.type("Enter")
        assert (await running).startswith("ours\n[exit code 0")
        assert "\nmine\n" in server.screen()


@pytest.mark.parametrize("program", ["vim", "less /etc/passwd", "sleep 86390.5", "cat"])
async def test_a_pane_that_runs_something_else_is_told(
    server: PaneServer, tmp_path: Path, program: str
) -> None:
    name = program.split()[0]
    server.open(*BASH)
    server.type(program, "Enter")
    await asyncio.to_thread(server.until, lambda: server.ask("#{pane_current_command}") == name)
    async with in_pane(server, tmp_path) as session:
        with pytest.raises(ToolError, match=f"the pane runs .*{name}.*nothing was typed. capture_pane"):
            await run(session, "touch made")
    assert not (tmp_path / "work/made").exists()


async def test_a_person_who_scrolls_back_is_not_disturbed(server: PaneServer, tmp_path: Path) -> None:
    server.open(*BASH)
    async with in_pane(server, tmp_path) as session:
        await run(session, "seq 100")
        server("copy-mode", "-t", "=box:")
        server.type("PageUp")
        assert (await run(session, "echo unseen; exit 4")).startswith("unseen\n[exit code 4")
        assert server.ask("#{pane_in_mode}") == "1"
        with pytest.raises(ToolError, match="a person scrolls"):
            await call(session, send_keys, text="x")


async def test_a_cancelled_command_is_interrupted_and_the_shell_stays(
    server: PaneServer, tmp_path: Path
) -> None:
    mark = "86391.5"
    server.open(*BASH)
    async with in_pane(server, tmp_path) as session:
        pid = server.ask("#{pane_pid}")
        running = asyncio.ensure_future(run(session, f"sleep {mark}; echo on"))
        await asyncio.to_thread(server.until, lambda: len(sleepers(mark)) == 1)
        session.board.task(1).cancelled.set()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert sleepers(mark) == []
        session.board.task(1).cancelled.clear()
        assert (await run(session, "echo back")).startswith("back\n[exit code 0")
        assert server.ask("#{pane_pid}") == pid


async def test_nothing_of_a_cancelled_command_survives_however_stubborn(
    server: PaneServer, tmp_path: Path
) -> None:
    mark = "86392.5"
    stubborn = f"bash -c \"trap '' INT TERM HUP; setsid sleep {mark} & sleep {mark}; sleep {mark}\""
    server.open(*BASH)
    async with in_pane(server, tmp_path) as session:
        pid = server.ask("#{pane_pid}")
        running = asyncio.ensure_future(run(session, f"trap '' INT; {stubborn}; {stubborn}"))
        await asyncio.to_thread(server.until, lambda: len(sleepers(mark)) == 2)
        session.board.task(1).cancelled.set()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert sleepers(mark) == []
        session.board.task(1).cancelled.clear()
        assert (await run(session, "echo back")).startswith("back\n[exit code 0")
        assert server.ask("#{pane_pid}") == pid


async def test_a_command_that_the_person_interrupts_has_ended(server: PaneServer, tmp_path: Path) -> None:
    mark = "86393.5"
    server.open(*BASH)
    async with in_pane(server, tmp_path) as session:
        running = asyncio.ensure_future(run(session, f"sleep {mark}; echo on"))
        await asyncio.to_thread(server.until, lambda: len(sleepers(mark)) == 1)
        server.type("C-c")
        assert "[exit code 130" in await running
        running = asyncio.ensure_future(run(session, f"exec sleep {mark}"))
        await asyncio.to_thread(server.until, lambda: len(sleepers(mark)) == 1)
        server.type("C-c")
        text = await running
        assert "it was interrupted in the pane" in text or "[exit code 130" in text


async def test_a_stopped_command_is_told(server: PaneServer, tmp_path: Path) -> None:
    mark = "86394.5"
    server.open(*BASH)
    async with in_pane(server, tmp_path) as session:
        running = asyncio.ensure_future(run(session, f"sleep {mark}; true"))
        await asyncio.to_thread(server.until, lambda: len(sleepers(mark)) == 1)
        server.type("C-z")
        assert "it was stopped in the pane (C-z)" in await running
        server.type("kill %1; fg", "Enter")
        await asyncio.to_thread(server.until, lambda: sleepers(mark) == [])


@pytest.mark.parametrize("end", [("kill-pane", "-t", "=box:"), ("kill-server",)], ids=["pane", "server"])
async def test_a_pane_that_is_closed_in_a_command_is_told(
    server: PaneServer, tmp_path: Path, end: tuple[str, ...]
) -> None:
    mark = "86395.5"
    server.open(*BASH)
    async with in_pane(server, tmp_path) as session:
        running = asyncio.ensure_future(run(session, f"echo begun; nohup sleep {mark}; true"))
        await asyncio.to_thread(server.until, lambda: len(sleepers(mark)) == 1)
        server(*end)
        with pytest.raises(
            ToolError, match=r"box was closed: how the command ended is not known(.|\n)*begun"
        ):
            await running
        assert sleepers(mark) == []
        assert (await run(session, "echo again")).startswith("again\n")


async def test_a_command_that_takes_longer_becomes_a_job(server: PaneServer, tmp_path: Path) -> None:
    mark = "86388.5"
    server.open(*BASH)
    async with in_pane(server, tmp_path) as session:
        text = await run(session, f"echo begun; sleep {mark}", timeout=0.6)
        assert "it goes on in the background as job 1" in text
        assert "capture_pane shows the pane" in text
        with pytest.raises(ToolError, match=r"the pane runs sleep.*nothing was typed"):
            await run(session, "echo second")
        assert "begun" in (await call(session, read_job, job=1)).text
        await call(session, stop_job, job=1)
        assert sleepers(mark) == []
        assert (await run(session, "echo third")).startswith("third\n")


async def test_a_background_command_gets_a_window_of_its_own(server: PaneServer, tmp_path: Path) -> None:
    mark = "86389.5"
    server.open(*BASH)
    async with in_pane(server, tmp_path) as session:
        assert "job 1" in await run(session, f"echo begun; sleep {mark}", background=True)
        assert server.ask("#{session_windows}") == "2"
        assert (await run(session, "echo meanwhile")).startswith("meanwhile\n")
        await call(session, stop_job, job=1)
        assert sleepers(mark) == []
        assert server.ask("#{session_windows}") == "1"
        assert "job 1: ended" in (await call(session, list_jobs)).text


async def test_keys_and_screen_of_a_program(server: PaneServer, tmp_path: Path) -> None:
    server.open(*BASH)
    (tmp_path / "work").mkdir()
    async with in_pane(server, tmp_path) as session:
        assert "job 1" in await run(session, "vim -u NONE a.txt", timeout=0.5)
        await asyncio.to_thread(server.until, lambda: server.ask("#{alternate_on}") == "1")
        assert "runs vim, full screen" in (await call(session, capture_pane)).text
        await call(session, send_keys, text="iwritten; by keys", keys=["Escape"])
        await call(session, send_keys, text=":wq", enter=True)
        await asyncio.to_thread(server.until, lambda: server.ask("#{alternate_on}") == "0")
        assert (tmp_path / "work/a.txt").read_text() == "written; by keys\n"
        assert "[exit code 0" in await run(session, "true")
        with pytest.raises(ToolError, match="expected a key"):
            await call(session, send_keys, keys=["Retrun"])


async def test_the_screen_is_bounded_and_holds_no_escape_sequences(
    server: PaneServer, tmp_path: Path
) -> None:
    server.open(*BASH)
    async with in_pane(server, tmp_path) as session:
        text = await run(
            session, "printf '\\033[31mred\\033[0m\\033]0;title\\007 10%%\\r20%%\\r30%%\\n'; seq 3000"
        )
        assert text.startswith("30%\n1\n2\n")
        assert "\x1b" not in text
        assert (await call(session, capture_pane, lines=5)).text.startswith("2997\n2998\n2999\n3000\n")
        assert len((await call(session, capture_pane, lines=100_000)).text.splitlines()) <= 2040


async def test_a_flood_ends_and_the_pane_stays(server: PaneServer, tmp_path: Path) -> None:
    server.open(*BASH)
    async with in_pane(server, tmp_path) as session:
        text = await run(
            session, "yes 0123456789012345678901234567890123456789 | head -c 100000000; echo end"
        )
        assert len(text) < 300_000
        assert "left out" in text
        assert (await run(session, "echo after")).startswith("after\n")


async def test_resizing_changes_nothing_of_the_output(server: PaneServer, tmp_path: Path) -> None:
    server.open(*BASH)
    async with in_pane(server, tmp_path) as session:
        slow = "for i in 1 2 3 4 5 6; do echo 0123456789012345678901234567890123456789 $i; sleep 0.1; done"
        running = asyncio.ensure_future(run(session, slow))
        for width in (30, 10, 80, 25):
            server("resize-window", "-t", "=box:", "-x", str(width), "-y", "12")
            await asyncio.sleep(0.1)
        lines = [f"0123456789012345678901234567890123456789 {number}" for number in range(1, 7)]
        assert (await running).splitlines()[:6] == lines
        assert (await run(session, "echo narrow")).startswith("narrow\n")


async def test_files_and_other_tools_are_those_of_this_machine(server: PaneServer, tmp_path: Path) -> None:
    server.open(*BASH)
    async with in_pane(server, tmp_path) as session:
        await call(session, write_file, path="a.txt", content="a\n")
        assert (tmp_path / "work/a.txt").read_text() == "a\n"
        assert len(session.undo.entries()) == 1
        assert session.session.undo_of(1) is session.undo
        names = {tool.name: tool for tool in session.board.tools_of(1).list_all()}
        assert "job" not in names["send_keys"].description.split(".")[0]
        session.board.change_target(1, "")
        names = {tool.name: tool for tool in session.board.tools_of(1).list_all()}
        assert names["capture_pane"] is capture_pane


async def test_a_pipe_of_the_person_is_left_alone(server: PaneServer, tmp_path: Path) -> None:
    server.open(*BASH)
    log = tmp_path / "log"
    server("pipe-pane", "-t", "=box:", f"cat > {log}")
    async with in_pane(server, tmp_path) as session:
        with pytest.raises(ToolError, match="already goes to another program"):
            await run(session, "echo x")
        assert server.ask("#{pane_pipe}") == "1"
        server("pipe-pane", "-t", "=box:")
        assert (await run(session, "echo x")).startswith("x\n")
        assert server.ask("#{pane_pipe}") == "0"


async def test_typing_that_would_go_to_several_panes_is_refused(server: PaneServer, tmp_path: Path) -> None:
    server.open(*BASH)
    server("set-option", "-w", "-t", "=box:", "synchronize-panes", "on")
    async with in_pane(server, tmp_path) as session:
        with pytest.raises(ToolError, match="synchronize-panes"):
            await run(session, "echo x")
        with pytest.raises(ToolError, match="synchronize-panes"):
            await call(session, send_keys, text="x")


async def test_a_later_session_finds_the_same_pane(server: PaneServer, tmp_path: Path) -> None:
    async with in_pane(server, tmp_path) as session:
        await run(session, "true")
        server("new-window", "-t", "=box:")
    first = server("list-panes", "-s", "-t", "=box:", "-F", "#{pane_id}").split()[0]
    assert server.ask("#{pane_id}") != first
    async with in_pane(server, tmp_path) as session:
        await run(session, "echo marked")
    assert "marked" in server("capture-pane", "-p", "-t", first)


async def test_nothing_is_left_of_a_command(server: PaneServer, tmp_path: Path) -> None:
    async with in_pane(server, tmp_path) as session:
        await run(session, "echo x")
        assert server("list-buffers") == ""
        assert server.ask("#{pane_pipe}") == "0"
        typed = re.search(r"^.* \. (/\S+)/run$", server.screen(), re.MULTILINE)
        assert typed is not None
        assert not Path(typed[1]).exists()
