"""A real terminal that wraps lines again: scrollback, resizing."""

from __future__ import annotations

import random
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from tests.capabilities import requires

pytestmark = [requires("tmux"), pytest.mark.slow]
CHILD = Path(__file__).parents[2] / "support" / "pty_child.py"
ROOT = Path(__file__).parents[3]
DEADLINE_S = 50.0


class Tmux:
    """A private server with one window of a fixed size."""

    def __init__(self, folder: Path, mode: str, columns: int, rows: int) -> None:
        self.socket = str(folder / "tmux")
        self.log = folder / "log"
        program = shlex.join([sys.executable, str(CHILD), mode, str(folder / "log")])
        shell = (
            f"cd {ROOT}; echo from-the-shell; PYTHONPATH={ROOT} TERM=tmux-256color {program}; echo back; cat"
        )
        self("new-session", "-d", "-x", str(columns), "-y", str(rows), shell)

    def __call__(self, *args: str) -> str:
        command = ["tmux", "-S", self.socket, "-f", "/dev/null", *args]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def is_tidied_up(self, columns: int) -> bool:
        """Tell whether the program has redrawn everything for this width."""
        told = [line for line in self.log.read_text().splitlines() if line.startswith("tidied")]
        return told[-1:] == [f"tidied up at {columns}"]

    def screen(self, *, past: bool = False) -> list[str]:
        return self("capture-pane", "-p", *(["-S", "-"] if past else [])).rstrip("\n").split("\n")

    def until(self, claim: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not claim():
            assert time.monotonic() < deadline, "\n".join(self.screen())
            time.sleep(0.05)


@pytest.fixture
def window(tmp_path: Path) -> Generator[Callable[[str, int, int], Tmux], None, None]:
    opened: list[Tmux] = []

    def open_window(mode: str, columns: int, rows: int) -> Tmux:
        opened.append(Tmux(tmp_path, mode, columns, rows))
        return opened[-1]

    yield open_window
    for tmux in opened:
        tmux("kill-server")


def test_finished_text_is_in_the_native_scrollback_in_order(window: Callable[[str, int, int], Tmux]) -> None:
    tmux = window("stream", 80, 20)
    tmux.until(lambda: any("word400 " in line for line in tmux.screen()))
    tmux("send-keys", "C-d")
    tmux.until(lambda: any("again within 10 s ends" in line for line in tmux.screen()))
    tmux("send-keys", "C-d")
    tmux.until(lambda: "back" in tmux.screen())
    words = " ".join(line for line in tmux.screen(past=True) if line.startswith("word")).split()
    assert words == [f"word{number}" for number in range(len(words))]
    assert len(words) > 380
    assert not any("❯" in line for line in tmux.screen(past=True))


def test_resizing_leaves_one_prompt_and_no_ghosts(window: Callable[[str, int, int], Tmux]) -> None:
    tmux = window("quiet", 90, 20)
    tmux.until(lambda: any("❯" in line for line in tmux.screen()))
    tmux("send-keys", "a draft that stays")
    for columns, rows in ((50, 20), (24, 12), (100, 25), (60, 20)):
        tmux("resize-window", "-x", str(columns), "-y", str(rows))
        rule = "─" * (columns - 1)
        tmux.until(lambda rule=rule: rule in tmux.screen())
    app = ["─" * 59, "❯ a draft that stays", "ask · ? keys"]
    tmux.until(lambda: tmux.screen()[-3:] == app)
    # tmux itself moves halves of the old rule into its history while it wraps lines again.
    tmux.until(lambda: [x for x in tmux.screen(past=True) if "─" not in x] == ["from-the-shell", *app[1:]])


def test_a_prompt_in_the_first_row_leaves_nothing_in_the_scrollback(
    window: Callable[[str, int, int], Tmux],
) -> None:
    tmux = window("clear", 60, 12)
    tmux.until(lambda: any("word30 " in line for line in tmux.screen(past=True)))
    tmux("send-keys", "C-d", "C-d")
    tmux.until(lambda: "back" in tmux.screen())
    assert not [line for line in tmux.screen(past=True) if "─" in line or "ask" in line]


def test_resizing_with_pauses_draws_again_what_is_on_the_screen_and_nothing_twice(
    window: Callable[[str, int, int], Tmux],
) -> None:
    tmux = window("many", 100, 30)
    tmux.until(lambda: any("paragraph 39 " in line for line in tmux.screen()))
    for columns, rows in ((60, 25), (40, 27), (90, 22), (20, 30), (100, 28), (30, 20), (100, 30)):
        tmux("resize-window", "-x", str(columns), "-y", str(rows))
        tmux.until(lambda rule="─" * (columns - 1): tmux.screen().count(rule) == 1)
        tmux.until(lambda columns=columns: tmux.is_tidied_up(columns))
    said = [f"paragraph {number} says a few words that take more than one line." for number in range(40)]
    text = " ".join(" ".join(tmux.screen(past=True)).split())
    assert [sentence for sentence in said if text.count(sentence) != 1] == []
    assert text.count("paragraph") == len(said)
    assert f"{said[-1][:58]}" in "\n".join(tmux.screen())


@pytest.mark.parametrize("narrow", [2, 3, 7, 10])
def test_a_terminal_that_is_no_wider_than_a_word_for_a_moment_comes_back_whole(
    window: Callable[[str, int, int], Tmux], narrow: int
) -> None:
    tmux = window("many", 90, 20)
    tmux.until(lambda: any("paragraph 39 " in line for line in tmux.screen()))
    tmux("send-keys", "a draft")
    tmux.until(lambda: any("a draft" in line for line in tmux.screen()))
    for columns in (60, narrow, 90):
        tmux("resize-window", "-x", str(columns), "-y", "20")
        tmux.until(lambda columns=columns: tmux.is_tidied_up(columns))
    tmux.until(lambda: tmux.screen().count("─" * 89) == 1)
    said = [f"paragraph {number} says a few words that take more than one line." for number in range(40)]
    assert [line for line in tmux.screen(past=True) if line.startswith("paragraph")] == said
    assert tmux.screen()[-3:] == ["─" * 89, "❯ a draft", "ask · ? keys"]


def test_a_storm_of_sizes_while_three_tasks_stream_doubles_nothing_and_loses_nothing(
    window: Callable[[str, int, int], Tmux],
) -> None:
    tmux = window("three", 90, 20)
    tmux.until(lambda: any("word90 " in line for line in tmux.screen(past=True)))
    sizes = random.Random(7)
    for _ in range(40):
        tmux("resize-window", "-x", str(sizes.randint(30, 120)), "-y", str(sizes.randint(6, 40)))
        time.sleep(0.03)
    tmux("resize-window", "-x", "90", "-y", "20")
    tmux.until(lambda: tmux.screen()[-3:] == ["─" * 89, "❯", "ask · 3 tasks running · ? keys"])
    tmux("send-keys", "C-d", "C-d")
    tmux.until(lambda: "back" in tmux.screen())
    lines = tmux("capture-pane", "-p", "-J", "-S", "-").split("\n")
    said = " ".join(line for line in lines if line.startswith("word")).split()
    assert said == [f"word{number}" for number in range(len(said))]
    assert not any("─" in line or ("❯" in line) for line in lines)
