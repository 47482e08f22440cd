"""`/help TOPIC` and `/help COMMAND` inside buddy."""

from __future__ import annotations

from pathlib import Path

import pytest

from buddy.repl.commands.help import explain
from buddy.repl.commands.registry import builtin_commands
from buddy.repl.view.blocks import Markdown, NoteBlock, PlainText
from tests.support.repl import open_repl

COMMANDS = builtin_commands()


@pytest.mark.parametrize(
    ("word", "heading"),
    [
        ("sandbox", "# Sandbox: "),
        ("modes", "# Permissions: "),
        ("permissions", "# Permissions: "),
        ("models", "# Models: "),
        ("topics", "# Topics: "),
        ("exec", "# Headless: "),
    ],
)
def test_a_topic_is_its_page(word: str, heading: str) -> None:
    first = explain(COMMANDS, word)[0]
    assert isinstance(first, Markdown)
    assert first.text.startswith(heading)


@pytest.mark.parametrize(
    ("word", "usage", "topic"),
    [
        ("undo", "/undo ", "sessions"),
        ("/permissions", "/permissions ", "permissions"),
        ("/models", "/models ", "models"),
        ("mode", "/mode ", "permissions"),
        ("?", "/help ", "start"),
    ],
)
def test_a_command_is_explained_and_leads_to_its_page(word: str, usage: str, topic: str) -> None:
    said, more = explain(COMMANDS, word)
    assert isinstance(said, PlainText)
    assert said.text.startswith(usage)
    assert more == NoteBlock("hint", f"/help {topic} says more")


async def test_the_manual_is_read_in_a_running_session(tmp_path: Path) -> None:
    async with open_repl(tmp_path, []) as repl:
        shown = await repl.said(
            "/help sandbox", "Sandbox: what commands of the model can reach", "bubblewrap"
        )
        assert "<!--" not in shown
        await repl.said("/help topics", "troubleshooting")
        await repl.said("/help ex", "/ex could be /export, /quit")
