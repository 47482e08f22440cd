"""The parts of a shell command line both parsers must agree on: words in pieces, redirections, simple
commands."""

from __future__ import annotations

from typing import Literal

import msgspec

from buddy.agent.pattern import pattern

SUM = "((…))"
"""Stands where a variable's name would for arithmetic on plain numbers: a value that says nothing."""

ARITHMETIC = pattern(r"\$\(\((?:[0-9+*/% -]|\([0-9+*/% -]{1,20}\)){1,40}\)\)")
"""With balanced brackets: `$((1) + (2))` is a command substitution to bash."""

PieceKind = Literal["bare", "quoted", "variable", "quoted variable"]
MAX_CHARS = 4000


class Piece(msgspec.Struct, frozen=True):
    """A stretch of a word. `bare`: unquoted, so that globs, braces and a tilde in it act; `quoted`: literal,
    backslashes and quotes removed; the two variable kinds hold the variable's name."""

    text: str
    kind: PieceKind


class Word(msgspec.Struct, frozen=True):
    """One word as written."""

    pieces: tuple[Piece, ...]

    @property
    def plain(self) -> str | None:
        """Its text when nothing in it is quoted or expanded, else None."""
        only = self.pieces[0] if len(self.pieces) == 1 else None
        return only.text if only is not None and only.kind == "bare" else None

    @property
    def text(self) -> str:
        """Its text with variables by name, for people."""
        return "".join(
            f"${piece.text}" if piece.kind.endswith("variable") else piece.text for piece in self.pieces
        )


class Redirect(msgspec.Struct, frozen=True):
    """One redirection. `fd` is what stands before the sign, "" when nothing does; for a here-document `word`
    is its end mark."""

    fd: str
    sign: str
    word: Word


class Simple(msgspec.Struct, frozen=True):
    """One simple command: assignments before it, its words, its redirections in order."""

    assignments: tuple[tuple[str, Word], ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...]


class CommandLine(msgspec.Struct, frozen=True):
    """A command line. `connectors[i]` stands before `commands[i]`: "" at the start, `;` (a newline too),
    `&&`, `||` or `|`."""

    commands: tuple[Simple, ...]
    connectors: tuple[str, ...]


class UnclearError(Exception):
    """The command cannot be judged. `construct`: it is something known that this analysis does not follow (a
    loop, a substitution); otherwise the text could not be understood."""

    def __init__(self, reason: str, *, construct: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.construct = construct


def word_of(pieces: list[Piece]) -> Word:
    """A word in its one canonical form: neighbours of one kind joined. Empty quotes stay where they matter:
    `~""` is no home folder and `""a=b` no assignment; beside a quoted variable they say nothing."""
    joined: list[Piece] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if last is not None and last.kind == piece.kind and piece.kind in ("bare", "quoted"):
            joined[-1] = Piece(last.text + piece.text, piece.kind)
        else:
            joined.append(piece)
    kept = tuple(
        piece for position, piece in enumerate(joined) if piece.text or not _beside_variable(joined, position)
    )
    return Word(kept or (Piece("", "quoted"),))


def _beside_variable(pieces: list[Piece], position: int) -> bool:
    return any(piece.kind == "quoted variable" for piece in pieces[max(position - 1, 0) : position + 2])
