"""RE2 as a matcher: it takes time in proportion to the text, whatever the pattern, so that it runs inside the
program. It has no look-around and no back-references, and its word boundaries are those of ASCII: it leaves
undecided what depends on them, but only where a looser pattern matches.
"""

from __future__ import annotations

import functools
import importlib
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from buddy.agent.lazy_regex import pattern
from buddy.workspace.files.bulk_read import DecodedText
from buddy.workspace.search.matcher import Span, Stopped
from buddy.workspace.search.pattern import SearchPattern, Token, bounds_of

MATCHES_BETWEEN_LOOKS = 1000
LINES_AT_ONCE = 8
"""Counted by one call; with more the automaton grows."""
MAX_AT_ONCE = 1_000_000
"""Bytes of a file that `re` counts in one call: 5 ms."""
MAX_PLAIN_TOKENS = 100
MAX_REPEATS = 1000
"""RE2 counts no further."""
MAX_PROGRAM = 50_000
"""Steps of an RE2 program; a longer one may take minutes for a large file."""
RE2_MEMORY = 64 << 20

Reading = Literal["ascii", "wide", "loose"]
"""Of a pattern by RE2: the exact one for ASCII text, the exact one for any text, or one that matches at least
where `re` does."""

_SPACES = r"\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
_NO_SPACES = (
    r"\x00-\x08\x0e-\x1b\x21-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}"
    r"\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff}"
)
_ASCII_CLASSES = {r"\s": r"\t-\r\x1c-\x20", r"\S": r"\x00-\x08\x0e-\x1b\x21-\x7f"}
_WIDE_CLASSES = {
    r"\w": r"\p{L}\p{N}_",
    r"\d": r"\p{Nd}",
    r"\D": r"\P{Nd}",
    r"\s": _SPACES,
    r"\S": _NO_SPACES,
}
_CLASS = pattern(r"\\[wWdDsS]")
_ESCAPED = pattern(r"\\x..|\\.")
_WORD_ITEMS = pattern(r"(?:\\[wd]|_|[0-9](?:-[0-9])?|[a-z](?:-[a-z])?|[A-Z](?:-[A-Z])?)+")
_ALIKE_I = "iI\u0130\u0131"
"""The same letter to `re` when case does not count, with and without a dot; RE2 tells them apart."""
_NO_WORD_BEFORE = r"(?:^|[^\p{L}\p{N}_])"
_NO_WORD_AFTER = r"(?:$|[^\p{L}\p{N}_])"


class Re2Matcher:
    """A pattern's matches, as far as RE2 can tell."""

    def __init__(self, asked: SearchPattern) -> None:
        self._pattern = asked
        self._spans = _over_lines if asked.multiline else _in_lines

    def spans(self, text: DecodedText, stopped: Stopped) -> Iterable[Span] | None:
        """Return the spans of matches; None when RE2 cannot tell."""
        if not text.data:
            return ()
        regex = self._ascii if text.ascii else self._wide
        if regex is not None:
            first = regex.search(text.data)
            return self._spans(regex, text.data, first, stopped) if first else ()
        loose = self._loose
        return () if loose is not None and loose.search(text.data) is None else None

    def count(self, text: DecodedText, stopped: Stopped) -> int | None:
        """Count the matching lines; None when only a look at each match can tell."""
        if not text.ascii:
            return None
        if self._plain_counter is not None and len(text.data) <= MAX_AT_ONCE:
            return len(self._plain_counter.findall(text.data))
        counter = self._counter
        if counter is None:
            return None
        data, at, total = text.data, 0, 0
        while match := counter.match(data, at):
            total, at = total + LINES_AT_ONCE, match.end()
            if stopped():
                return total
        rest = self._ascii.search(data, at) if at < len(data) else None
        return total + sum(1 for _ in _in_lines(self._ascii, data, rest, stopped))

    @functools.cached_property
    def _plain_counter(self) -> re.Pattern[bytes] | None:
        """`re` finds all matching lines in one call, in a quarter of the time, where a pattern begins with
        plain text and gives it nothing to try in several ways; it holds the interpreter meanwhile."""
        asked = self._pattern
        if self._ascii is None or asked.multiline or asked.flags & re.IGNORECASE:
            return None
        if not all(map(_is_plain, _branches(asked.tokens))):
            return None
        tokens = [_within_line(token) for token in asked.tokens]
        if any(_matches_line_end(token) for token in tokens):
            return None
        spelled = _translate(tokens, "ascii", ignore_case=False, multiline=False)
        return re.compile(f"(?m)(?:{spelled})[^\\n]*\\n?".encode())

    @functools.cached_property
    def _counter(self) -> Any:
        """Return a function that counts the next matching lines as one match: a call per line takes three
        times as long."""
        asked = self._pattern
        if asked.multiline or self._ascii is None:
            return None
        ignore_case = bool(asked.flags & re.IGNORECASE)
        tokens = [_within_line(token) for token in asked.tokens]
        if any(_matches_line_end(token) for token in tokens):
            return None
        line = f"[^\\n]*(?:{_translate(tokens, 'ascii', ignore_case, False)})[^\\n]*\\n"
        flags = "(?mi)" if ignore_case else "(?m)"
        return _re2_object(f"{flags}(?:(?:[^\\n]*\\n)*?{line}){{{LINES_AT_ONCE}}}", never_nl=False)

    @functools.cached_property
    def is_sure(self) -> bool:
        """Tell whether the matcher can decide every text."""
        return self._ascii is not None and self._wide is not None

    @functools.cached_property
    def _ascii(self) -> Any:
        return _compile(self._pattern, "ascii")

    @functools.cached_property
    def _wide(self) -> Any:
        return _compile(self._pattern, "wide")

    @functools.cached_property
    def _loose(self) -> Any:
        return _compile(self._pattern, "loose")


