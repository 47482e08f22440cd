"""The capabilities of the sandbox on this machine, for code that displays or judges them. Pure."""

from __future__ import annotations

from typing import Literal

import msgspec

Level = Literal[0, 1, 2, 3]

NAMES: dict[Level, str] = {3: "bubblewrap", 2: "Landlock", 1: "Seatbelt", 0: "none"}
_GAPS: dict[Level, tuple[str, ...]] = {
    3: (
        "files outside the workspace can be read, except for secret places",
        "a program made for it can reach a socket in your folders that gets its name while it runs",
        "a server on localhost is reached by commands here, not by your browser; "
        'an allow rule with sandbox = "off" runs its command outside',
    ),
    2: (
        "settings of editors, agents and git in the workspace can be changed for about a second; "
        "then that is undone and told",
        "names of other processes are visible",
        "there is no network at all: no server on localhost works, and no host can be allowed",
        "there is no shared memory: Python's multiprocessing and databases like PostgreSQL do not work",
        "no command can make a terminal: tmux, script and pexpect do not work",
    ),
    1: ("names of other processes are visible", "no host can be allowed"),
    0: ("a command that runs can do whatever you can do",),
}
OWN_TMP = "/tmp is the sandbox's own: what commands put there is not in yours"  # noqa: S108 - a sentence
_SIGNALS = "commands can end your other programs: this kernel's Landlock does not keep signals in"

_PROCESSES = (
    "a command of root can start processes until the machine has no ids left: there is no control group "
    "to limit them"
)


class SandboxStatus(msgspec.Struct, frozen=True):
    """The level in force. `reason` tells why it is not a higher one, "" for the best; `signals_reach_out`
    means that commands can end the user's other programs, `processes_unbounded` that they can start as
    many as the machine has ids for."""

    level: Level
    reason: str = ""
    signals_reach_out: bool = False
    processes_unbounded: bool = False

    @property
    def name(self) -> str:
        """Return the technique in one word."""
        return NAMES[self.level]

    @property
    def gaps(self) -> tuple[str, ...]:
        """Return the gaps in its protection, one sentence each."""
        return (
            *_GAPS[self.level],
            *((_SIGNALS,) if self.signals_reach_out else ()),
            *((_PROCESSES,) if self.processes_unbounded else ()),
        )

    @property
    def is_missing(self) -> bool:
        """Tell whether a probe found no sandbox."""
        return self.level == 0 and self.reason != NOT_LOOKED_FOR

    @property
    def is_working(self) -> bool:
        """Tell whether commands run confined at all."""
        return self.level > 0

    @property
    def has_read_only(self) -> bool:
        """Tell whether it has a profile in which a command can change nothing and read no secrets."""
        return self.level == 3

    @property
    def short(self) -> str:
        """Return the status in two or three words, for the footer."""
        if self.level == 0:
            return "no sandbox" if self.is_missing else ""
        return "sandboxed" if self.has_read_only else f"sandbox: {self.name}"

    def lines(self) -> tuple[str, ...]:
        """Describe the level, the reason why it is not higher, and the gaps, a line each."""
        why = f" ({self.reason})" if self.reason else ""
        head = f"level {self.level}, {self.name}{why}" if self.level else f"none{why}"
        own = (OWN_TMP,) if self.level == 3 else ()
        return (head, *own, *(f"not protected: {gap}" for gap in self.gaps))


SWITCHED_OFF = '[sandbox] level = "off"'
NOT_LOOKED_FOR = "not looked for yet"
NO_SANDBOX = SandboxStatus(0, NOT_LOOKED_FOR)
