"""A search pattern, checked and made ready for every engine.

One engine, Python's, says what matches (`source`), so that answers do not depend on which programs are
installed. rg and git only narrow down the files: they get `loose`, a pattern over bytes that finds at least
every file `source` matches in, whatever its encoding.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from buddy.workspace.search_literals import literals_of, signs_of
from buddy.workspace.search_tokens import PatternError, Token, bounds_of, least_of, tokens_of

MAX_CHARS = 4000
MAX_WAYS = 16
_APART = {("\\s", "\\w"), ("\\s", "\\d"), ("\\s", "\\S"), ("\\w", "\\W"), ("\\d", "\\D")}
_SPACES = r"\t\x0b-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""What \\s matches besides a newline."""
_ALONE = {"\\W": "[^\\w\\n]", "\\D": "[^\\d\\n]"}
MANY = 10
"""Repeats up to this often count as harmless, alone."""


class SearchPattern(msgspec.Struct, frozen=True):
    """`source` and `flags` are Python's; `loose_rust` and `loose_pcre` narrow down files ("" where nothing
    can); every match contains one of `literals` (none: unknown), in any letter case when `ignore_case`, and
    one of the ASCII characters `signs` or one beyond ASCII (None: unknown). `linear`: matching takes time in
    proportion to the text, so that it may run inside buddy. `longest`: for another one, how long lines may be
    so that it still may (0: it may not)."""

    source: str
    flags: int
    literals: tuple[str, ...]
    signs: str | None
    loose_rust: str
    loose_pcre: str
    linear: bool
    longest: int
    multiline: bool
    ignore_case: bool


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
    plain = [token for token in tokens if token.kind != "flags"]
    source = _spelled(plain, [token.text if multiline else _within_line(token) for token in plain])
    flags = re.MULTILINE | (re.DOTALL if multiline else 0) | (re.IGNORECASE if ignore_case else 0)
    _compiled(source, flags)
    somewhere = ignore_case or any(token.kind == "open" and token.value for token in tokens)
    loose = _loose(tokens, ignore_case=somewhere) if not multiline else None
    return SearchPattern(
        source=source,
        flags=int(flags),
        literals=literals_of(tokens),
        signs=signs_of(plain, ignore_case=ignore_case),
        loose_rust=loose("(?-u:[^\\n])", "(?-u:[\\x80-\\xff])") if loose else "",
        loose_pcre=loose("[^\\n]", "[^\\x00-\\x7f]") if loose else "",
        linear=literal or _is_linear(tokens),
        longest=0 if multiline else _longest(tokens),
        multiline=multiline,
        ignore_case=ignore_case,
    )


def _literal_tokens(text: str) -> tuple[Token, ...]:
    return tuple(Token("char", re.escape(char), char) for char in text)


def _compiled(source: str, flags: int) -> None:
    try:
        re.compile(source, flags)
    except (re.error, OverflowError, RecursionError) as error:
        message = error.msg if isinstance(error, re.error) else "too large"
        hint = " (literal=true searches for the text as it stands)"
        raise PatternError(f"not a valid regular expression: {message}{hint}") from error


def _spelled(tokens: Sequence[Token], texts: list[str]) -> str:
    """The pattern. A word's beginning is looked at behind the characters it begins with: a pattern that
    begins with characters is found twenty times as fast."""
    end = 1
    while tokens[end : end + 1] and tokens[end].kind == "char" and not _is_repeated(tokens, end):
        end += 1
    if end == 1 or tokens[0].text != "\\b" or any(token.kind == "or" for token in tokens):
        return "".join(texts)
    word = "".join(texts[1:end])
    return f"{word}(?<=\\b{word}){''.join(texts[end:])}"


def _is_repeated(tokens: Sequence[Token], at: int) -> bool:
    return at + 1 < len(tokens) and tokens[at + 1].kind == "repeat"


