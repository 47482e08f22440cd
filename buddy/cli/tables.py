"""Lists of the command line: a table where a person reads it, plain lines where a program does."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from typing import TextIO

from buddy.cli.arguments import Options
from buddy.cli.place import find_place, read_settings
from buddy.config.settings import ConfigError, DisplaySettings
from buddy.repl.blocks import TableBlock


def show(
    table: TableBlock, lines: Iterable[str], options: Options, environment: Mapping[str, str], out: TextIO
) -> None:
    """Print the table on a terminal, elsewhere the lines, whose form does not change with the window."""
    if out.isatty() and table.rows:
        out.write(_drawn(table, _display(options, environment), environment, out.encoding or "ascii"))
        return
    out.writelines(line + "\n" for line in lines)


def _display(options: Options, environment: Mapping[str, str]) -> DisplaySettings:
    """Return the person's display settings; the defaults where the settings can't be read."""
    try:
        return read_settings(find_place(options, environment), options).settings.display
    except ConfigError:
        return DisplaySettings()


def _drawn(table: TableBlock, display: DisplaySettings, environment: Mapping[str, str], encoding: str) -> str:
    from buddy.repl.paint import Painter  # here: rich costs 60 ms, and a pipe does not need it
    from buddy.repl.style import choose_look

    look = choose_look(
        environ=environment, color=display.color, theme=display.theme, encoding=encoding, is_terminal=True
    )
    text = Painter(look).ansi(table, shutil.get_terminal_size().columns)
    return text.encode(encoding, "replace").decode(encoding)
