"""Checkpoints around the calls of a board: shell effects belong to their task, whatever way a call ends."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from buddy.agent.events import Notice
from buddy.agent.tool import ToolContext, ToolError, tool
from buddy.llm.scripted import Reply, Say, ScriptedCall
from buddy.tasks.tool_execution import LOOK_EVERY_S
from buddy.tools.files.edit import edit_file
from buddy.tools.files.listing import list_files
from buddy.tools.files.move import delete_file, move_file
from buddy.tools.files.read import read_file
from buddy.tools.files.task_diff import task_diff
from buddy.tools.files.write import write_file
from buddy.tools.shell import run_shell
from buddy.workspace.files.approved_versions import Approved
from tests.support.scripted_session import ScriptedSession, scripted_session
from tests.support.waiting import until


def undo(session: ScriptedSession, number: int | None = None) -> str:
    locks = next(
        one for kind, one in session.board.task(1).services.services.items() if kind.__name__ == "FileLocks"
    )
    return session.undo.undo(locks, number, merging=number is not None).tool


async def test_one_undo_covers_edits_and_commands_in_their_order(tmp_path: Path) -> None:
    async with scripted_session(tmp_path, repository=True) as session:
        path = session.root / "a.txt"
        path.write_text("one\n")
        await session.call(edit_file, {"path": "a.txt", "old": "one", "new": "two"})
        await session.call(run_shell, {"command": "echo three >> a.txt; echo x > b.txt"})
        await session.call(edit_file, {"path": "a.txt", "old": "three", "new": "four"})
        assert [undo(session), undo(session)] == ["edit_file", "run_shell"]
        assert (path.read_text(), (session.root / "b.txt").exists()) == ("two\n", False)
        assert undo(session) == "edit_file"
        assert path.read_text() == "one\n"


async def test_the_journal_knows_the_trees_around_a_call(tmp_path: Path) -> None:
    async with scripted_session(tmp_path) as session:
        await session.call(run_shell, {"command": "echo x > b.txt"})
        await session.call(write_file, {"path": "c.txt", "content": "c\n"})
        await session.call(read_file, {"path": "c.txt"})
        kept = [one.taken for one in session.parts.journal.state().checkpoints]
        assert [(one.call_id, sorted(one.data), one.data["entry"]) for one in kept] == [
            ("direct-1", ["after", "before", "entry"], 1),
            ("direct-2", ["entry"], 2),
        ]
        assert kept[0].data["before"] != kept[0].data["after"]


@tool(risk="medium", keeps_undo=True)
async def keeper(ctx: ToolContext) -> str:
    """Save by itself what it replaces."""
    return "done"


@tool(risk="medium")
async def changer(ctx: ToolContext) -> str:
    """Change anything."""
    return "done"


async def test_a_new_tool_says_by_itself_whether_the_tree_is_looked_at(tmp_path: Path) -> None:
    async with scripted_session(tmp_path) as session:
        await session.call(keeper, {})
        await session.call(changer, {})
        kept = [one.taken for one in session.parts.journal.state().checkpoints]
        assert [(one.call_id, sorted(one.data)) for one in kept] == [
            ("direct-1", ["entry"]),
            ("direct-2", ["after", "before", "entry"]),
        ]


async def test_reading_takes_no_checkpoint_and_makes_no_store(tmp_path: Path) -> None:
    async with scripted_session(tmp_path) as session:
        (session.root / "a.txt").write_text("x\n")
        await session.call(read_file, {"path": "a.txt"})
        assert not os.path.exists(checkpoints_of(session))


async def test_a_cancelled_commands_effects_are_taken_back_too(tmp_path: Path) -> None:
    def script(_request: object) -> Reply:
        return (ScriptedCall("run_shell", '{"command": "echo x > b.txt; sleep 300"}'),)

    async with scripted_session(tmp_path, script) as session:
        session.board.submit(1, "go")
        await until(lambda: (session.root / "b.txt").exists())
        session.board.cancel(1)
        await session.board.wait(1)
        assert undo(session, 1) == "run_shell"
        assert not (session.root / "b.txt").exists()


async def test_a_failing_tool_leaves_its_effects_in_the_log_as_well(tmp_path: Path) -> None:
    async with scripted_session(tmp_path) as session:
        await session.call(run_shell, {"command": "echo x > b.txt; exit 3"})
        assert undo(session) == "run_shell"
        assert not (session.root / "b.txt").exists()


async def test_switched_off_there_are_none_and_edits_are_still_undone(tmp_path: Path) -> None:
    async with scripted_session(tmp_path, checkpoints=False) as session:
        await session.call(write_file, {"path": "c.txt", "content": "c\n"})
        await session.call(run_shell, {"command": "echo x > b.txt"})
        assert undo(session) == "write_file"
        with pytest.raises(ToolError, match="no edit"):
            undo(session)
        assert (session.root / "b.txt").exists()


async def test_the_person_is_told_what_is_not_covered(tmp_path: Path) -> None:
    def script(request: object) -> Reply:
        if len(request.history) > 1:
            return (Say("done"),)
        return (ScriptedCall("run_shell", '{"command": "mkdir in && cd in && git init -q && echo x > y"}'),)

    async with scripted_session(tmp_path, script) as session:
        session.board.submit(1, "go")
        await session.board.wait(1)
        told = [event.text for event in session.events(1) if isinstance(event, Notice)]
        assert told == [
            "not covered by /undo (too large, unreadable, secret, or a repository of its own): in/"
        ]


async def test_only_one_tasks_hunks_are_taken_back_and_shown(tmp_path: Path) -> None:
    async with scripted_session(tmp_path, repository=True) as session:
        path = session.root / "a.txt"
        path.write_text("".join(f"{number}\n" for number in range(30)))
        other = session.board.open()
        await session.call(run_shell, {"command": "sed -i 's/^3$/three/' a.txt"})
        await session.call(run_shell, {"command": "sed -i 's/^20$/twenty/' a.txt"}, task=other)
        path.write_text(path.read_text().replace("11\n", "eleven\n"))
        shown = task_diff(session.undo, 2, str(session.root))
        assert [(one.path, one.added, one.removed) for one in shown.files] == [("a.txt", 1, 1)]
        assert "-20\n+twenty\n" in shown.files[0].diff
        undo(session, 1)
        assert path.read_text() == "".join(
            {11: "eleven\n", 20: "twenty\n"}.get(number, f"{number}\n") for number in range(30)
        )
        assert task_diff(session.undo, 1, str(session.root)).files == ()


async def test_forty_cancelled_commands_leave_a_log_that_takes_all_back(tmp_path: Path) -> None:
    async with scripted_session(tmp_path) as session:
        (session.root / "a.txt").write_text("0\n")
        for turn in range(40):
            work = asyncio.ensure_future(
                session.call(run_shell, {"command": f"echo {turn} >> a.txt; sleep 300"})
            )
            await asyncio.sleep((turn % 10) * 0.004)
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
        while session.undo.entries():
            undo(session)
        assert (session.root / "a.txt").read_text() == "0\n"


def checkpoints_of(session: ScriptedSession) -> str:
    return os.path.join(session.session.journal.directory, "checkpoints")


async def test_a_command_judged_to_only_read_takes_no_checkpoint(tmp_path: Path) -> None:
    async with scripted_session(tmp_path, repository=True) as session:
        approved = session.board.task(1).services.services[Approved]
        assert isinstance(approved, Approved)
        approved.harden("direct-1", {"GIT_OPTIONAL_LOCKS": "0"})
        await session.call(run_shell, {"command": "ls"})
        assert not os.path.exists(checkpoints_of(session))
        await session.call(run_shell, {"command": "ls"})
        assert os.path.exists(checkpoints_of(session))


async def test_moves_and_deletions_need_no_look_at_the_tree(tmp_path: Path) -> None:
    async with scripted_session(tmp_path, repository=True) as session:
        (session.root / "a.txt").write_text("a\n")
        await session.call(move_file, {"source": "a.txt", "target": "b.txt"})
        await session.call(delete_file, {"path": "b.txt"})
        assert not os.path.exists(checkpoints_of(session))
        assert [undo(session), undo(session)] == ["delete_file", "move_file"]
        assert (session.root / "a.txt").read_text() == "a\n"


async def test_what_another_task_moves_meanwhile_is_not_an_effect_of_a_command(tmp_path: Path) -> None:
    async with scripted_session(tmp_path, repository=True) as session:
        (session.root / "a.txt").write_text("a\n")
        (session.root / "dir").mkdir()
        (session.root / "dir/c.txt").write_text("c\n")
        other = session.board.open()
        wait = "echo x > x.txt; until [ -e go ]; do sleep 0.01; done"
        running = asyncio.ensure_future(session.call(run_shell, {"command": wait}))
        await until(lambda: (session.root / "x.txt").exists())
        await session.call(move_file, {"source": "dir", "target": "lib"}, task=other)
        await session.call(delete_file, {"path": "a.txt"}, task=other)
        (session.root / "go").touch()
        await running
        undo(session, 1)
        left = sorted(str(path.relative_to(session.root)) for path in session.root.rglob("*.txt"))
        assert [name for name in left if not name.startswith(".")] == ["lib/c.txt"]
        undo(session, 2)
        undo(session, 2)
        assert (session.root / "dir/c.txt").read_text() + (session.root / "a.txt").read_text() == "c\na\n"


async def test_what_the_person_and_an_undo_changed_is_told_with_the_next_result(tmp_path: Path) -> None:
    async with scripted_session(tmp_path, repository=True) as session:
        for name in ("a.txt", "b.txt"):
            (session.root / name).write_text("one\ntwo\n")
            await session.call(read_file, {"path": name})
        await session.call(edit_file, {"path": "a.txt", "old": "two", "new": "2"})
        undo(session, 1)
        (session.root / "b.txt").write_text("one\nperson\n")
        session.board.task(1).checked_at -= LOOK_EVERY_S
        told = await session.call(list_files, {})
        assert told.text.partition("[files you have read changed]\n")[2].split("\n") == [
            "b.txt changed since you read it:",
            "-2     two",
            "+2     person",
            "a.txt changed since you read it:",
            "-2     2",
            "+2     two",
        ]
        assert "changed" not in (await session.call(list_files, {})).text


def test_a_call_that_is_judged_again_as_writing_is_not_taken_for_one_that_reads() -> None:
    approved = Approved()
    approved.harden("c1", {"GIT_OPTIONAL_LOCKS": "0"})
    assert approved.only_reads("c1")
    approved.harden("c1", {})
    assert (approved.only_reads("c1"), approved.environment("c1")) == (False, {})
