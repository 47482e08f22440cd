"""Lists on the command line: a table on a terminal, plain lines for programs."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from typing import TextIO

from buddy.app.launch import find_launch, read_settings
from buddy.app.options import Options
from buddy.config.settings import ConfigError, DisplaySettings
from buddy.repl.render.style import Line, Look, choose_look
from buddy.repl.view.blocks import Block, TableBlock, gap_before

MAX_COLUMNS = 1_000


def show(
    table: TableBlock, lines: Iterable[str], options: Options, environment: Mapping[str, str], out: TextIO
) -> None:
    """Print the table on a terminal, else the lines, whose form does not depend on the window."""
    if out.isatty() and table.rows:
        out.write(draw([table], options, environment, out.encoding or "ascii"))
        return
    out.writelines(line + "\n" for line in lines)


def show_lines(lines: Sequence[Line], options: Options, environment: Mapping[str, str], out: TextIO) -> None:
    """Print styled lines on a terminal."""
    from buddy.repl.render.console import Canvas  # imported here, as in `draw`

    canvas = Canvas(_look(options, environment, encoding := out.encoding or "ascii"))
    text = canvas.ansi(canvas.wrap_all(lines, min(shutil.get_terminal_size().columns, MAX_COLUMNS) - 1))
    out.write(text.encode(encoding, "replace").decode(encoding))


def _look(options: Options, environment: Mapping[str, str], encoding: str) -> Look:
    """Return the look of the user's display settings, or of the defaults if those can't be read."""
    try:
        display = read_settings(find_launch(options, environment), options).settings.display
    except ConfigError:
        display = DisplaySettings()
    return choose_look(
        environ=environment, color=display.color, theme=display.theme, encoding=encoding, is_terminal=True
    )


def draw(
    blocks: Sequence[Block],
    options: Options,
    environment: Mapping[str, str],
    encoding: str,
    most_columns: int = MAX_COLUMNS,
) -> str:
    """Return blocks as text for this terminal, in an encoding that may lack characters."""
    from buddy.repl.render.painter import (
        Painter,  # imported here: rich takes 60 ms, and a pipe does not need it
    )

    painter = Painter(_look(options, environment, encoding))
    columns = min(shutil.get_terminal_size().columns, most_columns)
    text = "".join(
        ("\n" if before and gap_before(before, block) else "") + painter.ansi(block, columns)
        for before, block in zip((None, *blocks), blocks, strict=False)
    )
    return text.encode(encoding, "replace").decode(encoding)
