"""One run: what it is made from, and what its tools share."""

from __future__ import annotations

import msgspec

from buddy.cli.arguments import Options
from buddy.cli.call_sandbox import RunSandbox
from buddy.cli.models import Models
from buddy.cli.place import LaunchContext
from buddy.config.loading import LoadedSettings
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


class LaunchRequest(msgspec.Struct, frozen=True):
    """The command line's choice of a session. `session` "" is a new one; `attended`: a user is there to
    answer questions."""

    session: str
    options: Options
    attended: bool


class Run(msgspec.Struct, frozen=True):
    """Components shared by everything in a run. `found`: the instruction files in force."""

    place: LaunchContext
    loaded: LoadedSettings
    models: Models
    wanted: LaunchRequest
    session: OpenSession
    policy: Policy
    found: Instructions

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.loaded.settings


class SharedServices(msgspec.Struct, frozen=True):
    """Services shared by the tools of all tasks."""

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
