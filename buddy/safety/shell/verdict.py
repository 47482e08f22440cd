"""The result of analysing a shell command: its parts, and how far each may run unasked."""

from __future__ import annotations

from typing import Literal

import msgspec

from buddy.safety.paths import Located

UNRESOLVED = "\0"
"""Stands in an argv for text that only the running shell knows. No word and no file name can hold it."""

Level = Literal["core", "wide", "ask"]
"""`core`: known to only read, and simple enough to run unasked anywhere. `wide`: only reads as far as the
analysis can tell (loops, xargs, find -exec, …); may run unasked only inside a read-only sandbox. `ask`: may
do more than read."""


def weakest(levels: list[Level]) -> Level:
    """The level of a whole whose parts have these levels."""
    return "ask" if "ask" in levels else "wide" if "wide" in levels else "core"


def shown(text: str) -> str:
    """A word of an argv for people: an ellipsis where its value is not known."""
    return text.replace(UNRESOLVED, "…")


class Subcommand(msgspec.Struct, frozen=True):
    """One simple command. `argv` after expansion, `literal` when every word of it is known and nothing beside
    the words acts (no redirection that writes, no assignment that matters): only then may an allow rule
    match. `inner` are the commands it would start itself (through env, xargs, find -exec, sh -c …): deny and
    ask rules see them too. `reason` says why it is not of level core, "" when it is. `folder` is where it
    starts, "" when that is not known. `sources`: the words that may name files whose content it gets through
    a pipe or a redirection, None when the line gives it no input."""

    argv: tuple[str, ...]
    literal: bool
    reason: str
    inner: tuple[tuple[str, ...], ...] = ()
    folder: str = ""
    level: Level = "ask"
    sources: tuple[str, ...] | None = None

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
