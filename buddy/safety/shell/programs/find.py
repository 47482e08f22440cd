"""find: its expression word by word. What it executes is judged as a command of its own."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from buddy.safety.shell.context import (
    FOUND_NAME,
    Feed,
    JudgedCommand,
    RefusedError,
    expression_names_secret,
    pattern_names_secret,
)
from buddy.safety.shell.file_selection import Filter, all_of, any_of, glob_filter
from buddy.safety.shell.programs.names import ONLY_PRINT, word_list, words
from buddy.safety.shell.secret_search import check_links

_PLAIN = word_list("find")
_NAMES = words("-name -iname -path -ipath -wholename -iwholename -lname -ilname")
_VALUED = word_list("find values")
_FILES = words("-newer -anewer -cnewer -samefile -neweraa -newermm")
_BY_NAME = words("-name -iname")
_BY_PATH = words("-path -ipath -wholename -iwholename")

EXECUTES = words("-exec -execdir -ok -okdir")


def find_with(judge_inner: Callable[[JudgedCommand], None]) -> Callable[[JudgedCommand], None]:
    """Return a judge of find that hands what it executes to `judge_inner`."""

    def find(judged: JudgedCommand) -> None:
        rest = list(judged.argv[1:])
        follows = False
        while rest and rest[0] in ("-H", "-L", "-P"):
            follows = rest.pop(0) == "-L" or follows
        starts: list[str] = []
        while rest and not rest[0].startswith("-") and rest[0] not in ("(", "!", ")", ","):
            starts.append(rest.pop(0))
        for start in starts:
            judged.name(start)
        facts = _Expression(judged, tuple(starts), judge_inner).read(rest)
        if follows or facts.follows:
            check_links(judged, tuple(starts))
        if facts.lists and not facts.picks_secrets:
            anchored = all(not start.startswith("-") for start in starts)  # without a start: ./
            scope = facts.listed
            judged.lists = Feed(tuple(starts), anchored, facts.nul, scope.no_links, scope.filters)

    return find


class _Scope(msgspec.Struct, frozen=True):
    """Knowledge about a file at one point of the expression."""

    filters: tuple[Filter, ...] = ()
    no_links: bool = False


class _Group:
    """A pair of brackets, or the whole expression. `branches`: what is known at the end of each
    alternative."""

    def __init__(self, before: _Scope, *, negated: bool) -> None:
        self.before = before
        self.negated = negated
        self.branches: list[_Scope] = []

    def after(self, last: _Scope) -> _Scope:
        """Return the knowledge after the group."""
        if self.negated:
            return self.before
        branches = [*self.branches, last]
        outer = len(self.before.filters)
        either = any_of(all_of(branch.filters[outer:]) for branch in branches)
        filters = (*self.before.filters, *([either] if either else ()))
        return _Scope(filters, all(branch.no_links for branch in branches))


class _Expression:
    """Reads an expression from left to right."""

    def __init__(
        self, judged: JudgedCommand, starts: tuple[str, ...], judge_inner: Callable[[JudgedCommand], None]
    ) -> None:
        self._judged = judged
        self._starts = starts
        self._judge_inner = judge_inner
        self._scope = _Scope()
        self._groups = [_Group(_Scope(), negated=False)]
        self._printed: list[_Scope] = []
        self.follows = False
        self.picks_secrets = False
        self.lists = True
        self.nul = False
        self.listed = _Scope()

    def read(self, rest: list[str]) -> _Expression:
        """Judge all of it."""
        executed: list[tuple[tuple[str, ...], _Scope]] = []
        negated = False
        while rest:
            word = rest.pop(0)
            if word in EXECUTES:
                self._judged.widen(f"find {word}")
                executed.append((_action_argv(self._judged, rest, word), self._scope))
                self.lists = False
            elif word in _PLAIN:
                self._plain(word, negated=negated)
            else:
                self._test(word, _value(self._judged, word, rest), negated=negated)
            negated = word in ("!", "-not")
        while len(self._groups) > 1:  # find itself will complain
            self._scope = self._groups.pop().before
        self.listed = self._printed[0] if len(self._printed) == 1 else _Scope()
        if not self._printed:
            self.listed = self._groups[0].after(self._scope)
        for argv, scope in executed:
            self._judge_action(argv, scope)
        return self

    def _plain(self, word: str, *, negated: bool) -> None:
        self.follows = self.follows or word == "-follow"
        self.nul = self.nul or word == "-print0"
        self.lists = self.lists and word != "-ls"
        if word in ("-print", "-print0"):
            self._printed.append(self._scope)
        elif word in ("-o", "-or", ","):
            self._groups[-1].branches.append(_Scope() if word == "," else self._scope)
            self._scope = self._groups[-1].before
        elif word == "(":
            self._groups.append(_Group(self._scope, negated=negated))
        elif word == ")" and len(self._groups) > 1:
            self._scope = self._groups.pop().after(self._scope)

    def _test(self, word: str, value: str, *, negated: bool) -> None:
        self.lists = self.lists and word != "-printf"
        if negated:
            return
        if word in _NAMES:
            self.picks_secrets = self.picks_secrets or _picks_secret(self._judged, value)
        if word in ("-regex", "-iregex"):
            self.picks_secrets = self.picks_secrets or expression_names_secret(value)
        found: Filter | None = None
        if word in _BY_NAME or word in _BY_PATH:
            found = glob_filter(value, on_path=word in _BY_PATH)
        no_links = self._scope.no_links or (word == "-type" and value == "f")
        self._scope = _Scope((*self._scope.filters, *([found] if found else ())), no_links)

    def _judge_action(self, argv: tuple[str, ...], scope: _Scope) -> None:
        judged = self._judged
        if self.picks_secrets:
            raise RefusedError("it runs a command on secret files")
        if not scope.no_links and argv[0] not in ONLY_PRINT:
            check_links(judged, self._starts, scope.filters)
        inner = judged.again(argv)
        inner.stands_for = Feed(self._starts, anchored=True, filters=scope.filters)
        self._judge_inner(inner)


def _value(judged: JudgedCommand, word: str, rest: list[str]) -> str:
    if word not in _NAMES and word not in _VALUED and word not in _FILES:
        raise RefusedError(f"find {word} is not known to only read")
    if not rest:
        raise RefusedError(f"find {word} needs a value")
    value = rest.pop(0)
    if word in _FILES:
        judged.name(value)
    return value


def _picks_secret(judged: JudgedCommand, pattern: str) -> bool:
    if pattern_names_secret(pattern.rsplit("/", 1)[-1]):
        return True
    try:
        judged.read(pattern.strip("/*") or ".")
    except RefusedError:
        return True
    return False


def _action_argv(judged: JudgedCommand, rest: list[str], word: str) -> tuple[str, ...]:
    """Return the command after -exec, the name of a found file standing for `{}`. What find hands over starts
    with a start folder, so it cannot be an option. -execdir would run the command in every folder, where
    names mean other files."""
    if word in ("-ok", "-okdir"):
        raise RefusedError(f"find {word} waits for an answer")
    if word == "-execdir":
        raise RefusedError("find -execdir runs a command in every folder it comes to")
    argv: list[str] = []
    while rest:
        piece = rest.pop(0)
        if piece == ";":
            return tuple(_fill(argv, 1))
        if piece == "+" and argv and argv[-1] == "{}":
            return tuple(_fill(argv, 3))
        argv.append(piece)
    raise RefusedError(f"find {word} does not end")


def _fill(argv: list[str], times: int) -> list[str]:
    if not argv or "{}" in argv[0]:
        raise RefusedError("find executes what it finds")
    filled: list[str] = []
    for piece in argv:
        if piece == "{}":
            filled.extend([FOUND_NAME] * times)
        elif "{}" in piece:
            raise RefusedError("find puts a name inside another word")
        else:
            filled.append(piece)
    return filled
