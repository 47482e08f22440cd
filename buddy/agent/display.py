"""Displays: the parts of a tool's work that a person sees. The view draws displays, not tools."""

from __future__ import annotations

from typing import Literal

import msgspec


class Plain(msgspec.Struct, frozen=True, tag="plain"):
    """A one-line summary and, folded, the text behind it ("" when there is none)."""

    summary: str
    body: str = ""


class FileDiff(msgspec.Struct, frozen=True):
    """One changed file. `diff` is unified without file headers; counts are lines."""

    path: str
    change: Literal["add", "update", "delete", "move"]
    diff: str
    added: int
    removed: int
    new_path: str = ""


class Diff(msgspec.Struct, frozen=True, tag="diff"):
    """Changes to files."""

    files: tuple[FileDiff, ...]


class Command(msgspec.Struct, frozen=True, tag="command"):
    """A process. `exit_code` is None while it runs or when a signal ended it (`ended` then says which);
    `limit` is why it was stopped, or the limit it seems to have reached, "" for neither."""

    command: str
    output: str
    exit_code: int | None
    ended: str
    seconds: float
    limit: str = ""


class FileList(msgspec.Struct, frozen=True, tag="files"):
    """Paths, with how many there were in all."""

    summary: str
    paths: tuple[str, ...]
    total: int


class ChecklistItem(msgspec.Struct, frozen=True):
    """One line of a plan."""

    text: str
    state: Literal["pending", "active", "done", "dropped"]


class Checklist(msgspec.Struct, frozen=True, tag="checklist"):
    """A plan."""

    items: tuple[ChecklistItem, ...]


class PictureFile(msgspec.Struct, frozen=True):
    """A picture on the disk: its real path, and the hash of the bytes that were meant."""

    real: str
    digest: str


class Picture(msgspec.Struct, frozen=True, tag="picture"):
    """Images that were looked at or made; the terminal shows name and size, and the files where it can."""

    path: str
    summary: str
    files: tuple[PictureFile, ...] = ()


Display = Plain | Diff | Command | FileList | Checklist | Picture

NOTHING = Plain("")