def _within_line(token: Token) -> str:
    """A token that cannot match a line end, so that a whole text is searched like its lines one by one."""
    match token.kind:
        case "dot":
            return "[^\\n]"
        case "anchor":
            return {"A": "^", "Z": "$", "z": "$"}.get(token.value, token.text)
        case "class":
            return f"[^{token.value}\\n]" if token.negated else _class_within_line(token)
        case "char" | "open" | "look" | "close" | "or" | "repeat" | "back" | "flags":
            return token.text


def _class_within_line(token: Token) -> str:
    """Looking ahead, and then at the class, would take ten times as long as one class does."""
    spelled = token.value.replace("\\s", _SPACES)
    for text in (token.text, _ALONE.get(token.value, f"[{spelled}]")):
        if re.match(text, "\n") is None:
            return text
    return f"(?:(?!\\n){token.text})"


# Narrowing down files


def _loose(tokens: Sequence[Token], *, ignore_case: bool) -> Callable[[str, str], str]:
    """From what any byte and any byte above ASCII are called to a pattern that matches at least as much."""

    def spelled(any_byte: str, high: str) -> str:
        out: list[str] = ["(?i)" if ignore_case else ""]
        looks: list[bool] = []
        skipping = 0
        for token in tokens:
            if token.kind in ("open", "look"):
                looks.append(token.kind == "look")
                skipping += token.kind == "look"
                if not skipping:
                    out.append("(?:")
            elif token.kind == "close" and looks:
                if looks.pop():
                    skipping -= 1
                    out.append("(?:)" if not skipping else "")
                elif not skipping:
                    out.append(")")
            elif not skipping:
                out.append(_loosened(token, any_byte, high, ignore_case))
        return "".join(out)

    return spelled


def _loosened(token: Token, any_byte: str, high: str, ignore_case: bool) -> str:
    """A token over bytes: a character outside ASCII is one to four bytes, what looks around is nothing."""
    anything = f"(?:{any_byte}{{1,4}})"
    match token.kind:
        case "char":
            return _loose_char(token.value, anything, high, ignore_case)
        case "class":
            simple = not token.negated and not ignore_case and token.value.isascii()
            if token.value == "\\w" and not token.negated:
                return f"(?:[0-9A-Za-z_]|{high}{{1,4}})"
            if token.value == "\\d" and not token.negated:
                return f"(?:[0-9]|{high}{{1,4}})"
            return f"[{token.value}]" if simple and not re.search(r"\\[wWdDsS]", token.value) else anything
        case "dot":
            return anything
        case "anchor" | "flags":
            return "(?:)"
        case "or":
            return "|"
        case "repeat":
            return token.value.replace("{,", "{0,")
        case "back":
            return f"(?:{any_byte}*)"  # bare, a + behind it would give nothing back
        case "open" | "look" | "close":
            return ""


def _loose_char(char: str, anything: str, high: str, ignore_case: bool) -> str:
    if not char.isascii():
        return anything if ignore_case else f"(?:{high}{{1,4}})"
    plain = char if char.isalnum() else f"\\x{ord(char):02x}"
    # The only ASCII letters that are equal to other characters when case does not count: ı, ſ and the
    # Kelvin sign.
    return f"(?:{plain}|{high}{{2,3}})" if ignore_case and char in "iIsSkK" else plain


# How long matching may take


def _is_linear(tokens: Sequence[Token]) -> bool:
    """Whether a search is certain to take time in proportion to the text: no open-ended repeat at all, or
    one outside of groups after which nothing can fail, or before which stands what it cannot match. Doubtful
    patterns run in a child process that can be killed."""
    if any(token.kind == "back" for token in tokens) or _repeats_repeats(tokens):
        return False
    big = [n for n, token in enumerate(tokens) if token.kind == "repeat" and bounds_of(token)[1] > MANY]
    small = sum(token.kind == "repeat" and 1 < bounds_of(token)[1] <= MANY for token in tokens)
    optional = sum(token.kind == "repeat" and bounds_of(token) == (0, 1) for token in tokens)
    if small > 2 or optional > MANY // 2 or _choices(tokens) > 3:
        return False
    if not big:
        return True
    at = big[0]
    if len(big) > 1 or small or optional or any(token.kind in ("or", "open", "look") for token in tokens):
        return False
    if at == len(tokens) - 1 or (at == 2 and tokens[0].value in ("^", "A")):
        return True
    return _cannot_overlap(tokens[: at - 1], tokens[at - 1])


