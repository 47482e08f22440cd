"""One line of an ignore file, read as git reads it.

git matches bytes with its own `wildmatch`; a pattern becomes a regular expression over bytes that accepts the
same names. Its oddities are kept, checked against `git check-ignore` in the tests: a literal beginning is cut
off before `**` is looked at, so that `a**/b` means `a` and then any folders.
"""

from __future__ import annotations

import os
import re

import msgspec

from buddy.agent.pattern import pattern
from buddy.safety.wildcards import FOLDERS, STAR, wildcard

_CLASSES = {
    b"alnum": b"0-9A-Za-z",
    b"alpha": b"A-Za-z",
    b"blank": b" \\t",
    b"cntrl": b"\\x00-\\x1f\\x7f",
    b"digit": b"0-9",
    b"graph": b"!-~",
    b"lower": b"a-z",
    b"print": b" -~",
    b"punct": b"!-/:-@\\[-`{-~",
    b"space": b" \\t-\\r",
    b"upper": b"A-Z",
    b"xdigit": b"0-9A-Fa-f",
}
_STAR, _FOLDERS = STAR.encode(), FOLDERS.encode()
_SPECIAL = pattern(rb"[*?\[\\]")
NEVER = pattern(rb"(?!)")
MAX_PATH = 4096
"""Bytes of a path. A pattern that asks for more matches nothing, and would take seconds to compile."""


class IgnoreRule(msgspec.Struct, frozen=True):
    """A pattern. `by_name`: it is about the last component alone, else about the path from the ignore file's
    folder. `literal` is the whole name or path where nothing in it is special, else None and `regex` decides;
    `beginning` is what every path it matches begins with."""

    negated: bool
    only_folders: bool
    by_name: bool
    literal: str | None
    suffix: str | None
    beginning: str
    regex: re.Pattern[bytes]


def parse_ignore_file(data: bytes) -> tuple[IgnoreRule, ...]:
    """The patterns of an ignore file, in order."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    lines = (line.removesuffix(b"\r") for line in data.split(b"\n"))
    return tuple(rule for line in lines if (rule := parse_rule(line)) is not None)


def parse_rule(line: bytes) -> IgnoreRule | None:
    """The pattern of one line, None for blank lines and comments."""
    if not line or line.startswith(b"#"):
        return None
    pattern = _without_trailing_blanks(line)
    negated = pattern.startswith(b"!")
    pattern = pattern[negated:]
    only_folders = pattern.endswith(b"/")
    pattern = pattern[: len(pattern) - only_folders]
    if not pattern:
        return None
    by_name = b"/" not in pattern
    pattern = pattern if by_name else pattern.removeprefix(b"/")
    special = _SPECIAL().search(pattern)
    literal = os.fsdecode(pattern) if special is None else None
    tail = pattern[1:]
    suffix = os.fsdecode(tail) if by_name and pattern[:1] == b"*" and not _SPECIAL().search(tail) else None
    beginning = os.fsdecode(pattern[: special.start()] if special else pattern)
    return IgnoreRule(
        negated, only_folders, by_name, literal, suffix, beginning, _regex(pattern, special, by_name)
    )


def _regex(pattern: bytes, special: re.Match[bytes] | None, by_name: bool) -> re.Pattern[bytes]:
    if special is None:
        return re.compile(re.escape(pattern), re.DOTALL)
    if by_name:
        return wild(pattern, slashes=False)
    return wild(pattern[special.start() :], slashes=True, before=pattern[: special.start()])


def _without_trailing_blanks(line: bytes) -> bytes:
    """Blanks at the end do not count unless escaped."""
    end = len(line)
    while end and line[end - 1 : end] == b" ":
        escapes = len(line[: end - 1]) - len(line[: end - 1].rstrip(b"\\"))
        if escapes % 2:
            break
        end -= 1
    return line[:end]


def wild(pattern: bytes, *, slashes: bool, before: bytes = b"") -> re.Pattern[bytes]:
    """A wildcard pattern as a regular expression for the whole text; one that can match nothing if the
    pattern is broken. `slashes`: `*`, `?` and classes do not match a slash, `**` between slashes does."""
    out = [re.escape(before)]
    one = "[^/]" if slashes else "."
    at = 0
    while at < len(pattern):
        char = pattern[at : at + 1]
        if char == b"*":
            end = at
            while pattern[end : end + 1] == b"*":
                end += 1
            stars, at = _stars(pattern, at, end) if slashes else ((_STAR,), end)
            out += stars if stars != (_FOLDERS,) or out[-1] != _FOLDERS else ()
        elif char == b"?":
            out.append(one.encode())
            at += 1
        elif char == b"[":
            found = _bracket(pattern, at, slashes=slashes)
            if found is None:
                return NEVER()
            piece, at = found
            out.append(piece)
        elif char == b"\\":
            if at + 1 == len(pattern):
                return NEVER()
            out.append(re.escape(pattern[at + 1 : at + 2]))
            at += 2
        else:
            out.append(re.escape(char))
            at += 1
    if sum(piece not in (_STAR, _FOLDERS) for piece in out) > MAX_PATH:
        return NEVER()
    text = wildcard((piece.decode("latin-1") for piece in out), one)
    return re.compile(text.encode("latin-1"), re.DOTALL)


def _stars(pattern: bytes, at: int, end: int) -> tuple[tuple[bytes, ...], int]:
    """Translate a run of stars to wildcards; return them and the position where the pattern continues."""
    after = pattern[end : end + 1]
    bounded = at == 0 or pattern[at - 1 : at] == b"/"
    if end - at < 2 or not bounded or not (after in (b"", b"/") or pattern[end : end + 2] == b"\\/"):
        return (_STAR,), end
    if after == b"/":
        return (_FOLDERS,), end + 1
    return (_FOLDERS, _STAR), end


def _bracket(pattern: bytes, at: int, *, slashes: bool) -> tuple[bytes, int] | None:
    """A class like [a-z] and where the pattern goes on; None when it does not end."""
    at += 1
    negated = pattern[at : at + 1] in (b"!", b"^")
    at += negated
    items: list[bytes] = []
    first = True
    while first or pattern[at : at + 1] != b"]":
        first = False
        if at >= len(pattern):
            return None
        end = pattern.find(b"]", at + 2) if pattern[at : at + 2] == b"[:" else -1
        if end > 0 and pattern[end - 1 : end] == b":":
            name = pattern[at + 2 : end - 1]
            if name not in _CLASSES:
                return None
            items.append(_CLASSES[name])
            at = end + 1
            continue
        item, at = _member(pattern, at)
        if item is None:
            return None
        if pattern[at : at + 1] == b"-" and pattern[at + 1 : at + 2] not in (b"]", b""):
            last, at = _member(pattern, at + 1)
            if last is None:
                return None
            if item <= last:
                items.append(_byte(item) + b"-" + _byte(last))
            continue
        items.append(_byte(item))
    return _class(b"".join(items), negated=negated, slashes=slashes), at + 1


def _member(pattern: bytes, at: int) -> tuple[bytes | None, int]:
    if pattern[at : at + 1] == b"\\":
        at += 1
    return pattern[at : at + 1] or None, at + 1


def _byte(byte: bytes) -> bytes:
    return b"\\x%02x" % byte[0]


def _class(items: bytes, *, negated: bool, slashes: bool) -> bytes:
    if not items:
        return b"[^/]" if negated and slashes else b"." if negated else b"(?!)"
    not_slash = b"(?!/)" if slashes else b""
    return not_slash + (b"[^" if negated else b"[") + items + b"]"
