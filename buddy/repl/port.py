"""What the terminal front end is given of the desk: the lower rooms it talks to, nothing it builds itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

import msgspec

from buddy.config import Settings
from buddy.extend.mentions import Expanded
from buddy.llm.catalog import Catalogue
from buddy.repl.blocks import Block
from buddy.safety.paths import Boundary
from buddy.safety.policy_state import Policy
from buddy.sessions.store import SessionStore
from buddy.sessions.writer import SessionWriter
from buddy.tasks.board import TaskBoard
from buddy.workspace.jobs import Jobs
from buddy.workspace.locks import FileLocks
from buddy.workspace.processes import ChildProcesses
from buddy.workspace.undo import UndoLog


class DeskPort(msgspec.Struct, frozen=True):
    """A session ready to work. `expand` attaches mentioned files; `trust` remembers that the person trusts
    this folder (False: no longer); `sandbox` is the footer's word; `instructions` names the instruction files
    in force, `log_path` is "" when there is no log."""

    board: TaskBoard
    policy: Policy
    memory: SessionWriter
    store: SessionStore
    settings: Settings
    boundary: Boundary
    catalogue: Callable[[], Catalogue]
    jobs: Jobs
    children: ChildProcesses
    undo: UndoLog
    locks: FileLocks
    trusted: bool
    trust: Callable[[bool], str]
    expand: Callable[[int, str], Awaitable[Expanded]]
    sandbox: str
    instructions: tuple[str, ...]
    log_path: str
    start_notes: tuple[str, ...]


class Stage(msgspec.Struct, frozen=True):
    """What commands do to the screen: print blocks, show a short hint, clear, redraw, leave, put text into
    the editor, run work in the background, replace the session by another (a reference, or "" for a new
    one)."""

    print: Callable[..., None]
    hint: Callable[[str], None]
    redraw: Callable[[], None]
    clear: Callable[[], None]
    leave: Callable[[], None]
    put: Callable[[str], None]
    start: Callable[[Coroutine[Any, Any, None]], None]
    switch_session: Callable[[str], None]
    copy: Callable[[str], None]
    blocks: Callable[[], Sequence[Block]]


class Context(msgspec.Struct, frozen=True):
    """What a command gets."""

    desk: DeskPort
    stage: Stage

    @property
    def board(self) -> TaskBoard:
        """The task board."""
        return self.desk.board

    @property
    def focus(self) -> int:
        """The task in front."""
        return self.desk.board.focus
