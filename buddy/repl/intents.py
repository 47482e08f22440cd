"""Intents of the user: the union that keys and the input line produce. Parsing a line is pure."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from buddy.agent.lazy_regex import pattern

ApprovalKey = Literal["once", "session", "rule", "denied"]


class Prompt(msgspec.Struct, frozen=True):
    """Text for the foreground task: steers a running turn, else starts one."""

    text: str


class Queue(msgspec.Struct, frozen=True):
    """Text for the foreground task, after its turn."""

    text: str


class NewTask(msgspec.Struct, frozen=True):
    """Text for a new background task."""

    text: str


class ToTask(msgspec.Struct, frozen=True):
    """Text for a task by its id; `aside` marks a question that does not disturb it."""

    task_id: int
    text: str
    aside: bool


class Slash(msgspec.Struct, frozen=True):
    """A command line, with its slash."""

    line: str


class ShellLine(msgspec.Struct, frozen=True):
    """A shell command of the user; a `private` one is not shared with the model."""

    command: str
    private: bool


class ApprovalAnswer(msgspec.Struct, frozen=True):
    """An answer to a request on the screen, with the digest of what was shown, and words for the model with a
    no."""

    request_id: str
    digest: str
    answer: ApprovalKey
    words: str = ""


class Cancel(msgspec.Struct, frozen=True):
    """End the turn of the foreground task."""


class ToBackground(msgspec.Struct, frozen=True):
    """Move the running foreground task to the background."""


class NextMode(msgspec.Struct, frozen=True):
    """Switch to the next permission mode."""


class RecallQueued(msgspec.Struct, frozen=True):
    """Return the last queued message to the editor."""


class DropNote(msgspec.Struct, frozen=True):
    """Leave the last waiting note out of the next prompt."""


class TaskPanel(msgspec.Struct, frozen=True):
    """Show the tasks."""


class Rewind(msgspec.Struct, frozen=True):
    """List the points the conversation can go back to."""


Line = Prompt | NewTask | ToTask | Slash | ShellLine
Intent = (
    Line
    | Queue
    | ApprovalAnswer
    | Cancel
    | ToBackground
    | NextMode
    | RecallQueued
    | DropNote
    | TaskPanel
    | Rewind
)

_TO_TASK = pattern(r"@(?P<id>\d{1,30})(?P<aside>\?)?\s+(?P<text>\S.*)", re.DOTALL)
_BARE_COMMANDS = frozenset({"exit", "quit", ":q"})
_PATH = pattern(r"/[\w.~-]+/")


def parse_line(text: str, *, typed: bool) -> Line | None:
    """Parse a sent line; None for an empty one. `typed` is False when any of it was pasted: then a final ` &`
    is text."""
    line = text.strip()
    if not line:
        return None
    if line in _BARE_COMMANDS:
        return Slash("/quit")
    if line.startswith("!!"):
        return ShellLine(line[2:].strip(), private=True) if line[2:].strip() else None
    if line.startswith("!"):
        return ShellLine(line[1:].strip(), private=False) if line[1:].strip() else None
    if line.startswith("/") and not _PATH().match(line):
        return Slash(line)
    match = _TO_TASK().fullmatch(line)
    if match:
        return ToTask(int(match["id"]), match["text"], aside=match["aside"] is not None)
    if typed and is_new_task(text):
        return NewTask(line[:-1].rstrip())
    if typed and "\n" not in line and line.endswith(" \\&"):
        return Prompt(line[:-2] + "&")
    return Prompt(line)


def is_new_task(text: str) -> bool:
    """Tell whether a typed line would start a new task: a single line that ends in an unescaped ` &`."""
    line = text.strip()
    return "\n" not in line and line.endswith(" &") and len(line) > 2 and not line.startswith(("/", "!"))
