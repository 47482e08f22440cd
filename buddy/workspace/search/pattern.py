"""A search pattern, checked and taken apart: the regular expressions models write, for every engine.

What Python, PCRE and Rust mean alike is accepted, spelled any of their ways, with Unicode classes and
boundaries; what only one of them has is refused with the reason, so that a pattern never silently means
something else.
"""

from __future__ import annotations

import re
import string
import sys
from typing import Literal

import msgspec

from buddy.agent.lazy_regex import pattern

Kind = Literal["char", "class", "dot", "anchor", "open", "look", "close", "or", "repeat", "back", "flags"]

QUANTIFIER = pattern(r"([*+?]|\{(?:\d+(?:,\d*)?|,\d+)\})([?+]?)")
_GROUP = pattern(
    r"\(\?(?:#(?P<comment>[^)]*)\)|P=(?P<back>\w+)\)|P?<(?P<name>[A-Za-z_]\w*)>|(?P<look><?[=!])|(?P<atomic>>)"
    r"|(?P<flags>[a-zA-Z]*(?:-[a-zA-Z]+)?)(?P<end>[:)])|\((?P<condition>\w+)\))"
)
_NUMBERED = {
    "x": pattern(r"x(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]{1,6})\})"),
    "u": pattern(r"u(?:([0-9A-Fa-f]{4})|\{([0-9A-Fa-f]{1,6})\})"),
    "U": pattern(r"U(?:([0-9A-Fa-f]{8}))()"),
}
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "a": "\a", "e": "\x1b", "0": "\0"}
_POSIX = {
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "alnum": "a-zA-Z0-9",
    "upper": "A-Z",
    "lower": "a-z",
    "space": r"\t-\r ",
    "blank": r"\t ",
    "punct": r"!-/:-@\[-`{-~",
    "xdigit": "0-9A-Fa-f",
    "word": r"\w",
    "cntrl": r"\x00-\x1f\x7f",
    "print": " -~",
    "graph": "!-~",
}


class PatternError(Exception):
    """A pattern that cannot be used; the message says why and what to write instead."""


class Token(msgspec.Struct, frozen=True):
    """A piece of a pattern. `text` is how Python writes it; `value` the character, the items of a class, the
    escape, or the bare quantifier."""

    kind: Kind
    text: str
    value: str = ""
    negated: bool = False


def tokens_of(pattern: str) -> tuple[Token, ...]:
    """Return the pieces of a pattern. Raises `PatternError`."""
    found: list[Token] = []
    at = 0
    while at < len(pattern):
        token, at = _token(pattern, at, found)
        if token is not None:
            found.append(token)
    return tuple(found)


def _token(pattern: str, at: int, before: list[Token]) -> tuple[Token | None, int]:
    char = pattern[at]
    match char:
        case "\\":
            return _escape(pattern, at)
        case "[":
            return _class(pattern, at)
        case "(":
            return _group(pattern, at)
        case ")":
            return Token("close", ")"), at + 1
        case "|":
            return Token("or", "|"), at + 1
        case ".":
            return Token("dot", "."), at + 1
        case "^" | "$":
            return Token("anchor", char, char), at + 1
        case "*" | "+" | "?" | "{":
            found = QUANTIFIER().match(pattern, at)
            if found is None:
                return literal(char), at + 1
            if not before or before[-1].kind in ("open", "look", "or", "flags"):
                raise PatternError(f"nothing to repeat before {found[0]!r} at position {at}; write \\{char}")
            return Token("repeat", found[0], found[1]), found.end()
        case _:
            return literal(char), at + 1


def literal(char: str) -> Token:
    """Return a character that stands for itself."""
    return Token("char", re.escape(char), char)


