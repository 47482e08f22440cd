"""Services that tools look up by type: those shared by all tasks, and those of each task."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import datetime

from buddy.cli.run import Run, SharedServices
from buddy.extend.folder_instructions import FolderInstructions, InstructionPlaces
from buddy.extend.own_tools import OwnTools
from buddy.safety.paths import Boundary
from buddy.tasks.parts import TaskServices
from buddy.tools.ask_user import Questions
from buddy.tools.plan import Plan, WallClock
from buddy.tools.shell import ShellSettings
from buddy.tools.web import WebAccess
from buddy.tools.web_searches import configured_search
from buddy.workspace.approved import Approved
from buddy.workspace.fetch import Fetcher
from buddy.workspace.git import GitLock, RepositoryTrust
from buddy.workspace.jobs import Jobs
from buddy.workspace.locks import FileLocks
from buddy.workspace.processes import ChildProcesses
from buddy.workspace.search_run import SearchSettings
from buddy.workspace.trash import Trash
from buddy.workspace.undo import UndoLog
from buddy.workspace.views import FileViews, changed_since


def services_of(run: Run, held: SharedServices) -> Callable[[int], TaskServices]:
    """Makes the services of a new task, by its number."""
    shared = _shared(run, held)
    cwd = run.place.boundary.cwd

    def of_task(views: FileViews, plan: Plan, folders: FolderInstructions) -> TaskServices:
        return TaskServices(
            services={**shared, FileViews: views, Plan: plan, FolderInstructions: folders},
            copy=lambda _number: of_task(views.copy(), plan.copy(), folders.copy()),
            changes=lambda: changed_since(views, lambda real: os.path.relpath(real, cwd)),
            forget_shown=views.forget_shown,
        )

    return lambda _number: of_task(FileViews(), Plan(), _folders(run))


def _shared(run: Run, held: SharedServices) -> dict[type, object]:
    settings, boundary = run.settings.tools, run.place.boundary
    return {
        ChildProcesses: held.children,
        Jobs: held.jobs,
        UndoLog: held.undo,
        FileLocks: held.locks,
        Approved: held.approved,
        OwnTools: held.own,
        Questions: held.questions,
        Boundary: boundary,
        GitLock: held.git_lock,
        RepositoryTrust: RepositoryTrust(run.place.trusted),
        Trash: held.trash,
        ShellSettings: ShellSettings(time_limit_s=settings.shell_time_limit_s),
        SearchSettings: SearchSettings(time_limit_s=settings.search_time_limit_s),
        WallClock: WallClock(lambda: datetime.now().astimezone()),
        WebAccess: WebAccess(Fetcher(), configured_search(settings.web_search_url, {}), time.monotonic),
    }


def _folders(run: Run) -> FolderInstructions:
    place = run.place
    return FolderInstructions(
        InstructionPlaces(
            root=place.boundary.root,
            cwd=place.boundary.cwd,
            home=place.where.home,
            names=run.settings.agent.instruction_files,
            trusted=place.trusted,
            known=tuple(file.path for file in run.found.files),
        )
    )
