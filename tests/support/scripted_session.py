"""A task board over real files, real processes and a real journal, with a model that plays a script."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import msgspec

from buddy.agent.budget import Budget, Window
from buddy.agent.events import AgentUiEvent, TaskEvent
from buddy.agent.host import Limits, Sampling
from buddy.agent.messages import Call, Message, ToolMessage, UserMessage, text_of
from buddy.agent.provider import ModelRequest
from buddy.agent.tool import Tool, ToolRegistry, ToolResult
from buddy.app.policy import Judge, fact_recorder
from buddy.config.settings import ConfigError
from buddy.llm.rate_limiter import Governor
from buddy.llm.scripted import Reply, Say, ScriptedProvider
from buddy.safety.paths import Boundary
from buddy.safety.policy.rules import RuleSet
from buddy.safety.policy.session import Policy
from buddy.sessions.file_ops import JournalFiles
from buddy.sessions.writer import SessionWriter
from buddy.tasks.board import TaskBoard
from buddy.tasks.dependencies import BoardParts, Clock, ModelAccess, TaskServices, Workspace
from buddy.tasks.event_hub import EventReader
from buddy.tasks.task import Task
from buddy.tasks.tool_execution import Surroundings, Writes, execute
from buddy.tools.ask_user import Questions
from buddy.tools.builtin import BUILTIN_TOOLS
from buddy.tools.cache import ToolCache
from buddy.tools.shell import ShellSettings
from buddy.tools.todo import Plan
from buddy.workspace.checkpoints.checkpoints import Checkpoints
from buddy.workspace.files.approved_versions import Approved
from buddy.workspace.files.locks import FileLocks
from buddy.workspace.files.read_tracking import FileViews, changed_since
from buddy.workspace.git.run import GitLock
from buddy.workspace.processes.environment import ChildEnvironment
from buddy.workspace.processes.jobs import Jobs
from buddy.workspace.processes.pool import ChildProcesses, ProcessSettings
from buddy.workspace.undo.log import UndoLog
from buddy.workspace.undo.trash import Trash
from tests.support.session_files import store_in
from tests.support.unconfined import Unconfined
from tests.support.undo_logs import undo_log

Script = Callable[[ModelRequest], Reply]


def first_text(request: ModelRequest) -> str:
    """The first prompt of a conversation: which task is asking."""
    prompt = next(message for message in request.history if isinstance(message, UserMessage))
    return text_of(prompt)


def last_result(request: ModelRequest) -> str | None:
    """The result the model has just read, None when it reads something else."""
    last = request.history[-1]
    return last.text if isinstance(last, ToolMessage) else None


class ScriptedSession:
    """A board and what its tests look at."""

    def __init__(self, root: Path, board: TaskBoard, reader: EventReader, parts: BoardParts) -> None:
        self.root = root
        self.board = board
        self.parts = parts
        self.writes = Writes()
        self.said: list[str] = []
        self._reader = reader
        self._events: list[TaskEvent] = []
        self._calls = 0

    @property
    def undo(self) -> UndoLog:
        found = self.board.task(1).services.services[UndoLog]
        assert isinstance(found, UndoLog)
        return found

    @property
    def questions(self) -> Questions:
        found = self.board.task(1).services.services[Questions]
        assert isinstance(found, Questions)
        return found

    def events(self, number: int) -> list[AgentUiEvent]:
        self._events += self._reader.drain()
        return [one.event for one in self._events if one.task_id == number]

    async def call(
        self,
        tool: Tool,
        arguments: Mapping[str, object],
        *,
        task: Task | None = None,
        progress: list[str] | None = None,
    ) -> ToolResult:
        """One call of a task, the way the board runs it."""
        self._calls += 1
        text = msgspec.json.encode(arguments).decode()
        around = Surroundings(self.parts, task or self.board.task(1), self.writes, self.said.append)
        heard = progress if progress is not None else []
        call = Call(f"direct-{self._calls}", tool.name, text)
        return await execute(around, call, tool, tool.decode(text), heard.append)


@asynccontextmanager
async def scripted_session(
    root: Path,
    script: Script | Sequence[Reply] = (),
    *,
    repository: bool = False,
    checkpoints: bool = True,
    attended: bool = True,
    tools: Sequence[Tool] = BUILTIN_TOOLS,
    task_budget: Budget | None = None,
    files: JournalFiles | None = None,
) -> AsyncIterator[ScriptedSession]:
    """A board with one open task in `root/work`. Everything is allowed."""
    root = Path(os.path.realpath(root))
    store = store_in(root, files=files)
    work = root / "work"
    if repository:
        subprocess.run(("git", "init", "-q"), cwd=work, check=True)  # noqa: ASYNC221
    session = await store.create()
    environment = ChildEnvironment({"PATH": os.environ["PATH"], "HOME": str(root)}, "s")
    settings = ProcessSettings(str(root / "spill"))
    provider = ScriptedProvider(script, sleep=asyncio.sleep, rest=(Say("done"),))
    async with ChildProcesses(environment, settings) as children, Jobs(children, lambda _job: None) as jobs:
        boundary = Boundary(str(work), str(work), str(root / "home"))
        undo = undo_log(str(root / "session/undo"))
        kept = Checkpoints(str(root / "session/checkpoints"), str(work), undo, environment.variables)
        services: dict[type, object] = {
            Boundary: boundary,
            ChildProcesses: children,
            Jobs: jobs,
            UndoLog: undo,
            FileLocks: FileLocks(),
            Approved: Approved(),
            Trash: Trash(str(work / ".buddyx/trash")),
            GitLock: GitLock(),
            ShellSettings: ShellSettings(),
            Questions: Questions(attended=attended),
        }
        parts = _parts(boundary, session.writer, provider, services, tools)
        parts = msgspec.structs.replace(
            parts,
            workspace=msgspec.structs.replace(parts.workspace, checkpoints=kept if checkpoints else None),
            attended=attended,
            has_approver=attended,
            task_budget=task_budget or Budget(),
        )
        async with TaskBoard(parts) as board:
            board.open()
            yield ScriptedSession(work, board, board.reader(), board.parts)
    await session.close()


def _parts(
    boundary: Boundary,
    writer: SessionWriter,
    provider: ScriptedProvider,
    services: dict[type, object],
    tools: Sequence[Tool],
) -> BoardParts:
    numbers = iter(range(1_000_000))
    governor = Governor()

    def model(name: str) -> ModelAccess:
        if name == "broken":
            raise ConfigError("no key for broken")
        window = Window(200_000, guessed=False, reserve=10_000)
        return ModelAccess(name, name or "m", provider, window, lambda _usage: 0.01, Sampling(), governor)

    def same(message: Message) -> Message:
        return message

    policy = Policy(RuleSet(()), trusted=True, yolo_allowed=True)
    policy.set_mode("yolo")
    return BoardParts(
        workspace=Workspace(
            boundary=boundary,
            system="",
            facts=Judge(boundary).facts,
            services=lambda _number: _of_task(services, FileViews(), Plan(), boundary.cwd),
        ),
        tools=ToolRegistry(tools),
        model=model,
        profiles=("fast", "broken"),
        policy=policy,
        note_facts=fact_recorder(cast(Approved, services[Approved])),
        sandboxing=Unconfined(),
        journal=writer,
        cache=ToolCache(time.monotonic),
        redact=same,
        redact_text=lambda text: text,
        save_rules=lambda _rules: None,
        forget_rule=lambda _rule: None,
        clock=Clock(time.monotonic, time.time, asyncio.sleep, random.random, lambda: f"id{next(numbers)}"),
        limits=Limits(),
        task_budget=Budget(),
        session_budget=Budget(),
        attended=True,
        has_approver=True,
        steering="all",
        follow_ups="all",
    )


def _of_task(shared: dict[type, object], views: FileViews, plan: Plan, cwd: str) -> TaskServices:
    return TaskServices(
        services={**shared, FileViews: views, Plan: plan},
        copy=lambda _number: _of_task(shared, views.copy(), plan.copy(), cwd),
        changes=lambda: changed_since(views, lambda real: os.path.relpath(real, cwd)),
        forget_shown=views.forget_shown,
    )
