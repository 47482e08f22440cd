"""/undo, /redo, /diff @n, /answer and /tools reload, on a real board."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from buddy.repl.commands.registry import CommandError, builtin_commands
from buddy.repl.context import Context
from buddy.repl.view.blocks import NoteBlock, PlainText, TableBlock, ToolCall
from buddy.tools.ask_user import ask_user
from buddy.tools.files.edit import edit_file
from buddy.tools.files.move import delete_file, move_file
from buddy.tools.grep import grep
from buddy.tools.shell import run_shell
from buddy.workspace.undo.log import Effect
from tests.support.scripted_session import ScriptedSession, scripted_session
from tests.support.waiting import until


class Person:
    """Somebody at the prompt: commands go in, printed blocks and hints come out."""

    def __init__(
        self, session: ScriptedSession, context: Context, printed: list[Any], hints: list[str]
    ) -> None:
        self.session = session
        self.root = session.root
        self._context = context
        self._printed = printed
        self.hints = hints

    async def types(self, line: str) -> list[Any]:
        name, _, argument = line.removeprefix("/").partition(" ")
        self._printed.clear()
        await builtin_commands().find(name).run(self._context, argument)
        return list(self._printed)


@asynccontextmanager
async def person(root: Path) -> AsyncIterator[Person]:
    async with scripted_session(root, repository=True) as session:
        printed: list[Any] = []
        hints: list[str] = []
        screen = SimpleNamespace(print=lambda *blocks: printed.extend(blocks), hint=hints.append)
        context = Context(session.session, screen, None, None, None, "", None, None)
        yield Person(session, context, printed, hints)


async def test_two_changes_of_one_file_differ_in_the_list(tmp_path: Path) -> None:
    async with person(tmp_path) as one:
        with pytest.raises(CommandError, match="there is nothing to undo"):
            await one.types("/undo list")
        (one.root / "a.txt").write_text("1\n2\n3\n4\n5\n6\n7\n8\n9\n")
        await one.session.call(edit_file, {"path": "a.txt", "old": "9", "new": "nine\n10"})
        await one.session.call(edit_file, {"path": "a.txt", "old": "1\n2", "new": "one\n2"})
        (table,) = await one.types("/undo list")
        assert table.rows == (
            (table.rows[0][0], "task 1", "edit", "+1 −1", "1", "a.txt"),
            (table.rows[1][0], "task 1", "edit", "+2 −1", "9", "a.txt"),
        )
        assert int(table.rows[0][0]) > int(table.rows[1][0])
        assert await one.types("/undo list @1") == [table]
        with pytest.raises(CommandError, match="expected the number of a task"):
            await one.types("/undo list of mine")
        assert (one.root / "a.txt").read_text().startswith("one\n")


async def test_undo_takes_back_commands_and_edits_and_redo_makes_them_again(tmp_path: Path) -> None:
    async with person(tmp_path) as one:
        (one.root / "a.txt").write_text("1\n")
        await one.session.call(edit_file, {"path": "a.txt", "old": "1", "new": "2"})
        await one.session.call(run_shell, {"command": "echo 3 >> a.txt"})
        said = await one.types("/undo")
        assert said == [
            NoteBlock(
                "info",
                "Undone: a.txt (task 1's command). /redo brings it back. Files git ignores are not covered.",
            )
        ]
        await one.types("/undo")
        assert (one.root / "a.txt").read_text() == "1\n"
        await one.types("/redo")
        assert await one.types("/redo") == [NoteBlock("info", "Redone: a.txt (task 1's command).")]
        assert (one.root / "a.txt").read_text() == "2\n3\n"


def ran_long(one: Person, files: dict[str, tuple[str | None, str | None]]) -> None:
    """As after a command that took a minute and a half, and left these files: before, after."""
    for name, (_before, after) in files.items():
        if after is not None:
            (one.root / name).write_text(after)
    effects = [
        Effect(
            str(one.root / name),
            None if before is None else before.encode(),
            None if after is None else after.encode(),
            0o644 if before is not None else 0,
            0o644 if after is not None else 0,
        )
        for name, (before, after) in files.items()
    ]
    one.session.undo.record(1, "long", "run_shell", effects, seconds=90)


async def test_what_a_long_command_changed_is_shown_before_it_is_taken_back(tmp_path: Path) -> None:
    async with person(tmp_path) as one:
        ran_long(one, {"made.txt": (None, "made\n"), "mine.txt": ("1\n", "1\nmine\n")})
        for line, rest in (
            ("/undo", " · /undo without FILE … leaves files unchanged"),
            ("/undo @1 all", ""),
        ):
            shown, said = await one.types(line)
            assert isinstance(shown, ToolCall)
            assert [file.diff for file in shown.display.files] == [
                "@@ -0,0 +1 @@\n+made\n",
                "@@ -1 +1,2 @@\n 1\n+mine\n",
            ]
            assert said.text == (
                "Nothing is undone yet. The command ran for 1 m 30 s: files you saved meanwhile "
                f"count as its changes. {line} yes 1 undoes it{rest}"
            )
        assert (one.root / "mine.txt").read_text() == "1\nmine\n"
        (shown, _) = await one.types("/undo yes")
        assert isinstance(shown, ToolCall), "a yes to nothing in particular"
        (said,) = await one.types("/undo yes 1")
        assert said.text.startswith("Undone: made.txt, mine.txt (task 1's command). /redo brings")
        assert (one.root / "mine.txt").read_text() == "1\n"
        assert not (one.root / "made.txt").exists()
        await one.types("/redo")
        assert (one.root / "mine.txt").read_text() == "1\nmine\n"


async def test_a_yes_means_the_change_that_was_shown(tmp_path: Path) -> None:
    async with person(tmp_path) as one:
        ran_long(one, {"a.txt": ("1\n", "2\n")})
        await one.types("/undo")
        ran_long(one, {"b.txt": (None, "in the background\n")})
        with pytest.raises(
            CommandError,
            match=r"a different one now: b\.txt \(task 1's command\)\. Nothing was undone",
        ):
            await one.types("/undo yes 1")
        assert (one.root / "a.txt").read_text() == "2\n"
        assert (one.root / "b.txt").read_text() == "in the background\n"


async def test_files_can_be_left_out_of_an_undo_and_stay_out_of_its_redo(tmp_path: Path) -> None:
    async with person(tmp_path) as one:
        ran_long(one, {"a.txt": ("1\n", "2\n"), "my notes.txt": (None, "mine\n")})
        with pytest.raises(CommandError, match=r"other\.txt is not among the files of that change: a\.txt"):
            await one.types("/undo without other.txt")
        with pytest.raises(CommandError, match="nothing would be left to take back"):
            await one.types("/undo without a.txt 'my notes.txt'")
        with pytest.raises(CommandError, match="the file names can't be parsed: No closing quotation"):
            await one.types("/undo without 'a")
        (said,) = await one.types("/undo without 'my notes.txt'")
        assert said.text.startswith("Undone: a.txt (task 1's command). ")
        assert [(one.root / name).read_text() for name in ("a.txt", "my notes.txt")] == ["1\n", "mine\n"]
        (one.root / "my notes.txt").write_text("more of mine\n")
        await one.types("/redo @1")
        assert [(one.root / name).read_text() for name in ("a.txt", "my notes.txt")] == [
            "2\n",
            "more of mine\n",
        ]
        with pytest.raises(CommandError, match=r"expected /undo \[@N \[all\]\], .* yes ID or"):
            await one.types("/undo @1 all without a.txt")


async def test_undo_over_the_persons_work_is_refused_and_names_the_way(tmp_path: Path) -> None:
    async with person(tmp_path) as one:
        path = one.root / "a.txt"
        path.write_text("1\n2\n3\n4\n")
        await one.session.call(run_shell, {"command": "sed -i s/1/one/ a.txt"})
        path.write_text(path.read_text() + "mine\n")
        with pytest.raises(CommandError, match=r"something else after that edit.*/undo @1 undoes its"):
            await one.types("/undo")
        await one.types("/undo @1")
        assert path.read_text() == "1\n2\n3\n4\nmine\n"
        await one.types("/redo @1")
        assert path.read_text() == "one\n2\n3\n4\nmine\n"


async def test_all_of_a_task_is_taken_back_and_nothing_of_another(tmp_path: Path) -> None:
    async with person(tmp_path) as one:
        other = one.session.board.open()
        for step in range(3):
            await one.session.call(run_shell, {"command": f"echo {step} > mine{step}"})
            await one.session.call(run_shell, {"command": f"echo {step} > other{step}"}, task=other)
        assert len(await one.types("/undo @1 all")) == 3
        assert sorted(path.name for path in one.root.iterdir() if path.is_file()) == [
            "other0",
            "other1",
            "other2",
        ]
        with pytest.raises(CommandError, match="no edit to take back"):
            await one.types("/undo @1")
        with pytest.raises(CommandError, match=r"expected /undo \[@N \[all\]\], "):
            await one.types("/undo @1 some")


async def test_diff_of_a_task_shows_what_stands(tmp_path: Path) -> None:
    async with person(tmp_path) as one:
        with pytest.raises(CommandError, match="task 1 has no changes that could be shown"):
            await one.types("/diff @1")
        await one.session.call(run_shell, {"command": "echo 1 > a.txt"})
        await one.session.call(run_shell, {"command": "echo 2 >> a.txt"})
        (shown,) = await one.types("/diff @1")
        assert isinstance(shown, ToolCall)
        assert shown.title == "diff of task 1"
        assert shown.display.files[0].diff == "@@ -0,0 +1,2 @@\n+1\n+2\n"


async def test_a_question_is_answered_at_the_prompt(tmp_path: Path) -> None:
    async with person(tmp_path) as one:
        with pytest.raises(CommandError, match="no question is open"):
            await one.types("/answer yes")
        work = asyncio.ensure_future(
            one.session.call(ask_user, {"questions": [{"question": "Which?", "options": ["a", "b"]}]})
        )
        await until(lambda: one.session.questions.waiting())
        (shown,) = await one.types("/answer")
        assert isinstance(shown, PlainText)
        with pytest.raises(CommandError, match="options 1 to 2"):
            await one.types("/answer 9")
        await one.types("/answer 2")
        assert (await work).text == "Which?\n→ b"
        assert one.hints == ["answered question 1 of task 1"]


async def test_tools_are_reloaded_and_listed_with_their_source(tmp_path: Path) -> None:
    async with person(tmp_path) as one:
        path = one.root / ".buddyx/ext/a.py"
        path.parent.mkdir()
        assert await one.types("/tools reload") == [NoteBlock("info", "plug-ins: nothing changed")]
        path.write_text(
            "from buddy.agent.tool import tool\n@tool()\nasync def mine(ctx, x: int) -> str:\n"
            '    """Mine."""\n    return "x"\n'
        )
        assert await one.types("/tools reload") == [NoteBlock("info", "new or changed: mine")]
        (table,) = await one.types("/tools")
        assert ("mine", "high", "other", str(path), "Mine.") in table.rows
        path.write_text("1 / 0")
        problem, said = await one.types("/tools reload")
        assert f"{path}:1: not loaded: ZeroDivisionError" in problem.text
        assert said == NoteBlock("info", "removed: mine")


async def test_undo_names_both_ends_of_a_move_and_what_was_deleted(tmp_path: Path) -> None:
    async with person(tmp_path) as one:
        (one.root / "a.txt").write_text("1\n")
        await one.session.call(move_file, {"source": "a.txt", "target": "b.txt"})
        await one.session.call(delete_file, {"path": "b.txt"})
        said = [await one.types(line) for line in ("/undo", "/undo @1", "/redo")]
        assert said == [
            [NoteBlock("info", "Undone: b.txt (task 1's deletion). /redo brings it back.")],
            [NoteBlock("info", "Undone: a.txt, b.txt (task 1's move). /redo brings it back.")],
            [NoteBlock("info", "Redone: a.txt, b.txt (task 1's move).")],
        ]
        assert (one.root / "b.txt").read_text() == "1\n"


async def test_names_that_are_no_text_are_shown_visibly(tmp_path: Path) -> None:
    async with person(tmp_path) as one:
        await one.session.call(run_shell, {"command": "echo x > $'a\\xff\\033[31m'"})
        assert await one.types("/undo") == [
            NoteBlock(
                "info",
                "Undone: a⟨U+DCFF⟩⟨U+001B⟩[31m (task 1's command). /redo brings it back. "
                "Files git ignores are not covered.",
            )
        ]
        assert [name for name in os.listdir(one.root) if name.startswith("a")] == []


async def test_restore_lists_the_trash_and_puts_back_by_name_path_or_the_last(tmp_path: Path) -> None:
    async with person(tmp_path) as one:
        with pytest.raises(CommandError, match="the trash is empty"):
            await one.types("/restore")
        (one.root / "sub").mkdir()
        for name in ("a.txt", "sub/b.txt", "c.txt"):
            (one.root / name).write_text(name)
            await one.session.call(delete_file, {"path": name})
        (listed,) = await one.types("/restore list")
        assert isinstance(listed, TableBlock)
        assert {row[1:4] for row in listed.rows} == {
            (name, "task 1", f"{len(name)} B") for name in ("a.txt", "sub/b.txt", "c.txt")
        }
        assert all(row[4].endswith(" s ago)") for row in listed.rows)
        assert "no files" in (await one.session.call(grep, {"pattern": "b.txt"})).text
        said = [await one.types(f"/restore {which}") for which in ("last", "sub/b.txt", "a.txt")]
        assert "sub/b.txt" in (await one.session.call(grep, {"pattern": "b.txt"})).text
        assert [text for (note,) in said for text in [note.text]] == [
            "restored: c.txt",
            "restored: sub/b.txt",
            "restored: a.txt",
        ]
        await one.session.call(delete_file, {"path": "c.txt"})
        with pytest.raises(CommandError, match="nothing in the trash is called 'zz'; /restore lists"):
            await one.types("/restore zz")
        (one.root / "c.txt").write_text("other")
        with pytest.raises(CommandError, match="exists again"):
            await one.types("/restore c.txt")
