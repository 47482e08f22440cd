"""An approval of a command says what it would delete (safety.md, network and deletes)."""

from __future__ import annotations

import threading
from pathlib import Path

from buddy.agent.display import Command, Plain
from buddy.agent.tool import Tool, ToolContext, tool
from buddy.app.policy import Judge
from buddy.safety.paths import Boundary
from buddy.safety.policy.facts import Facts
from buddy.tools.shell import run_shell
from tests.support.board_session import board_session
from tests.support.laws import calls, says


@tool(risk="high")
async def deploy(_ctx: ToolContext, source: str, destination: str) -> str:
    """Deploy."""
    return source + destination


async def previewed(root: Path, command: str) -> object:
    """Return the approval of a command before it runs; it is denied afterwards."""
    return await asked_of(root, run_shell, f'{{"command": "{command}"}}')


async def asked_of(root: Path, tool: Tool, arguments: str) -> object:
    """Return the approval of a call before it runs."""
    boundary = Boundary(str(root), str(root), str(root.parent / "home"))
    async with board_session(root, tool, boundary=boundary, facts=Judge(boundary).facts) as session:
        task_id = 1
        session.script(calls(("c1", tool.name, arguments)), says("ok"))
        session.board.submit(task_id, "clean up")
        asked = await session.asked()
        session.board.inbox.answer(asked.request_id, asked.digest, "denied")
        await session.board.wait(task_id)
        return asked.preview


async def test_an_approval_tells_how_many_files_a_delete_hits(tmp_path: Path) -> None:
    (tmp_path / "work" / "build" / "deep").mkdir(parents=True)
    for number in range(3):
        (tmp_path / "work" / "build" / "deep" / str(number)).touch()
    (tmp_path / "work" / "notes\x1b[2J.txt").touch()

    assert await previewed(tmp_path / "work", "rm -rf build; rm notes*") == Command(
        "rm -rf build; rm notes*",
        "deletes 3 files under build/\ndeletes notes⟨U+001B⟩[2J.txt",
        None,
        "",
        0.0,
    )


async def test_a_delete_of_many_names_shows_the_first_ones(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    for number in range(20):
        (tmp_path / "work" / f"{number:02}.o").touch()

    shown = await previewed(tmp_path / "work", "rm *.o")

    assert isinstance(shown, Command)
    assert shown.output.split("\n") == [f"deletes {number:02}.o" for number in range(7)] + [
        "deletes 13 more paths"
    ]


async def test_a_command_that_deletes_nothing_is_shown_as_it_stands(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()

    assert await previewed(tmp_path / "work", "touch x") == Command("touch x", "", None, "", 0.0)


async def test_a_call_that_has_no_preview_is_shown_with_all_its_arguments(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    given = '{"source": "a", "destination": "b"}'

    assert await asked_of(tmp_path / "work", deploy, given) == Plain("", given)


async def test_commands_are_judged_beside_the_loop(tmp_path: Path) -> None:
    """The analysis walks through the workspace, which may be large: keys must be heard meanwhile."""
    root = tmp_path / "work"
    root.mkdir()
    judge = Judge(Boundary(str(root), str(root), str(root.parent / "home")))
    threads: list[int] = []

    def judged(of: Tool, arguments: object) -> Facts:
        threads.append(threading.get_ident())
        return judge.facts(of, arguments)

    async with board_session(root, run_shell, facts=judged) as session:
        session.script(calls(("c1", "run_shell", '{"command": "rm x"}')), says("ok"))
        session.board.submit(1, "remove it")
        asked = await session.asked()
        session.board.inbox.answer(asked.request_id, asked.digest, "denied")
        await session.board.wait(1)

    assert threads
    assert threading.get_ident() not in threads
