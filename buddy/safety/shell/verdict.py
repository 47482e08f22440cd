"""What the analysis of a shell command says: its parts, and whether all of them only read."""

from __future__ import annotations

from typing import Literal

import msgspec

from buddy.safety.paths import Located

UNRESOLVED = "\N{HORIZONTAL ELLIPSIS}"
"""Stands in an argv for a word whose value only the running shell knows."""


class Subcommand(msgspec.Struct, frozen=True):
    """One simple command. `argv` after expansion, `literal` when every word of it is known and nothing beside
    the words acts (no redirection that writes, no assignment that matters): only then may an allow rule
    match. `inner` are the commands it would start itself (through env, xargs, find -exec, sh -c …): deny and
    ask rules see them too. `reason` says why it is not read-only, "" when it is. `folder` is where it starts,
    "" when that is not known."""

    argv: tuple[str, ...]
    literal: bool
    reason: str
    inner: tuple[tuple[str, ...], ...] = ()
    folder: str = ""

    @property
    def read_only(self) -> bool:
        """Whether it only reads."""
        return not self.reason


class Analysis(msgspec.Struct, frozen=True):
    """The verdict on a whole command line. `decision` is "allow" only when every part is known to read inside
    the workspace and do nothing else. `parsed` is False when the text could not be understood at all;
    `catastrophic` and `protected` are reasons or ""; `network`: some part would use the network; `reads` are
    the paths it would read."""

    command: str
    decision: Literal["allow", "ask"]
    reason: str
    parsed: bool
    commands: tuple[Subcommand, ...] = ()
    network: bool = False
    catastrophic: str = ""
    protected: str = ""
    reads: tuple[Located, ...] = ()

    @property
    def read_only(self) -> bool:
        """Whether it may run without being asked about."""
        return self.decision == "allow"
