"""Two tasks and the same files: nobody's change is lost, and a refusal says why. REL-054."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from buddy.agent.tool import ToolContext, ToolError, tool
from buddy.tasks.tool_execution import TestWindows
from buddy.tools.builtin import BUILTIN_TOOLS
from buddy.tools.files.edit import edit_file
from buddy.tools.files.read import read_file
from buddy.tools.files.write import write_file
from buddy.tools.shell import run_shell
from buddy.workspace.files.read_tracking import FileViews
from tests.support.scripted_session import ScriptedSession, scripted_session
from tests.support.waiting import until

EDITS = 1000


async def test_REL_054_the_second_whole_file_write_on_an_old_view_is_refused(tmp_path: Path) -> None:
    async with scripted_session(tmp_path) as session:
        path = session.root / "a.txt"
        path.write_text("one\n")
        other = session.board.open()
        await session.call(read_file, {"path": "a.txt"})
        await session.call(read_file, {"path": "a.txt"}, task=other)
        await session.call(write_file, {"path": "a.txt", "content": "first\n"})
        with pytest.raises(ToolError, match="changed since you read it"):
            await session.call(write_file, {"path": "a.txt", "content": "second\n"}, task=other)
        assert path.read_text() == "first\n"


async def test_REL_054_an_edit_whose_text_another_task_changed_is_refused(tmp_path: Path) -> None:
    async with scripted_session(tmp_path) as session:
        path = session.root / "a.txt"
        path.write_text("one\n")
        other = session.board.open()
        await session.call(read_file, {"path": "a.txt"}, task=other)
        await session.call(edit_file, {"path": "a.txt", "old": "one", "new": "two"})
        with pytest.raises(ToolError, match="changed since"):
            await session.call(edit_file, {"path": "a.txt", "old": "one", "new": "three"}, task=other)
        assert path.read_text() == "two\n"


async def test_whole_file_writes_of_different_lines_are_merged_and_that_is_said(tmp_path: Path) -> None:
    async with scripted_session(tmp_path) as session:
        path = session.root / "a.txt"
        lines = [f"line {number}\r\n" for number in range(10)]
        path.write_bytes("".join(lines).encode())
        other = session.board.open()
        await session.call(read_file, {"path": "a.txt"}, task=other)
        await session.call(edit_file, {"path": "a.txt", "old": "line 1\n", "new": "first\n"})
        mine = "".join(lines).replace("\r\n", "\n").replace("line 8", "second")
        result = await session.call(write_file, {"path": "a.txt", "content": mine}, task=other)
        assert "in other lines than yours. Both changes are in it now" in result.text
        assert "first" in result.text
        merged = "".join(lines).replace("line 1\r", "first\r").replace("line 8", "second")
        assert path.read_bytes() == merged.encode()
        # What it has not read it does not know: the next whole write needs a read.
        with pytest.raises(ToolError, match="read"):
            await session.call(write_file, {"path": "a.txt", "content": "x\n"}, task=other)


@pytest.mark.slow
async def test_a_thousand_overlapping_changes_of_two_tasks_lose_nothing(tmp_path: Path) -> None:
    """Every line holds a counter; each change counts one line up from what its task last saw. What was
    accepted is counted beside: in the end every line must hold that count, else an update was lost."""
    chance = random.Random(54)
    async with scripted_session(tmp_path) as session:
        names = [f"f{number}.txt" for number in range(10)]
        for name in names:
            (session.root / name).write_text("".join(f"{line}: 0\n" for line in range(6)))
        tasks = [session.board.task(1), session.board.open()]
        accepted: dict[tuple[str, int], int] = {}
        refusals: list[str] = []

        async def work(at: int) -> None:
            views = tasks[at].services.services[FileViews]
            assert isinstance(views, FileViews)
            for step in range(EDITS // 2):
                name, line = chance.choice(names), chance.randrange(6)
                if views.get(str(session.root / name)) is None or chance.random() < 0.3:
                    await session.call(read_file, {"path": name}, task=tasks[at])
                view = views.get(str(session.root / name))
                assert view is not None
                known = (view.text or "").splitlines()  # what the model was told of the file, by now
                before = known[line]
                after = f"{line}: {int(before.split(': ')[1].split()[0]) + 1} by {at} in {step}"
                try:
                    if chance.random() < 0.5:
                        content = "\n".join([*known[:line], after, *known[line + 1 :]]) + "\n"
                        await session.call(write_file, {"path": name, "content": content}, task=tasks[at])
                    else:
                        edit = {"path": name, "old": before + "\n", "new": after + "\n"}
                        await session.call(edit_file, edit, task=tasks[at])
                except ToolError as error:
                    refusals.append(str(error))
                else:
                    accepted[name, line] = accepted.get((name, line), 0) + 1

        await asyncio.gather(work(0), work(1))
        for name in names:
            found = (session.root / name).read_text().splitlines()
            counts = [int(line.split(": ")[1].split()[0]) for line in found]
            assert counts == [accepted.get((name, line), 0) for line in range(6)], name
        assert sum(accepted.values()) + len(refusals) == EDITS
        assert refusals
        told = ("changed since", "not found", "read", "already")
        assert all(any(words in text for words in told) and len(text) > 40 for text in refusals)


@tool(risk="medium", category="shell", name="check_all", runs_tests=True)
async def slow_tests(ctx: ToolContext) -> str:
    """Tests that run until a file appears."""
    path = Path(ctx.service(dict)["release"])
    while not path.exists():
        await asyncio.sleep(0.005)
    return "1 passed"


def _tests(session: ScriptedSession) -> asyncio.Task[object]:
    release = session.root / "release"
    task = session.board.task(1)
    services = {**task.services.services, dict: {"release": str(release)}}
    task.services = type(task.services)(
        services, task.services.copy, task.services.changes, task.services.forget_shown
    )
    return asyncio.ensure_future(session.call(slow_tests, {}))


async def test_a_write_of_another_task_waits_for_the_end_of_the_tests(tmp_path: Path) -> None:
    async with scripted_session(tmp_path, tools=[*BUILTIN_TOOLS]) as session:
        other = session.board.open()
        tests = _tests(session)
        await until(lambda: session.writes.windows.__dict__["_open"])
        heard: list[str] = []
        write = asyncio.ensure_future(
            session.call(write_file, {"path": "b", "content": "b\n"}, task=other, progress=heard)
        )
        await until(lambda: heard)
        assert heard == ["waiting for the tests of task 1 (at most 60 s)\n"]
        assert not (session.root / "b").exists()
        # The task whose tests run, and commands, don't wait.
        await session.call(write_file, {"path": "mine", "content": "b\n"})
        await session.call(run_shell, {"command": "touch release"}, task=other)
        result = await tests
        await write
        assert (session.root / "b").read_text() == "b\n"
        assert result.text == (
            "1 passed\n\n[other tasks changed files while the tests ran]\n"
            "run_shell of task 2: a command that may have changed anything"
        )


async def test_the_wait_is_bounded_and_the_write_is_told_with_the_outcome(tmp_path: Path) -> None:
    async with scripted_session(tmp_path) as session:
        session.writes.windows = TestWindows(longest_wait_s=0.05)
        other = session.board.open()
        tests = _tests(session)
        await until(lambda: session.writes.windows.__dict__["_open"])
        await session.call(write_file, {"path": "b", "content": "b\n"}, task=other)
        (session.root / "release").touch()
        assert (await tests).text.endswith("write_file of task 2: b")


async def test_a_write_that_waits_can_be_cancelled(tmp_path: Path) -> None:
    async with scripted_session(tmp_path) as session:
        other = session.board.open()
        tests = _tests(session)
        await until(lambda: session.writes.windows.__dict__["_open"])
        heard: list[str] = []
        write = asyncio.ensure_future(
            session.call(write_file, {"path": "b", "content": "b\n"}, task=other, progress=heard)
        )
        await until(lambda: heard)
        write.cancel()
        with pytest.raises(asyncio.CancelledError):
            await write
        (session.root / "release").touch()
        await tests
        assert not (session.root / "b").exists()
