"""What `buddy --help` and a mistaken option say."""

from __future__ import annotations

from pathlib import Path

import pytest

from buddy.cli.arguments import COMMANDS, LATER, help_text
from tests.fake_llm.script import reply
from tests.fake_llm.server import FakeLLM
from tests.headless.program import Desk
from tests.repl.sitting_desk import sitting


def test_the_help_fits_into_80_columns_and_names_every_command() -> None:
    text = help_text()
    assert [line for line in text.split("\n") if len(line) > 79] == []
    assert all(f"buddy {name} " in text for name in COMMANDS)
    assert not any(f"buddy {name}" in text for name in LATER)


@pytest.mark.parametrize("entry", ["zz", "Bash(git", "Nothing(x)"])
async def test_a_rule_nobody_can_mean_ends_the_run_before_the_model_is_asked(
    tmp_path: Path, entry: str
) -> None:
    async with FakeLLM([reply("ok")]) as server:
        desk = Desk(tmp_path, server.url)
        desk.files(a__txt="alpha\n")
        ran = await desk.run("exec", "--allow", "Bash(ls:*)", "--allow", entry, "hi")
        assert (ran.code, ran.out) == (2, "")
        assert ran.told() == [
            "--allow: expected a tool and what it may do, like Bash(git log:*), Edit(src/**) or "
            f"WebFetch(domain:example.com); found the allow entry {entry!r}"
        ]
        assert server.requests == []


async def test_kill_alone_closes_no_task_that_does_not_run(tmp_path: Path) -> None:
    async with sitting(tmp_path, lambda _asked: reply("an answer")) as desk:
        await desk.said("/kill", "Task 1 is not running. /kill 1 closes it")
        await desk.turn("hello there")
        await desk.said("/kill", "Task 1 (hello there) is not running. /kill 1 closes it")
        assert not desk.context.board.task(1).closed
        await desk.said("/kill 1", "task 1 is closed")
