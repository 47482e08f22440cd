"""A command that the sandbox blocked, in a terminal: the person opens what it needs."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from buddy.agent.messages import ToolMessage
from tests.capabilities import requires
from tests.fake_llm.script import call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program
from tests.support.terminal import Terminal, on_terminal
from tests.support.through_the_proxy import FETCH, far_server


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that is not in /tmp, which is private inside."""
    made = Path(os.path.realpath(tempfile.mkdtemp(prefix=".buddy-test-", dir=os.path.expanduser("~"))))
    yield made
    shutil.rmtree(made)


@pytest.mark.slow
@requires("bwrap")
async def test_a_blocked_folder_is_opened_by_one_answer(folder: Path) -> None:
    made = "mkdir -p ~/.tool && echo kept > ~/.tool/file"
    async with FakeLLM([reply(call("run_shell", command=made)), reply("All done.")]) as server:
        program = Program(folder, server.url)
        program.configure({"sandbox": {"level": "auto"}, "permissions": {"mode": "auto"}})
        program.files(main__py="print(1)\n")
        async with on_terminal(program, columns=110) as terminal:
            await terminal.line("go")
            await terminal.has_shown("the sandbox blocked writing to ~/.tool")
            assert not (program.home / ".tool").exists()
            await asyncio.sleep(0.5)
            await terminal.line("y")
            await terminal.has_shown("All done.")
        assert (program.home / ".tool" / "file").read_text() == "kept\n"
        (answer,) = [one.text for one in await program.history() if isinstance(one, ToolMessage)]
    assert (
        "[the sandbox blocked writing to ~/.tool; the person allowed it, and the command ran again]" in answer
    )


def requests(terminal: Terminal) -> list[str]:
    """The headings of the questions so far."""
    return [row for row in terminal.everything() if row.startswith("request ")]


def ended(terminal: Terminal) -> bool:
    return any("All done." in row for row in terminal.rows())


@pytest.mark.slow
@requires("bwrap")
@pytest.mark.parametrize(("answer", "asks_again", "is_saved"), [("y", 1, 0), ("a", 0, 0), ("p", 0, 1)])
async def test_a_blocked_host_is_opened_once_for_the_session_or_by_a_rule(
    folder: Path, answer: str, asks_again: int, is_saved: int
) -> None:
    async with far_server() as far:
        fetch = reply(call("run_shell", command=f"python3 fetch.py {far}"))
        async with FakeLLM([fetch, reply("First done."), fetch, reply("All done.")]) as server:
            program = Program(folder, server.url)
            program.configure(
                {
                    "sandbox": {"level": "auto", "networks": ["127.0.0.0/8"]},
                    "permissions": {"mode": "auto"},
                }
            )
            program.files(fetch__py=FETCH)
            async with on_terminal(program, columns=110) as terminal:
                await terminal.line("go")
                await terminal.has_shown(
                    f"the sandbox blocked the host {far}. Allow that and run the command"
                )
                await terminal.has_shown(f"p always: {far} in this project's sandbox")
                await asyncio.sleep(0.5)
                await terminal.line(answer)
                await terminal.has_shown("answer of the far server", "First done.")
                await terminal.line("again")
                await terminal.until(lambda: len(requests(terminal)) == 2 or ended(terminal), "an end")
                assert len(requests(terminal)) == 1 + asks_again
                if asks_again:
                    await asyncio.sleep(0.5)
                    await terminal.line("n")
                await terminal.has_shown("All done.")
            first, second = [one.text for one in await program.history() if isinstance(one, ToolMessage)]
            saved = program.config / "settings.toml"
            assert (f'host = "{far}"' in saved.read_text() if saved.exists() else False) is bool(is_saved)
    assert "answer of the far server" in first
    assert ("answer of the far server" in second) is not bool(asks_again)
    assert ("the person refused that]" in second) is bool(asks_again)


@pytest.mark.slow
@requires("bwrap")
async def test_a_task_in_a_worktree_changes_its_own_tree_and_commits_and_nothing_else(folder: Path) -> None:
    script = "echo new > made; echo x >> {main}; git add made && git commit -qm made && echo committed\n"
    async with FakeLLM([reply(call("run_shell", command="bash work.sh")), reply("All done.")]) as server:
        program = Program(folder, server.url)
        program.configure({"sandbox": {"level": "auto"}, "permissions": {"mode": "auto"}})
        for key, value in (("name", "A"), ("email", "a@example.org")):
            program.git("config", f"user.{key}", value)
        program.files(main__py="print(1)\n", work__sh=script.format(main=program.repo / "main.py"))
        async with on_terminal(program, columns=110) as terminal:
            await terminal.line("/worktree go")
            await terminal.has_shown(
                "the sandbox blocked writing to"
            )  # the main tree, which bash complains about
            await asyncio.sleep(0.5)
            await terminal.line("n")
            await terminal.has_shown("All done.")
            worktrees = [
                one for one in (program.repo / ".buddyx/worktrees").iterdir() if (one / "made").exists()
            ]
    assert [len(worktrees), (program.repo / "main.py").read_text()] == [1, "print(1)\n"]
    assert not (program.repo / "made").exists()
    assert "made" in program.git("log", "--all", "--format=%s").split()
