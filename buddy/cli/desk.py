"""Building everything of one run, in order, and taking it down again in reverse."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime

import msgspec

from buddy.agent.budget import Budget, DayBudget
from buddy.agent.host import Limits
from buddy.agent.registry import ToolRegistry
from buddy.agent.tool import ToolContext, ToolResult
from buddy.cli.arguments import Options, UsageError
from buddy.cli.left_running import JobNews, left_running
from buddy.cli.models import Models
from buddy.cli.place import Place
from buddy.cli.rules import Judge, RuleFiles
from buddy.config import Loaded, SessionSettings, Settings
from buddy.extend import instructions as instruction_files
from buddy.extend.folder_instructions import FolderInstructions, InstructionPlaces
from buddy.extend.mentions import Expanded, expand
from buddy.extend.own_tools import OwnTools
from buddy.extend.prompt import system_prompt
from buddy.extend.templates import template_text
from buddy.safety.grants import Grant
from buddy.safety.paths import Boundary
from buddy.safety.policy_facts import Facts
from buddy.safety.policy_state import Policy
from buddy.safety.policy_table import MODES, Mode, mode_named
from buddy.safety.process_guard import guard_process
from buddy.safety.redact import redact, redact_message, secret_spans
from buddy.safety.shell.hardened import READ_ONLY_ENVIRONMENT
from buddy.sessions.folder import FolderError
from buddy.sessions.opened import OpenSession
from buddy.sessions.spending import DaySpending
from buddy.sessions.store import SessionStore
from buddy.tasks.board import TaskBoard
from buddy.tasks.parts import BoardParts, Clock, TaskServices
from buddy.tools.ask_user import Questions
from buddy.tools.builtin import BUILTIN_TOOLS
from buddy.tools.cache import ToolCache
from buddy.tools.plan import Plan, WallClock
from buddy.tools.read import read_file
from buddy.tools.shell import ShellSettings
from buddy.tools.web import WebAccess
from buddy.tools.web_searches import configured_search
from buddy.workspace.approved import Approved
from buddy.workspace.checkpoints import Checkpoints
from buddy.workspace.environment import ChildEnvironment
from buddy.workspace.fetch import Fetcher
from buddy.workspace.git import GitLock
from buddy.workspace.jobs import Jobs
from buddy.workspace.locks import FileLocks
from buddy.workspace.output import OutputBounds
from buddy.workspace.processes import ChildProcesses, ProcessSettings
from buddy.workspace.search_run import SearchSettings
from buddy.workspace.trash import Trash
from buddy.workspace.undo import UndoLog
from buddy.workspace.views import FileViews, changed_since

DAY_S = 24 * 3600.0


class Desk(msgspec.Struct, frozen=True):
    """A session ready to work: what front ends are given."""

    place: Place
    settings: Settings
    loaded: Loaded
    session: OpenSession
    store: SessionStore
    board: TaskBoard
    policy: Policy
    models: Models
    jobs: Jobs
    children: ChildProcesses
    undo: UndoLog
    questions: Questions
    locks: FileLocks
    instructions: tuple[str, ...]
    notes: tuple[str, ...]

    async def expand(self, number: int, text: str) -> Expanded:
        """A prompt for a task, with the files it mentions read as the task would read them."""
        task = self.board.task(number)
        context = ToolContext(number, "", lambda _text: None, task.cancelled, task.services.services)

        async def read(path: str) -> ToolResult:
            return await read_file.run(context, read_file.arguments(path=path))

        return await expand(text, self.place.boundary.cwd, read)


class Wanted(msgspec.Struct, frozen=True):
    """What the command line asks of a desk. `session` "" is a new one."""

    session: str
    options: Options
    attended: bool


@asynccontextmanager
async def open_desk(
    place: Place, loaded: Loaded, store: SessionStore, models: Models, wanted: Wanted
) -> AsyncGenerator[Desk]:
    """Everything of one run. Leaving it cancels what runs, ends every child and saves the session."""
    guard_process()
    async with AsyncExitStack() as stack:
        session = await (store.open(wanted.session) if wanted.session else store.create())
        stack.push_async_callback(_forget_old, store, loaded.settings.session, session.session_id)
        stack.push_async_callback(session.close)
        stack.push_async_callback(models.aclose)
        children = await stack.enter_async_context(_children(place, loaded.settings, session, models))
        news = JobNews()
        jobs = await stack.enter_async_context(Jobs(children, news.changed))
        undo = UndoLog(os.path.join(session.directory, "undo"))
        if wanted.session:
            await asyncio.to_thread(undo.entries)  # what a program that was killed left beside files goes
        rules = RuleFiles(place, loaded)
        policy = _policy(place, loaded.settings, rules, wanted.options, session)
        found = _instructions(place, loaded.settings)
        locks, approved = FileLocks(), Approved()
        questions = Questions(attended=wanted.attended)
        tools = _tools(loaded.settings)
        own = OwnTools(os.path.join(place.boundary.root, ".buddyx", "ext"), tools, trusted=place.trusted)
        own_problems = (await asyncio.to_thread(own.load)).problems
        services = _services(
            place,
            loaded.settings,
            FolderInstructions(
                InstructionPlaces(
                    root=place.boundary.root,
                    cwd=place.boundary.cwd,
                    home=place.where.home,
                    names=loaded.settings.agent.instruction_files,
                    trusted=place.trusted,
                    known=tuple(file.path for file in found.files),
                )
            ),
            {
                ChildProcesses: children,
                Jobs: jobs,
                UndoLog: undo,
                FileLocks: locks,
                Approved: approved,
                OwnTools: own,
                Questions: questions,
            },
        )
        board = TaskBoard(
            BoardParts(
                boundary=place.boundary,
                system=_system(place, loaded.settings, found),
                tools=tools,
                model=models.access_or_explain if wanted.attended else models.access,
                policy=policy,
                facts=Judge(place.boundary, search_path=place.environment.get("PATH", "")).facts,
                judged=_remember(approved),
                memory=session.writer,
                services=services,
                cache=ToolCache(time.monotonic),
                redact=lambda message: redact_message(message, models.keys()),
                redact_text=lambda text: redact(text, models.keys()),
                save_rules=rules.save,
                clock=_clock(),
                limits=_limits(loaded.settings, wanted.options),
                task_budget=_task_budget(loaded.settings, wanted.options),
                session_budget=_session_budget(loaded.settings),
                attended=wanted.attended,
                steering=loaded.settings.agent.steering,
                follow_ups=loaded.settings.agent.follow_ups,
                day=_day(place, loaded.settings),
                checkpoints=_checkpoints(place, loaded.settings, session, undo),
            )
        )
        await stack.enter_async_context(board)
        news.tell = board.hub.emit
        stack.callback(news.stop)
        if session.loaded.tasks:
            board.restore(session.loaded.tasks, session.loaded.state.focus)
        else:
            board.open(model=wanted.options.model)
        left = await left_running(session.session_id) if wanted.session else ()
        notes = tuple(filter(None, (place.trust_note, *loaded.warnings, *rules.errors, *found.notes)))
        yield Desk(
            place=place,
            settings=loaded.settings,
            loaded=loaded,
            session=session,
            store=store,
            board=board,
            policy=policy,
            models=models,
            jobs=jobs,
            children=children,
            undo=undo,
            questions=questions,
            locks=locks,
            instructions=tuple(file.label for file in found.files),
            notes=(*notes, *own_problems, *session.loaded.problems, *left),
        )


@asynccontextmanager
async def _children(
    place: Place, settings: Settings, session: OpenSession, models: Models
) -> AsyncGenerator[ChildProcesses]:
    environment = ChildEnvironment(
        variables=place.environment, session_id=session.session_id, forbidden=models.key_names
    )
    half = settings.tools.shell_output_bytes // 2
    processes = ProcessSettings(
        spill_folder=os.path.join(session.directory, "output"),
        bounds=OutputBounds(head_bytes=half, tail_bytes=half),
        find_secrets=lambda text: secret_spans(text, models.keys()),
    )
    async with ChildProcesses(environment, processes) as children:
        yield children


async def _forget_old(store: SessionStore, kept: SessionSettings, current: str) -> None:
    """Sessions that are too old or too many go when this one ends. What can't be removed stays."""
    with contextlib.suppress(OSError, FolderError):
        await asyncio.to_thread(
            store.forget_old,
            max_age_s=kept.keep_days * DAY_S,
            max_count=kept.keep_count,
            current=current,
        )


