"""The session: everything of one run of buddy in one workspace, built once and closed in reverse order."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from functools import partial

import msgspec
from msgspec.structs import replace

from buddy.agent.budget import Budget, DayBudget
from buddy.agent.events import Notice
from buddy.agent.host import Limits, ReplyQuota
from buddy.agent.tool import ToolContext, ToolError, ToolRegistry, ToolResult
from buddy.app.extensions import Extensions
from buddy.app.launch import LaunchContext
from buddy.app.mcp import ServerServices, SessionServers, late_tools, open_servers
from buddy.app.options import Options
from buddy.app.policy import Judge, RuleFiles, build_policy, fact_recorder, opening_of_hook, save_model
from buddy.app.providers import Models
from buddy.app.sandbox import RunSandbox
from buddy.app.session_start import (
    JobReporter,
    environment_outside,
    launch_in_worktree,
    open_first_task,
    report_leftovers,
    restore_worktrees,
)
from buddy.app.session_store import empty_trash, forget_old, open_trash
from buddy.app.target_access import open_targets, use_target
from buddy.app.target_states import SessionTargets
from buddy.config.loading import LoadedSettings
from buddy.config.settings import ConfigError, Settings
from buddy.extend import instructions as instruction_files
from buddy.extend.hooks.dispatcher import CommandRunner
from buddy.extend.instructions import FolderInstructions, InstructionPlaces, Instructions
from buddy.extend.mcp.channel import ChannelFactory
from buddy.extend.mentions import ExpandedPrompt, expand, may_be_pasted
from buddy.extend.plugins.loader import PluginTools
from buddy.extend.scaffolds.templates import Scaffolds, template_folders
from buddy.extend.scaffolds.tools import scaffold_tools
from buddy.extend.system_prompt import custom_system_prompt, system_prompt, template_text
from buddy.safety.crash_report import guard_process
from buddy.safety.paths import hides_its_target, locate
from buddy.safety.policy.decide import CLAUDE_NAMES
from buddy.safety.secrets.redact import redact, redact_message, secret_spans
from buddy.sessions.daily_spending import DaySpending
from buddy.sessions.session import OpenSession
from buddy.sessions.store import SessionStore
from buddy.sessions.writer import SessionWriter
from buddy.tasks.board import TaskBoard
from buddy.tasks.dependencies import BoardParts, Clock, TaskServices, Workspace, WorktreeParts
from buddy.tasks.task import Task
from buddy.tasks.tool_execution import task_model
from buddy.tools.ask_user import Questions
from buddy.tools.builtin import BUILTIN_TOOLS
from buddy.tools.cache import ToolCache
from buddy.tools.files.read import read_file
from buddy.tools.pictures import Pictures
from buddy.tools.shell import ShellSettings
from buddy.tools.task_model import TaskModel
from buddy.tools.todo import Plan, WallClock
from buddy.tools.web import WebAccess, choose_search
from buddy.workspace.checkpoints.checkpoints import Checkpoints
from buddy.workspace.files.approved_versions import Approved
from buddy.workspace.files.editor_buffers import EditorBuffers
from buddy.workspace.files.locks import FileLocks
from buddy.workspace.files.read_tracking import FileViews, changed_since
from buddy.workspace.git.run import GitLock, RepositoryTrust
from buddy.workspace.processes.environment import ChildEnvironment
from buddy.workspace.processes.jobs import Jobs
from buddy.workspace.processes.limits import ProcessLimits, memory_for_readers, total_memory
from buddy.workspace.processes.output import OutputBounds
from buddy.workspace.processes.pool import ChildProcesses, ProcessSettings
from buddy.workspace.search.runner import SearchSettings
from buddy.workspace.undo.log import UndoLog
from buddy.workspace.web import Fetcher
from buddy.workspace.worktrees.worktrees import Worktree, Worktrees

ATTENDED_WAIT_S = 120
UNATTENDED_WAIT_S = 900
"""Longest wait a provider may ask for; a longer one fails the turn."""


class ProgramSide(msgspec.Struct, frozen=True):
    """The parts of a session that a program provides. `answers`: it answers requests for approval and
    questions; `servers` opens connections to its MCP servers, by name; `buffers` are the open files of an
    editor."""

    answers: bool = False
    servers: Mapping[str, ChannelFactory] = {}
    buffers: EditorBuffers | None = None


class Session:
    """The services that front ends, tasks and tools share in one run. `attended`: a user is there to answer;
    `has_approver`: a user or a program is; `notes` are for the user when the session has opened."""

    def __init__(
        self,
        launch: LaunchContext,
        loaded: LoadedSettings,
        options: Options,
        *,
        models: Models,
        store: SessionStore,
        journal: OpenSession,
        attended: bool,
        program: ProgramSide | None,
    ) -> None:
        settings, root = loaded.settings, launch.boundary.root
        self.launch, self.loaded, self.settings, self.options = launch, loaded, settings, options
        self.models, self.store, self.journal, self.attended = models, store, journal, attended
        self.program = program
        self.buffers = program.buffers if program is not None else None
        self.notes: tuple[str, ...] = ()
        self.instructions = _instructions(launch, settings)
        self.rules = RuleFiles(launch, loaded)
        allowed = self.rules.load(options.allow)
        self.policy = build_policy(settings, options, allowed, journal, trusted=launch.trusted)
        self.scaffolds = Scaffolds(
            lambda: template_folders(launch.where.config, root, trusted=launch.trusted)
        )
        tools = (*BUILTIN_TOOLS, *scaffold_tools(self.scaffolds))
        if options.tools is not None:
            from buddy.app.run_settings import chosen_tools  # only with the option

            tools = chosen_tools(tools, options.tools)
        self.tools = ToolRegistry(tool for tool in tools if tool.name not in settings.tools.disabled)
        self.plugin_tools = PluginTools(
            os.path.join(root, ".buddyx", "ext"),
            self.tools,
            trusted=launch.trusted,
            off=settings.tools.disabled,
            workspace=root,
        )
        self.undo = UndoLog(
            os.path.join(journal.directory, "undo"),
            seal=journal.seal.derive("undo"),
            trees=(root, *launch.boundary.extra),
            buffers=self.buffers,
        )
        self.trash = open_trash(launch, store)
        self.locks, self.git_lock, self.approved = FileLocks(), GitLock(), Approved()
        self.has_approver = attended or (program is not None and program.answers)
        self.questions = Questions(attended=self.has_approver)
        self.sandbox = RunSandbox(launch, settings, self.policy, self.approved)
        self.children = _children(self)
        self.extensions = _extensions(self)
        self.mcp: SessionServers | None = None
        self.open_servers: Callable[[], Awaitable[SessionServers | None]] | None = None
        """Opens `mcp` once a subagent file defines a server."""
        self.job_news = JobReporter(journal.writer)
        self.jobs = Jobs(self.children, self.job_news.record)
        self._targets: SessionTargets | None = None
        self.board = TaskBoard(_board_parts(self))

    @property
    def session_id(self) -> str:
        """Return the id of the session on disk."""
        return self.journal.session_id

    @property
    def writer(self) -> SessionWriter:
        """Return the writer of the journal."""
        return self.journal.writer

    @property
    def instruction_names(self) -> tuple[str, ...]:
        """Return the instruction files in force, as displayed."""
        return tuple(file.label for file in self.instructions.files)

    def save_model(self, name: str) -> None:
        """Make this the model of later runs. Blocks; raises `ConfigError`."""
        save_model(self.launch, self.loaded, name)

    def targets(self) -> SessionTargets:
        """Return the targets of the session; imports what they need."""
        if self._targets is None:
            self._targets = open_targets(
                settings=self.settings.targets,
                local=self.board.parts.workspace,
                children=self.children,
                launch=self.launch,
                directory=self.journal.directory,
                seal=self.journal.seal,
            )
        return self._targets

    def target_words(self, task: Task) -> str:
        """Return the machine a task works on with the state of a lost connection, "" for this one."""
        name = task.workspace.target
        if not name:
            return ""
        return name if self.targets().state(name) != "lost" else f"{name} (lost)"

    def undo_of(self, task_id: int) -> UndoLog:
        """Return the undo log of the machine that a task works on. Raises `ToolError` for one that can't be
        used: the log of this machine must not take its place."""
        task = self.board.tasks.get(task_id)
        if task is None or not task.workspace.files_on:
            return self.undo
        log = task.services.find(UndoLog)
        if log is None:
            raise ToolError(
                f"task {task_id} works on {task.workspace.files_on}, which can't be used: see /target"
            )
        return log

    async def close_targets(self) -> None:
        """End the connections to targets, if there are any."""
        if self._targets is not None:
            await self._targets.close()

    async def take_agent_servers(self) -> None:
        """Take up the MCP servers that subagent files define."""
        files = [one for one in self.extensions.catalogue.of_kind("agent") if one.own_servers]
        if self.mcp is None and files and self.open_servers is not None:
            self.mcp = await self.open_servers()
        if self.mcp is not None:
            await self.mcp.take_agents(files)

    async def expand(self, task_id: int, text: str) -> ExpandedPrompt:
        """Expand a prompt for a task: files it mentions are read with the task's services. The person typed
        their names, so nothing is asked. A link of the project may not choose another file, though, and in a
        text too long to have been typed, others may have written the names."""
        task = self.board.task(task_id)
        boundary = task.workspace.boundary
        await self.extensions.refresh()
        call_id = self.board.parts.clock.new_id()
        model = task_model(self.board.parts, task, lambda _usage: None)
        services = {**task.services.services, TaskModel: model}
        context = ToolContext(task_id, call_id, lambda _text: None, task.cancelled, services)

        async def read(path: str) -> ToolResult:
            if target := task.workspace.files_on:
                raise ToolError(f"it is a file of this machine, and the task works on {target}")
            located = await asyncio.to_thread(locate, boundary, path)
            if await asyncio.to_thread(hides_its_target, boundary, located):
                raise ToolError(f"it is a link ({located.shown}); name that file itself if you mean it")
            if (located.secret or not located.inside) and may_be_pasted(text):
                reason = "its name says that it holds secrets" if located.secret else "it lies outside"
                raise ToolError(
                    f"{reason}, and so long a text may be pasted; mention it in a prompt of its own"
                )
            context.service(Approved).remember(call_id, path, located.real)
            return await read_file.run(context, read_file.arguments(path=path))

        expanded = await expand(text, boundary.cwd, read)
        if self.mcp is None:
            return expanded
        attached = await self.mcp.attach(text)
        return ExpandedPrompt((*expanded.parts, *attached.parts), (*expanded.notes, *attached.notes))


@asynccontextmanager
async def open_session(
    launch: LaunchContext,
    loaded: LoadedSettings,
    options: Options,
    *,
    models: Models,
    store: SessionStore,
    reference: str = "",
    attended: bool,
    program: ProgramSide | None = None,
) -> AsyncGenerator[Session]:
    """Open the session with this reference, or a new one for "". Leaving it cancels running turns, ends every
    child process and saves the session."""
    guard_process()
    async with AsyncExitStack() as stack:
        journal = await (
            store.open(reference)
            if reference
            else store.create(headless=not attended, session_id=options.session_id)
        )
        limits, session_id = loaded.settings.session, journal.session_id
        # Registered first, so they run last: after the journal is closed and its lock is released.
        stack.push_async_callback(forget_old, store, limits, session_id)
        stack.push_async_callback(empty_trash, open_trash(launch, store), store, limits, session_id)
        stack.push_async_callback(journal.close)
        stack.push_async_callback(models.aclose)
        session = Session(
            launch,
            loaded,
            options,
            models=models,
            store=store,
            journal=journal,
            attended=attended,
            program=program,
        )
        if reference:
            await asyncio.to_thread(session.undo.entries)  # also removes temporary files of a killed program
        await stack.enter_async_context(contextlib.aclosing(session.sandbox.handle))
        # The order matters: the stack closes jobs before the processes they run in, and both before the
        # sandbox.
        await stack.enter_async_context(session.children)
        await stack.enter_async_context(session.jobs)
        stack.push_async_callback(session.close_targets)
        stack.push_async_callback(session.extensions.end)
        repairs = await session.sandbox.restore_left()
        stack.callback(session.plugin_tools.close)
        plugin_problems = (await asyncio.to_thread(session.plugin_tools.load)).problems
        board = await stack.enter_async_context(session.board)
        session.job_news.tell = board.hub.emit
        stack.callback(session.job_news.stop)
        session.mcp = await open_servers(stack, _server_services(session))
        session.open_servers = partial(open_servers, stack, _server_services(session), is_needed=True)
        await session.take_agent_servers()
        if journal.loaded.tasks:
            board.restore(journal.loaded.tasks, journal.loaded.state.focus)
            places = await restore_worktrees(board)
            if options.target:
                await use_target(session.targets, session.settings, options)
                board.change_target(board.focus, options.target)
        else:
            if options.target:
                await use_target(session.targets, session.settings, options)
                board.workspaces.home = board.workspaces.on_target(options.target)
            places = await open_first_task(board, options)
        notes = [launch.trust_note, *loaded.warnings, *session.rules.errors, *session.instructions.notes]
        notes += [*places, *repairs, *plugin_problems, *journal.loaded.problems]
        leftovers = await report_leftovers(journal, board) if reference else ()
        notes += session.mcp.notes() if session.mcp is not None else ()
        notes.append(session.undo.unused_notice() if reference else "")
        if loaded.first_model:
            try:
                await asyncio.to_thread(session.save_model, loaded.first_model)
            except ConfigError as error:
                notes.append(f"the choice of model can't be saved: {error}")
        session.notes = tuple(filter(None, (*notes, *leftovers)))
        yield session


def _extensions(session: Session) -> Extensions:
    def runner() -> CommandRunner:
        level = session.settings.sandbox.level
        survey = session.sandbox.handle.survey
        return CommandRunner(
            session.children, survey, level == "require", partial(opening_of_hook, session.policy)
        )

    def common() -> dict[str, str]:
        return {
            "session_id": session.session_id,
            "transcript_path": session.journal.directory,
            "permission_mode": CLAUDE_NAMES[session.policy.mode],
        }

    agents, plugins, hooks = (), (), ()
    if session.loaded.hooks:
        from buddy.app.given_settings import read_hooks  # only with hooks of --settings

        hooks = read_hooks(session.loaded.hooks, is_confined=session.loaded.confines_hooks)
    if session.options.agents or session.options.plugin_dir:
        from buddy.app.run_settings import given_agents, given_plugins  # only with such an option

        agents, plugins = given_agents(session.options), given_plugins(session.options)
    return Extensions(
        session.launch,
        session.settings,
        session.tools,
        runner=runner,
        common=common,
        changed=session.take_agent_servers,
        plugins=plugins,
        given=agents,
        hooks=hooks,
        hooks_off=session.loaded.hooks.get("disableAllHooks") is True,
    )


def _server_services(session: Session) -> ServerServices:
    def tell(text: str) -> None:
        session.board.hub.emit(session.board.focus, Notice("info", text))

    return ServerServices(
        launch=session.launch,
        settings=session.settings,
        options=session.options,
        models=session.models,
        tools=session.tools,
        children=session.children,
        sandbox=session.sandbox.handle,
        questions=session.questions,
        folder=os.path.join(session.journal.directory, "output"),
        tell=tell,
        channels=session.program.servers if session.program is not None else {},
    )


def _children(session: Session) -> ChildProcesses:
    given = session.loaded.environment
    environment = ChildEnvironment(
        variables={**session.launch.environment, **given},
        session_id=session.session_id,
        allowed=frozenset(given),
        forbidden=session.models.key_names,
    )
    tools = session.settings.tools
    half = tools.shell_output_bytes // 2
    processes = ProcessSettings(
        spill_folder=os.path.join(session.journal.directory, "output"),
        limits=ProcessLimits(
            cpu_s=tools.shell_cpu_s or None,
            memory_bytes=tools.shell_memory_mb * 1_000_000 or None,
            file_bytes=tools.shell_file_mb * 1_000_000 or None,
            processes=tools.shell_processes or None,
            open_files=tools.shell_open_files or None,
        ),
        bounds=OutputBounds(head_bytes=half, tail_bytes=half),
        find_secrets=lambda text: secret_spans(text, session.models.keys()),
        reader_bytes=memory_for_readers(total_memory()),
    )
    return ChildProcesses(environment, processes, session.sandbox.handle)


def _instructions(launch: LaunchContext, settings: Settings) -> Instructions:
    return instruction_files.find(
        root=launch.boundary.root,
        cwd=launch.boundary.cwd,
        config_dir=launch.where.config,
        home=launch.where.home,
        names=settings.agent.instruction_files,
    )


def _services(
    session: Session, launch: LaunchContext, instructions: Instructions
) -> Callable[[int], TaskServices]:
    """Return a function that makes the services of a new task, by its id: tools look them up by type."""
    settings, boundary = session.settings.tools, launch.boundary
    shared: dict[type, object] = {
        type(service): service
        for service in (
            session.children,
            session.jobs,
            session.undo,
            session.trash,
            session.locks,
            session.git_lock,
            session.approved,
            session.plugin_tools,
            session.questions,
            session.extensions.catalogue,
            boundary,
            RepositoryTrust(launch.trusted),
            ShellSettings(time_limit_s=settings.shell_time_limit_s),
            SearchSettings(time_limit_s=settings.search_time_limit_s),
            WallClock(lambda: datetime.now().astimezone()),
            Pictures(session.models.pictures_for_tools, os.path.join(session.journal.directory, "output")),
            WebAccess(Fetcher(), choose_search(settings.web_search_url, {}), time.monotonic),
        )
    }

    buffers = session.buffers
    if buffers is not None:
        shared[EditorBuffers] = buffers

    def of_task(views: FileViews, plan: Plan, folders: FolderInstructions) -> TaskServices:
        return TaskServices(
            services={**shared, FileViews: views, Plan: plan, FolderInstructions: folders},
            copy=lambda _task_id: of_task(views.copy(), plan.copy(), folders.copy()),
            changes=lambda: changed_since(
                views, lambda real: os.path.relpath(real, boundary.cwd), buffers=buffers
            ),
            forget_shown=views.forget_shown,
        )

    folders = InstructionPlaces(
        root=boundary.root,
        cwd=boundary.cwd,
        home=launch.where.home,
        names=session.settings.agent.instruction_files,
        trusted=launch.trusted,
        known=tuple(file.path for file in instructions.files),
    )
    return lambda _task_id: of_task(FileViews(), Plan(), FolderInstructions(folders))


def _workspace(
    session: Session, launch: LaunchContext, instructions: Instructions, checkpoints: str
) -> Workspace:
    """Return the workspace of a launch context; `checkpoints` names the folder of its checkpoints."""
    boundary, journal = launch.boundary, session.journal
    judge = Judge(
        boundary, search_path=launch.environment.get("PATH", ""), sandbox=lambda: session.sandbox.status
    )
    folder = os.path.join(journal.directory, checkpoints)
    return Workspace(
        boundary=boundary,
        system=_system_prompt(session, launch, instructions),
        facts=judge.facts,
        services=_services(session, launch, instructions),
        checkpoints=Checkpoints(folder, boundary.root, session.undo, launch.environment, seal=journal.seal)
        if session.settings.session.checkpoints
        else None,
    )


def _system_prompt(session: Session, launch: LaunchContext, instructions: Instructions) -> str:
    person, text = session.settings.agent.system_prompt, instructions.as_text(trusted=launch.trusted)
    cwd, root = launch.boundary.cwd, launch.boundary.root
    if session.options.system_prompt:
        return custom_system_prompt(
            session.options.system_prompt, cwd=cwd, root=root, person=person, instructions=text
        )
    return system_prompt(
        template_text("system_prompt.md"),
        cwd=cwd,
        root=root,
        is_repository=launch.is_repository,
        platform=f"{os.uname().sysname} {os.uname().machine}",
        person=person,
        instructions=text,
    )


def _workspace_of(session: Session, tree: Worktree) -> Workspace:
    """Return the workspace as if buddy had been started in the same folder of a worktree. Settings, trust and
    plug-ins stay those of the main tree: a branch must not bring its own."""
    launch = launch_in_worktree(session.launch, session.journal.directory, tree)
    instructions = _instructions(launch, session.settings)
    return replace(_workspace(session, launch, instructions, f"checkpoints-{tree.name}"), worktree=tree)


def _board_parts(session: Session) -> BoardParts:
    launch, settings, models = session.launch, session.settings, session.models
    attended, options = session.attended, session.options
    spending = DaySpending(launch.where.state)
    return BoardParts(
        workspace=_workspace(session, launch, session.instructions, "checkpoints"),
        tools=session.tools,
        model=models.access_or_explain if attended else models.access,
        profiles=tuple(settings.models),
        policy=session.policy,
        note_facts=fact_recorder(session.approved),
        sandboxing=session.sandbox,
        journal=session.writer,
        cache=ToolCache(time.monotonic),
        redact=lambda message: redact_message(message, models.keys()),
        redact_text=lambda text: redact(text, models.keys()),
        save_rules=session.rules.save,
        forget_rule=session.rules.forget,
        clock=_clock(),
        limits=Limits(
            max_replies=options.max_turns or settings.agent.max_iterations,
            tries=settings.network.tries,
            outage_tries=0 if attended else settings.network.unattended_tries,
            longest_wait_s=ATTENDED_WAIT_S if attended else UNATTENDED_WAIT_S,
            quota=ReplyQuota(options.max_turns) if options.max_turns else None,
        ),
        task_budget=Budget(options.max_cost or settings.budget.task_usd, settings.budget.task_tokens),
        session_budget=Budget(settings.budget.session_usd, settings.budget.session_tokens),
        attended=attended,
        has_approver=session.has_approver,
        steering=settings.agent.steering,
        follow_ups=settings.agent.follow_ups,
        hooks=session.extensions.hooks,
        catalogue=session.extensions.catalogue,
        direct_tools=settings.tools.direct,
        arrivals=late_tools(lambda: session.mcp),
        server_words=lambda only, agent: (
            session.mcp.prompt_text(only, agent) if session.mcp is not None else ""
        ),
        agent_servers=lambda agent: (
            session.mcp.running_for(agent) if session.mcp is not None else contextlib.nullcontext(())
        ),
        target=lambda name: session.targets().workspace(name),
        day=DayBudget(settings.budget.day_usd, spending.spent_today, spending.add),
        worktrees=WorktreeParts(
            Worktrees(session.children, launch.boundary.root, session.git_lock),
            environment_outside(launch),
            lambda tree: _workspace_of(session, tree),
            session.writer.workspace_seal.derive("worktrees"),
        ),
    )


def _clock() -> Clock:
    return Clock(
        now=time.monotonic,
        wall=time.time,
        sleep=asyncio.sleep,
        random=lambda: int.from_bytes(os.urandom(6), "big") / 2**48,
        new_id=lambda: os.urandom(8).hex(),
    )
