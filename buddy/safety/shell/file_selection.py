"""The files a command would select, by name or by content.

All functions over-approximate: when unsure, a file counts as selected.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Callable, Iterable

import msgspec

from buddy.safety.git_repository import read_if_regular
from buddy.safety.shell.result import MAX_CHARS
from buddy.safety.wildcards import STAR, wildcard

MAX_SECRET_BYTES = 65_536
_LONG_LINE = 500
_HUNTED = re.compile(
    r"(?i)pass(?:word|wd|phrase)|secret|token(?!i[sz])|api.?key|credential|private.?key|access.?key|aws_|auth(?!or)|bearer"
    r"|sk-|ghp_|akia|\A(?:\(\?:)?[\^(]?(?:\.[*+]?|\\[wSW][*+]?|\[[^\]]*\][*+]?|=)?[$)]*\Z"
)
_PLAIN_GLOB = re.compile(r"[\w.*?/+@, -]*")
_BRACKETS = re.compile(r"\[\[:[a-z]+:\]\]")
_UNSURE = re.compile(r"[*+}][*+{]|\)[*+{]|(?:[*+}].*){4}|\(\?(?!:)|\\\\|\\['`]|\[[:.=]|\A\*")
"""Patterns that may take exponential time, or that Python reads differently."""
_ESCAPE = re.compile(r"\\(?![sSwWdDbBntr])[A-Za-z0-9]")
_ODD_ESCAPE = {"perl": _ESCAPE, "rust": _ESCAPE}
_ODD_POSIX = re.compile(
    r"\\(?![sSwWbB])[A-Za-z0-9]|\[[^\]]*\\|(?<![\[|(\\])(?<=.)\^|(?<!\\)\$(?=.)(?!\\?[|)])"
)
_SET_OPERATION = re.compile(r"\[\^?\]?[^\]]*(?:--|&&|\|\||~~)")
"""Classes that ripgrep reads as an operation on sets, and that Python warns of."""
_ODD_RUST = re.compile(r"(?<!\\)\[\^?\]?(?:\\.|[^\]\\])*\[|\\b\{|\{[^}]*\s|\?\+")
"""Classes within classes, kinds of word boundaries, blanks in a repetition."""
_REPEATED_AGAIN = re.compile(r"[*+?}][+?]")
"""Signs that repeat a repetition in POSIX; Python makes it lazy or possessive, which finds less."""
_BRACKET_IN_CLASS = re.compile(r"(?<!\\)\[(\^?)\[")
_AS_WRITTEN = "|(?-i:"
"""Before the copy of an expression that minds case. No pattern of a search brings such a group along."""


class Candidate(msgspec.Struct, frozen=True):
    """A file that may be taken up: its place, and the spelling under which a command would name it; `text`
    when it is only imagined."""

    path: str
    shown: str
    text: str | None = None

    @property
    def name(self) -> str:
        """Return its last component."""
        return os.path.basename(self.path)

    @property
    def spellings(self) -> tuple[str, str]:
        """Return the two ways commands may write the path."""
        plain = self.shown.removeprefix("./")
        return plain, f"./{plain}"


Filter = Callable[[Candidate], bool]
"""Tells whether a file may pass one test of a command."""


def glob_filter(pattern: str, *, on_path: bool = False) -> Filter | None:
    """Return a pattern on names, or on whole paths, where `*` matches a slash too; None for one that is not
    plain."""
    if not _PLAIN_GLOB.fullmatch(pattern):
        return None
    pieces = (STAR if char == "*" else "." if char == "?" else re.escape(char) for char in pattern)
    expression = re.compile(wildcard(pieces), re.DOTALL | re.IGNORECASE)
    if on_path:
        return lambda file: any(map(expression.fullmatch, file.spellings))
    return lambda file: expression.fullmatch(file.name) is not None


def any_of(filters: Iterable[Filter | None]) -> Filter | None:
    """Combine tests so that a file passes when one of them accepts it; None when one of them accepts
    everything, or there is none."""
    known = list(filters)
    tests = [one for one in known if one is not None]
    if not tests or len(tests) < len(known):
        return None
    return lambda file: any(test(file) for test in tests)


def all_of(filters: tuple[Filter, ...]) -> Filter | None:
    """Combine tests so that a file passes when all of them accept it; None when there is none."""
    return (lambda file: all(test(file) for test in filters)) if filters else None


def no_hidden(file: Candidate) -> bool:
    """Tell whether no component of the path starts with a dot."""
    return not any(part.startswith(".") and part not in (".", "..") for part in file.shown.split("/"))


def line_filter(expression: re.Pattern[str] | None) -> Filter | None:
    """Return a test that accepts the names a line search matches; None for an unknown search."""
    if expression is None:
        return None
    return lambda file: any(map(expression.search, file.spellings))


def content_filter(expression: re.Pattern[str] | None) -> Filter | None:
    """Return the files in which a search may find something."""
    if expression is None:
        return None
    return lambda file: (
        _may_match(expression, file.path) if file.text is None else expression.search(file.text) is not None
    )


def _may_match(expression: re.Pattern[str], path: str) -> bool:
    data = read_if_regular(path, MAX_SECRET_BYTES + 1)
    if data is None:
        return True
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # ripgrep decodes these
        return True
    text = data.decode("utf-8", "replace")
    has_long_lines = any(len(line) > _LONG_LINE for line in text.split("\n"))
    if len(data) > MAX_SECRET_BYTES or (has_long_lines and re.search(r"[*+{]", expression.pattern)):
        return True
    # ripgrep leaves out the mark before the first line and, with --crlf, the \r before a line end.
    marked = (text, text.removeprefix("\ufeff"))
    readings = {*marked, *(reading.replace("\r\n", "\n") for reading in marked)}
    return any(map(expression.search, readings))


def hunts_secrets(expression: re.Pattern[str] | None) -> bool:
    """Tell whether a search looks for what secret files usually hold, or for everything."""
    return expression is None or _HUNTED.search(expression.pattern.partition(_AS_WRITTEN)[0]) is not None


def search_expression(patterns: tuple[str, ...], dialect: str) -> re.Pattern[str] | None:
    """Return an expression for everything a search would find, or more; None when that is unknown. `dialect`:
    "basic", "extended", "perl", "rust" or "fixed"."""
    if not patterns:
        return None
    texts = [_python(line, dialect) for pattern in patterns for line in pattern.split("\n")]
    known = [text for text in texts if text is not None]
    if len(known) < len(texts) or sum(map(len, known)) > MAX_CHARS:
        return None
    joined = "|".join(f"(?:{text})" for text in known)
    if "[^" in joined:  # ignoring case, [^a] leaves out A too
        joined = f"{joined}{_AS_WRITTEN}{joined})"
    try:
        return re.compile(joined, re.IGNORECASE | re.MULTILINE)
    except re.error:
        return None


def _python(pattern: str, dialect: str) -> str | None:
    """Return a pattern as Python writes it, letting through the same or more."""
    if dialect == "fixed":
        return re.escape(pattern)
    text = _BRACKETS.sub(".", pattern)
    if _ODD_ESCAPE.get(dialect, _ODD_POSIX).search(text.replace("\\<", "").replace("\\>", "")):
        return None
    if dialect == "basic":
        text = re.sub(r"\\?[(){}|+?]", lambda sign: sign[0][1:] or f"\\{sign[0]}", text)
    if dialect != "perl":
        text = re.sub(r"\\[<>]", "", text)
    if dialect in ("basic", "extended") and _REPEATED_AGAIN.search(text):
        return None
    if _SET_OPERATION.search(text) or (dialect == "rust" and _ODD_RUST.search(text)):
        return None
    return None if _UNSURE.search(text) else _BRACKET_IN_CLASS.sub(r"[\1\[", text)