def _choices(tokens: Sequence[Token]) -> int:
    """How many groups have alternatives: each may double the ways to match."""
    ways: list[int] = []
    count = 0
    for token in tokens:
        if token.kind in ("open", "look"):
            ways.append(0)
        elif token.kind == "or" and ways:
            count += ways[-1] == 0
            ways[-1] += 1
        elif token.kind == "close" and ways:
            ways.pop()
    return count


def _repeats_repeats(tokens: Sequence[Token]) -> bool:
    """Whether a repeated group holds a repeat or alternatives."""
    groups: list[bool] = []
    for index, token in enumerate(tokens):
        if token.kind in ("open", "look"):
            groups.append(False)
        elif token.kind in ("repeat", "or") and groups:
            groups[-1] = True
        elif token.kind == "close" and groups:
            inner = groups.pop()
            repeated = index + 1 < len(tokens) and tokens[index + 1].kind == "repeat"
            if inner and repeated:
                return True
            if groups:
                groups[-1] = groups[-1] or inner or repeated
    return False


def _longest(tokens: Sequence[Token]) -> int:
    """How long lines may be for a pattern with one or two doubtful open-ended repeats: the time for a line is
    at most in proportion to its length's second or third power, times the other ways to match. 0: more."""
    if any(token.kind == "back" for token in tokens) or _repeats_repeats(tokens):
        return 0
    doubtful = [0]
    ways = 1
    for at, token in enumerate(tokens):
        if token.kind == "or":
            ways *= 2
            doubtful.append(0)
        elif token.kind in ("open", "look", "close"):
            # Inside a group alternatives are tried with everything around them.
            doubtful = [sum(doubtful)]
        elif token.kind == "repeat":
            least, most = bounds_of(token)
            if most > MANY:
                doubtful[-1] += _is_doubtful(tokens, at, first=not sum(doubtful))
            elif most > least:
                ways *= most - least + 1
    worst = max(doubtful)
    return 0 if worst > 2 or ways > MAX_WAYS else (1000 if worst < 2 else 200) // max(1, ways // 2)


def _is_doubtful(tokens: Sequence[Token], at: int, *, first: bool) -> bool:
    """Whether a repeat adds to the ways to match. It does not where what stands on both sides cannot be part
    of it; nor, the first one, where that holds for what stands before it: then each stretch of the text is
    looked at once."""
    before, after = at - 2, at + 1
    if before >= 0 and tokens[before].kind == "repeat" and (least_of(tokens[before]) or 0) > 0:
        before -= 1
    if before < 0 or not _are_apart(tokens[at - 1], tokens[before]):
        return True
    required = after < len(tokens) and not (after + 1 < len(tokens) and least_of(tokens[after + 1]) == 0)
    return not first and not (required and _are_apart(tokens[at - 1], tokens[after]))


def _are_apart(one: Token, other: Token) -> bool:
    """Whether no character is matched by both; False when unsure."""
    if {one.kind, other.kind} == {"class"} and not one.negated and not other.negated:
        return (one.value, other.value) in _APART or (other.value, one.value) in _APART
    if other.kind != "char" or one.kind not in ("class", "char"):
        return False
    return re.fullmatch(one.text, other.value, re.IGNORECASE) is None


def _cannot_overlap(before: Sequence[Token], repeated: Token) -> bool:
    """Whether a character in front of a repeat ends any earlier run of it: each stretch of the text is then
    looked at once."""
    if repeated.kind not in ("class", "char", "dot"):
        return False
    one = re.compile(repeated.text, re.DOTALL | re.IGNORECASE)
    plain = [
        token.value
        for token, after in zip(before, (*before, repeated)[1:], strict=True)
        if token.kind == "char" and after.kind != "repeat"
    ]
    return any(one.fullmatch(char) is None for char in plain)
