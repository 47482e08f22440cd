"""Commands on a terminal of another machine and of a container."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from buddy.agent.tool import ToolError
from buddy.app.options import Options
from buddy.llm.scripted import Reply, Say, ScriptedCall
from buddy.tools.jobs import capture_pane, list_jobs, read_job, send_keys, stop_job, write_job
from buddy.tools.shell import run_shell
from buddy.workspace.targets.remote_terminal import TerminalStream
from tests.capabilities import requires
from tests.support.containers import NAME, Container, StandInContainer, settings_of, stand_in
from tests.support.machines import Machine
from tests.support.processes import processes_with, sleepers
from tests.support.remote_tools import call, session_on, until
from tests.support.scripted_session import ScriptedSession, scripted_session

pytestmark = requires("linux")


@pytest.fixture
def pretended(tmp_path: Path) -> Iterator[Container]:
    with stand_in(tmp_path / "machine") as running:
        yield running


@pytest.fixture
def mark() -> str:
    """Return a time for `sleep` that no other test uses at the same time."""
    return f"8{os.getpid()}.5"


async def shows(session: ScriptedSession, job: int, *texts: str) -> str:
    """Wait until the screen of a job shows texts; return it."""
    screen = ""
    for _ in range(600):
        screen = (await call(session, capture_pane, {"job": job})).text
        if all(text in screen for text in texts):
            return screen
        await asyncio.sleep(0.05)
    raise AssertionError(screen)


async def ended(session: ScriptedSession, job: int) -> str:
    """Wait until a job ended; return what is read of it."""
    await until(lambda: session.session.jobs.get(job).status().state == "ended")
    return (await call(session, read_job, {"job": job})).text


async def test_a_question_is_answered_on_a_terminal_there(machine: Machine, tmp_path: Path) -> None:
    async with session_on(machine.settings, tmp_path / "here") as session:
        ask = "stty size; basename $PWD; echo $TERM; printf 'name? '; read name; echo \"hello $name\"; exit 7"
        started = await call(session, run_shell, {"command": ask, "pty": True})
        assert "running on a terminal as job 1: capture_pane(job=1)" in started.text
        await shows(session, 1, "24 80\nwork", "xterm-256color", "name?")
        assert "on box" in (await call(session, list_jobs, {})).text
        await call(session, write_job, {"job": 1, "text": "bob\n"})
        read = await ended(session, 1)
        assert "name? bob\nhello bob\n" in read.replace("\r", "")
        assert "exit code 7" in read
        assert "\x1b]" not in read
        assert "buddy:" not in read


async def test_keys_reach_the_program(machine: Machine, tmp_path: Path, mark: str) -> None:
    async with session_on(machine.settings, tmp_path / "here") as session:
        command = f"trap 'echo caught; exit 3' INT; echo ready; sleep {mark}; echo on"
        await call(session, run_shell, {"command": command, "pty": True})
        await shows(session, 1, "ready")
        await until(lambda: len(sleepers(mark)) == 1)
        await call(session, send_keys, {"job": 1, "keys": ["C-c"]})
        read = await ended(session, 1)
        assert "caught" in read
        assert "exit code 3" in read


@pytest.mark.parametrize(
    "text", ["a\tb", "ü €", "'\"\\$HOME`id`!x", "a\nb\\", "\x01\x03\x04\x11\x13\x16\x7f", "x\r"]
)
async def test_a_command_arrives_as_it_was_written(pretended: Container, tmp_path: Path, text: str) -> None:
    async with session_on(settings_of(pretended), tmp_path / "here") as session:
        await call(session, run_shell, {"command": f"cat >out <<'EOF'\n{text}\nEOF", "pty": True})
        await ended(session, 1)
        assert (pretended.folder / "out").read_bytes().decode() == f"{text}\n"


async def test_a_long_command_arrives_whole(machine: Machine, tmp_path: Path) -> None:
    async with session_on(machine.settings, tmp_path / "here") as session:
        command = "text='" + ("x" * 99 + "\n") * 1000 + "'; echo ${#text}"
        await call(session, run_shell, {"command": command, "pty": True})
        assert "100000" in await ended(session, 1)


async def test_a_stopped_terminal_leaves_nothing_there(machine: Machine, tmp_path: Path, mark: str) -> None:
    async with session_on(machine.settings, tmp_path / "here") as session:
        command = f"trap '' TERM HUP; setsid sleep {mark} & (sleep {mark} &) ; sleep {mark}; sleep {mark}"
        await call(session, run_shell, {"command": command, "pty": True})
        await until(lambda: len(sleepers(mark)) == 3)
        await call(session, stop_job, {"job": 1})
        assert sleepers(mark) == []
        with pytest.raises(ToolError, match="has ended"):
            await call(session, send_keys, {"job": 1, "keys": ["q"]})


async def test_what_a_command_left_on_its_terminal_ends_with_it(
    machine: Machine, tmp_path: Path, mark: str
) -> None:
    async with session_on(machine.settings, tmp_path / "here") as session:
        await call(session, run_shell, {"command": f"setsid sleep {mark} & sleep 0.5; exit 4", "pty": True})
        assert "exit code 4" in await ended(session, 1)
        assert sleepers(mark) == []


async def test_a_lost_machine_is_no_exit_code(machine: Machine, tmp_path: Path, mark: str) -> None:
    async with session_on(machine.settings, tmp_path / "here") as session:
        await call(session, run_shell, {"command": f"echo ready; sleep {mark}; echo on", "pty": True})
        await until(lambda: len(sleepers(mark)) == 1)
        await asyncio.to_thread(machine.lose)
        read = await ended(session, 1)
        assert "the connection to box was lost: how it ended is not known" in read
        await until(lambda: sleepers(mark) == [])


async def test_nothing_runs_on_when_buddy_is_killed(machine: Machine, mark: str) -> None:
    victim = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.faults.remote_victim"),
        *(*machine.victim, f"trap '' HUP; sleep {mark} & setsid sleep {mark}; true", "terminal"),
    )
    try:
        await until(lambda: len(sleepers(mark)) == 2)
    finally:
        victim.kill()
        await victim.wait()
    await until(lambda: processes_with(mark) == [])


async def test_a_killed_client_is_the_end_of_the_terminal_there(
    machine: Machine, tmp_path: Path, mark: str
) -> None:
    async with session_on(machine.settings, tmp_path / "here") as session:
        await call(session, run_shell, {"command": f"trap '' HUP; sleep {mark}; true", "pty": True})
        await until(lambda: len(sleepers(mark)) == 1)
        os.kill(session.session.jobs.get(1).child.pid, 9)
        assert "how it ended is not known" in await ended(session, 1)
        assert sleepers(mark) == []


async def test_nothing_runs_in_a_folder_that_is_not_there(machine: Machine, tmp_path: Path) -> None:
    async with session_on(machine.settings, tmp_path / "here") as session:
        with pytest.raises(ToolError, match="there is no folder nowhere on box; nothing was run"):
            await call(session, run_shell, {"command": "touch ../made", "cwd": "nowhere", "pty": True})
    assert not (machine.folder / "made").exists()


async def test_a_machine_without_stty_says_so(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for folder in ("/usr/bin", "/bin"):
        for program in Path(folder).iterdir():
            if program.name != "stty" and not (programs / program.name).exists():
                (programs / program.name).symlink_to(program)
    container = StandInContainer(tmp_path / "machine", path=str(programs))
    try:
        container.start()
        async with session_on(settings_of(container), tmp_path / "here") as session:
            with pytest.raises(ToolError, match=r"has no program stty.*nothing was run"):
                await call(session, run_shell, {"command": "touch made", "pty": True})
            assert (await call(session, run_shell, {"command": "echo on"})).text.startswith("on\n")
        assert not (container.folder / "made").exists()
    finally:
        container.close()


async def test_a_command_can_not_tell_its_end_before_it_ends(pretended: Container, tmp_path: Path) -> None:
    forged = "\\033]7791;%s;end;0\\007"
    command = (
        f"for word in $(env | sed 's/^[^=]*=//') $(tr '\\0' ' ' </proc/$PPID/cmdline); do printf '{forged}' "
        '"$word"; done; echo on; exit 9'
    )
    async with session_on(settings_of(pretended), tmp_path / "here") as session:
        await call(session, run_shell, {"command": command, "pty": True})
        read = await ended(session, 1)
        assert "on\r\n" in read
        assert "exit code 9" in read


async def test_a_call_cancelled_while_it_begins_leaves_nothing(
    machine: Machine, tmp_path: Path, mark: str
) -> None:
    async with session_on(machine.settings, tmp_path / "here") as session:
        await call(session, run_shell, {"command": "true"})
        for step in range(8):
            running = asyncio.ensure_future(
                call(session, run_shell, {"command": f"sleep {mark}; true", "pty": True})
            )
            await asyncio.wait({running}, timeout=step * 0.05)
            running.cancel()
            await asyncio.wait({running})
            for job in session.session.jobs.all():
                await session.session.jobs.stop(job.id)
            assert processes_with(mark) == []


async def test_typing_reaches_jobs_of_the_same_machine_alone(pretended: Container, tmp_path: Path) -> None:
    async with session_on(settings_of(pretended), tmp_path / "here") as session:
        board = session.board
        await call(session, run_shell, {"command": "cat", "pty": True})
        board.change_target(1, "")
        await call(session, run_shell, {"command": "cat", "pty": True})
        for job, tool, more in ((1, send_keys, {"keys": ["q"]}), (1, write_job, {"text": "q"})):
            with pytest.raises(ToolError, match="job 1 runs on box, and this task works on this machine"):
                await call(session, tool, {"job": job, **more})
        board.change_target(1, "box")
        with pytest.raises(ToolError, match="job 2 runs on this machine, and this task works on box"):
            await call(session, write_job, {"job": 2, "text": "q"})
        await call(session, stop_job, {"job": 1})
        await call(session, stop_job, {"job": 2})


@pytest.mark.parametrize("tool", ["send_keys", "*"])
async def test_a_rule_of_this_machine_allows_no_typing_over_there(
    pretended: Container, tmp_path: Path, tool: str
) -> None:
    here = tmp_path / "here"
    (here / "work").mkdir(parents=True)
    script = (
        Reply((ScriptedCall("run_shell", '{"command": "cat", "pty": true}'),)),
        Reply((ScriptedCall("send_keys", '{"job": 1, "keys": ["a"]}'),)),
        Reply((Say("done"),)),
    )
    options = Options(trust=True, target="box")
    settings = here / "home/.config/buddy/buddy.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f'[[rule]]\ntool = "{tool}"\ndecision = "allow"\n')
    async with scripted_session(
        here, script, targets={"box": settings_of(pretended)}, options=options
    ) as session:
        turn = session.board.submit(1, "go")
        inbox = session.board.inbox
        for what in ("runs on box (", "job 1 runs on box: cat"):
            await until(lambda: len(inbox.waiting()) == 1)
            event = inbox.waiting()[0].event
            assert event.reason.startswith(f"on box (container {NAME}:{pretended.inside}): ")
            assert what in str(event.preview)
            inbox.answer(event.request_id, event.digest, "once")
            await until(
                lambda done=event: all(w.event.request_id != done.request_id for w in inbox.waiting())
            )
        await turn


def test_what_a_client_says_before_the_command_is_no_output() -> None:
    stream = TerminalStream("m.1")
    assert stream.feed(b"Welcome\r\n\nbuddy:t ready\n") == b""
    assert stream.feed(b"\x1b]7791;m.1;begin;12\x07a\x1b[1mb") == b"a\x1b[1mb"
    assert stream.feed(b"c\x1b]7791;m.1;end;5\x07Shared connection closed.\r\n") == b"c"
    assert (stream.pid, stream.code, "Welcome" in stream.preface) == (12, 5, True)
