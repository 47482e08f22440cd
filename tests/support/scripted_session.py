"""A session as `buddy.app` opens it, over real files, processes and a real journal, with a model that plays a
script."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from msgspec.structs import replace

from buddy.agent.budget import Budget, Window
from buddy.agent.events import AgentUiEvent, TaskEvent, TokenUsage
from buddy.agent.host import Sampling
from buddy.agent.messages import Call, ToolMessage, UserMessage, text_of
from buddy.agent.provider import ModelRequest
from buddy.agent.tool import Tool, ToolResult
from buddy.app.launch import LaunchContext, find_launch, read_settings
from buddy.app.options import Options
from buddy.app.providers import Models
from buddy.app.session import Session, open_session
from buddy.config.loading import LoadedSettings
from buddy.config.settings import ConfigError, Profile, TargetSettings
from buddy.llm.rate_limiter import Governor
from buddy.llm.scripted import Reply, Say, ScriptedProvider
from buddy.sessions.file_ops import JournalFiles
from buddy.tasks.dependencies import ModelAccess
from buddy.tasks.task import Task
from buddy.tasks.tool_execution import Surroundings, Writes, execute
from tests.support.session_files import store_in

Script = Callable[[ModelRequest], Reply]
OPTIONS = Options(permission_mode="yolo", i_know=True, trust=True)


def first_text(request: ModelRequest) -> str:
    """Return the first prompt of a conversation, which tells the tasks apart."""
    prompt = next(message for message in request.history if isinstance(message, UserMessage))
    return text_of(prompt)


def last_result(request: ModelRequest) -> str | None:
    """Return the result the model has just read, None when it reads something else."""
    last = request.history[-1]
    return last.text if isinstance(last, ToolMessage) else None


class ScriptedModels(Models):
    """One scripted provider behind every name; "broken" has no key."""

    def __init__(
        self, loaded: LoadedSettings, launch: LaunchContext, script: Script | Sequence[Reply]
    ) -> None:
        super().__init__(loaded.settings, launch)
        self._provider = ScriptedProvider(script, sleep=asyncio.sleep, rest=(Say("done"),))
        self._governor = Governor()

    def access(self, name: str) -> ModelAccess:
        if name == "broken":
            raise ConfigError("no key for broken")
        window = Window(200_000, guessed=False, reserve=10_000)
        price = lambda _usage: 0.01  # noqa: E731
        return ModelAccess(name, name or "m", self._provider, window, price, Sampling(), self._governor)

    access_or_explain = access


class ScriptedSession:
    """An open session and calls on its board."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.root = Path(session.launch.boundary.root)
        self.board = session.board
        self.parts = session.board.parts
        self.undo = session.undo
        self.questions = session.questions
        self.writes = Writes()
        self.said: list[str] = []
        self.counted: list[TokenUsage] = []
        self._reader = session.board.reader()
        self._events: list[TaskEvent] = []
        self._calls = 0

    def events(self, task_id: int) -> list[AgentUiEvent]:
        self._events += self._reader.drain()
        return [one.event for one in self._events if one.task_id == task_id]

    async def call(
        self,
        tool: Tool,
        arguments: Mapping[str, object],
        *,
        task: Task | None = None,
        progress: list[str] | None = None,
    ) -> ToolResult:
        """Run a call of a task as the board does."""
        self._calls += 1
        text = msgspec.json.encode(arguments).decode()
        task = task or self.board.task(1)
        around = Surroundings(self.parts, task, self.writes, self.said.append, self.counted.append)
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
    tools: Sequence[Tool] = (),
    task_budget: Budget | None = None,
    files: JournalFiles | None = None,
    targets: Mapping[str, TargetSettings] | None = None,
    options: Options = OPTIONS,
    reference: str = "",
) -> AsyncIterator[ScriptedSession]:
    """Open a session with one task in `root/work`, or the one with this reference. Everything is allowed
    unless `options` say otherwise; `tools` replace those of buddy."""
    root = Path(os.path.realpath(root))
    store = store_in(root, files=files)
    if repository:
        subprocess.run(("git", "init", "-q"), cwd=root / "work", check=True)  # noqa: ASYNC221
    environment = {"PATH": os.environ["PATH"], "HOME": str(root / "home")}
    launch = find_launch(options, environment, folder=str(root / "work"))
    loaded = _settings(read_settings(launch, options), checkpoints, task_budget or Budget())
    loaded = replace(loaded, settings=replace(loaded.settings, targets=dict(targets or {})))
    models = ScriptedModels(loaded, launch, script)
    async with open_session(
        launch, loaded, options, models=models, store=store, attended=attended, reference=reference
    ) as session:
        if tools:
            for tool in session.tools.list_all():
                session.tools.remove(tool.name)
            for tool in tools:
                session.tools.register(tool)
        yield ScriptedSession(session)


def _settings(loaded: LoadedSettings, checkpoints: bool, budget: Budget) -> LoadedSettings:
    settings = loaded.settings
    return replace(
        loaded,
        settings=replace(
            settings,
            models={"fast": Profile(), "broken": Profile()},
            agent=replace(settings.agent, follow_ups="all"),
            budget=replace(settings.budget, task_usd=budget.max_cost_usd, task_tokens=budget.max_tokens),
            sandbox=replace(settings.sandbox, level="off"),
            session=replace(settings.session, checkpoints=checkpoints),
            tools=replace(settings.tools, direct=0),
        ),
    )
