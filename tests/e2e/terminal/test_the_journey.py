"""The journey of a person with two tasks, an approval, a cancel, an end and a return, on a real terminal
against a real server."""

from __future__ import annotations

from pathlib import Path

import pytest

from buddy.workspace.processes.process_tree import strays
from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.legal_history import is_legal
from tests.support.program import Program
from tests.support.terminal import on_terminal

MAIN = "def average(values):\n    return sum(values) / 3\n"
LONG = "".join(f"word{number} " for number in range(4000))


def model(asked: Asked) -> Reply:
    """Looks, then edits; writes tests for a long time; goes on when it is asked to."""
    said = [text for role, text in asked.turns if role == "user"]
    results = len(asked.tool_results)
    if "Continue exactly" in said[-1]:
        return reply("The tests are finished.")
    if any("write tests" in text for text in said):
        if "use pytest" in said[-1]:
            return reply("With pytest: " + LONG, delay_s=0.02)
        return reply(call("run_shell", command="sleep 1.5; echo prepared")) if results < 3 else reply("Hm.")
    if results == 0:
        return reply(
            "I look at main.py. " + "It comes. " * 40, call("read_file", path="main.py"), delay_s=0.01
        )
    if results == 1:
        return reply(call("edit_file", path="main.py", old="/ 3", new="/ len(values)"))
    return reply("The divisor was fixed to three. " + LONG, delay_s=0.02)


@pytest.mark.slow
async def test_the_journey(tmp_path: Path) -> None:
    async with FakeLLM(model) as server:
        program = Program(
            tmp_path, server.url, settings={"permissions": {"allow": ["Bash(sleep 1.5; echo prepared)"]}}
        )
        program.files(main__py=MAIN)
        async with on_terminal(program) as terminal:
            await terminal.line("what does main.py do, and fix the bug")
            await terminal.shows("writing")
            await terminal.type("meanwhile I think")  # typed while it streams
            await terminal.until(lambda: terminal.input_line() == "meanwhile I think")

            # The read ran at once; the edit waits with its diff, and takes no key.
            await terminal.shows("read main.py", "waiting for you")
            await terminal.has_shown("return sum(values) / len(values)")
            await terminal.type(" about it")
            await terminal.until(lambda: terminal.input_line() == "meanwhile I think about it")
            assert (program.repo / "main.py").read_text() == MAIN
            terminal.keys("\x03")
            await terminal.until(lambda: terminal.input_line() == "")
            await terminal.answer("y", "approved once")
            await terminal.until(lambda: "len(values)" in (program.repo / "main.py").read_text(), "the edit")
            footer = terminal.rows()[-1]
            assert "ask" in footer
            assert "fake-model" in footer
            assert "%" in footer

            # A second task, steered by its number.
            await terminal.line("write tests for it &")
            await terminal.has_shown("task 2 started in the background")
            await terminal.line("@2 use pytest")
            await terminal.line("/ps")
            await terminal.has_shown("write tests for it", "▸ 1")
            await terminal.until(lambda: any("use pytest" in one.last_user_text for one in server.requests))

            # Esc cancels the first; the second goes on.
            terminal.keys("\x1b")
            await terminal.has_shown("cancelled")
            await terminal.shows("1 task running")

            # Ctrl+D asks, then leaves, and nothing survives.
            terminal.keys("\x04")
            await terminal.shows("Ctrl+D again")
            terminal.keys("\x04")
            assert await terminal.exit_code() == 0
            assert terminal.is_restored()
            (session_id,) = program.sessions()
            assert any(f"buddy resume {session_id}" in row for row in terminal.everything())
        assert [one for one in strays() if one.session_id == session_id] == []

        async with on_terminal(program, "resume", "--last") as terminal:
            await terminal.has_shown("what does main.py do, and fix the bug", "Task 2 was interrupted")
            await terminal.line("/ps")
            await terminal.has_shown("cancelled", "paused")
            await terminal.line("/continue 2")
            await terminal.has_shown("The tests are finished.")
            assert await terminal.leaves() == 0

    first, second = await program.history(task=1), await program.history(task=2)
    assert is_legal(first) == is_legal(second) == []
