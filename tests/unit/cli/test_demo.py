"""The demo's lines work in any order, and whatever travels along with them."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

from buddy.agent.messages import Attachment, Text, UserMessage, UserPart, typed_text
from buddy.cli.demo_model import _scripts, script_name
from buddy.llm.scripted import Pause
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program
from tests.support.terminal import on_terminal

NOTE = Attachment(
    "Background task 2, 'write tests for it', has finished",
    "[Background task 2, 'write tests for it', has finished. Its answer:]\nTests for the bug.\n\n",
)
FILE = Attachment("attached: main.py", "\n\n[attached: main.py]\n1 def test_bug\n")


def _prompt(*parts: str | UserPart) -> UserMessage:
    return UserMessage("id", tuple(Text(part) if isinstance(part, str) else part for part in parts), "prompt")


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        (("tell me a story",), "story"),
        ((NOTE, "tell me a story"), "story"),
        ((NOTE, "fix the bug"), "fix"),
        ((NOTE, NOTE, "hello"), "hello"),
        (("explain @main.py", FILE), "explain"),
        (("write tests for it",), "tests first"),
        (("what is the weather?",), "other"),
    ],
)
def test_RU_B9_the_script_follows_the_persons_words_alone(
    parts: tuple[str | UserPart, ...], name: str
) -> None:
    assert script_name(typed_text(_prompt(*parts)).lower(), is_fixed=False, has_tests=False) == name


@pytest.mark.parametrize("is_fixed", [True, False])
@pytest.mark.parametrize("has_tests", [True, False])
def test_RU_B9_there_is_a_script_for_every_state(is_fixed: bool, has_tests: bool) -> None:
    for words in ("fix the bug", "write tests for it", "tell me a story", "run it", "explain", "hi", "", "x"):
        assert script_name(words, is_fixed=is_fixed, has_tests=has_tests) in _scripts()


@pytest.mark.slow
@pytest.mark.parametrize(
    "order", list(permutations(("fix the bug", "write tests for it", "tell me a story")))[::2]
)
async def test_RU_B9_the_demos_lines_work_in_any_order(tmp_path: Path, order: tuple[str, ...]) -> None:
    ends = {"fix the bug": "Checked by running", "write tests": "has two tests now", "tell me": "then /ps"}
    async with FakeLLM([]) as server:
        program = Program(tmp_path, server.url)
        async with on_terminal(program, "demo") as terminal:
            await terminal.shows("DEMO", "fix the bug")
            await terminal.line("/approve all")
            for line in order:
                await terminal.line(line)
                await terminal.has_shown(next(text for start, text in ends.items() if line.startswith(start)))
            told = terminal.everything()
            assert not any("denied" in row or "✗" in row for row in told)
            assert await terminal.leaves() == 0


def test_the_story_leaves_time_to_cancel_it() -> None:
    (story,) = _scripts()["story"]
    assert sum(step.seconds for step in story if isinstance(step, Pause)) >= 9
