"""Text that a match cannot do without: a file that holds none of it need not be looked at."""

from __future__ import annotations

from collections.abc import Sequence

from buddy.workspace.search_tokens import Token, least_of

MAX_TEXTS = 12
"""More are looked for more slowly than the pattern itself."""


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
