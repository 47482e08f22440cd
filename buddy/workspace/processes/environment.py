"""The environment of child processes: an allow-list, never a copy of buddy's own."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from buddy.agent.lazy_regex import pattern

ALLOWED = frozenset({"HOME", "PATH", "LANG", "LANGUAGE", "TMPDIR", "TZ", "USER", "LOGNAME", "SHELL"})
ALLOWED_BY_STANDARDS = frozenset(
    {
        *("LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME"),
        *("LC_ADDRESS", "LC_IDENTIFICATION", "LC_MEASUREMENT", "LC_NAME", "LC_PAPER", "LC_TELEPHONE"),
        *("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"),
        *("XDG_CONFIG_DIRS", "XDG_DATA_DIRS", "XDG_BIN_HOME"),
    }
)
"""Locale categories and base directories, by their exact names: any other LC_… or XDG_… may hold anything."""

SECRET_NAME = pattern(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
"""Names that never reach a child, whatever the person allows by name."""

TRUSTED_PATH = ("/usr/local/bin", "/usr/bin", "/bin", "/opt/homebrew/bin", "/run/current-system/sw/bin")
"""Where programs buddy starts by itself are looked for: never the workspace, never `PATH` first."""

TAG_VARIABLE = "BUDDY_JOB"
"""Names the command a process descends from; `process_tree` finds strays by it."""

CAPTURED = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
"""What tells programs that nobody looks at a terminal and nobody can answer."""


class ChildEnvironment(msgspec.Struct, frozen=True):
    """Filter for the environment of child processes. `variables` is the environment buddy was started with;
    `allowed` are further names the user lets through; `forbidden` are names that hold keys (of the configured
    providers) and are dropped even then."""

    variables: Mapping[str, str]
    session_id: str
    allowed: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()

    def passes(self, name: str) -> bool:
        """Tell whether a variable of buddy's own environment is passed to a child."""
        if name in self.forbidden or SECRET_NAME().search(name):
            return False
        return name in ALLOWED or name in self.allowed or name in ALLOWED_BY_STANDARDS

    def for_child(self, *, task_id: int, tag: str, extra: Mapping[str, str]) -> dict[str, str]:
        """Return the whole environment of one child. `extra` comes from buddy's own code and wins."""
        passed = {name: value for name, value in self.variables.items() if self.passes(name)}
        passed.setdefault("PATH", ":".join(TRUSTED_PATH))
        own = {
            "AI_AGENT": "buddy",
            "BUDDY_SESSION_ID": self.session_id,
            "BUDDY_TASK_ID": str(task_id),
            TAG_VARIABLE: tag,
        }
        return {**passed, **CAPTURED, **own, **extra}