def _in_lines(regex: Any, data: bytes, match: Any, stopped: Stopped) -> Iterator[Span]:
    size = len(data)
    last = size - 1 if data.endswith(b"\n") else size  # nothing begins behind the last line end
    grouped = regex.groups > 0
    count = 0
    while match:
        start, end = match.span(match.lastindex) if grouped else match.span()
        if start > last:
            return
        yield start, end
        count += 1
        at = data.find(b"\n", start) + 1
        if not at or (count % MATCHES_BETWEEN_LOOKS == 0 and stopped()):
            return
        match = regex.search(data, at)


def _over_lines(regex: Any, data: bytes, match: Any, stopped: Stopped) -> Iterator[Span]:
    size = len(data)
    last = size - 1 if data.endswith(b"\n") else size
    while match and match.start() <= last:
        yield match.span()
        at = match.end() + (match.start() == match.end())
        while at < size and data[at] & 0xC0 == 0x80:  # inside of a character
            at += 1
        if at >= size or stopped():
            return
        match = regex.search(data, at)


# Patterns in RE2's words


@functools.cache
def _re2() -> Any:
    """Return the module, None on systems without a package for it."""
    try:
        return importlib.import_module("re2")
    except ImportError:
        return None


def _compile(asked: SearchPattern, reading: Reading) -> Any:
    """Compile a pattern, None when RE2 can't express it or is not installed."""
    ignore_case, multiline = bool(asked.flags & re.IGNORECASE), asked.multiline
    flags = f"(?m{'s' * multiline}{'i' * ignore_case})"
    try:
        spelled = _translate(asked.tokens, reading, ignore_case, multiline)
    except _UnspeakableError:
        return None
    return _re2_object(flags + spelled, never_nl=not multiline)


def _re2_object(spelled: str, *, never_nl: bool) -> Any:
    re2 = _re2()
    if re2 is None:
        return None
    options = re2.Options()
    options.log_errors = False
    options.never_nl = never_nl
    options.max_mem = RE2_MEMORY
    try:
        regex = re2.compile(spelled, options)
    except re2.error:  # too many repeats of repeats
        return None
    return regex if regex.programsize <= MAX_PROGRAM else None


def _is_plain(branch: Sequence[Token]) -> bool:
    """Tell whether an alternative begins with an ASCII character and `re` needs no second try behind it:
    what is repeated stands at the end."""
    kinds = [token.kind for token in branch]
    begins = kinds[:1] == ["char"] and kinds[1:2] != ["repeat"] and len(kinds) <= MAX_PLAIN_TOKENS
    if kinds[-1:] == ["repeat"]:
        kinds.pop()
    is_flat = all(kind in ("char", "class", "dot") for kind in kinds)
    return begins and is_flat and all(token.text.isascii() for token in branch)


