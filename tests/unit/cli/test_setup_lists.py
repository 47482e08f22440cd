"""Lists of sessions as a person sees them: one line each, without what nobody looks for."""

from __future__ import annotations

import json
from pathlib import Path

from tests.fake_llm.script import failure, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program
from tests.support.terminal import on_terminal


async def _sessions(program: Program, *titles: str) -> None:
    """Sessions as a terminal begins them."""
    for title in titles:
        async with on_terminal(program) as terminal:
            await terminal.line(title)
            await terminal.has_shown("answered")
            assert await terminal.leaves() == 0


async def test_RU_A14_exec_runs_and_unanswered_prompts_are_left_out_without_all(tmp_path: Path) -> None:
    async with FakeLLM(
        lambda asked: failure(400) if asked.last_user_text == "bad" else reply("answered")
    ) as server:
        program = Program(tmp_path, server.url)
        await _sessions(program, "mine")
        await program.run("exec", "theirs")
        await program.run("exec", "bad")
        short, full = await program.run("sessions"), await program.run("sessions", "--all")
        objects = json.loads((await program.run("sessions", "--all", "--json")).out)
    assert [line.split()[-1] for line in short.out.splitlines()] == ["mine"]
    assert "2 sessions hidden (from exec, or without an answer); --all shows them" in short.err
    assert [line.split()[-1] for line in full.out.splitlines()] == ["bad", "theirs", "mine"]
    assert [(one["title"], one["headless"], one["answered"]) for one in objects] == [
        ("bad", True, False),
        ("theirs", True, True),
        ("mine", False, True),
    ]


async def test_RU_A14_resume_alone_lets_a_person_choose_by_number(tmp_path: Path) -> None:
    async with FakeLLM(lambda asked: reply(f"answered: {asked.last_user_text}")) as server:
        program = Program(tmp_path, server.url)
        await _sessions(program, "the first one", "the second one")
        async with on_terminal(program, "resume", ready="Which one?") as terminal:
            await terminal.shows("Enter for 1")
            _head, _rule, *rows, _question = (row.split(" │ ") for row in terminal.rows())
            assert [(row[0].strip(), row[-1]) for row in rows] == [
                ("2", "the first one"),
                ("1", "the second one"),
            ]
            await terminal.type("2\r")
            await terminal.has_shown("answered: the first one")
            assert await terminal.leaves() == 0
