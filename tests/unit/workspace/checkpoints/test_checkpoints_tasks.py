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
from tests.support.board_desk import BoardDesk, board_desk
from tests.support.command_desk import until


def undo(desk: BoardDesk, number: int | None = None) -> str:
    locks = next(
        one for kind, one in desk.board.task(1).services.services.items() if kind.__name__ == "FileLocks"
    )
    return desk.undo.undo(locks, number, merging=number is not None).tool


async def test_one_undo_covers_edits_and_commands_in_their_order(tmp_path: Path) -> None:
    async with board_desk(tmp_path, repository=True) as desk:
        path = desk.root / "a.txt"
        path.write_text("one\n")
        await desk.call(edit_file, {"path": "a.txt", "old": "one", "new": "two"})
        await desk.call(run_shell, {"command": "echo three >> a.txt; echo x > b.txt"})
        await desk.call(edit_file, {"path": "a.txt", "old": "three", "new": "four"})
        assert [undo(desk), undo(desk)] == ["edit_file", "run_shell"]
        assert (path.read_text(), (desk.root / "b.txt").exists()) == ("two\n", False)
        assert undo(desk) == "edit_file"
        assert path.read_text() == "one\n"


async def test_the_journal_knows_the_trees_around_a_call(tmp_path: Path) -> None:
    async with board_desk(tmp_path) as desk:
        await desk.call(run_shell, {"command": "echo x > b.txt"})
        await desk.call(write_file, {"path": "c.txt", "content": "c\n"})
        await desk.call(read_file, {"path": "c.txt"})
        kept = [one.taken for one in desk.parts.journal.state().checkpoints]
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
    async with board_desk(tmp_path) as desk:
        await desk.call(keeper, {})
        await desk.call(changer, {})
        kept = [one.taken for one in desk.parts.journal.state().checkpoints]
        assert [(one.call_id, sorted(one.data)) for one in kept] == [
            ("direct-1", ["entry"]),
            ("direct-2", ["after", "before", "entry"]),
        ]


async def test_reading_takes_no_checkpoint_and_makes_no_store(tmp_path: Path) -> None:
    async with board_desk(tmp_path) as desk:
        (desk.root / "a.txt").write_text("x\n")
        await desk.call(read_file, {"path": "a.txt"})
        assert not os.path.exists(tmp_path / "session/checkpoints")


async def test_a_cancelled_commands_effects_are_taken_back_too(tmp_path: Path) -> None:
    def script(_request: object) -> Reply:
        return (ScriptedCall("run_shell", '{"command": "echo x > b.txt; sleep 300"}'),)

    async with board_desk(tmp_path, script) as desk:
        desk.board.submit(1, "go")
        await until(lambda: (desk.root / "b.txt").exists())
        desk.board.cancel(1)
        await desk.board.wait(1)
        assert undo(desk, 1) == "run_shell"
        assert not (desk.root / "b.txt").exists()


async def test_a_failing_tool_leaves_its_effects_in_the_log_as_well(tmp_path: Path) -> None:
    async with board_desk(tmp_path) as desk:
        await desk.call(run_shell, {"command": "echo x > b.txt; exit 3"})
        assert undo(desk) == "run_shell"
        assert not (desk.root / "b.txt").exists()


async def test_switched_off_there_are_none_and_edits_are_still_undone(tmp_path: Path) -> None:
    async with board_desk(tmp_path, checkpoints=False) as desk:
        await desk.call(write_file, {"path": "c.txt", "content": "c\n"})
        await desk.call(run_shell, {"command": "echo x > b.txt"})
        assert undo(desk) == "write_file"
        with pytest.raises(ToolError, match="no edit"):
            undo(desk)
        assert (desk.root / "b.txt").exists()


async def test_the_person_is_told_what_is_not_covered(tmp_path: Path) -> None:
    def script(request: object) -> Reply:
        if len(request.history) > 1:
            return (Say("done"),)
        return (ScriptedCall("run_shell", '{"command": "mkdir in && cd in && git init -q && echo x > y"}'),)

    async with board_desk(tmp_path, script) as desk:
        desk.board.submit(1, "go")
        await desk.board.wait(1)
        told = [event.text for event in desk.events(1) if isinstance(event, Notice)]
        assert told == [
            "not covered by /undo (too large, unreadable, secret, or a repository of its own): in/"
        ]