def _within_line(token: Token) -> Token:
    """Return a class that cannot match a line end, as far as that can be written."""
    if token.kind != "class":
        return token
    items = f"{token.value}\\n" if token.negated else token.value.replace(r"\s", r"\t\x0b-\r\x1c-\x20")
    return Token("class", f"[{'^' if token.negated else ''}{items}]", items, token.negated)


def _matches_line_end(token: Token) -> bool:
    if token.kind == "class":
        return re.search(token.text, "\n") is not None
    return token.kind == "open" and "s" in token.value


class _UnspeakableError(Exception):
    """RE2 has no word for a part of the pattern."""


def _translate(tokens: Sequence[Token], reading: Reading, ignore_case: bool, multiline: bool) -> str:
    if reading != "wide" or multiline:
        return "".join(_words(tokens, reading, ignore_case, multiline))
    branches = list(_branches(tokens))
    inner = [_without_edges(branch) for branch in branches]
    if inner == branches:
        return "".join(_words(tokens, reading, ignore_case, multiline))
    # RE2's word boundaries are those of ASCII. At the ends of a pattern the character beside the match tells
    # as much; the match itself is the group inside.
    out: list[str] = []
    for whole, inside in zip(branches, inner, strict=True):
        before = _NO_WORD_BEFORE if whole[:1] != inside[:1] else ""
        after = _NO_WORD_AFTER if whole[-1:] != inside[-1:] else ""
        words = "".join(_words(inside, reading, ignore_case, multiline))
        out.append(f"{before}({words}){after}")
    return "|".join(out)


def _words(tokens: Sequence[Token], reading: Reading, ignore_case: bool, multiline: bool) -> Iterator[str]:
    """Turn groups into plain ones: their matches are not needed."""
    cases = [ignore_case]
    depth_of_look = 0
    after_look = False
    for token in tokens:
        if depth_of_look or token.kind == "look":
            if reading != "loose":
                raise _UnspeakableError
            depth_of_look += (token.kind in ("open", "look")) - (token.kind == "close")
            after_look = True
            continue
        if after_look and token.kind == "repeat":
            continue
        after_look = False
        if token.kind == "open":
            on, _, off = token.value.partition("-")
            cases.append("i" in on or (cases[-1] and "i" not in off))
        elif token.kind == "close" and len(cases) > 1:
            cases.pop()
        yield _word(token, reading, cases[-1], multiline)


def _word(token: Token, reading: Reading, ignore_case: bool, multiline: bool) -> str:
    match token.kind:
        case "char":
            return _char(token.value, reading, ignore_case)
        case "class":
            return _class(token, reading, ignore_case)
        case "anchor":
            return _anchor(token.value, reading, multiline)
        case "open":
            if token.text == "(?>":
                return _only_loosely(reading, "(?:")
            return token.text if token.value else "(?:"
        case "repeat":
            return _repeat(token, reading)
        case "back":
            return _only_loosely(reading, "(?:.*)")
        case "dot" | "close" | "or" | "look" | "flags":
            return token.text


def _only_loosely(reading: Reading, spelled: str) -> str:
    if reading != "loose":
        raise _UnspeakableError
    return spelled


def _anchor(value: str, reading: Reading, multiline: bool) -> str:
    if value in "bB":
        return f"\\{value}" if reading == "ascii" else _only_loosely(reading, "(?:)")
    if value in "^$":
        return value
    return ("\\A" if value == "A" else "\\z") if multiline else ("^" if value == "A" else "$")


def _repeat(token: Token, reading: Reading) -> str:
    least, most = bounds_of(token)
    manner = token.text[len(token.value) :]
    if manner == "+":
        manner = _only_loosely(reading, "")
    if token.value in "*+?":
        return token.value + manner
    if max(least, most if most < sys.maxsize else 0) > MAX_REPEATS:
        return _only_loosely(reading, "+" if least else "*")
    return f"{{{least},{'' if most == sys.maxsize else most}}}{manner}"


def _char(char: str, reading: Reading, ignore_case: bool) -> str:
    if ignore_case and char in _ALIKE_I and reading != "ascii":
        return f"[{_ALIKE_I}]"
    return char if char.isalnum() or not char.isascii() else f"\\x{ord(char):02x}"


