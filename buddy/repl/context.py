"""The parts of a session that the terminal front end uses: lower rooms it talks to, nothing it builds
itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec

from buddy.app.trust_answer import TrustAnswer
from buddy.config.loading import LoadedSettings
from buddy.config.settings import Settings
from buddy.extend.mentions import ExpandedPrompt
from buddy.llm.catalog import Catalogue
from buddy.repl.branch import Branch
from buddy.repl.user_work import OwnWork
from buddy.repl.view.blocks import TableBlock
from buddy.safety.paths import Boundary
from buddy.safety.policy.session import Policy
from buddy.sessions.store import SessionStore
from buddy.sessions.writer import SessionWriter
from buddy.tasks.board import TaskBoard
from buddy.tools.ask_user import Questions
from buddy.workspace.files.locks import FileLocks
from buddy.workspace.processes.jobs import Jobs
from buddy.workspace.processes.pool import ChildProcesses
from buddy.workspace.sandbox.status import SandboxStatus
from buddy.workspace.undo.log import UndoLog


class DeskPort(msgspec.Struct, frozen=True):
    """A session ready to work. `expand` attaches mentioned files; `trust` takes the person's answer about
    this folder (once, always, no; it blocks), `trust_is_asked` says whether that question is open; `sandbox`
    is what is known of it by now; `instructions` names the instruction files in force, `log_path` is "" when
    there is no log; `loaded` says where the settings came from; `doctor` examines this machine
    (it blocks: call it in a thread), `problem` says why a model can't be asked, "" when it can; `branch` is
    the workspace's; `remember_model` keeps a chosen model for the next start (it blocks), `served` names the
    models of a model's own server."""

    board: TaskBoard
    policy: Policy
    memory: SessionWriter
    store: SessionStore
    settings: Settings
    loaded: LoadedSettings
    doctor: Callable[[], TableBlock]
    boundary: Boundary
    catalogue: Callable[[], Catalogue]
    problem: Callable[[str], Awaitable[str]]
    remember_model: Callable[[str], None]
    served: Callable[[str], tuple[str, ...]]
    jobs: Jobs
    children: ChildProcesses
    undo: UndoLog
    questions: Questions
    locks: FileLocks
    trusted: bool
    trust: Callable[[str], TrustAnswer]
    trust_is_asked: Callable[[], bool]
    expand: Callable[[int, str], Awaitable[ExpandedPrompt]]
    sandbox: Callable[[], SandboxStatus]
    instructions: tuple[str, ...]
    log_path: str
    branch: Branch = msgspec.field(default_factory=Branch)


class Stage(msgspec.Struct, frozen=True):
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
    """Arguments common to all commands."""

    desk: DeskPort
    stage: Stage
    own: OwnWork

    @property
    def board(self) -> TaskBoard:
        """The task board."""
        return self.desk.board

    @property
    def focus(self) -> int:
        """The task in front."""
        return self.desk.board.focus

    @property
    def boundary(self) -> Boundary:
        """Boundary of the foreground task: the workspace, or a worktree of its own."""
        return self.board.task(self.focus).workspace.boundary
