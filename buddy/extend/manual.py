"""The manual that ships with buddy: the pages of `templates/help`, found by topic, alias or beginning.

A page is Markdown. Its heading is `# Name: summary`; the comment below it, `<!-- also: … -->`, lists the
further words that lead to it.
"""

from __future__ import annotations

import difflib
import os

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.extend.system_prompt import template_path

FIRST = "start"
CONTENTS = "topics"
_FENCE = "```"
_HEAD = pattern(r"# [^:\n]+: (?P<summary>[^\n]+)\n<!-- also: (?P<also>[^\n]*?) ?-->\n")
_COMMENT = pattern(r"<!--[^\n]*-->\n")


class NoSuchTopicError(Exception):
    """A word that leads to no page. The message names the nearest words and the topics there are."""


class Topic(msgspec.Struct, frozen=True):
    """A page of the manual; `text` is its Markdown as it is written, without comments."""

    name: str
    summary: str
    also: tuple[str, ...]
    text: str

    def flowing(self) -> str:
        """Return the text with every paragraph and list item on one line, for whoever wraps it anew."""
        lines = [""]
        in_code = False
        for line in self.text.split("\n"):
            is_fence = line.startswith(_FENCE)
            goes_on = not (in_code or is_fence or line.startswith(("- ", "#", "|", "**")) or not line)
            if goes_on and lines[-1] and not lines[-1].startswith((_FENCE, "#", "|")):
                lines[-1] += f" {line.strip()}"
            else:
                lines.append(line)
            in_code ^= is_fence
        return "\n".join(lines[1:])


def topics() -> tuple[Topic, ...]:
    """Return all pages, by name; the one to begin with comes first."""
    folder = template_path("help")
    names = sorted(name for name in os.listdir(folder) if name.endswith(".md"))
    pages = [_read(os.path.join(folder, name)) for name in names]
    return tuple(sorted(pages, key=lambda page: page.name != FIRST))


def find_topic(word: str) -> Topic:
    """Return the page of a topic, an alias or a unique beginning of either; the table of contents for "".
    Raises `NoSuchTopicError`."""
    pages = topics()
    wanted = word.strip().lower()
    if wanted in ("", CONTENTS):
        return _contents(pages)
    words = {name: page for page in reversed(pages) for name in (*page.also, page.name)}
    if wanted in words:
        return words[wanted]
    begun = {page.name for name, page in words.items() if len(wanted) > 2 and name.startswith(wanted)}
    if len(begun) == 1:
        return words[begun.pop()]
    near = sorted(begun) or difflib.get_close_matches(wanted, words, n=3)
    hint = f"; did you mean {', '.join(near)}?" if near else "."
    names = ", ".join(page.name for page in pages)
    raise NoSuchTopicError(f"there is no help on {word.strip()[:40]!r}{hint} Topics: {names}")


def _contents(pages: tuple[Topic, ...]) -> Topic:
    width = max(len(page.name) for page in pages)
    rows = [f"| {page.name:<{width}} | {page.summary} |" for page in pages]
    lines = [
        "# Topics: the pages of this manual",
        "",
        "`buddy help TOPIC` shows one; inside buddy, `/help TOPIC`.",
        "",
        f"| {'topic':<{width}} | about |",
        f"| {'-' * width} | ----- |",
        *rows,
        "",
        "`buddy --help` lists the options; inside buddy, `/help` lists commands and `?` the keys.",
    ]
    return Topic(CONTENTS, "the pages of this manual", (), "\n".join([*lines, ""]))


def _read(path: str) -> Topic:
    with open(path, encoding="utf-8") as file:
        text = file.read()
    name = os.path.basename(path).removesuffix(".md")
    head = _HEAD().match(text)
    if head is None:
        raise ValueError(f"{path}: expected `# Name: summary`, then `<!-- also: … -->`")
    return Topic(name, head["summary"], tuple(head["also"].split()), _COMMENT().sub("", text))
