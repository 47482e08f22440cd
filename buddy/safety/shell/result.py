"""The result of analysing a shell command, the parts of a command line both parsers must agree on, and the
environment of a command that was judged to only read."""

from __future__ import annotations

import os
from typing import Literal

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.safety.paths import Located

UNRESOLVED = "\0"
"""Placeholder in an argv for text that only the running shell knows. No word or file name can contain it."""

Level = Literal["core", "wide", "ask"]
"""`core`: known to only read, and simple enough to run unasked anywhere. `wide`: only reads as far as the
analysis can tell (loops, xargs, find -exec, …); may run unasked only inside a read-only sandbox. `ask`: may
do more than read."""


def weakest(levels: list[Level]) -> Level:
    """Return the level of a whole whose parts have these levels."""
    return "ask" if "ask" in levels else "wide" if "wide" in levels else "core"


def display_word(text: str) -> str:
    """Return a word of an argv for people: an ellipsis where its value is not known."""
    return text.replace(UNRESOLVED, "…")


class Subcommand(msgspec.Struct, frozen=True):
    """One simple command. `argv` after expansion, `literal` when every word of it is known and nothing beside
    the words acts (no redirection that writes, no assignment that matters): only then may an allow rule
    match. `inner` are the commands it would start itself (through env, xargs, find -exec, sh -c …): deny and
    ask rules see them too. `reason` says why it is not of level core, "" when it is. `folder` is where it
    starts, "" when that is not known. `sources`: the words that may name files whose content it gets through
    a pipe or a redirection, None when the line gives it no input. `assignments`: `NAME=value` of
    variables set for it."""

    argv: tuple[str, ...]
    literal: bool
    reason: str
    inner: tuple[tuple[str, ...], ...] = ()
    folder: str = ""
    level: Level = "ask"
    sources: tuple[str, ...] | None = None
    assignments: tuple[str, ...] = ()

    @property
    def read_only(self) -> bool:
        """Tell whether it only reads, as far as the analysis can tell."""
        return self.level != "ask"


class Analysis(msgspec.Struct, frozen=True):
    """The verdict on a whole command line. `level` is that of its weakest part, `reason` says why it is not
    core, "" when it is. `parsed` is False when the text could not be understood at all; `catastrophic` and
    `protected` are reasons or ""; `network`: some part would use the network; `reads` are the paths it would
    read, `writes` those outside of the workspace that its words say it writes."""

    command: str
    level: Level
    reason: str
    parsed: bool
    commands: tuple[Subcommand, ...] = ()
    network: bool = False
    catastrophic: str = ""
    protected: str = ""
    reads: tuple[Located, ...] = ()
    writes: tuple[Located, ...] = ()

    @property
    def read_only(self) -> bool:
        """Tell whether it only reads, as far as the analysis can tell. Not a permission: see `level`."""
        return self.level != "ask"


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
        """Return its text when nothing in it is quoted or expanded, else None."""
        only = self.pieces[0] if len(self.pieces) == 1 else None
        return only.text if only is not None and only.kind == "bare" else None

    @property
    def text(self) -> str:
        """Return its text with variables by name, for people."""
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
    """Return a word in its one canonical form: neighbours of one kind joined. Empty quotes stay where they
    matter: `~""` is no home folder and `""a=b` no assignment; beside a quoted variable they say nothing."""
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


_ATTRIBUTES = os.path.join(os.path.dirname(__file__), "secret_files.gitattributes")
"""Makes git show "Binary files differ" instead of the content of secret files, in the whole history."""

_GIT_SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "diff.autoRefreshIndex": "false",
    "safe.bareRepository": "explicit",
    "log.showSignature": "false",
    "log.diffMerges": "separate",
    "credential.helper": "",
    "core.attributesFile": _ATTRIBUTES,
}
READ_ONLY_ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_CONFIG_COUNT": str(len(_GIT_SETTINGS)),
    **{f"GIT_CONFIG_KEY_{at}": key for at, key in enumerate(_GIT_SETTINGS)},
    **{f"GIT_CONFIG_VALUE_{at}": value for at, value in enumerate(_GIT_SETTINGS.values())},
    "npm_config_logs_max": "0",
    "npm_config_update_notifier": "false",
}
"""With these git writes no index and starts no program of the repository's choice; npm writes no log and does
not check for updates."""
