"""A prompt on the screen is what the person wrote; what went along is named."""

from __future__ import annotations

from pathlib import Path

from buddy.agent.messages import Text, UserMessage
from buddy.repl.view.replay import own_words
from tests.fake_llm.script import reply
from tests.support.sitting_desk import sitting


def message(*texts: str) -> UserMessage:
    return UserMessage("u", tuple(map(Text, texts)), "prompt")


def test_notes_and_files_are_named_not_repeated() -> None:
    note = "[Background task 2, 'write tests', has finished. Its answer:]\nmany\nlines\n\n"
    shell = "[I ran `ls` (exit code 0):]\na\n\n"
    file = "\n\n[attached: main.py]\nprint(1)\n"
    assert own_words(message(note, shell, "look at @main.py", file)) == (
        "look at @main.py",
        ("Background task 2, 'write tests', has finished", "I ran `ls` (exit code 0)", "attached: main.py"),
    )


def test_words_that_only_look_like_a_note_stay_the_persons() -> None:
    assert own_words(message("[I ran out of ideas")) == ("[I ran out of ideas", ())


async def test_the_prompt_is_seen_whatever_goes_with_it(tmp_path: Path) -> None:
    async with sitting(tmp_path, lambda _asked: reply("line\n" * 60)) as desk:
        desk.say("write tests &")
        await desk.shows("task 2 write tests: done")
        await desk.quiet()
        await desk.turn("and now look at @main.py")
        text = desk.paper.text()
        assert "▌ @1 and now look at @main.py\n" in text
        assert (
            "▌ with it: Background task 2, 'write tests', has finished\n▌ with it: attached: main.py\n"
            in text
        )
        assert "print(1)" not in text
