"""`@path` in text that others wrote, and behind links that others made: no file goes along that the person
did not name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fake_llm.script import reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program, Ran

SECRET = "hunter-of-the-lost-word"
PRIVATE = "private words of the home"


def program_of(tmp_path: Path, url: str) -> Program:
    program = Program(tmp_path, url, "chat", ())
    program.files(a__txt="alpha\n")
    (program.repo / ".env").write_text(f"{SECRET}\n")
    (program.home / ".ssh").mkdir()
    (program.home / ".ssh" / "id_rsa").write_text(f"{PRIVATE}\n")
    (program.home / "letters").mkdir()
    (program.home / "letters" / "one.txt").write_text(f"{PRIVATE}\n")
    return program


async def sent(tmp_path: Path, *words: str, stdin: bytes | None = None) -> tuple[str, Ran]:
    """Everything the model got from one run."""
    async with FakeLLM([reply("ok")]) as server:
        ran = await program_of(tmp_path, server.url).run("exec", *words, stdin=stdin)
        assert len(server.requests) == 1, ran
        return json.dumps(server.requests[0].json["messages"], ensure_ascii=False), ran


MENTIONS = """
@.env
see @.env please
(@.env)
@./.env
@a.txt/../.env
@~/.ssh/id_rsa
@../home/.ssh/id_rsa
@../home/letters/one.txt
@../home/letters
@.env,
- @.env
> @.env
@\\x2eenv
@../repo/.env
"""


async def test_stdin_behind_words_attaches_nothing(tmp_path: Path) -> None:
    page = f"a page{MENTIONS}@a.txt\n"
    text, ran = await sent(tmp_path, "Summarise", stdin=page.encode())

    assert SECRET not in text
    assert PRIVATE not in text
    assert "[attached" not in text
    assert json.dumps(f"Summarise\n\n<stdin>\n{page}</stdin>")[1:-1] in text
    assert (ran.code, ran.told()) == (0, [])


@pytest.mark.parametrize("mention", MENTIONS.strip().splitlines())
async def test_a_prompt_on_stdin_attaches_what_the_model_may_read_unasked(
    tmp_path: Path, mention: str
) -> None:
    text, ran = await sent(tmp_path, stdin=f"Compare {mention}\nwith @a.txt\n".encode())

    assert SECRET not in text
    assert PRIVATE not in text
    assert "[attached: a.txt]" in text
    assert any("was not attached" in line for line in ran.told()) or mention.startswith("(")


async def test_files_that_the_words_name_go_along_with_stdin(tmp_path: Path) -> None:
    text, ran = await sent(tmp_path, "Compare @a.txt", stdin=b"with @.env")

    assert "Compare @a.txt\\n\\n<stdin>\\nwith @.env\\n</stdin>" in text
    assert "[attached: a.txt]" in text
    assert SECRET not in text
    assert ran.code == 0


async def test_stdin_adds_no_words_to_a_command(tmp_path: Path) -> None:
    async with FakeLLM([reply("ok")]) as server:
        program = program_of(tmp_path, server.url)
        file = program.home / ".claude" / "commands" / "review.md"
        file.parent.mkdir(parents=True)
        file.write_text("---\nallowed-tools: Bash(touch:*)\n---\nReview $ARGUMENTS now.\n")
        ran = await program.run("exec", "/review the diff", stdin=b"!`touch ran`\n@.env\n")
        text = server.requests[0].last_user_text

    assert ran.code == 0
    assert not (program.repo / "ran").exists()
    assert "Review the diff now." in text
    assert "<stdin>\n!`touch ran`\n@.env\n</stdin>" in text
    assert SECRET not in text


LINKS = {
    "notes.md": ".env",
    "chain.md": "notes.md",
    "key.md": "../home/.ssh/id_rsa",
    "out.md": "../home/letters/one.txt",
    "docs": "../home/letters",
}


@pytest.mark.parametrize("mention", [*LINKS, "docs/one.txt", "docs/../letters/one.txt", "./notes.md"])
async def test_a_link_of_the_project_chooses_no_other_file(tmp_path: Path, mention: str) -> None:
    async with FakeLLM([reply("ok")]) as server:
        program = program_of(tmp_path, server.url)
        for name, target in LINKS.items():
            (program.repo / name).symlink_to(target)
        ran = await program.run("exec", f"Read @{mention}")
        text = server.requests[0].last_user_text

    assert SECRET not in text
    assert PRIVATE not in text
    assert "[attached" not in text
    assert [f"@{mention} was not attached: it is a link" in line for line in ran.told()] == [True]


@pytest.mark.parametrize("mention", [".env", "../home/letters/one.txt", "same.md", "folder/a.txt", "a.txt"])
async def test_files_the_person_names_are_attached(tmp_path: Path, mention: str) -> None:
    async with FakeLLM([reply("ok")]) as server:
        program = program_of(tmp_path, server.url)
        (program.repo / "same.md").symlink_to("a.txt")
        (program.repo / "folder").symlink_to(".")
        ran = await program.run("exec", f"Read @{mention}")
        text = server.requests[0].last_user_text

    assert f"[attached: {mention}]" in text
    assert (ran.code, ran.told()) == (0, [])


LINES = "\nas it says:\n\n" + "words of a page\n" * 4
LONG = "words of a page, " * 60


@pytest.mark.parametrize(
    "mention", ["@.env", "- @.env", "@~/.ssh/id_rsa", "@../home/letters", "@../repo/.env"]
)
@pytest.mark.parametrize("paste", ["Fix this:" + LINES + "{}", "Fix this: " + LONG + "{}", "{}" + LINES])
async def test_text_too_long_to_be_typed_names_no_secret(tmp_path: Path, mention: str, paste: str) -> None:
    """A pasted issue, folded in the line; `buddy exec "Fix: $(gh issue view 3)"`."""
    text, ran = await sent(tmp_path, paste.format(f"{mention}\nand @a.txt\n"))

    assert SECRET not in text
    assert PRIVATE not in text
    assert "[attached: a.txt]" in text
    assert ran.code == 0
    assert [line.endswith("mention it in a prompt of its own") for line in ran.told()] == [True]


async def test_a_short_prompt_of_several_lines_may_name_any_file(tmp_path: Path) -> None:
    text, ran = await sent(tmp_path, "Compare\n\n@.env\n@../home/letters/one.txt\nplease")

    assert SECRET in text
    assert PRIVATE in text
    assert (ran.code, ran.told()) == (0, [])
