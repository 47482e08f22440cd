"""Words as the running shell would pass them on: braces, tilde, a few variables, globs against the real
files."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator

import msgspec

from buddy.agent.tool import ToolError
from buddy.safety.paths import locate
from buddy.safety.shell.context import CommandPlace, compile_glob, glob_pieces, is_public
from buddy.safety.shell.programs.names import word_list, words
from buddy.safety.shell.result import SUM, UNRESOLVED, Piece, UnclearError, Word, word_of

MAX_ENTRIES = 4000
MAX_MATCHES = 300
MAX_PATTERN = 300
HARMLESS_VARIABLES = word_list("harmless variables")
"""Variables whose value may be printed. What they hold is not known, so nothing but printing may use them."""

_NUMBERS = words("? $ # UID EUID PPID BASHPID RANDOM SECONDS LINENO EPOCHSECONDS SHLVL") | {SUM}
"""Of these, the ones that are a number, which is never split."""

_CORE_VARIABLES = words("? HOME PWD") | {SUM}
"""Variables that a command of level core may use."""

_BRACED = re.compile(r"[^{}]*(?:\{[^{}]*\}[^{}]*)*")
_SPLITS = re.compile(r"[\s*?\[\]\\]")
_CLASS = re.compile(r"!?[A-Za-z0-9_.,-]+")


class ExpandedWords(msgspec.Struct, frozen=True):
    """The words of a command after expansion. `opaque`: positions whose value is not fully known; `splits`:
    those of them that the shell may split into any number of words; `globbed`: positions that came from a
    pattern; `variables`: the names of the variables used."""

    argv: tuple[str, ...]
    opaque: frozenset[int]
    globbed: frozenset[int]
    splits: frozenset[int] = frozenset()
    variables: frozenset[str] = frozenset()

    @property
    def odd_variable(self) -> str:
        """Return a variable that no command of level core may use, "" without one."""
        return min(self.variables - _CORE_VARIABLES, default="")


def expand(line: tuple[Word, ...], place: CommandPlace) -> ExpandedWords:
    """Return all words of a command. Raises `UnclearError`."""
    argv: list[str] = []
    opaque: set[int] = set()
    splits: set[int] = set()
    globbed: set[int] = set()
    for word in line:
        for single in _braces(word):
            pieces, is_opaque, is_split = _resolve(single, place)
            found = None if is_opaque else _expand_glob(pieces, place)
            if found is not None:
                globbed.update(range(len(argv), len(argv) + len(found)))
                argv.extend(found)
                continue
            if is_opaque:
                opaque.add(len(argv))
            if is_split:
                splits.add(len(argv))
            argv.append("".join(piece.text for piece in pieces))
    variables = {
        piece.text for word in line for piece in word.pieces if piece.kind in ("variable", "quoted variable")
    }
    return ExpandedWords(
        tuple(argv), frozenset(opaque), frozenset(globbed), frozenset(splits), frozenset(variables)
    )


def expand_one(word: Word, place: CommandPlace) -> str:
    """Return a word that must stay one, and be known: the target of a redirection. Raises `UnclearError`."""
    expanded = expand((word,), place)
    if len(expanded.argv) != 1 or expanded.opaque:
        raise UnclearError(f"{word.text} is not one known word", construct=True)
    return expanded.argv[0]


def _braces(word: Word) -> Iterator[Word]:
    """Brace expansion of the simple kind: one level, commas, nothing quoted inside."""
    bare = [piece.text for piece in word.pieces if piece.kind == "bare"]
    if not any("{" in text or "}" in text for text in bare):
        yield word
        return
    if not all(_BRACED.fullmatch(text) for text in bare):
        raise UnclearError("braces that are nested, open or partly quoted", construct=True)
    groups = [group for text in bare for group in re.findall(r"\{([^{}]*)\}", text)]
    if not any("," in group or ".." in group for group in groups):
        yield word
        return
    if any(piece.kind.endswith("variable") for piece in word.pieces) or any("~" in text for text in bare):
        raise UnclearError("braces together with variables or a tilde", construct=True)
    choices = [_alternatives(piece) for piece in word.pieces]
    combinations = list(itertools.islice(itertools.product(*choices), MAX_MATCHES + 1))
    if len(combinations) > MAX_MATCHES:
        raise UnclearError("braces that make too many words", construct=True)
    for combination in combinations:
        made = word_of(list(combination))
        if made.plain == "" or not any(piece.text for piece in made.pieces):
            raise UnclearError("braces that make an empty word", construct=True)
        yield made


def _alternatives(piece: Piece) -> list[Piece]:
    """Return the brace alternatives of one piece of a word."""
    if piece.kind != "bare":
        return [piece]
    texts = [""]
    for part in re.split(r"(\{[^{}]*(?:,|\.\.)[^{}]*\})", piece.text):
        is_group = part.startswith("{") and part.endswith("}")
        options = [part]
        if is_group and "," in part:
            options = part[1:-1].split(",")
        elif is_group and ".." in part:
            options = _sequence(part[1:-1])
        texts = [text + option for text in texts for option in options]
        if len(texts) > MAX_MATCHES:
            raise UnclearError("braces that make too many words", construct=True)
    return [Piece(text, "bare") for text in texts]


def _sequence(text: str) -> list[str]:
    """`1..5`: whole numbers without leading zeros, counted by one."""
    found = re.fullmatch(r"(0|[1-9]\d{0,5})\.\.(0|[1-9]\d{0,5})", text)
    if found is None:
        raise UnclearError("a brace sequence", construct=True)
    first, last = int(found[1]), int(found[2])
    if abs(last - first) > MAX_MATCHES:
        raise UnclearError("braces that make too many words", construct=True)
    step = 1 if last >= first else -1
    return [str(number) for number in range(first, last + step, step)]


def _resolve(word: Word, place: CommandPlace) -> tuple[list[Piece], bool, bool]:
    """Return a word with its tilde and variables replaced; whether some value stays unknown, and whether the
    shell may split it."""
    pieces: list[Piece] = []
    is_opaque = is_split = False
    for position, piece in enumerate(word.pieces):
        if piece.kind == "bare":
            pieces.extend(_tilde(piece, word, position, place))
        elif piece.kind == "quoted":
            pieces.append(piece)
        else:
            known = {
                "HOME": place.boundary.home,
                "PWD": place.boundary.cwd,
                **dict(reversed(place.variables)),
            }
            value = known.get(piece.text)
            if value is None and piece.text not in HARMLESS_VARIABLES | {SUM} and piece.text not in known:
                raise UnclearError(f"the value of ${piece.text} is not known", construct=True)
            if value is None:
                is_opaque = True
                is_split = is_split or (piece.kind == "variable" and piece.text not in _NUMBERS)
                value = UNRESOLVED
            elif piece.kind == "variable" and (not value or _SPLITS.search(value)):
                raise UnclearError(f"${piece.text} would be split", construct=True)
            pieces.append(Piece(value, "quoted"))
    return pieces, is_opaque, is_split


def _tilde(piece: Piece, word: Word, position: int, place: CommandPlace) -> list[Piece]:
    text = piece.text
    if re.search(r"[=:]~", text) or (position and text.startswith("~")):
        raise UnclearError("a tilde in an odd place", construct=True)
    if not text.startswith("~"):
        return [piece]
    alone = text == "~" and len(word.pieces) == 1
    if not alone and not text.startswith("~/"):
        raise UnclearError("a tilde with a name", construct=True)
    return [Piece(place.boundary.home, "quoted"), Piece(text[1:], "bare")]


def _expand_glob(pieces: list[Piece], place: CommandPlace) -> list[str] | None:
    """Return the sorted current matches of a pattern; None for a word that is no pattern or matches
    nothing."""
    if not any(piece.kind == "bare" and re.search(r"[*?\[]", piece.text) for piece in pieces):
        return None
    if sum(len(piece.text) for piece in pieces) > MAX_PATTERN:
        raise UnclearError("a pattern that is too long", construct=True)
    pattern = _pattern(pieces)
    if pattern is None:
        return None
    _check_start(pattern, place)
    found = sorted(_Glob(place.boundary.cwd).matches(pattern))
    return found or None


def _check_start(pattern: list[list[tuple[str, bool]]], place: CommandPlace) -> None:
    """Check that a pattern lists only folders of the workspace, whoever prints the names. Raises
    `UnclearError`."""
    plain = itertools.takewhile(lambda component: not any(special for _, special in component), pattern)
    start = "/".join("".join(part for part, _ in component) for component in plain)
    if start or pattern[0] == []:
        try:
            located = locate(place.boundary, f"{start}/")
        except ToolError as error:
            raise UnclearError(str(error), construct=True) from error
        if not located.inside and not is_public(located.real):
            raise UnclearError("a pattern outside the workspace", construct=True)


def _pattern(pieces: list[Piece]) -> list[list[tuple[str, bool]]] | None:
    """Return the path components of a pattern as (character or class, whether it is special); None when
    nothing is special."""
    components: list[list[tuple[str, bool]]] = [[]]
    special = False
    for piece in pieces:
        if piece.kind == "quoted":
            for char in piece.text:
                components.append([]) if char == "/" else components[-1].append((char, False))
            continue
        rest = piece.text
        while rest:
            part = rest[0]
            is_special = part in "*?"
            if part == "[":
                end = rest.find("]", 1)
                if end < 0 and any("]" in other.text for other in pieces):
                    raise UnclearError("a pattern that is partly quoted", construct=True)
                if end >= 0:
                    if not _CLASS.fullmatch(rest[1:end]):
                        raise UnclearError("a pattern with an odd [class]", construct=True)
                    part, is_special = rest[: end + 1], True
            rest = rest[len(part) :]
            special = special or is_special
            components.append([]) if part == "/" else components[-1].append((part, is_special))
    return components if special else None


class _Glob:
    """Matches one pattern with a bound on how much it looks at."""

    def __init__(self, cwd: str) -> None:
        self._cwd = cwd
        self._entries = 0
        self._found = 0

    def matches(self, pattern: list[list[tuple[str, bool]]], prefix: str = "") -> Iterator[str]:
        component, *rest = pattern
        text = "".join(part for part, _ in component)
        if not any(special for _, special in component):
            path = prefix + text
            if rest:
                yield from self.matches(rest, path + "/")
            elif not text or os.path.lexists(os.path.join(self._cwd, path)):
                yield self._count(path)
            return
        expression = compile_glob(
            [
                piece
                for part, special in component
                for piece in (glob_pieces(part) if special else [re.escape(part)])
            ]
        )
        for name in self._names(prefix, dotted=component[0] == (".", False)):
            if not expression.fullmatch(name):
                continue
            if not rest:
                yield self._count(prefix + name)
            elif os.path.isdir(os.path.join(self._cwd, prefix + name)):
                yield from self.matches(rest, prefix + name + "/")

    def _count(self, path: str) -> str:
        self._found += 1
        if self._found > MAX_MATCHES:
            raise UnclearError("a pattern that matches too many files", construct=True)
        return path

    def _names(self, prefix: str, *, dotted: bool) -> Iterator[str]:
        """Yield the names of a folder a pattern may match. Older shells let `.*` match the parent folder."""
        if dotted:
            yield ".."
        try:
            with os.scandir(os.path.join(self._cwd, prefix) if prefix else self._cwd) as entries:
                for entry in entries:
                    self._entries += 1
                    if self._entries > MAX_ENTRIES:
                        raise UnclearError("a pattern over too many files", construct=True)
                    if entry.name.startswith(".") == dotted:
                        yield entry.name
        except OSError:
            return  # a folder that is not there or not readable matches nothing