def _class(token: Token, reading: Reading, ignore_case: bool) -> str:
    items, negated = token.value, token.negated
    if reading == "ascii":
        items = _CLASS().sub(lambda found: _ASCII_CLASSES.get(found[0], found[0]), items)
        return f"[{'^' if negated else ''}{items}]"
    if items == r"\W":
        items, negated = r"\w", not negated
    others = _CLASS().sub("", items)
    if not ignore_case or others == items:
        alike = ignore_case and re.search(f"[{items}]", _ALIKE_I, re.IGNORECASE)
        return _wide_class(items + (_ALIKE_I if alike else ""), negated=negated)
    # A character that is no letter may be a letter in another case, to RE2 but not to `re`.
    if not any(map(str.isalpha, _ESCAPED().sub("", others))):
        return f"(?-i:{_wide_class(items, negated=negated)})"
    if negated:
        return _only_loosely(reading, "(?s:.)")
    classes = "".join(_CLASS().findall(items))
    letters = _class(Token("class", f"[{others}]", others), reading, ignore_case)
    return f"(?:(?-i:{_wide_class(classes, negated=False)})|{letters})"


def _wide_class(items: str, *, negated: bool) -> str:
    items = _CLASS().sub(lambda found: _WIDE_CLASSES.get(found[0]) or _no_word_characters(), items)
    return f"[{'^' if negated else ''}{items}]"


@functools.cache
def _no_word_characters() -> str:
    r"""Return all that \W matches as items of a class: RE2 cannot subtract classes."""
    every = "".join(map(chr, (*range(0xD800), *range(0xE000, sys.maxunicode + 1))))
    runs = (match[0] for match in re.finditer(r"\W+", every))
    return "".join(f"\\x{{{ord(run[0]):x}}}-\\x{{{ord(run[-1]):x}}}" for run in runs)


# Word boundaries at the ends of a pattern


def _branches(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Yield the alternatives of a pattern, or of a group's inside."""
    branch: list[Token] = []
    depth = 0
    for token in tokens:
        depth += (token.kind in ("open", "look")) - (token.kind == "close")
        if token.kind == "or" and not depth:
            yield branch
            branch = []
        else:
            branch.append(token)
    yield branch


def _without_edges(branch: list[Token]) -> list[Token]:
    """An alternative without a \\b before its first word character, and without one behind its last."""
    inside = branch
    if _is_boundary(inside[:1]) and _begins_with_word(inside[1:]):
        inside = inside[1:]
    if _is_boundary(inside[-1:]) and _ends_with_word(inside[:-1]):
        inside = inside[:-1]
    return inside


def _is_boundary(tokens: Sequence[Token]) -> bool:
    return [(token.kind, token.value) for token in tokens] == [("anchor", "b")]


def _begins_with_word(tokens: Sequence[Token]) -> bool:
    """Tell whether every match begins with a word character; False when unsure."""
    if not tokens:
        return False
    size = _group_size(tokens)
    if tokens[size:] and tokens[size].kind == "repeat" and not bounds_of(tokens[size])[0]:
        return False
    if size > 1:
        return all(map(_begins_with_word, _branches(tokens[1 : size - 1])))
    return _is_word(tokens[0])


def _ends_with_word(tokens: Sequence[Token]) -> bool:
    """Tell whether every match ends with a word character; False when unsure."""
    if tokens and tokens[-1].kind == "repeat":
        if not bounds_of(tokens[-1])[0]:
            return False
        tokens = tokens[:-1]
    if not tokens or tokens[-1].kind != "close":
        return bool(tokens) and _is_word(tokens[-1])
    size = next(n for n in range(2, len(tokens) + 1) if _group_size(tokens[-n:]) == n)
    inside = tokens[len(tokens) - size + 1 : -1]
    return tokens[-size].kind == "open" and all(map(_ends_with_word, _branches(inside)))


def _group_size(tokens: Sequence[Token]) -> int:
    """Return the number of tokens of the group that starts here, 1 without one."""
    depth = 0
    for at, token in enumerate(tokens):
        depth += (token.kind in ("open", "look")) - (token.kind == "close")
        if depth <= 0:
            return at + 1
    return 1


def _is_word(token: Token) -> bool:
    if token.kind == "char":
        return token.value.isalnum() or token.value == "_"
    plain = token.kind == "class" and not token.negated
    return plain and _WORD_ITEMS().fullmatch(token.value) is not None
