"""A prompt on the screen is what the person wrote; what went along is named."""

from __future__ import annotations

from pathlib import Path

from buddy.agent.messages import Attachment, Text, UserMessage
from buddy.repl.view.replay import attachment_titles
from tests.fake_llm.script import reply
from tests.support.repl import open_repl


def test_a_title_is_one_short_line() -> None:
    parts = (Attachment("I ran `ls\npwd` (exit code 0)", "a"), Attachment("x" * 200, "b"), Text("hi"))
    titles = attachment_titles(UserMessage("u", parts, "prompt"))
    assert titles == ("I ran `ls", "x" * 99 + "…")


async def test_the_prompt_is_seen_whatever_goes_with_it(tmp_path: Path) -> None:
    async with open_repl(tmp_path, lambda _asked: reply("line\n" * 60)) as repl:
        repl.say("write tests &")
        await repl.shows("task 2 write tests: done")
        await repl.quiet()
        await repl.turn("and now look at @main.py")
        text = repl.paper.text()
        assert "▌ @1 and now look at @main.py\n" in text
        assert (
            "▌ with it: Background task 2, 'write tests', has finished\n▌ with it: attached: main.py\n"
            in text
        )
        assert "print(1)" not in text
