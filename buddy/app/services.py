"""The services of one run: what its tools look up by type, its workspaces, and the parts of its task
board."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from datetime import datetime

import msgspec
from msgspec.structs import replace

from buddy.agent.budget import Budget, DayBudget
from buddy.agent.host import Limits
from buddy.agent.tool import ToolRegistry
from buddy.app.launch import LaunchContext
from buddy.app.options import Options
from buddy.app.policy import Judge, RuleFiles
from buddy.app.providers import Models
from buddy.app.sandbox import RunSandbox
from buddy.config.loading import LoadedSettings
from buddy.config.settings import Settings
from buddy.extend import instructions as instruction_files
from buddy.extend.instructions import FolderInstructions, InstructionPlaces, Instructions
from buddy.extend.plugins.loader import PluginTools
from buddy.extend.system_prompt import system_prompt, template_text
from buddy.safety.paths import Boundary, is_beneath
from buddy.safety.policy.facts import Facts
from buddy.safety.policy.session import Policy
from buddy.safety.secrets.redact import redact, redact_message
from buddy.safety.shell.hardened import READ_ONLY_ENVIRONMENT
from buddy.sessions.daily_spending import DaySpending
from buddy.sessions.session import OpenSession
from buddy.tasks.dependencies import BoardParts, Clock, TaskServices, Workspace, WorktreeParts
from buddy.tools.ask_user import Questions
from buddy.tools.cache import ToolCache
from buddy.tools.shell import ShellSettings
from buddy.tools.todo import Plan, WallClock
from buddy.tools.web import WebAccess, choose_search
from buddy.workspace.checkpoints.checkpoints import Checkpoints
from buddy.workspace.files.approved_versions import Approved
from buddy.workspace.files.locks import FileLocks
from buddy.workspace.files.read_tracking import FileViews, changed_since
from buddy.workspace.git.run import GitLock, RepositoryTrust
from buddy.workspace.processes.jobs import Jobs
from buddy.workspace.processes.pool import ChildProcesses
from buddy.workspace.search.runner import SearchSettings
from buddy.workspace.undo.log import UndoLog
from buddy.workspace.undo.trash import Trash
from buddy.workspace.web import Fetcher
from buddy.workspace.worktrees.worktrees import Worktree, Worktrees


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
    plugin_tools: PluginTools
    questions: Questions


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
        PluginTools: held.plugin_tools,
        Questions: held.questions,
        Boundary: boundary,
        GitLock: held.git_lock,
        RepositoryTrust: RepositoryTrust(run.place.trusted),
        Trash: held.trash,
        ShellSettings: ShellSettings(time_limit_s=settings.shell_time_limit_s),
        SearchSettings: SearchSettings(time_limit_s=settings.search_time_limit_s),
        WallClock: WallClock(lambda: datetime.now().astimezone()),
        WebAccess: WebAccess(Fetcher(), choose_search(settings.web_search_url, {}), time.monotonic),
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


def main_workspace(run: Run, held: SharedServices) -> Workspace:
    """The tree buddy was started in."""
    return _workspace(run, held, "checkpoints")


def worktree_parts(run: Run, held: SharedServices) -> WorktreeParts:
    """Worktrees of that tree."""
    trees = Worktrees(held.children, run.place.boundary.root, held.git_lock)
    return WorktreeParts(
        trees,
        _environment(run.place),
        lambda tree: _of_worktree(run, held, tree),
        run.session.writer.workspace_seal.derive("worktrees"),
    )


def _of_worktree(run: Run, held: SharedServices, tree: Worktree) -> Workspace:
    """The same run as if it had been started at the same place of a worktree. Settings, trust and plug-ins
    are the main tree's: a branch does not bring others."""
    place = replace(run.place, boundary=worktree_boundary(run, tree), environment=_environment(run.place))
    found = instruction_files.find(
        root=place.boundary.root,
        cwd=place.boundary.cwd,
        config_dir=place.where.config,
        home=place.where.home,
        names=run.settings.agent.instruction_files,
    )
    inside = replace(run, place=place, found=found)
    return replace(_workspace(inside, held, f"checkpoints-{tree.name}"), worktree=tree)


def worktree_boundary(run: Run, tree: Worktree) -> Boundary:
    """Return the boundary of a task in a worktree: the worktree, the folders added with --add-dir, and the
    long outputs of its own commands."""
    main = run.place.boundary
    below = os.path.relpath(main.cwd, main.root)
    cwd = os.path.normpath(os.path.join(tree.path, below))
    return Boundary(
        root=tree.path,
        cwd=cwd if os.path.isdir(cwd) else tree.path,
        home=main.home,
        extra=(*main.extra, os.path.realpath(os.path.join(run.session.directory, "output"))),
        own=main.own,
        main=main.root,
        trusts_repository=main.trusts_repository,
    )