def _escape(pattern: str, at: int) -> tuple[Token, int]:
    if at + 1 == len(pattern):
        raise PatternError("the pattern ends with a single backslash; write \\\\ for a backslash")
    char = pattern[at + 1]
    if char in "wWdDsS":
        return Token("class", f"\\{char}", f"\\{char}"), at + 2
    if char in "AzZbB":
        # For `re` before 3.14 an empty line has no place that is no boundary.
        text = {"z": "\\Z", "B": "(?!\\b)"}.get(char, f"\\{char}")
        return Token("anchor", text, char), at + 2
    if char in "123456789":
        end = at + 3 if pattern[at + 2 : at + 3].isdigit() else at + 2
        return Token("back", f"(?:{pattern[at:end]})"), end
    value, end = _read_escape(pattern, at)
    return literal(value), end


def _read_escape(pattern: str, at: int) -> tuple[str, int]:
    """Return the character an escape stands for, and the position behind it."""
    char = pattern[at + 1 : at + 2]
    if char in _NUMBERED:
        found = _NUMBERED[char]().match(pattern, at + 1)
        number = int(found[1] or found[2], 16) if found else -1
        if found is None or number > 0x10FFFF or 0xD800 <= number < 0xE000:
            raise PatternError(f"\\{char} at position {at} needs the number of a character, as in \\x41")
        return chr(number), found.end()
    if char in _CONTROL:
        return _CONTROL[char], at + 2
    if char in string.ascii_letters or char in string.digits:
        hint = {
            "p": "; write the letters as a class, [A-Za-z]",
            "P": "; write a class",
            "h": "; write [ \\t]",
        }
        raise PatternError(f"\\{char} at position {at} is not supported{hint.get(char, '')}")
    return char, at + 2


def _group(pattern: str, at: int) -> tuple[Token | None, int]:
    if pattern[at : at + 2] != "(?":
        return Token("open", "("), at + 1
    found = _GROUP().match(pattern, at)
    if found is None:
        raise PatternError(
            f"unknown group {pattern[at : at + 4]!r} at position {at}; write \\( for a bracket"
        )
    end = found.end()
    if found["comment"] is not None:
        return None, end
    if found["back"]:
        return Token("back", found[0]), end
    if found["name"]:
        return Token("open", f"(?P<{found['name']}>"), end
    if found["look"]:
        return Token("look", found[0]), end
    if found["condition"]:
        raise PatternError(f"conditional groups (position {at}) are not supported; write two searches")
    if found["atomic"]:
        return Token("open", "(?>"), end
    return _flags(found, at), end


def _flags(found: re.Match[str], at: int) -> Token | None:
    flags = found["flags"]
    if unknown := sorted(set(flags) - set("ims-")):
        raise PatternError(f"the flag {unknown[0]!r} at position {at} is not supported; i, m and s are")
    if found["end"] == ":":
        if "m" in flags:
            raise PatternError("the flag m cannot be set for a part of a pattern")
        return Token("open", found[0], flags)
    if at > 0 or "-" in flags or not flags:
        raise PatternError("flags like (?i) stand at the very beginning; for a part of it write (?i:…)")
    return Token("flags", found[0], flags)


def _class(pattern: str, at: int) -> tuple[Token, int]:
    start = at
    at += 1
    negated = pattern[at : at + 1] == "^"
    at += negated
    items: list[str] = []
    while pattern[at : at + 1] != "]" or not items:
        if at >= len(pattern):
            raise PatternError(f"the [ at position {start} is never closed; write \\[ for a bracket")
        item, at = _class_item(pattern, at, items)
        items.append(item)
    inner = "".join(items)
    return Token("class", f"[{'^' if negated else ''}{inner}]", inner, negated), at + 1


def _class_item(pattern: str, at: int, before: list[str]) -> tuple[str, int]:
    posix = re.compile(r"\[:(\w+):\]").match(pattern, at)
    if posix is not None:
        if posix[1] not in _POSIX:
            raise PatternError(f"unknown class {posix[0]} at position {at}; known: {', '.join(_POSIX)}")
        return _POSIX[posix[1]], posix.end()
    if pattern[at : at + 2] in ("&&", "--", "~~") and before:
        raise PatternError(
            f"{pattern[at : at + 2]!r} in a class (position {at}) has no meaning here; escape it"
        )
    if pattern[at] == "\\" and pattern[at + 1 : at + 2] in ("w", "W", "d", "D", "s", "S"):
        return pattern[at : at + 2], at + 2
    first, at = _class_char(pattern, at)
    if pattern[at : at + 1] != "-" or pattern[at + 1 : at + 2] in ("]", ""):
        return in_class(first), at
    if pattern[at + 1] == "\\" and pattern[at + 2 : at + 3] in ("w", "W", "d", "D", "s", "S"):
        return in_class(first) + "\\-", at + 1
    last, at = _class_char(pattern, at + 1)
    if last < first:
        raise PatternError(f"the range {first}-{last} runs backwards")
    return f"{in_class(first)}-{in_class(last)}", at


