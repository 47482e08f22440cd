"""Parser of subshells, groups, ifs and loops into a tree of simple commands, with the same strict lexer.

The tree is used only when the whole of it reads; other lines count as not followed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

import msgspec

from buddy.safety.shell.lexer import Lexer
from buddy.safety.shell.result import READ_ONLY_ENVIRONMENT, Piece, Simple, UnclearError, Word, word_of

MAX_DEPTH = 4
CompoundKind = Literal["subshell", "group", "for", "if", "while"]
_KEYWORD = re.compile(r"(if|then|elif|else|fi|for|while|do|done|in|\{|\})(?=[\s;&|()<>]|\Z)")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
"""Names of loop variables: those in capitals may mean something to a program."""
_MEANINGFUL = re.compile(r".*_proxy|npm_config_.*|(?:pip|uv|cargo|rustup|yarn|pnpm)_.*")
"""Names in small letters that mean something to one, and may be in the environment already."""


class Compound(msgspec.Struct, frozen=True):
    """One compound command. `name` and `words` belong to a for; `bodies` are its lists in order: of an if,
    conditions and branches alike; of a while, the condition and the body."""

    kind: CompoundKind
    bodies: tuple[Sequence, ...]
    name: str = ""
    words: tuple[Word, ...] = ()

    @property
    def header(self) -> Simple:
        """Return the first line of a `for` as a command, to compare parsers."""
        words = [word_of([Piece(text, "bare")]) for text in ("for", self.name, "in")]
        return Simple((), (*words, *self.words), ())


class Sequence(msgspec.Struct, frozen=True):
    """Commands one after the other. `connectors[i]` stands before `items[i]`, as in a line."""

    items: tuple[Simple | Compound, ...]
    connectors: tuple[str, ...]

    def commands(self) -> Iterator[Simple]:
        """Yield all simple commands in the order they are written."""
        for item in self.items:
            if isinstance(item, Simple):
                yield item
                continue
            if item.kind == "for":
                yield item.header
            for body in item.bodies:
                yield from body.commands()


def is_loop_variable(name: str) -> bool:
    """Tell whether a variable of this name belongs to the loop alone: setting it changes no program's
    environment."""
    return (
        bool(_NAME.fullmatch(name)) and name not in READ_ONLY_ENVIRONMENT and not _MEANINGFUL.fullmatch(name)
    )


def read_sequence(text: str) -> Sequence:
    """Return a command line with compound commands. Raises `UnclearError`."""
    return _TreeLexer(text).sequence()


class _TreeLexer(Lexer):
    def sequence(self) -> Sequence:
        found = self._list(frozenset(), depth=0)
        self._check_pending()
        return found

    def _check_pending(self) -> None:
        if self._pending:
            raise UnclearError("a here-document in a compound command", construct=True)

    def _list(self, ends: frozenset[str], depth: int) -> Sequence:
        """Parse commands up to one of some words, which stays unread."""
        if depth > MAX_DEPTH:
            raise UnclearError("commands nested too deeply", construct=True)
        items: list[Simple | Compound] = []
        connectors: list[str] = []
        connector = ""
        while True:
            self._check_pending()
            self._skip(newlines=True)
            if self._keyword() in ends or (self._is_at_end() and not ends):
                break
            if self._is_at_end() or (items and not connector):
                raise UnclearError("a compound command does not end as expected", construct=True)
            connectors.append(";" if connector == "\n" else connector)
            items.append(self._item(depth))
            self._skip(newlines=False)
            at_end = self._peek() == ")" and ")" in ends
            connector = "" if at_end else self._connector()
        if connector in ("&&", "||", "|") or not items:
            raise UnclearError("a command is missing", construct=True)
        return Sequence(tuple(items), tuple(connectors))

    def _keyword(self) -> str:
        if self._peek() == ")":
            return ")"
        found = _KEYWORD.match(self._text, self._at)
        return found[1] if found else ""

    def _item(self, depth: int) -> Simple | Compound:
        match self._keyword() or self._peek():
            case "(":
                self._at += 1
                if self._peek() == "(":
                    raise UnclearError("arithmetic", construct=True)
                return self._close("subshell", (self._list(frozenset({")"}), depth + 1),), ")")
            case "{":
                self._at += 1
                return self._close("group", (self._list(frozenset({"}"}), depth + 1),), "}")
            case "for":
                return self._for(depth + 1)
            case "while":
                self._at += len("while")
                condition = self._list(frozenset({"do"}), depth + 1)
                self._at += len("do")
                return self._close("while", (condition, self._list(frozenset({"done"}), depth + 1)), "done")
            case "if":
                return self._if(depth + 1)
            case _:
                return self._simple()

    def _close(
        self,
        kind: CompoundKind,
        bodies: tuple[Sequence, ...],
        end: str,
        name: str = "",
        words: tuple[Word, ...] = (),
    ) -> Compound:
        """Return the compound, its last word taken. A redirection of all of it is not followed."""
        self._at += len(end)
        self._skip(newlines=False)
        if self._peek() in ("<", ">") or self._peek().isdecimal():
            raise UnclearError("a redirection of a compound command", construct=True)
        return Compound(kind, bodies, name, words)

    def _if(self, depth: int) -> Compound:
        bodies: list[Sequence] = []
        word = "if"
        while word != "fi":
            self._at += len(word)
            if word == "else":
                bodies.append(self._list(frozenset({"fi"}), depth))
                break
            bodies.append(self._list(frozenset({"then"}), depth))
            self._at += len("then")
            bodies.append(self._list(frozenset({"elif", "else", "fi"}), depth))
            word = self._keyword()
        return self._close("if", tuple(bodies), "fi")

    def _for(self, depth: int) -> Compound:
        self._at += len("for")
        self._skip(newlines=False)
        name = self._plain_word()
        if not is_loop_variable(name) or self._plain_word() != "in":
            raise UnclearError("a loop over something odd", construct=True)
        words: list[Word] = []
        self._skip(newlines=False)
        while not self._is_at_end() and self._peek() not in "\n;&|()<>":
            words.append(self._word())
            self._skip(newlines=False)
        if self._peek() not in (";", "\n") or not words:
            raise UnclearError("a loop over something odd", construct=True)
        self._at += 1
        self._skip(newlines=True)
        if self._keyword() != "do":
            raise UnclearError("a loop without do", construct=True)
        self._at += len("do")
        body = self._list(frozenset({"done"}), depth)
        return self._close("for", (body,), "done", name, tuple(words))

    def _plain_word(self) -> str:
        self._skip(newlines=False)
        if self._is_at_end() or self._peek() in "\n;&|()<>":
            return ""
        return self._word().plain or ""
