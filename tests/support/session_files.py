"""Helpers for tests of sessions: a store in a temporary workspace, messages, and failing files."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from buddy.agent.messages import (
    NO_USAGE,
    AssistantMessage,
    AssistantPart,
    Call,
    Finish,
    Text,
    ToolMessage,
    UserMessage,
)
from buddy.sessions.file_ops import JournalFiles
from buddy.sessions.identity import load_signer
from buddy.sessions.session import Watch
from buddy.sessions.store import SessionStore

OPERATIONS = ("write", "sync", "truncate", "rename", "open", "link", "unlink", "sync_directory")


def store_in(root: Path, *, files: JournalFiles | None = None, watch: Watch | None = None) -> SessionStore:
    """A store in `root/work` of the person whose key lies in `root/state`."""
    (root / "work").mkdir(exist_ok=True)
    signer = load_signer(str(root / "state"))
    return SessionStore(str(root / "work"), signer, files=files, watch=watch)


def said(name: str, text: str = "please") -> UserMessage:
    return UserMessage(name, (Text(text),), "prompt")


def replied(name: str, *parts: AssistantPart | str, finish: Finish = "stop") -> AssistantMessage:
    whole = tuple(Text(part) if isinstance(part, str) else part for part in parts)
    return AssistantMessage(name, whole, "m", "chat", finish, NO_USAGE)


def call(name: str) -> Call:
    return Call(name, "run_shell", '{"command": "make"}')


def result(name: str, call_id: str, text: str = "done") -> ToolMessage:
    return ToolMessage(name, call_id, "run_shell", text, "ok")


def add_bytes(directory: str, data: bytes) -> None:
    """More bytes at the end of a session's journal."""
    with open(os.path.join(directory, "journal.jsonl"), "ab") as journal:
        journal.write(data)


class Faults:
    """Real files whose operations can be made to fail. `plan(operation, count)` is asked before each and may
    return an errno, raise, or end the process; count starts at 1 for each operation."""

    def __init__(self, plan: Callable[[str, int], int | None] = lambda _operation, _count: None) -> None:
        self.plan = plan
        self.counts: dict[str, int] = {}
        self._lock = threading.Lock()

    def files(self) -> JournalFiles:
        real = JournalFiles()
        watched = {name: self._watched(name, getattr(real, name)) for name in (*OPERATIONS, "read")}
        return msgspec.structs.replace(real, **watched)

    def _watched(self, name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            with self._lock:
                self.counts[name] = self.counts.get(name, 0) + 1
                number = self.plan(name, self.counts[name])
            if number is not None:
                raise OSError(number, os.strerror(number))
            return operation(*args)

        return run


class Failing:
    """A plan that can be switched: while `on`, these operations fail with this errno."""

    def __init__(self, *operations: str, number: int = errno.EIO) -> None:
        self.operations = operations
        self.number = number
        self.on = False

    def __call__(self, operation: str, _count: int) -> int | None:
        return self.number if self.on and operation in self.operations else None
