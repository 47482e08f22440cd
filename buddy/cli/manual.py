"""`buddy help [TOPIC]`: a page of the manual, painted on a terminal, as plain Markdown elsewhere."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from typing import TextIO

from buddy.app.options import Options, UsageError
from buddy.cli.tables import draw
from buddy.extend.manual import NoSuchTopicError, Topic, find_topic

PAGE_COLUMNS = 100
"""Maximum width of a page: longer lines of prose are hard to read."""


def show_help(options: Options, environment: Mapping[str, str]) -> int:
    """Print the page of the topic, or the list of topics. Raises `UsageError` for an unknown one."""
    word = options.words[0] if options.words else ""
    try:
        page = find_topic(word)
    except NoSuchTopicError as error:
        raise UsageError(f"{error}. To send it as a prompt: buddy -- help {shlex.quote(word)}") from error
    show_page(page, options, environment, sys.stdout)
    return 0


def show_page(page: Topic, options: Options, environment: Mapping[str, str], out: TextIO) -> None:
    """Print a page, painted and at most `PAGE_COLUMNS` wide on a terminal, as plain Markdown elsewhere."""
    encoding = out.encoding or "ascii"
    if out.isatty():
        from buddy.repl.render.markdown import closed_blocks  # imported here: a pipe does not need it

        out.write(draw(closed_blocks(page.flowing()), options, environment, encoding, PAGE_COLUMNS))
        return
    out.write(page.text.encode(encoding, "replace").decode(encoding))
