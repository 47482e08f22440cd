"""What a match cannot do without: a file, or a line, that holds none of it need not be looked at."""

from __future__ import annotations

import re
from collections.abc import Sequence

from buddy.workspace.search_tokens import Token, least_of

MAX_TEXTS = 12
"""More are looked for more slowly than the pattern itself."""
MOST_COMMON = 600
"""Lines in a thousand: signs that stand in more of them are not worth looking for."""

_ASCII = "".join(map(chr, range(128)))
_LINES = {
    " ": 800,
    "etainros": 550,
    "lcdmpufh": 330,
    "._,():gby": 220,
    "wkvx=\"'": 130,
    "[]{};<>-*/#$": 70,
}
"""In about how many of a thousand lines of a program each stands; any other in 15."""
_LINES_WITH = {sign: lines for signs, lines in _LINES.items() for sign in signs}


def literals_of(tokens: Sequence[Token]) -> tuple[str, ...]:
    """Texts of which every match contains at least one; none when unknown."""
    found, _ = _alternatives(tokens, 0)
    return found if len(found) <= MAX_TEXTS else ()


def _alternatives(tokens: Sequence[Token], at: int) -> tuple[tuple[str, ...], int]:
    """For the pattern, or the inside of a group, that begins at a place; and the place after its end."""
    branches: list[tuple[str, ...]] = []
    best: tuple[str, ...] = ()
    run = ""
    while at < len(tokens) and tokens[at].kind != "close":
        token, after = tokens[at], at + 1
        if token.kind == "or":
            branches.append(_better(best, run))
            best, run, at = (), "", after
            continue
        inside: tuple[str, ...] = ()
        if token.kind in ("open", "look"):
            inside, after = _alternatives(tokens, after)
            if token.kind == "look" or "i" in token.value:
                inside = ()
        repeats = least_of(tokens[after]) if after < len(tokens) else None
        usable = token.kind == "char" and token.value.isascii() and token.value not in "\r\n"
        if usable and repeats != 0:
            run += token.value
        if not usable or repeats is not None:
            best, run = _better(best, run), ""
        if inside and repeats != 0 and _quality(inside) > _quality(best):
            best = inside
        at = after
    branches.append(_better(best, run))
    found = tuple(dict.fromkeys(text for texts in branches for text in texts))
    return (found if all(branches) else ()), at + 1


def _better(best: tuple[str, ...], run: str) -> tuple[str, ...]:
    return (run,) if len(run) > _quality(best) else best


def _quality(texts: tuple[str, ...]) -> int:
    """The longer the shortest of them is, the fewer files hold it."""
    return min(map(len, texts), default=0)


def signs_of(tokens: Sequence[Token], *, ignore_case: bool) -> str | None:
    """ASCII characters: every match contains one of them, or a character beyond ASCII. None when unknown, or
    when there would hardly be a line without."""
    found, _ = _rarest(tokens, 0, re.IGNORECASE if ignore_case else re.NOFLAG)
    return None if found is None or _lines_with(found) > MOST_COMMON else "".join(sorted(found))


def _rarest(tokens: Sequence[Token], at: int, flags: re.RegexFlag) -> tuple[frozenset[str] | None, int]:
    """For the pattern, or the inside of a group, that begins at a place; and the place after its end."""
    branches: list[frozenset[str] | None] = []
    best: frozenset[str] | None = None
    while at < len(tokens) and tokens[at].kind != "close":
        token, after = tokens[at], at + 1
        if token.kind == "or":
            branches.append(best)
            best, at = None, after
            continue
        signs: frozenset[str] | None = None
        if token.kind in ("open", "look"):
            signs, after = _rarest(tokens, after, flags)
            if token.kind == "look" or "i" in token.value:
                signs = None
        elif token.kind in ("char", "class"):
            signs = _signs(token, flags)
        is_optional = after < len(tokens) and least_of(tokens[after]) == 0
        if signs is not None and not is_optional and (best is None or _lines_with(signs) < _lines_with(best)):
            best = signs
        at = after
    branches.append(best)
    known = [branch for branch in branches if branch is not None]
    return (frozenset[str]().union(*known) if len(known) == len(branches) else None), at + 1


def _signs(token: Token, flags: re.RegexFlag) -> frozenset[str] | None:
    if token.kind == "char" and not flags:
        found = frozenset(token.value if token.value.isascii() else "")
    else:
        found = frozenset(re.findall(token.text, _ASCII, flags))
    return None if found & {"\n", "\r"} else found  # a line end is spelled in several ways


def _lines_with(signs: frozenset[str]) -> int:
    return sum(_LINES_WITH.get(sign, 15) for sign in signs)
