"""Paths of pictures, as terminals paste them when a file is dragged onto them."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from buddy.extend.mentions import paths_mentioned
from buddy.repl.input.dropped_pictures import mentions_of_pictures
from tests.fake_llm.pictures import png


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "My shots").mkdir()
    for name in ("a.png", "My shots/b (1).jpg", "It's.png", "ü@é.png"):
        (tmp_path / name).write_bytes(png())
    (tmp_path / "notes.png").write_text("a text, whatever its name says")
    (tmp_path / "data.txt").write_bytes(png())
    os.mkfifo(tmp_path / "pipe.png")
    return tmp_path


def test_every_way_a_terminal_writes_a_path_is_understood(home: Path) -> None:
    name = str(home / "My shots/b (1).jpg")
    url = "file://" + name.replace(" ", "%20").replace("(", "%28")
    expected = "@~/My\\ shots/b\\ (1).jpg"
    for pasted in (
        name,
        f"'{name}'",
        f'"{name}"',
        name.replace(" ", "\\ ").replace("(", "\\(").replace(")", "\\)"),
        shlex.quote(name) + " ",
        url,
        url.replace("file://", "file://localhost"),
        f"  {name}\n",
    ):
        assert mentions_of_pictures(pasted, str(home)) == expected, pasted


def test_the_mention_leads_back_to_the_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(home))
    for name in ("a.png", "My shots/b (1).jpg", "It's.png", "ü@é.png"):
        text = mentions_of_pictures(shlex.quote(str(home / name)), str(home))
        found = [os.path.expanduser(path) for path in paths_mentioned(f"look at {text} please", "/")]
        assert found == [str(home / name)]


def test_several_files_become_several_mentions(home: Path) -> None:
    pasted = f"{home}/a.png {shlex.quote(str(home / 'My shots/b (1).jpg'))}"
    assert mentions_of_pictures(pasted, str(home)) == "@~/a.png @~/My\\ shots/b\\ (1).jpg"
    assert mentions_of_pictures(f"file://{home}/a.png\r\nfile://{home}/data.txt\r\n", "") == (
        f"@{home}/a.png @{home}/data.txt"
    )


@pytest.mark.parametrize(
    "pasted",
    [
        "{home}/notes.png",
        "{home}/pipe.png",
        "{home}/My shots",
        "{home}/missing.png",
        "{home}/a.png {home}/notes.png",
        "look at {home}/a.png",
        "a.png",
        "./a.png",
        "/dev/zero",
        "/proc/self/exe",
        "file://server/share/a.png",
        "file://[::1",
        "'{home}/a.png",
        "/etc/passwd",
        "{home}/a\0.png",
        "https://example.org/a.png",
        " / ",
        "",
    ],
)
def test_all_else_is_pasted_as_it_is(home: Path, pasted: str) -> None:
    assert mentions_of_pictures(pasted.format(home=home), str(home)) == ""
