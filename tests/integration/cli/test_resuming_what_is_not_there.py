"""Sessions that are not there, and turns that are taken up without a prompt: both are said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fake_llm.script import failure, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program
from tests.support.terminal import on_terminal


@pytest.mark.slow
@pytest.mark.parametrize("model", ["openai/fake-model", ""], ids=["with-model", "without"])
async def test_a_session_nobody_knows_is_said_on_a_terminal_too_and_no_other_one_is_opened(
    tmp_path: Path, model: str
) -> None:
    async with FakeLLM([reply("Hello.")]) as server:
        program = Program(tmp_path, server.url)
        await program.run("exec", "one")
        (first,) = program.sessions()
        program.configure({"api": {"model": model}})
        wrong = ("0" if first[0] != "0" else "1") + first[1:]
        for arguments, said in (
            (("resume", wrong, "go on"), f"did you mean {first}?"),
            (("-r", "WRONG", "go on"), "see `buddy sessions`"),
        ):
            async with on_terminal(program, *arguments, columns=200, ready="there is no session") as terminal:
                assert await terminal.exit_code() == 2
                await terminal.has_shown(
                    f"there is no session '{arguments[1]}' in {program.repo}; {said}", "not sent: go on"
                )
                assert "resume with" not in "".join(terminal.everything())
        assert program.sessions() == [first]


async def test_a_turn_that_is_taken_up_without_a_prompt_says_so(tmp_path: Path) -> None:
    async with FakeLLM([failure(400, "not like this"), reply("Here it is."), reply("More.")]) as server:
        program = Program(tmp_path, server.url)
        assert (await program.run("exec", "fix the bug")).code == 1
        ran = await program.run("resume", "--last", stdin=b"")
        assert (ran.code, ran.out) == (0, "Here it is.\n")
        (told,) = ran.told()
        assert told.startswith("no prompt given: task 1 (fix the bug) continues where it stopped (")
        finished = await program.run("resume", "--last", stdin=b"")
        assert (finished.code, finished.told()) == (
            2,
            ["task 1 has nothing to continue: the model had finished"],
        )
        assert (await program.run("resume", "--last", "more")).told() == []
