"""The arguments common to all commands: the session, the screen, and what only the terminal front end has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec

from buddy.app.session import Session
from buddy.app.trust import FolderTrust
from buddy.repl.branch import Branch
from buddy.repl.user_work import OwnWork
from buddy.repl.view.blocks import TableBlock
from buddy.safety.paths import Boundary
from buddy.tasks.board import TaskBoard


class ScreenActions(msgspec.Struct, frozen=True):
    """Screen operations for commands: print blocks, show a short hint, clear, redraw, leave, put text into
    the editor (`give_back`: a line that was refused), open the line in the user's editor, show the last
    folded output in full, run work in the background, replace the session by another (a reference, or "" for
    a new one), reopen this one with the settings now in force (True: the folder is trusted for this run),
    copy to the clipboard (False: there is none), set and save a theme ("" changes nothing; returns a
    description of the theme in force)."""

    print: Callable[..., None]
    hint: Callable[[str], None]
    redraw: Callable[[], None]
    clear: Callable[[], None]
    leave: Callable[[], None]
    put: Callable[[str], None]
    give_back: Callable[[str], None]
    edit: Callable[[], None]
    expand: Callable[[], None]
    start: Callable[[Coroutine[Any, Any, None]], None]
    switch_session: Callable[[str], None]
    reopen: Callable[[bool], None]
    copy: Callable[[str], bool]
    theme: Callable[[str], Awaitable[str]]


class Context(msgspec.Struct, frozen=True):
    """A session at the terminal. `own`: the user's commands that run; `trust`: the question whether the
    folder is trusted; `doctor` examines this machine, in a thread; `log_path` is "" when there is no log."""

    session: Session
    screen: ScreenActions
    own: OwnWork
    trust: FolderTrust
    doctor: Callable[[], TableBlock]
    log_path: str
    branch: Branch

    @property
    def board(self) -> TaskBoard:
        """The task board."""
        return self.session.board

    @property
    def focus(self) -> int:
        """The task in front."""
        return self.session.board.focus

    @property
    def boundary(self) -> Boundary:
        """Boundary of the foreground task: the workspace, or a worktree of its own."""
        return self.board.task(self.focus).workspace.boundary
