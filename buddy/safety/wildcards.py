"""Wildcards as regular expressions with bounded running time.

`re` tries every way to divide a text among the stars of `.*a.*a.*b`, which takes years for 200 letters. Only
the last star needs a second try: if the whole can match, it also matches where each star before takes as
little as lets the text behind it match. Atomic groups hold `re` to that. So it is with `**/`, one level up.
"""

from __future__ import annotations

from collections.abc import Iterable

STAR = "*"
"""Any text, or in a path any text without a slash."""
FOLDERS = "**/"
"""Nothing, or any text that ends with a slash. It stands where that makes no difference to what is in front:
behind a slash, behind fixed text alone, or in front of a `STAR`, with which it is any text at all."""


def wildcard(pieces: Iterable[str], one: str = ".") -> str:
    """Join pieces to a regular expression for `fullmatch` with `re.DOTALL`. A piece is `STAR`, `FOLDERS` or a
    regular expression for one character or a fixed text; `one` is what a star repeats. With `FOLDERS`, that
    is `[^/]`, and of the other pieces only those of a slash itself match a slash. Raises `ValueError` for
    `FOLDERS` where it may not stand."""
    levels: list[list[list[str]]] = [[[]]]
    many = tuple(pieces)
    for at, piece in enumerate(many):
        if piece == FOLDERS:
            is_placed = many[at - 1 : at] in ((), ("/",)) or many[at + 1 : at + 2] == (STAR,)
            if not is_placed and not {STAR, FOLDERS}.isdisjoint(many[:at]):
                raise ValueError("`FOLDERS` behind something of any length that does not end with a slash")
            levels.append([[]])
        elif piece == STAR:
            levels[-1].append([])
        else:
            levels[-1][-1].append(piece)
    first, *rest = (["".join(fixed) for fixed in level] for level in levels)
    if not rest:
        return _level(first, one, last=True)
    *between, last = rest
    end = ".*" if last == ["", ""] else f"(?:.*/)?{_level(last, one, last=True)}"
    middle = (f"(?>(?:[^/]*/)*?{_level(level, one, last=False)})" for level in between)
    return f"{_level(first, one, last=False)}{''.join(middle)}{end}"


def _level(fixed: list[str], one: str, *, last: bool) -> str:
    """Join texts by stars. All but the last star of the last level take as little as they can."""
    parts = [f"(?>{one}*?{text})" for text in fixed[1:]]
    if last and parts:
        parts[-1] = f"{one}*{fixed[-1]}"
    return fixed[0] + "".join(parts)
