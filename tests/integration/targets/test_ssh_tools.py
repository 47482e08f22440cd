"""Tools of a task that works on another machine, over a real sshd on 127.0.0.1."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from buddy.agent.tool import Tool, ToolError, ToolResult
from buddy.app.options import Options
from buddy.config.settings import ConfigError, TargetSettings
from buddy.llm.scripted import Reply, Say, ScriptedCall
from buddy.tasks.task import TaskError
from buddy.tools.builtin import BUILTIN_TOOLS
from buddy.tools.files.edit import edit_file
from buddy.tools.files.listing import find_files, list_files
from buddy.tools.files.patch import apply_patch
from buddy.tools.files.read import read_file
from buddy.tools.files.write import write_file
from buddy.tools.grep import grep
from buddy.tools.jobs import read_job, stop_job
from buddy.tools.shell import run_shell
from buddy.workspace.files.store import Replacement
from buddy.workspace.targets.connection import GREETING_LIMIT_S
from buddy.workspace.targets.remote_files import RemoteFiles
from buddy.workspace.undo.log import UndoLog
from tests.capabilities import requires
from tests.support.processes import sleepers
from tests.support.scripted_session import ScriptedSession, scripted_session
from tests.support.ssh_server import SshServer, ssh_server

pytestmark = requires("sshd", "linux")
YOLO = Options(permission_mode="yolo", i_know=True, trust=True, target="box")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SshServer]:
    with ssh_server(tmp_path / "machine") as running:
        yield running


def settings_of(server: SshServer, **changes: object) -> TargetSettings:
    fields: dict[str, object] = {"folder": str(server.folder), "config": str(server.config), **changes}
    return TargetSettings(host="machine", **fields)  # type: ignore[arg-type]


@asynccontextmanager
async def on_box(server: SshServer, root: Path, **changes: object) -> AsyncIterator[ScriptedSession]:
    """Open a session whose first task works on the server."""
    root.mkdir(exist_ok=True)
    (root / "work").mkdir(exist_ok=True)
    targets = {"box": settings_of(server, **changes)}
    async with scripted_session(root, targets=targets, options=YOLO) as session:
        yield session


async def call(session: ScriptedSession, tool: Tool, arguments: Mapping[str, object]) -> ToolResult:
    """Run a call with the tool as the task's model is offered it."""
    task = session.board.task(1)
    return await session.call(task.workspace.fit(tool), arguments, task=task)


async def until(true: object, *, limit_s: float = 20) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + limit_s
    while not true():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it did not become true"
        await asyncio.sleep(0.02)


async def test_files_are_read_written_edited_and_found_over_there(server: SshServer, tmp_path: Path) -> None:
    (server.folder / "src").mkdir()
    (server.folder / "src/a.py").write_text("one = 1\ntwo = 2\n")
    async with on_box(server, tmp_path / "here") as session:
        (tmp_path / "here/work/src").mkdir()
        (tmp_path / "here/work/src/a.py").write_text("not this one\n")
        read = await call(session, read_file, {"path": "src/a.py"})
        assert "two = 2" in read.text
        edited = await call(session, edit_file, {"path": "src/a.py", "old": "two = 2", "new": "two = 3"})
        assert edited.text.startswith("src/a.py: +1 −1")
        assert (server.folder / "src/a.py").read_text() == "one = 1\ntwo = 3\n"
        await call(session, write_file, {"path": "new/deep/b.txt", "content": "hello\n"})
        assert (server.folder / "new/deep/b.txt").read_text() == "hello\n"
        assert "src/" in (await call(session, list_files, {"path": "."})).text
        assert "new/deep/b.txt" in (await call(session, find_files, {"pattern": "*.txt"})).text
        found = await call(session, grep, {"pattern": "two = .", "path": "."})
        assert "src/a.py" in found.text
        assert "two = 3" in found.text
        patch = "*** Begin Patch\n*** Update File: src/a.py\n@@\n-one = 1\n+one = 7\n*** End Patch\n"
        await call(session, apply_patch, {"patch": patch})
        assert (server.folder / "src/a.py").read_text() == "one = 7\ntwo = 3\n"
        assert (tmp_path / "here/work/src/a.py").read_text() == "not this one\n"
        assert [entry.name for entry in (server.folder / "src").iterdir()] == ["a.py"]


