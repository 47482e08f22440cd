"""Lines that stand for code a model did not write out: `// ... existing code ...`.

Written into a file such a line takes the place of what it stands for. Pure.
"""

from __future__ import annotations

import re

from buddy.agent.pattern import pattern
from buddy.agent.tool import ToolError

_MARKS = "#/*-<!>{}()[];%'\" \t"
_DOTS = ".…"
_THINGS = (
    r"(?:code|methods?|functions?|content|lines?|imports?|implementation|logic|file|class(?:es)?|body|tests?"
    r"|cases?|fields?|propert(?:y|ies)|props|config(?:uration)?|definitions?|items?|section|module|script)"
)
_SAME = (
    r"(?:unchanged|omitted|as before|here|the same"
    r"|(?:stays?|remains?|is|are|kept) (?:the )?(?:same|unchanged|as is))"
)
_KINDS = (
    rf"(?:the )?(?:rest|remainder) (?:of (?:the |your |this )?[\w.]+(?: [\w.]+)?(?: {_SAME})*|{_SAME})",
    "the (?:rest|remainder)",
    r"(?:the |your )?(?:existing|remaining|unchanged|previous|other|original|same|omitted) "
    rf"(?:[\w.]+ )?{_THINGS}(?: {_SAME})*",
    rf"{_THINGS} {_SAME}",
    "unchanged|omitted|as before|no changes?|same as (?:before|above)",
)
_STANDS_FOR = pattern("|".join(f"(?:{kind})" for kind in _KINDS), re.IGNORECASE)
_MAX_CHARS = 100


def refuse_elided(new: str, known: str) -> None:
    """Raise `ToolError` where the new text has a line that only stands for others, and `known` (what stood
    there) does not have that line."""
    line = elided_line(new, known)
    if line:
        raise ToolError(
            f"the new text has the line {line.strip()!r}, which the file does not have: it would stand there "
            "instead of the code it stands for. Nothing was changed. Write that code out, or change only the "
            "lines around it with edit_file; a line that is really meant can be written without the dots."
        )


def elided_line(new: str, known: str) -> str:
    """The first such line, "" when there is none."""
    if not _has_dots(new):
        return ""
    there = {line.strip() for line in known.split("\n")}
    for line in new.split("\n"):
        if line.strip() not in there and _stands_for_others(line):
            return line
    return ""


def _stands_for_others(line: str) -> bool:
    if len(line) > _MAX_CHARS or not _has_dots(line):
        return False
    words = line.strip(_MARKS + _DOTS)
    if not words:
        return False
    head, _, tail = line.partition(words)
    return _has_dots(head + tail) and _STANDS_FOR().fullmatch(words) is not None


def _has_dots(text: str) -> bool:
    return "..." in text or "…" in text
