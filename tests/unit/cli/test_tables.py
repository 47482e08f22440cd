"""Lists of the command line: tables on a terminal, plain lines in a pipe."""

from __future__ import annotations

import io

from buddy.app.options import Options
from buddy.cli.tables import show
from buddy.repl.view.blocks import TableBlock

TABLE = TableBlock(("model", "context"), (("a\x1b[2J", "1,000"), ("bc", "20")), ("ok", "error"))
LINES = ("a  1,000", "bc    20")


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class Pipe(Terminal):
    def isatty(self) -> bool:
        return False


def shown(stream: io.StringIO, **environment: str) -> str:
    show(TABLE, LINES, Options(), {"HOME": "/nonexistent", **environment}, stream)
    return stream.getvalue()


def test_a_pipe_gets_plain_lines() -> None:
    assert shown(Pipe(), TERM="xterm") == "a  1,000\nbc    20\n"


def test_a_terminal_gets_a_table_without_control_characters() -> None:
    text = shown(Terminal(), TERM="xterm")
    assert "\x1b[2J" not in text
    assert "\x1b[31mbc" in text
    assert "─" in text


def test_without_colours_only_attributes_are_left() -> None:
    text = shown(Terminal(), TERM="xterm", NO_COLOR="1")
    assert "\x1b[3" not in text
    assert "\x1b[1mmodel" in text


def test_a_dumb_terminal_gets_no_escape_sequence() -> None:
    assert "\x1b" not in shown(Terminal(), TERM="dumb")


def test_an_empty_table_is_nothing() -> None:
    stream = Terminal()
    show(TableBlock(("model",), ()), (), Options(), {"HOME": "/nonexistent"}, stream)
    assert stream.getvalue() == ""
