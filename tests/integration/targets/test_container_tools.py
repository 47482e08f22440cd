"""Tools of a task that works in a container: of a stand-in with the programs of this machine, of one with
those of busybox alone, of podman, and of docker where its daemon runs."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from buddy.agent.tool import ToolError
from buddy.app.options import Options
from buddy.app.session_start import job_notice
from buddy.config.settings import ConfigError
from buddy.llm.scripted import Reply, Say, ScriptedCall
from buddy.tools.files.edit import edit_file
from buddy.tools.files.listing import find_files, list_files
from buddy.tools.files.patch import apply_patch
from buddy.tools.files.read import read_file
from buddy.tools.files.write import write_file
from buddy.tools.grep import grep
from buddy.tools.jobs import read_job, stop_job
from buddy.tools.shell import run_shell
from buddy.workspace.files.store import Replacement
from buddy.workspace.targets.file_channels import FileChannels
from buddy.workspace.targets.remote_files import RemoteFiles
from buddy.workspace.targets.shell_files import ShellFileClient
from buddy.workspace.targets.transport import TargetError
from buddy.workspace.undo.log import UndoLog
from tests.capabilities import requires
from tests.support.containers import (
    NAME,
    Container,
    StandInContainer,
    connection_to,
    real_container,
    settings_of,
    stand_in,
)
from tests.support.processes import processes_with, sleepers
from tests.support.remote_tools import call, session_on, until
from tests.support.scripted_session import ScriptedSession, scripted_session

pytestmark = requires("linux")


@pytest.fixture(
    params=[
        "stand-in",
        pytest.param("busybox", marks=requires("busybox")),
        pytest.param("podman", marks=requires("podman")),
        pytest.param("docker", marks=requires("docker")),
    ]
)
def container(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Container]:
    with real_container(request.param, tmp_path / "machine") as running:
        yield running


@pytest.fixture
def pretended(tmp_path: Path) -> Iterator[StandInContainer]:
    """A stand-in only: for states that podman has none of, or not here."""
    with stand_in(tmp_path / "machine") as running:
        yield running


@pytest.fixture
def mark() -> str:
    """Return a time for `sleep` that no other test uses at the same time."""
    return f"9{os.getpid()}.5"


def own_clients() -> list[int]:
    """Return the clients of containers that this process started."""
    marked = processes_with("--interactive")
    status = {pid: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in marked}
    return [pid for pid, fields in status.items() if int(fields[1]) == os.getpid()]


def on_box(
    container: Container, tmp_path: Path, **changes: object
) -> AbstractAsyncContextManager[ScriptedSession]:
    return session_on(settings_of(container, **changes), tmp_path / "here")


async def test_files_are_read_written_edited_and_found_there(container: Container, tmp_path: Path) -> None:
    (container.folder / "src").mkdir()
    (container.folder / "src/a.py").write_text("one = 1\ntwo = 2\n")
    async with on_box(container, tmp_path) as session:
        assert "two = 2" in (await call(session, read_file, {"path": "src/a.py"})).text
        edited = await call(session, edit_file, {"path": "src/a.py", "old": "two = 2", "new": "two = 3"})
        assert edited.text.startswith("src/a.py: +1 −1")
        assert (container.folder / "src/a.py").read_text() == "one = 1\ntwo = 3\n"
        await call(session, write_file, {"path": "new/deep/b.txt", "content": "hello\n"})
        assert (container.folder / "new/deep/b.txt").read_text() == "hello\n"
        assert "src/" in (await call(session, list_files, {"path": "."})).text
        assert "new/deep/b.txt" in (await call(session, find_files, {"pattern": "*.txt"})).text
        assert "two = 3" in (await call(session, grep, {"pattern": "two = .", "path": "."})).text
        patch = "*** Begin Patch\n*** Update File: src/a.py\n@@\n-one = 1\n+one = 7\n*** End Patch\n"
        await call(session, apply_patch, {"patch": patch})
        assert (container.folder / "src/a.py").read_text() == "one = 7\ntwo = 3\n"
        assert [entry.name for entry in (container.folder / "src").iterdir()] == ["a.py"]
    assert not any((tmp_path / "here/work").glob("[!.]*"))


async def test_mode_owner_and_links_stay(container: Container, tmp_path: Path) -> None:
    script = container.folder / "run.sh"
    script.write_bytes(b"\xef\xbb\xbfecho a\r\necho b\r\n")
    script.chmod(0o750)
    if os.geteuid() == 0:
        os.chown(script, 1000, 1000)
    owner = script.stat().st_uid
    (container.folder / "link").symlink_to("run.sh")
    async with on_box(container, tmp_path) as session:
        await call(session, edit_file, {"path": "link", "old": "echo b", "new": "echo c"})
    assert (container.folder / "link").is_symlink()
    assert script.read_bytes() == b"\xef\xbb\xbfecho a\r\necho c\r\n"
    assert (script.stat().st_mode & 0o777, script.stat().st_uid) == (0o750, owner)


async def test_strange_names_are_names(container: Container, tmp_path: Path) -> None:
    names = ["a b", "-rf", "it's", "$(touch made)", "`id`", "new\nline", "ü€", "* ?", "\\n"]
    for name in names:
        (container.folder / name).write_text(f"{name}!\n")
    async with on_box(container, tmp_path) as session:
        files = (await call(session, list_files, {"path": "."})).text
        assert "$(touch made)" in files
        for name in names:
            text = (await call(session, read_file, {"path": name})).text
            assert name.split("\n")[0] in text
            await call(session, write_file, {"path": name, "content": f"{name}?\n"})
    assert sorted(entry.name for entry in container.folder.iterdir()) == sorted(names)
    assert all((container.folder / name).read_text() == f"{name}?\n" for name in names)


async def test_a_file_changed_by_others_is_not_replaced(container: Container, tmp_path: Path) -> None:
    file = container.folder / "a.txt"
    file.write_text("first\n")
    async with on_box(container, tmp_path) as session:
        await call(session, read_file, {"path": "a.txt"})
        file.write_text("somebody else's\n")
        with pytest.raises(ToolError, match=r"changed"):
            await call(session, write_file, {"path": "a.txt", "content": "mine\n"})
    assert file.read_text() == "somebody else's\n"


async def test_edits_are_taken_back_and_applied_again(container: Container, tmp_path: Path) -> None:
    file = container.folder / "a.txt"
    file.write_text("old\n")
    async with on_box(container, tmp_path) as session:
        await call(session, edit_file, {"path": "a.txt", "old": "old", "new": "new"})
        await call(session, write_file, {"path": "b.txt", "content": "b\n"})
        log = session.board.task(1).services.services[UndoLog]
        assert isinstance(log, UndoLog)
        locks = session.session.locks
        await asyncio.to_thread(log.undo, locks)
        assert not (container.folder / "b.txt").exists()
        await asyncio.to_thread(log.undo, locks)
        assert file.read_text() == "old\n"
        await asyncio.to_thread(log.redo, locks)
        assert file.read_text() == "new\n"
        file.write_text("changed since\n")
        with pytest.raises(ToolError, match="changed by something else"):
            await asyncio.to_thread(log.undo, locks)
    assert file.read_text() == "changed since\n"


async def test_commands_run_there_with_their_exit_code(container: Container, tmp_path: Path) -> None:
    (container.folder / "sub").mkdir()
    async with on_box(container, tmp_path) as session:
        result = await call(session, run_shell, {"command": "pwd; echo 'a  b' >&2; exit 255", "cwd": "sub"})
        assert result.text.startswith(f"{container.inside}/sub\na  b\n[exit code 255")
        nothing = await call(session, run_shell, {"command": "cat"})
        assert nothing.text.startswith("[exit code 0")
        with pytest.raises(ToolError, match="there is no folder nowhere on box"):
            await call(session, run_shell, {"command": "touch here", "cwd": "nowhere"})
    assert not (container.folder / "here").exists()


async def test_no_variable_of_this_machine_is_sent(
    container: Container, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_TOKEN", "very-secret-value")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    async with on_box(container, tmp_path) as session:
        result = await call(session, run_shell, {"command": "env"})
    assert "very-secret-value" not in result.text
    assert "DOCKER_CONFIG" not in result.text
    assert "BUDDY_SESSION_ID" not in result.text


async def test_processes_left_running_are_ended_with_the_command(
    container: Container, tmp_path: Path, mark: str
) -> None:
    async with on_box(container, tmp_path) as session:
        command = f"sleep {mark} >/dev/null 2>&1 & setsid sleep {mark} >/dev/null 2>&1 & echo started"
        result = await call(session, run_shell, {"command": command})
        assert "were ended" in result.text
        assert sleepers(mark) == []


async def test_a_cancelled_command_leaves_nothing_there(
    container: Container, tmp_path: Path, mark: str
) -> None:
    command = (
        f"(trap '' TERM; setsid sleep {mark}) & setsid sleep {mark} & sleep {mark} & "
        f"(env -i sleep {mark} &); sleep {mark}; true"
    )
    async with on_box(container, tmp_path) as session:
        task = session.board.task(1)
        running = asyncio.ensure_future(call(session, run_shell, {"command": command}))
        await until(lambda: len(sleepers(mark)) == 5)
        task.cancelled.set()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert sleepers(mark) == []


async def test_a_killed_client_is_the_end_of_the_command_there(
    container: Container, tmp_path: Path, mark: str
) -> None:
    async with on_box(container, tmp_path) as session:
        running = asyncio.ensure_future(call(session, run_shell, {"command": f"sleep {mark}; true"}))
        await until(lambda: len(sleepers(mark)) == 1)
        for pid in own_clients():
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(ToolError, match="How the command ended is not known"):
            await running
        await until(lambda: sleepers(mark) == [])


async def test_a_container_that_stops_in_a_command_is_lost_and_found_again(
    container: Container, tmp_path: Path, mark: str
) -> None:
    (container.folder / "a.txt").write_text("hello\n")
    async with on_box(container, tmp_path) as session:
        running = asyncio.ensure_future(call(session, run_shell, {"command": f"echo a; sleep {mark}; true"}))
        await until(lambda: len(sleepers(mark)) == 1)
        await asyncio.to_thread(container.stop)
        with pytest.raises(ToolError, match="How the command ended is not known"):
            await running
        assert sleepers(mark) == []
        await until(lambda: session.session.target_words(session.board.task(1)) == "box (lost)")
        for tool, arguments in ((run_shell, {"command": "true"}), (read_file, {"path": "a.txt"})):
            with pytest.raises(ToolError, match=f"box can't be reached: the container {NAME} is not running"):
                await call(session, tool, arguments)
        await asyncio.to_thread(container.start)
        assert "hello" in (await call(session, read_file, {"path": "a.txt"})).text
        assert (await call(session, run_shell, {"command": "echo back"})).text.startswith("back\n")
        assert session.session.target_words(session.board.task(1)) == "box"


@pytest.mark.parametrize("end", ["stop", "remove"])
async def test_a_container_that_goes_in_a_write_leaves_the_old_file(container: Container, end: str) -> None:
    file = container.folder / "a.txt"
    file.write_text("old\n")
    connection = connection_to(container)
    files = RemoteFiles(connection)
    try:
        located = await asyncio.to_thread(files.locate, "a.txt")
        before = await asyncio.to_thread(files.load, located)
        new = Replacement(located.real, located.shown, b"x" * 150_000_000, before)
        running = asyncio.ensure_future(asyncio.to_thread(files.replace, new))
        await until(lambda: any(entry.name.startswith(".buddy-") for entry in container.folder.iterdir()))
        await asyncio.to_thread(container.stop if end == "stop" else container.remove)
        with pytest.raises(ToolError, match=r"can't be used|was lost"):
            await running
        assert file.read_text() == "old\n"
        await until(lambda: connection.state == "lost")
        with pytest.raises(ToolError, match="is not running" if end == "stop" else "there is no container"):
            await asyncio.to_thread(files.load, located)
        await asyncio.to_thread(container.start)
        await asyncio.to_thread(files.load, located)
        assert [entry.name for entry in container.folder.iterdir()] == ["a.txt"]
    finally:
        await asyncio.to_thread(connection.close)


async def test_a_killed_client_takes_its_half_written_file_along(container: Container) -> None:
    connection = connection_to(container)
    try:
        await asyncio.to_thread(connection.ensure)
        process = await asyncio.to_thread(connection.start_files)
        assert process.stdin is not None
        assert process.stdout is not None
        client = connection.destination.file_client(process.stdin, process.stdout, ToolError)  # type: ignore[arg-type]
        new = f"{container.inside}/.buddy-half"
        await asyncio.to_thread(client.write_new, new, b"whole", 0o644, None)
        assert (container.folder / ".buddy-half").read_bytes() == b"whole"
        process.kill()
        await until(lambda: list(container.folder.iterdir()) == [])
    finally:
        await asyncio.to_thread(connection.close)


async def test_a_container_that_stands_still_in_a_write_leaves_the_old_file(
    pretended: StandInContainer,
) -> None:
    file = pretended.folder / "a.txt"
    file.write_text("old\n")
    connection = connection_to(pretended)
    try:
        await asyncio.to_thread(connection.ensure)
        process = await asyncio.to_thread(connection.start_files)
        assert process.stdin is not None
        assert process.stdout is not None
        client = ShellFileClient(process.stdin, process.stdout, TargetError, limit_s=1.0)  # type: ignore[arg-type]
        shell = int(client.read("/proc/self/stat", 1000, 0).rpartition(b")")[2].split()[1])
        client.write_new(f"{pretended.inside}/.buddy-half", b"half", 0o644, None)
        os.kill(shell, signal.SIGSTOP)
        with pytest.raises(TargetError, match="did not answer for 1 s"):
            await asyncio.to_thread(
                client.replace, f"{pretended.inside}/.buddy-half", f"{pretended.inside}/a.txt"
            )
        process.kill()
        assert file.read_text() == "old\n"
        os.kill(shell, signal.SIGCONT)
        await until(lambda: [entry.name for entry in pretended.folder.iterdir()] == ["a.txt"])
        assert file.read_text() in ("old\n", "half")
    finally:
        await asyncio.to_thread(connection.close)


async def test_a_slow_transfer_does_not_hold_up_other_files(pretended: StandInContainer) -> None:
    os.mkfifo(pretended.folder / "pipe")
    (pretended.folder / "a.txt").write_text("hello\n")
    connection = connection_to(pretended)
    channels = FileChannels(connection, lambda _client: None, TargetError)
    try:
        with channels.borrow() as slow:
            late = asyncio.ensure_future(asyncio.to_thread(slow.read, f"{pretended.inside}/pipe", 100, 1))
            with channels.borrow() as other:
                assert await asyncio.to_thread(other.read, f"{pretended.inside}/a.txt", 100, 1) == b"hello\n"
            assert not late.done()
            await asyncio.to_thread((pretended.folder / "pipe").write_bytes, b"late")
            assert await late == b"late"
    finally:
        await asyncio.to_thread(connection.close)


@requires("mount")
@pytest.mark.parametrize("busybox", [False, pytest.param(True, marks=requires("busybox"))])
async def test_a_full_disk_there_changes_nothing(tmp_path: Path, busybox: bool) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", small], check=True)  # noqa: ASYNC221
    try:
        (small / "a.txt").write_text("old\n")
        with stand_in(tmp_path / "machine", busybox=busybox) as container:
            async with on_box(container, tmp_path, folder=str(small)) as session:
                await call(session, read_file, {"path": "a.txt"})
                with pytest.raises(ToolError, match="the disk is full; nothing was changed"):
                    await call(session, write_file, {"path": "a.txt", "content": "x" * 200_000})
        assert [entry.name for entry in small.iterdir()] == ["a.txt"]
        assert (small / "a.txt").read_text() == "old\n"
    finally:
        subprocess.run(["umount", small], check=True)  # noqa: ASYNC221


async def test_a_job_there_can_be_read_and_stopped(container: Container, tmp_path: Path, mark: str) -> None:
    async with on_box(container, tmp_path) as session:
        started = await call(session, run_shell, {"command": f"echo begin; sleep {mark}", "background": True})
        assert "job 1" in started.text
        await until(lambda: len(sleepers(mark)) == 1)
        assert "begin" in (await call(session, read_job, {"job": 1})).text
        await call(session, stop_job, {"job": 1})
        assert sleepers(mark) == []


async def test_a_lost_job_has_no_exit_code(container: Container, tmp_path: Path, mark: str) -> None:
    async with on_box(container, tmp_path) as session:
        await call(session, run_shell, {"command": f"echo begin; sleep {mark}", "background": True})
        await until(lambda: len(sleepers(mark)) == 1)
        await asyncio.to_thread(container.stop)
        jobs = session.session.jobs
        await until(lambda: jobs.get(1).status().state == "ended")
        text = (await call(session, read_job, {"job": 1})).text
        assert "begin" in text
        assert "job 1: the connection to box was lost: how it ended is not known" in text
        assert "exit code" not in text
        notice = job_notice(jobs.get(1).status())
        assert notice is not None
        assert "(the connection to box was lost: how it ended is not known, " in notice.text


async def test_a_command_longer_than_a_pipe_arrives_whole(container: Container, tmp_path: Path) -> None:
    async with on_box(container, tmp_path) as session:
        command = f"text='{'x' * 100_000}'; echo ${{#text}}"
        assert (await call(session, run_shell, {"command": command})).text.startswith("100000\n")


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ("exited", "is not running; start it"),
        ("paused", "is paused; unpause it"),
        ("none", "there is no container"),
    ],
)
async def test_a_container_that_can_not_be_used_is_told_at_the_start(
    pretended: StandInContainer, tmp_path: Path, state: str, told: str
) -> None:
    await asyncio.to_thread(pretended.change, state)
    with pytest.raises(ConfigError, match=f"--target box: box can't be reached: .*{told}"):
        async with on_box(pretended, tmp_path):
            pass


async def test_a_daemon_that_does_not_run_is_told(pretended: StandInContainer, tmp_path: Path) -> None:
    await asyncio.to_thread(pretended.kill_daemon)
    with pytest.raises(ConfigError, match="the docker daemon does not run"):
        async with on_box(pretended, tmp_path):
            pass


async def test_a_missing_folder_is_told(container: Container, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no folder /nowhere/at/all on box"):
        async with on_box(container, tmp_path, folder="/nowhere/at/all"):
            pass


async def test_a_program_of_the_workspace_is_not_run(pretended: StandInContainer, tmp_path: Path) -> None:
    planted = tmp_path / "here/work/docker"
    planted.parent.mkdir(parents=True)
    planted.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    planted.chmod(0o755)
    with pytest.raises(ConfigError, match="outside of the workspace, found none"):
        async with on_box(pretended, tmp_path, program=str(planted)):
            pass
    assert not (tmp_path / "ran").exists()


async def test_a_question_names_the_container(pretended: StandInContainer, tmp_path: Path) -> None:
    here = tmp_path / "here"
    (here / "work").mkdir(parents=True)
    make = Reply((ScriptedCall("run_shell", '{"command": "touch made"}'),))
    asking = Options(trust=True, target="box")
    targets = {"box": settings_of(pretended)}
    async with scripted_session(
        here, (make, Reply((Say("done"),))), targets=targets, options=asking
    ) as session:
        turn = session.board.submit(1, "go")
        inbox = session.board.inbox
        await until(lambda: len(inbox.waiting()) == 1)
        event = inbox.waiting()[0].event
        assert event.reason.startswith(f"on box (container {NAME}:{pretended.inside}): ")
        assert not (pretended.folder / "made").exists()
        inbox.answer(event.request_id, event.digest, "once")
        await turn
    assert (pretended.folder / "made").exists()
    assert not (here / "work/made").exists()


@pytest.mark.parametrize(
    "kind",
    [pytest.param("podman", marks=requires("podman")), pytest.param("docker", marks=requires("docker"))],
)
async def test_another_user_works_in_another_folder(tmp_path: Path, kind: str) -> None:
    with real_container(kind, tmp_path / "machine") as container:
        async with on_box(container, tmp_path, user="bob", folder="/home/bob") as session:
            assert (await call(session, run_shell, {"command": "id -un; pwd"})).text.startswith(
                "bob\n/home/bob\n"
            )
            await call(session, write_file, {"path": "a.txt", "content": "x"})
            with pytest.raises(ToolError, match="permission denied"):
                await call(session, write_file, {"path": "/root/a.txt", "content": "x"})
            assert "bob" in (await call(session, run_shell, {"command": "stat -c %U a.txt"})).text


async def test_nothing_runs_on_when_buddy_is_killed(container: Container, tmp_path: Path, mark: str) -> None:
    victim = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.faults.remote_victim"),
        *(str(container.program), NAME, container.inside, f"sleep {mark} & setsid sleep {mark}; true"),
    )
    try:
        await until(lambda: len(sleepers(mark)) == 2)
    finally:
        victim.kill()
        await victim.wait()
    await until(lambda: processes_with(mark) == [])
