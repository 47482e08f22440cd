"""The receipt at the end of a task, and again when the session is opened anew: the whole program on a pty."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program
from tests.support.terminal import on_terminal

SEEN_S = 0.4


def model(asked: Asked) -> Reply:
    """Edits a program and runs it, then says so."""
    match sum(role == "tool" for role, _text in asked.turns):
        case 0:
            return reply(call("edit_file", path="main.py", old="print(1)", new="print(2)"))
        case 1:
            return reply(call("run_shell", command="python3 main.py"))
        case _:
            return reply("It prints 2 now.")


@pytest.mark.slow
async def test_E10_a_task_ends_with_a_receipt_that_a_resume_shows_again(tmp_path: Path) -> None:
    rows = ("changed    main.py +1 −1", "checked    python3 main.py: ran without an error")
    async with FakeLLM(model) as server:
        program = Program(tmp_path, server.url)
        program.files(main__py="print(1)\n")
        async with on_terminal(program) as terminal:
            await terminal.line("print 2")
            previews = {
                "edit_file main.py": "│ edit main.py",
                "run_shell python3 main.py": "│ python3 main.py",
            }
            for title, preview in previews.items():
                await terminal.shows(preview)
                await asyncio.sleep(SEEN_S)
                await terminal.line("y")
                await terminal.has_shown(f"approved once: {title}")
            await terminal.has_shown("It prints 2 now.", *rows)
            assert await terminal.leaves() == 0
        async with on_terminal(program, "-c") as terminal:
            await terminal.has_shown("It prints 2 now.", *rows)
            assert await terminal.leaves() == 0
