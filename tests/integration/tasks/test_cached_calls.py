"""A call is answered from what is known only while that is true, whoever changes the files and however they
are named."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from buddy.agent.tool import ToolError
from buddy.tools.files.listing import find_files, list_files
from buddy.tools.files.write import write_file
from buddy.tools.git import git_status
from buddy.tools.grep import grep
from buddy.tools.jobs import stop_job
from buddy.tools.shell import run_shell
from buddy.workspace.files.locks import FileLocks
from tests.support.scripted_session import ScriptedSession, scripted_session


def put(session: ScriptedSession, name: str, text: str) -> Path:
    path = session.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


async def found(session: ScriptedSession, path: str = "src") -> tuple[bool, bool]:
    """Return whether the word was found, and whether the result was cached."""
    result = await session.call(grep, {"pattern": "needle", "path": path})
    return "no matches" not in result.text, result.cached


async def test_an_equal_call_is_answered_from_what_is_known_for_every_task(tmp_path: Path) -> None:
    async with scripted_session(tmp_path) as session:
        put(session, "src/a.txt", "needle\n")
        assert await found(session) == (True, False)
        assert await found(session) == (True, True)
        other = session.board.open()
        again = await session.call(grep, {"pattern": "needle", "path": "src"}, task=other)
        assert again.cached


@pytest.mark.parametrize("searched", ["src", "./src", "link", "{root}/src", "src/../src", "."])
@pytest.mark.parametrize(
    "written", ["src/b.txt", "{root}/src/b.txt", "./src/b.txt", "link/b.txt", "other/../src/b.txt"]
)
async def test_a_write_under_any_name_of_the_folder_makes_it_untrue(
    tmp_path: Path, searched: str, written: str
) -> None:
    async with scripted_session(tmp_path) as session:
        put(session, "src/a.txt", "nothing\n")
        put(session, "other/a.txt", "nothing\n")
        os.symlink("src", session.root / "link")
        searched, written = (text.replace("{root}", str(session.root)) for text in (searched, written))
        put(session, "src/b.txt", "")
        assert await found(session, searched) == (False, False)
        before = (session.root / "src").stat()
        await session.call(write_file, {"path": written, "content": "needle\n"})
        os.utime(session.root / "src", ns=(before.st_atime_ns, before.st_mtime_ns))
        assert await found(session, searched) == (True, False)


async def test_a_write_somewhere_else_leaves_it_true(tmp_path: Path) -> None:
    async with scripted_session(tmp_path) as session:
        put(session, "src/a.txt", "needle\n")
        await found(session)
        await session.call(write_file, {"path": "src2/b.txt", "content": "x\n"})
        assert await found(session) == (True, True)


async def test_a_folder_that_somebody_else_changed_is_listed_again(tmp_path: Path) -> None:
    async with scripted_session(tmp_path) as session:
        put(session, "src/a.txt", "x\n")
        assert not (await session.call(list_files, {"path": "src"})).cached
        assert (await session.call(list_files, {"path": "src"})).cached
        put(session, "src/b.txt", "by the person\n")
        listed = await session.call(list_files, {"path": "src"})
        assert (listed.cached, "b.txt" in listed.text) == (False, True)


async def test_what_was_taken_back_is_not_found_any_more(tmp_path: Path) -> None:
    async with scripted_session(tmp_path) as session:
        put(session, "src/deep/a.txt", "x\n")
        await session.call(run_shell, {"command": "echo needle >> src/deep/a.txt"})
        assert await found(session) == (True, False)
        locks = FileLocks()
        session.undo.undo(locks)
        assert await found(session) == (False, False)
        session.undo.redo(locks)
        assert await found(session) == (True, False)


async def test_while_a_job_runs_nothing_is_taken_for_known(tmp_path: Path) -> None:
    async with scripted_session(tmp_path) as session:
        put(session, "src/deep/a.txt", "x\n")
        command = "until [ -e go ]; do sleep 0.01; done; echo needle > src/deep/a.txt; sleep 300"
        await session.call(run_shell, {"command": command, "background": True})
        assert await found(session) == (False, False)
        (session.root / "go").touch()
        while (session.root / "src/deep/a.txt").read_text() != "needle\n":
            await session.call(list_files, {})
        assert await found(session) == (True, False)
        await session.call(stop_job, {"job": 1})
        assert await found(session) == (True, False)
        assert await found(session) == (True, True)


async def test_every_command_makes_everything_untrue(tmp_path: Path) -> None:
    async with scripted_session(tmp_path, repository=True) as session:
        put(session, "src/a.txt", "needle\n")
        for tool, arguments in ((git_status, {}), (find_files, {"pattern": "*.txt"})):
            await session.call(tool, arguments)
            assert (await session.call(tool, arguments)).cached
        await session.call(run_shell, {"command": "true"})
        assert not (await session.call(git_status, {})).cached
        assert not (await session.call(find_files, {"pattern": "*.txt"})).cached


async def test_a_refusal_is_not_kept(tmp_path: Path) -> None:
    async with scripted_session(tmp_path) as session:
        session.parts.cache.clear()
        first = await session.call(grep, {"pattern": "x", "path": "."})
        assert first.ok
        assert session.parts.cache.statistics().entries == 1


async def test_a_path_that_cannot_be_one_is_the_tools_to_refuse(tmp_path: Path) -> None:
    async with scripted_session(tmp_path) as session:
        for tool, arguments in (
            (grep, {"pattern": "x", "path": "a\0b"}),
            (write_file, {"path": "a\0b", "content": "x"}),
        ):
            with pytest.raises(ToolError):
                await session.call(tool, arguments)


async def test_what_was_read_while_another_task_wrote_is_not_kept(tmp_path: Path) -> None:
    async with scripted_session(tmp_path) as session:
        put(session, "src/a.txt", "x\n")
        other = session.board.open()
        for number in range(10):
            new = {"path": f"src/b{number}.txt", "content": "needle\n"}
            await asyncio.gather(found(session), session.call(write_file, new, task=other))
            assert (await found(session))[0]
            (session.root / new["path"]).unlink()
