"""`buddy help [TOPIC]`: a page of the manual, painted on a terminal, as plain Markdown elsewhere."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping

from buddy.cli.arguments import Options, UsageError
from buddy.cli.tables import show_page
from buddy.extend.manual import NoSuchTopicError, find_topic


def show_help(options: Options, environment: Mapping[str, str]) -> int:
    """Print the page of the topic, or the list of topics. Raises `UsageError` for an unknown one."""
    word = options.words[0] if options.words else ""
    try:
        page = find_topic(word)
    except NoSuchTopicError as error:
        raise UsageError(f"{error}. To send it as a prompt: buddy -- help {shlex.quote(word)}") from error
    show_page(page.text, options, environment, sys.stdout)
    return 0
