"""RU-H12 through the real program: a session that came back from somebody else does nothing outside."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import msgspec

from buddy.workspace.files.store import digest_of
from buddy.workspace.undo.entries import FileVersions, UndoEntry
from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import YOLO, Program
from tests.support.terminal import on_terminal

RUNS = call("run_shell", command="echo more >> main.py")


def _model(asked: Asked) -> Reply:
    """Runs a command that changes a file for each prompt, so that checkpoints are taken."""
    return reply("done") if asked.turns[-1][0] != "user" else reply(RUNS)


def _forge(session: Path, target: Path, temporary: str, mark: Path) -> None:
    """The undo log and checkpoints of the report: they would delete `temporary` beside the target, write the
    target anew, and run a command."""
    undo, checkpoints = session / "undo", session / "checkpoints"
    for folder in (undo, checkpoints):
        shutil.rmtree(folder, ignore_errors=True)
    (undo / "blobs").mkdir(parents=True)
    now, evil = target.read_bytes(), b"evil\n"
    for data in (now, evil):
        (undo / "blobs" / digest_of(data)).write_bytes(data)
    versions = FileVersions(str(target), digest_of(evil), digest_of(now), 0o644, temporary)
    entry = UndoEntry(1, 1, "c", "write_file", (versions,))
    (undo / "log.jsonl").write_bytes(b"\n" + msgspec.json.encode(entry) + b"\n")
    subprocess.run(["git", "init", "-q", "--bare", str(checkpoints)], check=True)
    with (checkpoints / "config").open("a") as file:
        file.write(f"[core]\n\tfsmonitor = touch {mark}; false\n")


async def test_RU_H12_a_session_that_was_tampered_with_does_nothing_outside(tmp_path: Path) -> None:
    async with FakeLLM(_model) as server:
        program = Program(tmp_path, server.url, tools=("run_shell",))
        program.files(main__py="print(1)\n")
        assert (await program.run("exec", *YOLO, "begin")).out == "done\n"
        (session_id,) = program.sessions()
        target, precious, mark = program.home / ".bash_demo", program.home / ".precious", tmp_path / "OWNED"
        target.write_bytes(b"mine\n")
        precious.write_bytes(b"mine\nprecious")
        _forge(program.repo / ".buddyx" / "sessions" / session_id, target, ".precious", mark)
        ran = await program.run("exec", *YOLO, "--continue", "go on")
        assert ran.out == "done\n"
        assert "not used for /undo: 1 were not written by this session here" in ran.err
        async with on_terminal(program, "-c", *YOLO) as terminal:
            await terminal.has_shown("go on")
            await terminal.line("/undo")
            await terminal.has_shown("Undone: main.py")
            await terminal.line("/undo")
            await terminal.has_shown("no edit to take back")
            assert await terminal.leaves() == 0
    assert target.read_bytes() == b"mine\n"
    assert precious.read_bytes() == b"mine\nprecious"
    assert not mark.exists()


async def test_RU_H12_a_session_of_another_project_is_not_continued(tmp_path: Path) -> None:
    async with FakeLLM(_model) as server:
        program = Program(tmp_path, server.url, tools=("run_shell",))
        program.files(main__py="print(1)\n")
        assert (await program.run("exec", *YOLO, "begin")).out == "done\n"
        (session_id,) = program.sessions()
        target, precious, mark = program.home / ".bash_demo", program.home / ".precious", tmp_path / "OWNED"
        target.write_bytes(b"mine\n")
        precious.write_bytes(b"mine\nprecious")
        _forge(program.repo / ".buddyx" / "sessions" / session_id, target, ".precious", mark)
        program.repo.rename(program.folder / "clone")
        ran = await program.run("exec", *YOLO, "-r", session_id, "go on", cwd=program.folder / "clone")
        assert ran.code != 0
        assert "was made in" in ran.err
    assert target.read_bytes() == b"mine\n"
    assert precious.exists()
    assert not mark.exists()