def _class_char(pattern: str, at: int) -> tuple[str, int]:
    if pattern[at] != "\\":
        return pattern[at], at + 1
    if pattern[at + 1 : at + 2] == "b":
        return "\b", at + 2
    return _read_escape(pattern, at)


def in_class(char: str) -> str:
    """Return a character as it is written in a class."""
    if char.isalnum() or char == "_" or not char.isascii():
        return char
    return f"\\x{ord(char):02x}"


def bounds_of(token: Token) -> tuple[int, int]:
    """Return the smallest and largest number of repeats of a quantifier."""
    match token.value:
        case "*":
            return 0, sys.maxsize
        case "+":
            return 1, sys.maxsize
        case "?":
            return 0, 1
        case counted:
            least, comma, most = counted[1:-1].partition(",")
            return int(least or 0), int(most) if most else sys.maxsize if comma else int(least)


MAX_CHARS = 4000
FREQUENT = " etaoinsrldcupmfhgby._(),:=wvkxjqz"
"""Characters of source code, the most frequent first; all others are rarer."""


class SearchPattern(msgspec.Struct, frozen=True):
    """`source` and `flags` are what `re` is given; every match holds the text `literal` and the character
    `rare`, which are ASCII ("": unknown). With `multiline` a text is searched as one, otherwise each line
    alone."""

    source: str
    flags: int
    literal: str
    rare: str
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
    first = "" if ignore_case else _first_text(plain)
    return SearchPattern(source, int(flags), first, _rarest_of(plain, ignore_case), plain, multiline)


def _first_text(tokens: tuple[Token, ...]) -> str:
    """Return the ASCII text that every match begins with; "" when there is none, or line ends are in it."""
    if any(token.kind == "or" for token in tokens):
        return ""
    text = ""
    for token, after in zip(tokens, (*tokens, None)[1:], strict=True):
        if after is not None and after.kind == "repeat":
            break
        if token.kind == "char" and token.value.isascii() and token.value not in "\r\n":
            text += token.value
        elif text or token.kind != "anchor":
            break
    return text


def _rarest_of(tokens: tuple[Token, ...], ignore_case: bool) -> str:
    """Return the least frequent of the ASCII characters that are in every match; "" when none is known. A
    letter is in none when case does not count."""
    certain = ""
    depth = 0
    for token, after in zip(tokens, (*tokens, None)[1:], strict=True):
        if token.kind == "or" and depth == 0:
            return ""
        depth += (token.kind in ("open", "look")) - (token.kind == "close")
        is_certain = (
            depth == 0 and token.kind == "char" and not (after is not None and after.kind == "repeat")
        )
        if is_certain and not (ignore_case and token.value.isalpha()):
            certain += token.value
    return max((char for char in certain if char.isascii() and char not in "\r\n"), key=_rarity, default="")


def _rarity(char: str) -> int:
    place = FREQUENT.find(char)
    return place if place >= 0 else len(FREQUENT)


def _literal_tokens(text: str) -> tuple[Token, ...]:
    return tuple(Token("char", re.escape(char), char) for char in text)


def _check(source: str, flags: int) -> None:
    try:
        re.compile(source, flags)
    except (re.error, OverflowError, RecursionError) as error:
        message = error.msg if isinstance(error, re.error) else "too large"
        hint = " (literal=true searches for the text as it stands)"
        raise PatternError(f"not a valid regular expression: {message}{hint}") from error