async def test_only_one_tasks_hunks_are_taken_back_and_shown(tmp_path: Path) -> None:
    async with board_desk(tmp_path, repository=True) as desk:
        path = desk.root / "a.txt"
        path.write_text("".join(f"{number}\n" for number in range(30)))
        other = desk.board.open()
        await desk.call(run_shell, {"command": "sed -i 's/^3$/three/' a.txt"})
        await desk.call(run_shell, {"command": "sed -i 's/^20$/twenty/' a.txt"}, task=other)
        path.write_text(path.read_text().replace("11\n", "eleven\n"))
        shown = task_diff(desk.undo, 2, str(desk.root))
        assert [(one.path, one.added, one.removed) for one in shown.files] == [("a.txt", 1, 1)]
        assert "-20\n+twenty\n" in shown.files[0].diff
        undo(desk, 1)
        assert path.read_text() == "".join(
            {11: "eleven\n", 20: "twenty\n"}.get(number, f"{number}\n") for number in range(30)
        )
        assert task_diff(desk.undo, 1, str(desk.root)).files == ()


async def test_forty_cancelled_commands_leave_a_log_that_takes_all_back(tmp_path: Path) -> None:
    async with board_desk(tmp_path) as desk:
        (desk.root / "a.txt").write_text("0\n")
        for turn in range(40):
            work = asyncio.ensure_future(
                desk.call(run_shell, {"command": f"echo {turn} >> a.txt; sleep 300"})
            )
            await asyncio.sleep((turn % 10) * 0.004)
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
        while desk.undo.entries():
            undo(desk)
        assert (desk.root / "a.txt").read_text() == "0\n"


async def test_a_command_judged_to_only_read_takes_no_checkpoint(tmp_path: Path) -> None:
    async with board_desk(tmp_path, repository=True) as desk:
        approved = desk.board.task(1).services.services[Approved]
        assert isinstance(approved, Approved)
        approved.harden("direct-1", {"GIT_OPTIONAL_LOCKS": "0"})
        await desk.call(run_shell, {"command": "ls"})
        assert not os.path.exists(tmp_path / "session/checkpoints")
        await desk.call(run_shell, {"command": "ls"})
        assert os.path.exists(tmp_path / "session/checkpoints")


async def test_moves_and_deletions_need_no_look_at_the_tree(tmp_path: Path) -> None:
    async with board_desk(tmp_path, repository=True) as desk:
        (desk.root / "a.txt").write_text("a\n")
        await desk.call(move_file, {"source": "a.txt", "target": "b.txt"})
        await desk.call(delete_file, {"path": "b.txt"})
        assert not os.path.exists(tmp_path / "session/checkpoints")
        assert [undo(desk), undo(desk)] == ["delete_file", "move_file"]
        assert (desk.root / "a.txt").read_text() == "a\n"


async def test_what_another_task_moves_meanwhile_is_not_an_effect_of_a_command(tmp_path: Path) -> None:
    async with board_desk(tmp_path, repository=True) as desk:
        (desk.root / "a.txt").write_text("a\n")
        (desk.root / "dir").mkdir()
        (desk.root / "dir/c.txt").write_text("c\n")
        other = desk.board.open()
        wait = "echo x > x.txt; until [ -e go ]; do sleep 0.01; done"
        running = asyncio.ensure_future(desk.call(run_shell, {"command": wait}))
        await until(lambda: (desk.root / "x.txt").exists())
        await desk.call(move_file, {"source": "dir", "target": "lib"}, task=other)
        await desk.call(delete_file, {"path": "a.txt"}, task=other)
        (desk.root / "go").touch()
        await running
        undo(desk, 1)
        left = sorted(str(path.relative_to(desk.root)) for path in desk.root.rglob("*.txt"))
        assert [name for name in left if not name.startswith(".")] == ["lib/c.txt"]
        undo(desk, 2)
        undo(desk, 2)
        assert (desk.root / "dir/c.txt").read_text() + (desk.root / "a.txt").read_text() == "c\na\n"


async def test_what_the_person_and_an_undo_changed_is_told_with_the_next_result(tmp_path: Path) -> None:
    async with board_desk(tmp_path, repository=True) as desk:
        for name in ("a.txt", "b.txt"):
            (desk.root / name).write_text("one\ntwo\n")
            await desk.call(read_file, {"path": name})
        await desk.call(edit_file, {"path": "a.txt", "old": "two", "new": "2"})
        undo(desk, 1)
        (desk.root / "b.txt").write_text("one\nperson\n")
        desk.board.task(1).checked_at -= LOOK_EVERY_S
        told = await desk.call(list_files, {})
        assert told.text.partition("[files you have read changed]\n")[2].split("\n") == [
            "b.txt changed since you read it:",
            "-2     two",
            "+2     person",
            "a.txt changed since you read it:",
            "-2     2",
            "+2     two",
        ]
        assert "changed" not in (await desk.call(list_files, {})).text


def test_a_call_that_is_judged_again_as_writing_is_not_taken_for_one_that_reads() -> None:
    approved = Approved()
    approved.harden("c1", {"GIT_OPTIONAL_LOCKS": "0"})
    assert approved.only_reads("c1")
    approved.harden("c1", {})
    assert (approved.only_reads("c1"), approved.environment("c1")) == (False, {})
