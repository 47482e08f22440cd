"""One run: what it is made from, and what its tools share."""

from __future__ import annotations

import msgspec

from buddy.cli.arguments import Options
from buddy.cli.call_sandbox import RunSandbox
from buddy.cli.models import Models
from buddy.cli.place import Place
from buddy.config.loading import Loaded
from buddy.config.settings import Settings
from buddy.extend.instructions import Instructions
from buddy.extend.own_tools import OwnTools
from buddy.safety.policy_state import Policy
from buddy.sessions.opened import OpenSession
from buddy.tools.ask_user import Questions
from buddy.workspace.approved import Approved
from buddy.workspace.git import GitLock
from buddy.workspace.jobs import Jobs
from buddy.workspace.locks import FileLocks
from buddy.workspace.processes import ChildProcesses
from buddy.workspace.trash import Trash
from buddy.workspace.undo import UndoLog


class Wanted(msgspec.Struct, frozen=True):
    """What the command line asks of a desk. `session` "" is a new one; `attended`: somebody is there to be
    asked."""

    session: str
    options: Options
    attended: bool


class Run(msgspec.Struct, frozen=True):
    """What everything of a run is made from. `found`: the instruction files in force."""

    place: Place
    loaded: Loaded
    models: Models
    wanted: Wanted
    session: OpenSession
    policy: Policy
    found: Instructions

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.loaded.settings


class Held(msgspec.Struct, frozen=True):
    """What the tools of all tasks work with."""

    children: ChildProcesses
    jobs: Jobs
    undo: UndoLog
    trash: Trash
    locks: FileLocks
    git_lock: GitLock
    approved: Approved
    sandbox: RunSandbox
    own: OwnTools
    questions: Questions
