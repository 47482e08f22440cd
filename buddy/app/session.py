"""One session: built in order, its first task chosen, and taken down again in reverse."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec

from buddy.agent.tool import ToolContext, ToolError, ToolRegistry, ToolResult
from buddy.app.launch import LaunchContext
from buddy.app.leftovers import JobNews, what_was_left
from buddy.app.options import Options
from buddy.app.policy import RuleFiles, policy_of, remember
from buddy.app.providers import Models
from buddy.app.sandbox import RunSandbox
from buddy.app.services import LaunchRequest, Run, SharedServices, board_parts
from buddy.config.loading import LoadedSettings
from buddy.config.settings import ConfigError, SessionSettings, Settings
from buddy.extend import instructions as instruction_files
from buddy.extend.mentions import ExpandedPrompt, expand
from buddy.extend.plugins.loader import PluginTools
from buddy.safety.crash_report import guard_process
from buddy.safety.policy.session import Policy
from buddy.safety.secrets.redact import secret_spans
from buddy.sessions.folder import FolderError
from buddy.sessions.session import OpenSession
from buddy.sessions.store import SessionStore
from buddy.tasks.board import TaskBoard
from buddy.tasks.task import TaskError
from buddy.tools.ask_user import Questions
from buddy.tools.builtin import BUILTIN_TOOLS
from buddy.tools.files.read import read_file
from buddy.workspace.files.approved_versions import Approved
from buddy.workspace.files.locks import FileLocks
from buddy.workspace.git.run import GitLock
from buddy.workspace.processes.environment import ChildEnvironment
from buddy.workspace.processes.jobs import Jobs
from buddy.workspace.processes.limits import ProcessLimits
from buddy.workspace.processes.output import OutputBounds
from buddy.workspace.processes.pool import ChildProcesses, ProcessSettings
from buddy.workspace.sandbox.handle import SandboxHandle
from buddy.workspace.undo.log import UndoLog
from buddy.workspace.undo.trash import Trash
from buddy.workspace.worktrees.worktrees import Worktree, read_origin


async def first_task(board: TaskBoard, options: Options) -> tuple[str, ...]:
    """Open it; what the person should know of where it works. Raises `ConfigError`."""
    if not options.in_worktree:
        board.open(model=options.model)
        return ()
    try:
        tree, more = await _asked_for(board, options)
    except (ToolError, TaskError) as error:
        raise ConfigError(f"--worktree: {error}") from error
    board.open(model=options.model, worktree=tree.name)
    said = f"this session works in {tree.display_path}, on the branch {tree.branch}"
    return (f"{said}; {more}" if more else said,)


async def _asked_for(board: TaskBoard, options: Options) -> tuple[Worktree, str]:
    """The worktree of the name that was given, as it is or new; without a name a new one."""
    trees = board.places.parts().trees
    if not options.worktree:
        return await board.places.make(" ".join(options.words) or "session", carrying=options.carry)
    known = trees.by_name(options.worktree)
    if read_origin(known) is not None and not trees.missing(known):
        return known, "it was there already" if options.carry else ""
    return await board.places.make(options.worktree, exact=True, carrying=options.carry)


async def worktrees_again(board: TaskBoard) -> tuple[str, ...]:
    """The worktree of the task in front is there again where nothing had changed in it; what is said of those
    that are gone."""
    said: list[str] = []
    for task in board.tasks.values():
        tree = task.workspace.worktree
        if tree is None or task.closed:
            continue
        missing = board.places.parts().trees.missing(tree)
        if not missing or (read_origin(tree) is None and task.number != board.focus):
            continue
        try:
            said.append(await board.places.ready(task))
        except TaskError as error:
            said.append(f"task {task.number}: {error}")
    return tuple(said)


DAY_S = 24 * 3600.0


class Desk(msgspec.Struct, frozen=True):
    """A session ready to work: what front ends are given."""

    place: LaunchContext
    settings: Settings
    loaded: LoadedSettings
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
    sandbox: RunSandbox
    instructions: tuple[str, ...]
    notes: tuple[str, ...]

    async def expand(self, number: int, text: str) -> ExpandedPrompt:
        """A prompt for a task, with the files it mentions read as the task would read them."""
        task = self.board.task(number)
        context = ToolContext(number, "", lambda _text: None, task.cancelled, task.services.services)

        async def read(path: str) -> ToolResult:
            return await read_file.run(context, read_file.arguments(path=path))

        return await expand(text, task.workspace.boundary.cwd, read)


@asynccontextmanager
async def open_desk(
    place: LaunchContext, loaded: LoadedSettings, store: SessionStore, models: Models, wanted: LaunchRequest
) -> AsyncGenerator[Desk]:
    """Everything of one run. Leaving it cancels what runs, ends every child and saves the session."""
    guard_process()
    async with AsyncExitStack() as stack:
        session = await (
            store.open(wanted.session) if wanted.session else store.create(headless=not wanted.attended)
        )
        trash = Trash(os.path.join(place.boundary.root, ".buddyx", "trash"), store.seal_of_deleted)
        stack.push_async_callback(_forget_old, store, loaded.settings.session, session.session_id)
        stack.push_async_callback(_empty, trash, store, loaded.settings.session, session.session_id)
        stack.push_async_callback(session.close)
        stack.push_async_callback(models.aclose)
        rules = RuleFiles(place, loaded)
        in_force = rules.load(wanted.options.allow)
        policy = policy_of(loaded.settings, wanted.options, in_force, session, trusted=place.trusted)
        run = Run(place, loaded, models, wanted, session, policy, _instructions(place, loaded.settings))
        tools, news = _tools(loaded.settings), JobNews(session.writer)
        held = await stack.enter_async_context(_held(run, tools, news, trash))
        behind = await held.sandbox.judge_left()
        plugin_problems = (await asyncio.to_thread(held.plugin_tools.load)).problems
        board = await stack.enter_async_context(TaskBoard(board_parts(run, held, tools, rules)))
        news.tell = board.hub.emit
        stack.callback(news.stop)
        if session.loaded.tasks:
            board.restore(session.loaded.tasks, session.loaded.state.focus)
            where = await worktrees_again(board)
        else:
            where = await first_task(board, wanted.options)
        left = await what_was_left(session, board) if wanted.session else ()
        said = filter(None, (place.trust_note, *loaded.warnings, *rules.errors, *run.found.notes, *where))
        problems_saving: tuple[str, ...] = ()
        if loaded.first_model:
            try:
                await asyncio.to_thread(remember, place, loaded, loaded.first_model)
            except ConfigError as error:
                problems_saving = (f"the choice of model can't be saved: {error}",)
        unused = filter(None, (held.undo.unused_notice() if wanted.session else "",))
        problems = (*behind, *plugin_problems, *session.loaded.problems, *unused, *problems_saving)
        yield _desk(run, held, store, board, (*said, *problems, *left))


def _desk(
    run: Run, held: SharedServices, store: SessionStore, board: TaskBoard, notes: tuple[str, ...]
) -> Desk:
    return Desk(
        place=run.place,
        settings=run.settings,
        loaded=run.loaded,
        session=run.session,
        store=store,
        board=board,
        policy=run.policy,
        models=run.models,
        jobs=held.jobs,
        children=held.children,
        undo=held.undo,
        questions=held.questions,
        locks=held.locks,
        sandbox=held.sandbox,
        instructions=tuple(file.label for file in run.found.files),
        notes=notes,
    )


@asynccontextmanager
async def _held(run: Run, tools: ToolRegistry, news: JobNews, trash: Trash) -> AsyncGenerator[SharedServices]:
    """Provide the services tools work with; on leaving, end the processes that still run."""
    place, session = run.place, run.session
    undo = UndoLog(
        os.path.join(session.directory, "undo"),
        seal=session.seal.derive("undo"),
        trees=(place.boundary.root, *place.boundary.extra),
    )
    if run.wanted.session:
        await asyncio.to_thread(undo.entries)  # what a program that was killed left beside files goes
    ext, off = os.path.join(place.boundary.root, ".buddyx", "ext"), run.settings.tools.disabled
    plugin_tools = PluginTools(ext, tools, trusted=place.trusted, off=off, workspace=place.boundary.root)
    approved = Approved()
    sandbox = RunSandbox(place, run.settings, run.policy, approved)
    async with (
        contextlib.aclosing(sandbox.handle),
        _children(run, sandbox.handle) as children,
        Jobs(children, news.changed) as jobs,
    ):
        yield SharedServices(
            children=children,
            jobs=jobs,
            undo=undo,
            trash=trash,
            locks=FileLocks(),
            git_lock=GitLock(),
            approved=approved,
            sandbox=sandbox,
            plugin_tools=plugin_tools,
            questions=Questions(attended=run.wanted.attended),
        )


def _children(run: Run, sandbox: SandboxHandle) -> ChildProcesses:
    environment = ChildEnvironment(
        variables=run.place.environment,
        session_id=run.session.session_id,
        forbidden=run.models.key_names,
    )
    wanted = run.settings.tools
    half = wanted.shell_output_bytes // 2
    processes = ProcessSettings(
        spill_folder=os.path.join(run.session.directory, "output"),
        limits=ProcessLimits(
            cpu_s=wanted.shell_cpu_s or None,
            memory_bytes=wanted.shell_memory_mb * 1_000_000 or None,
            file_bytes=wanted.shell_file_mb * 1_000_000 or None,
            processes=wanted.shell_processes or None,
            open_files=wanted.shell_open_files or None,
        ),
        bounds=OutputBounds(head_bytes=half, tail_bytes=half),
        find_secrets=lambda text: secret_spans(text, run.models.keys()),
    )
    return ChildProcesses(environment, processes, sandbox)


async def _forget_old(store: SessionStore, kept: SessionSettings, current: str) -> None:
    """Sessions that are too old or too many go when this one ends. What can't be removed stays."""
    with contextlib.suppress(OSError, FolderError):
        await asyncio.to_thread(
            store.forget_old,
            max_age_s=kept.keep_days * DAY_S,
            max_count=kept.keep_count,
            current=current,
        )


async def _empty(trash: Trash, store: SessionStore, kept: SessionSettings, current: str) -> None:
    """Empty the trash of what was deleted too long ago or exceeds its size, when a session ends; keep what
    was deleted since the sessions in use began."""
    with contextlib.suppress(OSError, FolderError):
        await asyncio.to_thread(
            trash.empty,
            max_age_s=kept.trash_days * DAY_S,
            max_bytes=kept.trash_mb * 1_000_000,
            before=lambda: store.in_use_since(current),
            now=time.time(),
        )


def _tools(settings: Settings) -> ToolRegistry:
    return ToolRegistry(tool for tool in BUILTIN_TOOLS if tool.name not in settings.tools.disabled)


def _instructions(place: LaunchContext, settings: Settings) -> instruction_files.Instructions:
    return instruction_files.find(
        root=place.boundary.root,
        cwd=place.boundary.cwd,
        config_dir=place.where.config,
        home=place.where.home,
        names=settings.agent.instruction_files,
    )
