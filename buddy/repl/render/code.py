"""Colours for code. Imported late: pygments costs 40 ms and is never needed before something is shown."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name  # pyright: ignore[reportUnknownVariableType] - untyped options
from pygments.token import (
    Comment,
    Error,
    Generic,
    Keyword,
    Name,
    Number,
    Operator,
    String,
    Token,
    _TokenType,  # pyright: ignore[reportPrivateUsage] - the type of every token kind has no public name
)
from pygments.util import ClassNotFound

from buddy.repl.render.style import Line

MAX_CHARS = 60_000

_STYLES = {
    Token: "",
    Comment: "syntax.comment",
    Keyword: "syntax.keyword",
    Operator.Word: "syntax.keyword",
    String: "syntax.string",
    Number: "syntax.number",
    Name.Function: "syntax.function",
    Name.Class: "syntax.class",
    Name.Decorator: "syntax.function",
    Name.Builtin: "syntax.builtin",
    Name.Tag: "syntax.keyword",
    Name.Exception: "syntax.class",
    Error: "",
    Generic.Inserted: "added",
    Generic.Deleted: "removed",
    Generic.Subheading: "hunk",
    Generic.Heading: "heading",
}


@lru_cache(maxsize=512)
def _style(kind: _TokenType) -> str:
    at: _TokenType | None = kind
    while at is not None and at not in _STYLES:
        at = at.parent
    return _STYLES[at] if at is not None else ""


@lru_cache(maxsize=32)
def _lexer(language: str) -> Lexer | None:
    # A last line without its end matches no rule of some lexers (diff), which then try it letter by letter.
    try:
        return get_lexer_by_name(language, stripnl=False)
    except ClassNotFound:
        return None


def highlight(code: str, language: str, context: str = "") -> list[Line]:
    """Return the lines of `code` with styles. `context` are the lines before it, so that a slice from the
    middle of a string or comment is coloured as it would be in the whole."""
    lexer = _lexer(language) if language and len(code) + len(context) <= MAX_CHARS else None
    if lexer is None:
        return [[("", line)] for line in code.split("\n")]
    source = f"{context}\n{code}" if context else code
    lines = _lines((_style(kind), text) for kind, text in lexer.get_tokens(source))
    wanted = code.count("\n") + 1
    skipped = context.count("\n") + 1 if context else 0
    lines = lines[skipped : skipped + wanted]
    return lines + [[] for _ in range(wanted - len(lines))]


def _lines(tokens: Iterable[tuple[str, str]]) -> list[Line]:
    lines: list[Line] = [[]]
    for style, text in tokens:
        first, *more = text.split("\n")
        _put(lines[-1], style, first)
        for part in more:
            lines.append([])
            _put(lines[-1], style, part)
    return lines


def _put(line: Line, style: str, text: str) -> None:
    if not text:
        return
    if line and (line[-1][0] == style or not text.strip(" ")):
        line[-1] = (line[-1][0], line[-1][1] + text)
    else:
        line.append((style, text))