def _environment(place: LaunchContext) -> dict[str, str]:
    """Without programs of the main tree on the PATH: what a task can write there must not become git here."""
    folders = place.environment.get("PATH", "").split(":")
    outside = [one for one in folders if not is_beneath(os.path.realpath(one), place.boundary.root)]
    return {**place.environment, "PATH": ":".join(outside)}


def _workspace(run: Run, held: SharedServices, checkpoints: str) -> Workspace:
    place = run.place
    return Workspace(
        boundary=place.boundary,
        system=_system(run),
        facts=Judge(
            place.boundary,
            search_path=place.environment.get("PATH", ""),
            sandbox=lambda: held.sandbox.status,
        ).facts,
        services=services_of(run, held),
        checkpoints=_checkpoints(run, held, checkpoints),
    )


def _system(run: Run) -> str:
    place = run.place
    return system_prompt(
        template_text("system_prompt.md"),
        cwd=place.boundary.cwd,
        root=place.boundary.root,
        is_repository=place.is_repository,
        platform=f"{os.uname().sysname} {os.uname().machine}",
        person=run.settings.agent.system_prompt,
        instructions=run.found.as_text(trusted=place.trusted),
    )


def _checkpoints(run: Run, held: SharedServices, name: str) -> Checkpoints | None:
    if not run.settings.session.checkpoints:
        return None
    folder = os.path.join(run.session.directory, name)
    return Checkpoints(
        folder, run.place.boundary.root, held.undo, run.place.environment, seal=run.session.seal
    )


ATTENDED_WAIT_S = 120
UNATTENDED_WAIT_S = 900
"""How long a provider may ask to wait before the turn fails."""


def board_parts(run: Run, held: SharedServices, tools: ToolRegistry, rules: RuleFiles) -> BoardParts:
    """All of it, by the settings and the command line."""
    settings, models = run.settings, run.models
    attended, options = run.wanted.attended, run.wanted.options
    return BoardParts(
        workspace=main_workspace(run, held),
        tools=tools,
        model=models.access_or_explain if attended else models.access,
        policy=run.policy,
        judged=remember(held.approved),
        sandboxing=held.sandbox,
        memory=run.session.writer,
        cache=ToolCache(time.monotonic),
        redact=lambda message: redact_message(message, models.keys()),
        redact_text=lambda text: redact(text, models.keys()),
        save_rules=rules.save,
        forget_rule=rules.forget,
        clock=_clock(),
        limits=Limits(
            max_replies=options.max_turns or settings.agent.max_iterations,
            tries=settings.network.tries,
            outage_tries=0 if attended else settings.network.unattended_tries,
            longest_wait_s=ATTENDED_WAIT_S if attended else UNATTENDED_WAIT_S,
        ),
        task_budget=Budget(options.max_cost or settings.budget.task_usd, settings.budget.task_tokens),
        session_budget=Budget(settings.budget.session_usd, settings.budget.session_tokens),
        attended=attended,
        steering=settings.agent.steering,
        follow_ups=settings.agent.follow_ups,
        day=_day(run),
        worktrees=worktree_parts(run, held),
    )


def remember(approved: Approved) -> Callable[[str, Facts], None]:
    """Return a function that records what a call was judged by: the places its paths lead to and the content
    of its scripts (tools refuse when these have changed), and the environment a command that only reads must
    run with."""

    def judged(call_id: str, facts: Facts) -> None:
        started = (facts.folder,) if facts.folder is not None else ()
        for located in (*facts.reads, *facts.writes, *started):
            approved.remember(call_id, located.given, located.real)
        reads = facts.shell is not None and facts.shell.read_only
        if facts.shell is not None and not reads:
            approved.remember_scripts(call_id, facts.shell, facts.scripts)
        approved.harden(call_id, READ_ONLY_ENVIRONMENT if reads else {})

    return judged


def _clock() -> Clock:
    return Clock(
        now=time.monotonic,
        wall=time.time,
        sleep=asyncio.sleep,
        random=lambda: int.from_bytes(os.urandom(6), "big") / 2**48,
        new_id=lambda: os.urandom(8).hex(),
    )


def _day(run: Run) -> DayBudget:
    spending = DaySpending(run.place.where.state)
    return DayBudget(run.settings.budget.day_usd, spending.spent, spending.add)
