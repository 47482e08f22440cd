"""Receipts of real turns on a board."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from buddy.agent.events import TurnFinished
from buddy.agent.receipt import Receipt, receipt_rows
from buddy.llm.scripted import Reply, Say, ScriptedCall
from buddy.tasks.receipts import check_of
from tests.support.scripted_session import ScriptedSession, scripted_session
from tests.support.session_files import store_in


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("pytest -q", ("tests", True)),
        (".venv/bin/python -m pytest tests/x.py", ("tests", True)),
        ("cd app && npm test", ("tests", True)),
        ("CI=1 uv run pytest", ("tests", True)),
        ("timeout 60 go test ./...", ("tests", True)),
        ("cargo build --release", ("build", True)),
        ("make", ("build", True)),
        ("make -C sub test", ("tests", True)),
        ("make -j8 clean", None),
        ("make -C sub", ("build", True)),
        ("make test", ("tests", True)),
        ("npx tsc --noEmit", ("build", True)),
        ("ruff check .", ("check", True)),
        ("pytest -q | tail -3", ("tests", False)),
        ("pytest -q; echo done", ("tests", False)),
        ("pytest || true", ("tests", False)),
        ("make -s || pytest", ("build", False)),
        ("pytest 2>&1", ("tests", True)),
        ("echo pytest", None),
        ("cat pytest.ini", None),
        ("pytestify", None),
        ("git commit -m 'pytest'", None),
        ("echo 'unfinished", None),
        ("", None),
    ],
)
def test_commands_that_check_are_recognised(command: str, expected: tuple[str, bool] | None) -> None:
    assert check_of(command) == expected


def tool_call(name: str, **arguments: object) -> Reply:
    return (ScriptedCall(name, json.dumps(arguments)),)


async def receipt_after(
    session: ScriptedSession, task_id: int = 1
) -> tuple[TurnFinished, list[tuple[str, str]]]:
    session.board.submit(task_id, "go")
    await session.board.wait(task_id)
    ended = next(one for one in reversed(session.events(task_id)) if isinstance(one, TurnFinished))
    return ended, receipt_rows(ended.receipt) if ended.receipt is not None else []


TEST = "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): self.assertEqual(1, 1)\n"


async def test_E10_an_edit_a_command_and_a_test_are_one_receipt(tmp_path: Path) -> None:
    script = [
        tool_call("edit_file", path="a.txt", old="one", new="two\nthree"),
        tool_call("run_shell", command="echo x > b.txt"),
        tool_call("run_shell", command=f"{sys.executable} -m unittest -v test_it 2>&1"),
        (Say("All done, believe me."),),
    ]
    async with scripted_session(tmp_path, script) as session:
        (session.root / "a.txt").write_text("one\n")
        (session.root / "test_it.py").write_text(TEST)
        (session.root / ".gitignore").write_text("__pycache__/\n")
        ended, rows = await receipt_after(session)
        state = session.parts.journal.state()
    assert rows[0] == ("changed", "a.txt +2 −1 · b.txt +1 (new, by a command)")
    assert rows[1][0] == "checked"
    assert rows[1][1].endswith(": 1 passed")
    assert len(rows) == 2
    assert state.tasks[0].receipt == ended.receipt


async def test_E10_an_edit_after_the_tests_is_unchecked_and_refusals_are_told(tmp_path: Path) -> None:
    script = [
        tool_call("run_shell", command=f"{sys.executable} -m unittest test_it"),
        tool_call("edit_file", path="a.py", old="one", new="two"),
        tool_call("edit_file", path="a.py", old="nowhere", new="two"),
        (Say("ok"),),
    ]
    async with scripted_session(tmp_path, script) as session:
        (session.root / "a.py").write_text("one\n")
        (session.root / "test_it.py").write_text(TEST)
        (session.root / ".gitignore").write_text("__pycache__/\n")
        ended, rows = await receipt_after(session)
    assert rows == [
        ("changed", "a.py +1 −1"),
        ("unchecked", "no test or build ran after the last change; 1 earlier run came before it"),
        ("failed", "1 call"),
    ]
    assert (ended.refused, ended.failed) == (0, 1)


async def test_E10_a_turn_that_changed_nothing_has_none(tmp_path: Path) -> None:
    script = [tool_call("read_file", path="a.txt"), (Say("ok"),)]
    async with scripted_session(tmp_path, script) as session:
        (session.root / "a.txt").write_text("one\n")
        ended, _rows = await receipt_after(session)
    assert ended.receipt is None


async def test_E10_what_was_changed_back_is_no_change(tmp_path: Path) -> None:
    script = [
        tool_call("edit_file", path="a.txt", old="one", new="two"),
        tool_call("edit_file", path="a.txt", old="two", new="one"),
        (Say("ok"),),
    ]
    async with scripted_session(tmp_path, script) as session:
        (session.root / "a.txt").write_text("one\n")
        ended, _rows = await receipt_after(session)
    assert ended.receipt is None


async def test_RU_B4_a_background_tasks_note_tells_what_failed_and_its_receipt(tmp_path: Path) -> None:
    script = [
        tool_call("write_file", path="new.py", content="a\nb\n"),
        tool_call("edit_file", path="missing.txt", old="x", new="y"),
        (Say("All is written."),),
    ]
    async with scripted_session(tmp_path, script) as session:
        task = session.board.open()
        task.background = True
        session.board.submit(task.task_id, "write it")
        await session.board.wait(task.task_id)
        (note,) = session.board.notes.waiting
    assert "has finished (1 call failed)" in note.heading
    assert note.text.startswith("All is written.")
    assert "changed    new.py +2 (new)" in note.text
    assert "unchecked  no test or build ran" in note.text


async def test_E10_a_receipt_comes_back_with_the_journal(tmp_path: Path) -> None:
    script = [tool_call("write_file", path="new.txt", content="a\n"), (Say("ok"),)]
    async with scripted_session(tmp_path, script) as session:
        ended, _rows = await receipt_after(session)
    loaded = store_in(tmp_path).read("last")
    assert isinstance(ended.receipt, Receipt)
    assert loaded.tasks[0].record.receipt == ended.receipt


@pytest.mark.parametrize(
    ("command", "row"),
    [
        ("python3 main.py", ("checked", "python3 main.py: ran without an error")),
        ("cd sub && python3 main.py", ("checked", "cd sub && python3 main.py: failed (exit 3)")),
        ("python3 main.py | cat", ("checked", "python3 main.py | cat: result not known")),
        ("python3 other.py", ("unchecked", "no test or build ran")),
        ("cat main.py", ("unchecked", "no test or build ran")),
    ],
)
async def test_E10_running_the_script_that_was_changed_is_a_check(
    tmp_path: Path, command: str, row: tuple[str, str]
) -> None:
    folder = "sub/" if command.startswith("cd") else ""
    code = "raise SystemExit(3)\n" if folder else "print(1)\n"
    script = [
        tool_call("write_file", path=f"{folder}main.py", content=code),
        tool_call("run_shell", command=command),
        (Say("It works."),),
    ]
    async with scripted_session(tmp_path, script) as session:
        (session.root / "other.py").write_text("print(2)\n")
        _ended, rows = await receipt_after(session)
    assert rows[1][0] == row[0]
    assert rows[1][1].startswith(row[1])


async def test_E10_a_later_turn_that_changed_nothing_has_no_receipt_in_the_journal(tmp_path: Path) -> None:
    script = [tool_call("write_file", path="new.py", content="a\n"), (Say("ok"),), (Say("no"),)]
    async with scripted_session(tmp_path, script) as session:
        await receipt_after(session)
        await receipt_after(session)
    assert store_in(tmp_path).read("last").tasks[0].record.receipt is None