async def test_a_search_goes_on_behind_files_that_can_not_be_read(server: SshServer, tmp_path: Path) -> None:
    async with on_box(server, tmp_path / "here") as session:
        text = (await call(session, grep, {"pattern": "x", "path": "/proc/sys/kernel/random"})).text
        assert "could not be read or kept, and were not searched" in text


async def test_mode_line_ends_and_encoding_stay(server: SshServer, tmp_path: Path) -> None:
    script = server.folder / "run.sh"
    script.write_bytes(b"\xef\xbb\xbfecho a\r\necho b\r\n")
    script.chmod(0o750)
    async with on_box(server, tmp_path / "here") as session:
        await call(session, edit_file, {"path": "run.sh", "old": "echo b", "new": "echo c"})
    assert script.read_bytes() == b"\xef\xbb\xbfecho a\r\necho c\r\n"
    assert script.stat().st_mode & 0o777 == 0o750


async def test_a_file_changed_by_others_is_not_replaced(server: SshServer, tmp_path: Path) -> None:
    file = server.folder / "a.txt"
    file.write_text("first\n")
    async with on_box(server, tmp_path / "here") as session:
        await call(session, read_file, {"path": "a.txt"})
        file.write_text("somebody else's\n")
        with pytest.raises(ToolError, match=r"changed"):
            await call(session, write_file, {"path": "a.txt", "content": "mine\n"})
    assert file.read_text() == "somebody else's\n"


async def test_edits_are_taken_back_and_applied_again(server: SshServer, tmp_path: Path) -> None:
    file = server.folder / "a.txt"
    file.write_text("old\n")
    async with on_box(server, tmp_path / "here") as session:
        await call(session, edit_file, {"path": "a.txt", "old": "old", "new": "new"})
        await call(session, write_file, {"path": "b.txt", "content": "b\n"})
        log = session.board.task(1).services.services[UndoLog]
        assert isinstance(log, UndoLog)
        locks = session.session.locks
        await asyncio.to_thread(log.undo, locks)
        assert not (server.folder / "b.txt").exists()
        await asyncio.to_thread(log.undo, locks)
        assert file.read_text() == "old\n"
        await asyncio.to_thread(log.redo, locks)
        assert file.read_text() == "new\n"
        file.write_text("changed since\n")
        with pytest.raises(ToolError, match="changed by something else"):
            await asyncio.to_thread(log.undo, locks)
        assert file.read_text() == "changed since\n"
        assert session.undo.entries() == ()


async def test_commands_run_over_there_with_their_exit_code(server: SshServer, tmp_path: Path) -> None:
    (server.folder / "sub").mkdir()
    async with on_box(server, tmp_path / "here") as session:
        result = await call(session, run_shell, {"command": "pwd; echo 'a  b' >&2; exit 255", "cwd": "sub"})
        assert result.text.startswith(f"{server.folder}/sub\na  b\n[exit code 255")
        assert not result.ok
        nothing = await call(session, run_shell, {"command": "cat"})
        assert nothing.text.startswith("[exit code 0")
        with pytest.raises(ToolError, match="there is no folder nowhere on box"):
            await call(session, run_shell, {"command": "touch here", "cwd": "nowhere"})
    assert not (server.folder / "here").exists()


