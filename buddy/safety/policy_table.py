"""The table of decisions by mode and kind of call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

Mode = Literal["plan", "ask", "edit", "auto", "yolo"]
Decision = Literal["allow", "ask", "deny"]
Column = Literal[
    "low_inside",
    "low_outside",
    "medium_inside",
    "medium_outside",
    "high",
    "shell_read_only",
    "shell_sandboxed",
    "floor",
]

MODES: tuple[Mode, ...] = get_args(Mode)
MODE_WORDS: dict[Mode, str] = {
    "plan": "read-only",
    "ask": "edits and commands ask",
    "edit": "edits in the workspace run, commands ask",
    "auto": "edits and sandboxed commands run",
    "yolo": "everything runs",
}
"""Each mode in a few words, for the person who switches to it."""
CLAUDE_MODES: dict[str, Mode] = {
    "plan": "plan",
    "default": "ask",
    "acceptEdits": "edit",
    "auto": "auto",
    "bypassPermissions": "yolo",
}
"""Claude's `permissionMode` names."""

CLAUDE_NAMES: dict[Mode, str] = {mode: name for name, mode in CLAUDE_MODES.items()}

_COLUMNS: tuple[Column, ...] = get_args(Column)
_WORDS: dict[str, Decision] = {"run": "allow", "ask": "ask", "deny": "deny"}
_ROWS: dict[Mode, str] = {
    "plan": "run ask deny deny deny run deny deny",
    "ask": " run ask ask  ask  ask  run ask  ask",
    "edit": "run ask run  ask  ask  run ask  ask",
    "auto": "run ask run  ask  ask  run run  ask",
    "yolo": "run run run  run  run  run run  ask",
}
TABLE: dict[tuple[Mode, Column], Decision] = {
    (mode, column): _WORDS[word]
    for mode, row in _ROWS.items()
    for column, word in zip(_COLUMNS, row.split(), strict=True)
}

COLUMN_WORDS: dict[Column, str] = {
    "low_inside": "reading in the workspace",
    "low_outside": "reading outside the workspace, or a secret file",
    "medium_inside": "a change in the workspace",
    "medium_outside": "a change outside the workspace",
    "high": "a high-risk call",
    "shell_read_only": "a shell command that only reads",
    "shell_sandboxed": "a shell command in the sandbox",
    "floor": "something no mode runs without asking",
}
ASK_WORDS: dict[Column, str] = {
    "low_outside": "it reads outside the workspace",
    "medium_outside": "it changes a file outside the workspace",
}
"""Calls to ask about, as their reason says it before the path."""
HIGH_WORDS = {
    "delete_file": "it deletes a file",
    "move_file": "it moves a file",
    "write_job": "it types into a running command",
    "send_keys": "it types into a running command",
    "git_push": "it pushes commits",
    "git_pull": "it pulls commits",
    "web_fetch": "it reads a web page",
    "web_search": "it searches the web",
    "run_tests": "it runs the project's tests",
}
"""The same for tools whose every call is asked about; the others are called high-risk."""
NO_FILE_WORDS = "a medium-risk call that changes no file itself"
_STRICTNESS: dict[Decision, int] = {"allow": 0, "ask": 1, "deny": 2}


def strictest(decisions: Sequence[Decision]) -> Decision:
    """The strictest of some decisions; at least one."""
    return max(decisions, key=_STRICTNESS.__getitem__)


def mode_named(name: str) -> Mode | None:
    """The mode of this name, buddy's or Claude's."""
    for mode in MODES:
        if mode == name:
            return mode
    return CLAUDE_MODES.get(name)
