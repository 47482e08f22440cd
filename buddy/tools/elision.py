"""Lines that stand for code a model did not write out: `// ... existing code ...`.

Written into a file such a line takes the place of what it stands for. With dots and words it is one anywhere;
a comment with dots alone, or with words alone, is one where there is less afterwards than before. Pure.
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
_KEEP = (
    "(?:keep|leave) (?:the |your |all )?(?:(?:rest|remainder)(?: of (?:the |your |this )?"
    rf"{_THINGS})?|(?:existing|other|remaining|previous|current) {_THINGS})(?: {_SAME}| as is)?"
)
_CODE = r"(?:code|methods?|functions?|implementation|logic|imports?|body|class(?:es)?)"
_SAID_SAME = (
    r"(?:unchanged|omitted(?: for brevity)?|as before|as is"
    r"|(?:stays?|remains?|is|are|kept) (?:the )?(?:same|unchanged|as is))"
)
_WITHOUT_DOTS = pattern(
    rf"(?:the )?(?:rest|remainder) of (?:the |your |this )?[\w.]+(?: [\w.]+)? {_SAID_SAME}"
    r"|(?:the |your |all )?(?:existing|remaining|unchanged|previous|other|original) "
    rf"(?:[\w.]+ )?{_CODE} {_SAID_SAME}"
    rf"|(?:keep|leave) (?:the )?(?:rest of the {_CODE}|existing {_CODE}) (?:as is|unchanged|the same)",
    re.IGNORECASE,
)
_COMMENT = ("#", "//", "/*", "--", "<!--", ";", "%", "{/*")
_KINDS = (
    _KEEP,
    rf"(?:the )?(?:rest|remainder) (?:of (?:the |your |this )?[\w.]+(?: [\w.]+)?(?: {_SAME})*|{_SAME})",
    "the (?:rest|remainder)",
    r"(?:the |your )?(?:existing|remaining|unchanged|previous|other|original|same|omitted) "
    rf"(?:[\w.]+ )?{_THINGS}(?: {_SAME})*",
    rf"{_THINGS} {_SAME}",
    "unchanged|omitted|as before|no changes?|same as (?:before|above)",
)
_STANDS_FOR = pattern("|".join(f"(?:{kind})" for kind in _KINDS), re.IGNORECASE)
_MAX_CHARS = 100


def refuse_elided(new: str, known: str, replaced: str) -> None:
    """Raise `ToolError` where the new text has a line that only stands for others, and `known` (the whole of
    what stood there) does not have that line. `replaced`: the part of it the new text takes the place of."""
    line = elided_line(new, known, replaced)
    if line:
        raise ToolError(
            f"the new text has the line {line.strip()!r}, which the file does not have: it would stand there "
            "instead of the code it stands for. Nothing was changed. Write that code out, or change only the "
            "lines around it with edit_file; a line that is really meant can be written in other words."
        )


def elided_line(new: str, known: str, replaced: str) -> str:
    """The first such line, "" when there is none."""
    lines = new.split("\n")
    fewer = _written(replaced.split("\n")) - _written(lines)
    if fewer < 0 and not _has_dots(new):
        return ""
    there = {line.strip() for line in known.split("\n")}
    for line in lines:
        if len(line) > _MAX_CHARS or not line.strip() or line.strip() in there:
            continue
        if _stands_for_others(line) or _comment_for_others(line, fewer):
            return line
    return ""


def _written(lines: list[str]) -> int:
    return sum(1 for line in lines if line.strip())


def _stands_for_others(line: str) -> bool:
    if not _has_dots(line):
        return False
    words = line.strip(_MARKS + _DOTS)
    if not words:
        return False
    head, _, tail = line.partition(words)
    return _has_dots(head + tail) and _STANDS_FOR().fullmatch(words) is not None


def _comment_for_others(line: str, fewer: int) -> bool:
    """A comment of dots alone, or one that says in words that something stays, where no line came for it."""
    if fewer < 0 or not line.lstrip().startswith(_COMMENT):
        return False
    words = line.strip(_MARKS + _DOTS)
    return _WITHOUT_DOTS().fullmatch(words) is not None if words else fewer > 0 and _has_dots(line)


def _has_dots(text: str) -> bool:
    return "..." in text or "…" in text