async def test_no_variable_of_this_machine_is_sent(
    server: SshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_TOKEN", "very-secret-value")
    with server.config.open("a") as config:
        config.write("  SendEnv *\n")
    server.kill()
    server.extra = "AcceptEnv *\n"
    server.start()
    async with on_box(server, tmp_path / "here") as session:
        result = await call(session, run_shell, {"command": "env"})
    assert "very-secret-value" not in result.text
    assert "SSH_AUTH_SOCK" not in result.text


async def test_processes_left_running_are_ended_with_the_command(server: SshServer, tmp_path: Path) -> None:
    mark = "86397.5"
    async with on_box(server, tmp_path / "here") as session:
        command = f"sleep {mark} >/dev/null 2>&1 & setsid sleep {mark} >/dev/null 2>&1 & echo started"
        result = await call(session, run_shell, {"command": command})
        assert "were ended" in result.text
        assert sleepers(mark) == []


async def test_a_cancelled_command_leaves_nothing_over_there(server: SshServer, tmp_path: Path) -> None:
    mark = "86398.5"
    command = f"(trap '' TERM; setsid sleep {mark}) & setsid sleep {mark} & sleep {mark} & sleep {mark}; true"
    async with on_box(server, tmp_path / "here") as session:
        task = session.board.task(1)
        running = asyncio.ensure_future(call(session, run_shell, {"command": command}))
        await until(lambda: len(sleepers(mark)) == 4)
        task.cancelled.set()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert sleepers(mark) == []


async def test_a_killed_client_is_the_end_of_the_command_over_there(
    server: SshServer, tmp_path: Path
) -> None:
    mark = "86399.5"
    async with on_box(server, tmp_path / "here") as session:
        running = asyncio.ensure_future(call(session, run_shell, {"command": f"sleep {mark}; true"}))
        await until(lambda: len(sleepers(mark)) == 1)
        server.kill()
        with pytest.raises(ToolError, match="How the command ended is not known"):
            await running
        await until(lambda: sleepers(mark) == [])
        assert session.session.target_words(session.board.task(1)) == "box (lost)"
        with pytest.raises(ToolError, match=r"box can't be reached: .*Connection refused"):
            await call(session, run_shell, {"command": "true"})
        server.start()
        assert (await call(session, run_shell, {"command": "echo back"})).text.startswith("back\n")
        assert session.session.target_words(session.board.task(1)) == "box"


async def test_a_command_that_takes_longer_becomes_a_job_that_can_be_stopped(
    server: SshServer, tmp_path: Path
) -> None:
    mark = "86396.5"
    async with on_box(server, tmp_path / "here") as session:
        started = await call(session, run_shell, {"command": f"echo begin; sleep {mark}", "background": True})
        assert "job 1" in started.text
        await until(lambda: len(sleepers(mark)) == 1)
        assert "begin" in (await call(session, read_job, {"job": 1})).text
        await call(session, stop_job, {"job": 1})
        assert sleepers(mark) == []


async def test_every_other_tool_says_that_it_does_not_work_there(server: SshServer, tmp_path: Path) -> None:
    async with on_box(server, tmp_path / "here") as session:
        fit = session.board.task(1).workspace.fit
        offered = session.board.tools_of(1).list_all()
        assert {tool.name for tool in offered} >= {"run_shell", "read_file", "git_status"}
        for tool in BUILTIN_TOOLS:
            if tool.anywhere:
                continue
            with pytest.raises(ToolError, match=f"{tool.name} does not work on box; nothing was done"):
                await fit(tool).run(None, None)  # type: ignore[arg-type]
            assert all(other.run is not tool.run for other in offered)


async def test_no_tool_finds_a_service_of_this_machine(server: SshServer, tmp_path: Path) -> None:
    from buddy.safety.paths import Boundary
    from buddy.workspace.git.run import GitLock
    from buddy.workspace.undo.trash import Trash

    async with on_box(server, tmp_path / "here") as session:
        services = session.board.task(1).services.services
        assert not {Boundary, GitLock, Trash} & set(services)
        assert services[UndoLog] is not session.undo


async def test_without_bash_sh_runs_the_command(server: SshServer, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for folder in ("/usr/bin", "/bin"):
        for program in Path(folder).iterdir():
            if program.name != "bash" and not (programs / program.name).exists():
                os.symlink(program, programs / program.name)
    server.kill()
    server.environment["PATH"] = str(programs)
    server.start()
    async with on_box(server, tmp_path / "here") as session:
        result = await call(session, run_shell, {"command": "echo $0"})
        assert result.text.startswith("sh\n")
        assert "no bash on box: sh ran it" in result.text


@requires("mount")
async def test_a_full_disk_over_there_changes_nothing(server: SshServer, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = await asyncio.to_thread(os.system, f"mount -t tmpfs -o size=64k none {small}")
    assert mounted == 0
    try:
        (small / "a.txt").write_text("old\n")
        async with on_box(server, tmp_path / "here", folder=str(small)) as session:
            await call(session, read_file, {"path": "a.txt"})
            with pytest.raises(ToolError, match="the disk is full; nothing was changed"):
                await call(session, write_file, {"path": "a.txt", "content": "x" * 200_000})
        assert [entry.name for entry in small.iterdir()] == ["a.txt"]
        assert (small / "a.txt").read_text() == "old\n"
    finally:
        await asyncio.to_thread(os.system, f"umount {small}")


async def test_a_connection_lost_in_a_write_leaves_the_old_file(server: SshServer) -> None:
    file = server.folder / "a.txt"
    file.write_text("old\n")
    connection = server.connection()
    files = RemoteFiles(connection)
    try:
        located = await asyncio.to_thread(files.locate, "a.txt")
        before = await asyncio.to_thread(files.load, located)
        new = Replacement(located.real, located.shown, b"x" * 150_000_000, before)
        running = asyncio.ensure_future(asyncio.to_thread(files.replace, new))
        await until(lambda: any(entry.name.startswith(".buddy-") for entry in server.folder.iterdir()))
        server.kill()
        with pytest.raises(ToolError, match="was lost"):
            await running
        assert file.read_text() == "old\n"
        server.start()
        await asyncio.to_thread(files.load, located)
        assert [entry.name for entry in server.folder.iterdir()] == ["a.txt"]
    finally:
        await asyncio.to_thread(connection.close)


async def test_files_that_end_a_moment_before_the_connection_name_its_loss(tmp_path: Path) -> None:
    ending = tmp_path / "ending.sh"
    ending.write_text("(sleep 0.3; kill -9 $PPID) >/dev/null 2>&1 &\n")
    with ssh_server(tmp_path / "machine", sftp=f"/bin/sh {ending}") as server:
        connection = server.connection()
        try:
            with pytest.raises(ToolError, match="was lost"):
                await asyncio.to_thread(RemoteFiles(connection).locate, "a.txt")
        finally:
            await asyncio.to_thread(connection.close)


async def test_a_silent_sftp_server_does_not_hold_up_the_end(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    silent = tmp_path / "silent.sh"
    silent.write_text(f"touch {begun}; exec cat >/dev/null\n")
    with ssh_server(tmp_path / "machine", sftp=f"/bin/sh {silent}") as server:
        async with on_box(server, tmp_path / "here") as session:
            reading = asyncio.create_task(call(session, read_file, {"path": "a.txt"}))
            await until(begun.exists)
            started = time.monotonic()
            await session.session.targets().close()
            with pytest.raises(ToolError):
                await reading
            assert time.monotonic() - started < 15


def test_a_server_that_prints_without_end_is_given_up(tmp_path: Path) -> None:
    with ssh_server(tmp_path / "machine", extra="ForceCommand yes\n") as server:
        started = time.monotonic()
        with pytest.raises(ToolError, match="can't be reached"):
            server.connection().ensure()
        assert time.monotonic() - started < GREETING_LIMIT_S / 2


async def test_a_refused_connection_is_told_at_the_start(server: SshServer, tmp_path: Path) -> None:
    server.kill()
    with pytest.raises(ConfigError, match=r"--target box: box can't be reached: .*refused"):
        async with on_box(server, tmp_path / "here"):
            pass


@pytest.mark.parametrize(
    ("known", "told"), [("changed", "is not the one that is known"), ("none", "is not known")]
)
async def test_no_other_host_key_is_accepted(
    server: SshServer, tmp_path: Path, known: str, told: str
) -> None:
    from tests.support.ssh_server import make_key

    if known == "none":
        (server.home / "known_hosts").write_text("")
    else:
        make_key(server.home / "other_key")
        kind, key, *_ = (server.home / "other_key.pub").read_text().split()
        (server.home / "known_hosts").write_text(f"[127.0.0.1]:{server.port} {kind} {key}\n")
    before = (server.home / "known_hosts").read_text()
    with pytest.raises(ConfigError, match=told):
        async with on_box(server, tmp_path / "here"):
            pass
    assert (server.home / "known_hosts").read_text() == before


async def test_a_missing_folder_is_told(server: SshServer, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no folder /nowhere/at/all on box"):
        async with on_box(server, tmp_path / "here", folder="/nowhere/at/all"):
            pass


async def test_a_resumed_task_stays_on_its_target_also_when_that_is_gone(
    server: SshServer, tmp_path: Path
) -> None:
    here = tmp_path / "here"
    async with on_box(server, here) as session:
        await session.board.submit(1, "hello")
    resuming = Options(permission_mode="yolo", i_know=True, trust=True)
    targets = {"box": settings_of(server)}
    async with scripted_session(here, targets=targets, options=resuming, reference="last") as session:
        assert session.board.task(1).workspace.target == "box"
        assert (await call(session, run_shell, {"command": "pwd"})).text.startswith(str(server.folder))
        assert session.board.open().workspace.target == "box"
    async with scripted_session(here, options=resuming, reference="last") as session:
        assert session.board.task(1).workspace.target == "box"
        with pytest.raises(ToolError, match="works on box, which can't be used"):
            session.session.undo_of(1)
        for tool in (run_shell, read_file, write_file, grep):
            with pytest.raises(ToolError, match=r"box is not in your buddy\.toml any more"):
                await call(session, tool, json.loads(_ARGUMENTS[tool.name]))


_ARGUMENTS = {
    "run_shell": '{"command": "touch made"}',
    "read_file": '{"path": "a.txt"}',
    "write_file": '{"path": "made", "content": ""}',
    "grep": '{"pattern": "a"}',
}


async def test_a_question_names_the_machine_and_an_answer_holds_there_only(
    server: SshServer, tmp_path: Path
) -> None:
    asking = Options(trust=True, target="box")
    here = tmp_path / "here"
    (here / "work").mkdir(parents=True)
    make = Reply((ScriptedCall("run_shell", '{"command": "touch made"}'),))
    edit = Reply((ScriptedCall("write_file", '{"path": "b.txt", "content": "b"}'),))
    script = (make, make, edit, Reply((Say("done"),)))
    targets = {"box": settings_of(server)}
    async with scripted_session(here, script, targets=targets, options=asking) as session:
        turn = session.board.submit(1, "go")
        inbox = session.board.inbox
        await until(lambda: len(inbox.waiting()) == 1)
        event = inbox.waiting()[0].event
        assert event.reason.startswith(f"on box (machine:{server.folder}): ")
        assert "on box" in event.session
        assert not (server.folder / "made").exists()
        inbox.answer(event.request_id, event.digest, "session")
        await until(lambda: len(inbox.waiting()) == 1)
        event = inbox.waiting()[0].event
        assert event.call.name == "write_file"
        assert "on box (machine:" in event.reason
        assert (server.folder / "made").exists()
        inbox.answer(event.request_id, event.digest, "denied")
        await turn
        assert {grant.rule.target for grant in session.session.policy.grants} == {"box"}
    assert not (server.folder / "b.txt").exists()
    assert not (here / "work/made").exists()


async def test_the_system_prompt_names_the_machine(server: SshServer, tmp_path: Path) -> None:
    async with on_box(server, tmp_path / "here") as session:
        task = session.board.task(1)
        assert "You work on box (machine:" in task.system_prompt(session.parts)
        session.board.change_target(1, "")
        assert "You work on box" not in task.system_prompt(session.parts)
        assert task.record().target == ""


async def test_a_worktree_is_refused_on_a_target(server: SshServer, tmp_path: Path) -> None:
    async with on_box(server, tmp_path / "here") as session:
        with pytest.raises(TaskError, match="a worktree is made on this machine"):
            await session.board.workspaces.make("x", start=session.board.task(1))
        with pytest.raises(TaskError, match="variants work on this machine"):
            await session.board.variants.open("x", ("", ""), start=session.board.task(1))


async def test_an_unknown_target_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--target box: not in your buddy\.toml"):
        async with scripted_session(tmp_path, options=YOLO):
            pass


async def test_without_a_target_nothing_of_it_is_imported() -> None:
    program = (
        "import sys, buddy.app.session, buddy.tools.builtin\n"
        "print([name for name in sys.modules if name.startswith('buddy.workspace.targets') or name in "
        "('buddy.app.targets', 'buddy.tools.files.elsewhere')])"
    )
    done = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
    out, _ = await done.communicate()
    assert out.decode().strip() == "[]"