def _policy(
    place: Place, settings: Settings, rules: RuleFiles, options: Options, session: OpenSession
) -> Policy:
    mode = options.permission_mode or settings.permissions.mode
    policy = Policy(
        rules.load(options.allow), trusted=place.trusted, yolo_allowed=options.permission_mode == "yolo"
    )
    policy.set_mode(mode_of(mode))
    grants = [change.grant for change in session.loaded.state.grants if change.grant is not None]
    policy.grants = tuple(msgspec.convert(grant, Grant) for grant in grants)
    return policy


def mode_of(name: str) -> Mode:
    """The permission mode of a name. Raises `UsageError`."""
    mode = mode_named(name)
    if mode is None:
        raise UsageError(f"--permission-mode is one of {', '.join(MODES)}; found {name!r}")
    return mode


def _services(
    place: Place, settings: Settings, folders: FolderInstructions, owned: Mapping[type, object]
) -> Callable[[int], TaskServices]:
    shared: dict[type, object] = {
        **owned,
        Boundary: place.boundary,
        GitLock: GitLock(),
        Trash: Trash(os.path.join(place.boundary.root, ".buddyx", "trash")),
        ShellSettings: ShellSettings(time_limit_s=settings.tools.shell_time_limit_s),
        SearchSettings: SearchSettings(time_limit_s=settings.tools.search_time_limit_s),
        WallClock: WallClock(lambda: datetime.now().astimezone()),
        WebAccess: WebAccess(Fetcher(), configured_search(settings.tools.web_search_url, {}), time.monotonic),
    }

    def of_task(views: FileViews, plan: Plan, folders: FolderInstructions) -> TaskServices:
        return TaskServices(
            services={**shared, FileViews: views, Plan: plan, FolderInstructions: folders},
            copy=lambda _number: of_task(views.copy(), plan.copy(), folders.copy()),
            changes=lambda: changed_since(views, lambda real: os.path.relpath(real, place.boundary.cwd)),
            forget_shown=views.forget_shown,
        )

    return lambda _number: of_task(FileViews(), Plan(), folders.copy())


