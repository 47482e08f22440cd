"""A search pattern, checked: it means what `re` means by it, with Unicode classes and boundaries."""

from __future__ import annotations

import re

import msgspec

from buddy.workspace.search.regex_tokens import PatternError, Token, tokens_of

MAX_CHARS = 4000


class SearchPattern(msgspec.Struct, frozen=True):
    """`source` and `flags` are what `re` is given; every match holds `literal`, which is ASCII ("": unknown).
    With `multiline` a text is searched as one, otherwise each line alone."""

    source: str
    flags: int
    literal: str
    tokens: tuple[Token, ...]
    multiline: bool


def prepare(pattern: str, *, literal: bool, ignore_case: bool, multiline: bool) -> SearchPattern:
    """Check a pattern. Raises `PatternError` saying what is wrong with it."""
    if not pattern:
        raise PatternError("the pattern is empty; expected text or a regular expression to search for")
    if len(pattern) > MAX_CHARS:
        raise PatternError(f"the pattern has {len(pattern)} characters; at most {MAX_CHARS} are possible")
    if any(0xD800 <= ord(char) < 0xE000 for char in pattern):
        raise PatternError("the pattern holds half a character (a lone surrogate), which no text does")
    tokens = _literal_tokens(pattern) if literal else tokens_of(pattern)
    if not multiline and any(token.kind == "char" and token.value in "\n\r" for token in tokens):
        raise PatternError("the pattern holds a line break, but each line is searched alone: multiline=true")
    ignore_case = ignore_case or any("i" in token.value for token in tokens if token.kind == "flags")
    # Flags at the beginning are among `flags`: lines are looked at one by one, or all of them as one text.
    plain = tuple(token for token in tokens if token.kind != "flags")
    source = "".join(token.text for token in plain)
    flags = (re.MULTILINE | re.DOTALL if multiline else 0) | (re.IGNORECASE if ignore_case else 0)
    _check(source, flags)
    return SearchPattern(source, int(flags), "" if ignore_case else _first_text(plain), plain, multiline)


def _first_text(tokens: tuple[Token, ...]) -> str:
    """Return the ASCII text that every match begins with; "" when there is none, or line ends are in it."""
    if any(token.kind == "or" for token in tokens):
        return ""
    text = ""
    for token, after in zip(tokens, (*tokens[1:], None), strict=True):
        if after is not None and after.kind == "repeat":
            break
        if token.kind == "char" and token.value.isascii() and token.value not in "\r\n":
            text += token.value
        elif text or token.kind != "anchor":
            break
    return text


def _literal_tokens(text: str) -> tuple[Token, ...]:
    return tuple(Token("char", re.escape(char), char) for char in text)


def _check(source: str, flags: int) -> None:
    try:
        re.compile(source, flags)
    except (re.error, OverflowError, RecursionError) as error:
        message = error.msg if isinstance(error, re.error) else "too large"
        hint = " (literal=true searches for the text as it stands)"
        raise PatternError(f"not a valid regular expression: {message}{hint}") from error
