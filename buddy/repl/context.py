"""The arguments common to all commands: the session, the screen, and the services of the terminal front
end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Protocol

import msgspec

from buddy.app.session import Session
from buddy.app.trust import FolderTrust
from buddy.repl.branch import Branch
from buddy.repl.view.blocks import TableBlock
from buddy.repl.view.state import OwnRow
from buddy.safety.paths import Boundary
from buddy.tasks.board import TaskBoard


class Work:
    """A running piece of work. `cancelled` is set when the user ends it."""

    def __init__(self, title: str, since: float) -> None:
        self.title = title
        self.since = since
        self.last_line = ""
        self.cancelled = asyncio.Event()


class OwnWork:
    """The user's running work in a session. `changed` is called when some starts or ends."""

    def __init__(self, clock: Callable[[], float], changed: Callable[[], None]) -> None:
        self._clock = clock
        self._changed = changed
        self._running: list[Work] = []

    @contextlib.contextmanager
    def register(self, title: str) -> Generator[Work]:
        """Register work until the context is left."""
        work = Work(title, self._clock())
        self._running.append(work)
        self._changed()
        try:
            yield work
        finally:
            self._running.remove(work)
            self._changed()

    def last(self) -> Work | None:
        """Return the latest work that has not been cancelled."""
        return next((work for work in reversed(self._running) if not work.cancelled.is_set()), None)

    def rows(self) -> tuple[OwnRow, ...]:
        """Return the running work, for the screen."""
        return tuple(OwnRow(work.title, work.since, work.last_line) for work in self._running)


class ScreenActions(msgspec.Struct, frozen=True):
    """Screen operations for commands.

    `put` inserts text into the editor, `give_back` a refused line; `edit` opens the line in the user's
    editor; `expand` prints the last folded output; `start` runs work in the background; `switch_session`
    opens another session (a reference, "" for a new one); `reopen` opens this one again with the settings now
    in force (True: the folder is trusted for this run); `copy` returns False without a clipboard; `theme`
    sets and saves a theme ("": changes nothing) and returns a description of it.
    """

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


class PageServer(Protocol):
    """The page of this session in a browser."""

    async def start(self, port: int) -> str:
        """Serve the session and return the address; 0 is a free port. The address of a running page stays.
        Raises `CommandError`."""
        ...

    async def stop(self) -> bool:
        """Stop serving; False when nothing was served."""
        ...


class Context(msgspec.Struct, frozen=True):
    """A session at the terminal. `own` are the user's running commands; `trust` is the trust question;
    `doctor` examines this machine and blocks; `log_path` is "" without a log; `page` serves the session to a
    browser."""

    session: Session
    screen: ScreenActions
    own: OwnWork
    trust: FolderTrust
    doctor: Callable[[], TableBlock]
    log_path: str
    branch: Branch
    page: PageServer

    @property
    def board(self) -> TaskBoard:
        """Return the task board."""
        return self.session.board

    @property
    def focus(self) -> int:
        """Return the id of the foreground task."""
        return self.session.board.focus

    @property
    def boundary(self) -> Boundary:
        """Return the boundary of the foreground task: the workspace or its worktree."""
        return self.board.task(self.focus).workspace.boundary