def _remember(approved: Approved) -> Callable[[str, Facts], None]:
    """Where the paths of a call led when it was judged: the tools refuse when they lead elsewhere later; and
    what a command that only reads must run with."""

    def judged(call_id: str, facts: Facts) -> None:
        for located in (*facts.reads, *facts.writes):
            approved.remember(call_id, located.given, located.real)
        reads = facts.shell is not None and facts.shell.read_only
        approved.harden(call_id, READ_ONLY_ENVIRONMENT if reads else {})

    return judged


def _tools(settings: Settings) -> ToolRegistry:
    return ToolRegistry(tool for tool in BUILTIN_TOOLS if tool.name not in settings.tools.disabled)


def _checkpoints(place: Place, settings: Settings, session: OpenSession, undo: UndoLog) -> Checkpoints | None:
    if not settings.session.checkpoints:
        return None
    folder = os.path.join(session.directory, "checkpoints")
    return Checkpoints(folder, place.boundary.root, undo, place.environment)


def _instructions(place: Place, settings: Settings) -> instruction_files.Instructions:
    return instruction_files.find(
        root=place.boundary.root,
        cwd=place.boundary.cwd,
        config_dir=place.where.config,
        home=place.where.home,
        names=settings.agent.instruction_files,
    )


def _system(place: Place, settings: Settings, found: instruction_files.Instructions) -> str:
    return system_prompt(
        template_text("system_prompt.md"),
        cwd=place.boundary.cwd,
        root=place.boundary.root,
        is_repository=place.is_repository,
        platform=f"{os.uname().sysname} {os.uname().machine}",
        person=settings.agent.system_prompt,
        instructions=found.joined(trusted=place.trusted),
    )


def _clock() -> Clock:
    return Clock(
        now=time.monotonic,
        wall=time.time,
        sleep=asyncio.sleep,
        random=lambda: int.from_bytes(os.urandom(6), "big") / 2**48,
        new_id=lambda: os.urandom(8).hex(),
    )


def _limits(settings: Settings, options: Options) -> Limits:
    return Limits(
        max_replies=options.max_turns or settings.agent.max_iterations, tries=settings.network.tries
    )


def _task_budget(settings: Settings, options: Options) -> Budget:
    return Budget(options.max_cost or settings.budget.task_usd, settings.budget.task_tokens)


def _session_budget(settings: Settings) -> Budget:
    return Budget(settings.budget.session_usd, settings.budget.session_tokens)


def _day(place: Place, settings: Settings) -> DayBudget:
    spending = DaySpending(place.where.state)
    return DayBudget(settings.budget.day_usd, spending.spent, spending.add)
