"""`buddy help [TOPIC]`: the manual, through the real program and painted for a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from buddy.app.options import Options
from buddy.cli.manual import show_page
from buddy.extend.manual import Topic, find_topic, topics
from tests.support.program import ROOT, Program
from tests.unit.cli.test_tables import Pipe, Terminal

NOWHERE = "http://127.0.0.1:9"


@pytest.mark.parametrize("word", ["sandbox", "modes", "permissions", "undo", "PERM", "exit-codes"])
async def test_a_pipe_gets_the_page_as_it_is_written(tmp_path: Path, word: str) -> None:
    ran = await Program(tmp_path, NOWHERE).run("help", word)
    name = {"modes": "permissions", "PERM": "permissions", "undo": "sessions", "exit-codes": "headless"}.get(
        word, word
    )
    written = (ROOT / "templates" / "help" / f"{name}.md").read_text()
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.split("\n")[0] == written.split("\n")[0]
    assert [line for line in written.split("\n") if not line.startswith("<!--")] == ran.out.split("\n")


async def test_help_alone_lists_every_page(tmp_path: Path) -> None:
    ran = await Program(tmp_path, NOWHERE).run("help")
    assert ran.code == 0
    rows = [line.split(" | ")[0].strip("| ") for line in ran.out.splitlines() if line.startswith("| ")]
    assert rows[2:] == [page.name for page in topics()]
    assert rows[2] == "start"


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("sandbx", "there is no help on 'sandbx'; did you mean sandbox?"),
        ("zzz", "there is no help on 'zzz'. Topics: start, "),
        ("me", "To send it as a prompt: buddy -- help me"),
    ],
)
async def test_an_unknown_topic_is_a_mistake_of_usage(tmp_path: Path, word: str, told: str) -> None:
    ran = await Program(tmp_path, NOWHERE).run("help", word)
    assert (ran.code, ran.out) == (2, "")
    assert told in ran.err


def painted(topic: str, **environment: str) -> list[str]:
    stream = Terminal()
    show_page(find_topic(topic), Options(), {"HOME": "/nonexistent", "TERM": "xterm", **environment}, stream)
    return stream.getvalue().split("\n")


def test_a_terminal_gets_the_page_painted() -> None:
    lines = painted("permissions")
    assert "\x1b[1" in lines[0]
    assert "Permissions: what runs" in lines[0]
    assert not any(line.startswith(("# ", "| --", "```")) for line in lines)
    assert any("───" in line for line in lines), "tables are drawn"


def test_a_page_is_no_wider_than_people_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "240")
    assert max(map(len, painted("tasks", NO_COLOR="1", TERM="dumb"))) <= 100


def test_an_encoding_without_a_character_gets_another_one() -> None:
    stream = Pipe()
    stream.encoding = "ascii"
    show_page(Topic("a", "", (), "an arrow → here\n"), Options(), {}, stream)
    assert stream.getvalue() == "an arrow ? here\n"


def test_paragraphs_flow_when_they_are_painted_and_code_stays_as_it_is() -> None:
    text = "# A: b\n\none\ntwo\n\n- an item\n  goes on\n- another\n\n```sh\nls\n\npwd\n```\n| a |\n| - |\n"
    assert Topic("a", "b", (), text).flowing() == (
        "# A: b\n\none two\n\n- an item goes on\n- another\n\n```sh\nls\n\npwd\n```\n| a |\n| - |\n"
    )
