"""A task board for a test: a real session on disk, a real policy and inbox, scripted models by name, tools
made in place."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from buddy.agent.budget import Budget, Window
from buddy.agent.events import AgentUiEvent, ApprovalRequested, TurnFinished
from buddy.agent.host import Limits, Sampling
from buddy.agent.messages import Message, text_of
from buddy.agent.tool import Tool, ToolRegistry
from buddy.config.settings import ConfigError
from buddy.llm.rate_limiter import Governor
from buddy.safety.paths import Boundary
from buddy.safety.policy.facts import facts_of
from buddy.safety.policy.rules import Rule, RuleSet
from buddy.safety.policy.session import Policy
from buddy.safety.secrets.redact import redact, redact_message
from buddy.sessions.session import OpenSession
from buddy.sessions.store import SessionStore
from buddy.tasks.board import TaskBoard
from buddy.tasks.dependencies import BoardParts, Clock, ModelAccess, TaskServices, Workspace
from buddy.tools.cache import ToolCache
from tests.support.laws import ScriptedLane, Step
from tests.support.session_files import store_in
from tests.support.unconfined import Unconfined
from tests.support.waiting import until


class BoardSession:
    """A board, its session, what its models were sent and what its readers saw."""

    def __init__(self, root: Path, journal: OpenSession, store: SessionStore) -> None:
        self.root = root
        self.journal = journal
        self.store = store
        self.lanes: dict[str, ScriptedLane] = {}
        self.policy = Policy(RuleSet(), trusted=True)
        self.saved: list[Rule] = []
        self.changes: list[str] = []
        self.forgotten = 0
        self.board: TaskBoard = None
        self._ids = itertools.count(1)

    def parts(self, *tools: Tool, **more: object) -> BoardParts:
        """Return the services of the board; `more` are fields to replace, of it or of its workspace."""
        boundary = Boundary(str(self.root), str(self.root), str(self.root / "home"))

        tools_in = more.get("boundary", boundary)

        def services(_number: int) -> TaskServices:
            return TaskServices({Boundary: tools_in}, services, self._told, self._forget)

        parts = BoardParts(
            workspace=Workspace(
                boundary=boundary,
                system="be kind",
                facts=lambda tool, arguments: facts_of(tool, arguments, boundary),
                services=services,
            ),
            tools=ToolRegistry(tools),
            model=self._access,
            policy=self.policy,
            note_facts=lambda _call, _facts: None,
            sandboxing=Unconfined(),
            journal=self.journal.writer,
            cache=ToolCache(time.monotonic),
            redact=lambda message: redact_message(message, ["sekrit-key-0123456789"]),
            redact_text=lambda text: redact(text, ["sekrit-key-0123456789"]),
            save_rules=self.saved.extend,
            forget_rule=self.saved.remove,
            clock=Clock(
                time.monotonic, time.time, asyncio.sleep, lambda: 0.5, lambda: f"id{next(self._ids)}"
            ),
            limits=Limits(max_replies=20, first_delay_s=0.001, partial_every_s=0.01),
            task_budget=Budget(),
            session_budget=Budget(),
            attended=True,
            has_approver=bool(more.get("attended", True)),
            steering="all",
            follow_ups="one",
        )
        place = {name: more.pop(name) for name in ("boundary", "facts") if name in more}
        parts = msgspec.structs.replace(parts, workspace=msgspec.structs.replace(parts.workspace, **place))
        return msgspec.structs.replace(parts, **more)

    def script(self, *replies: Sequence[Step], model: str = "") -> ScriptedLane:
        """Add replies for a model after its earlier ones."""
        lane = self.lanes.setdefault(model, ScriptedLane())
        lane.replies.extend(replies)
        return lane

    def texts(self, task_id: int) -> list[str]:
        """A conversation, read."""
        return [text_of(message) for message in self.board.task(task_id).history]

    async def turn(self, task_id: int, text: str) -> None:
        """A prompt and its turn, to the end."""
        self.board.submit(task_id, text)
        await self.board.wait(task_id)

    async def asked(self) -> ApprovalRequested:
        """The oldest open question, once there is one."""
        await until(self.board.inbox.waiting)
        return self.board.inbox.waiting()[0].event

    async def reloaded(self) -> dict[int, tuple[Message, ...]]:
        """The conversations as another process would find them. Closes the board and the session."""
        await self.board.close()
        await self.journal.close()
        again = await self.store.open("last")
        found = {one.record.task_id: tuple(one.record.history) for one in again.loaded.tasks}
        await again.close()
        return found

    def _access(self, name: str) -> ModelAccess:
        if name.startswith("no-"):
            raise ConfigError(f"unknown model {name!r}")
        lane = self.lanes.setdefault(name, ScriptedLane())
        return ModelAccess(
            name=name or "default",
            model=name or "default",
            provider=lane,
            window=Window(100_000, guessed=False, reserve=1_000),
            price=lambda usage: usage.input_tokens / 1_000,
            sampling=Sampling(),
            governor=Governor(),
        )

    def _told(self) -> tuple[str, ...]:
        found, self.changes = tuple(self.changes), []
        return found

    def _forget(self) -> None:
        self.forgotten += 1


@asynccontextmanager
async def board_session(root: Path, *tools: Tool, **more: object) -> AsyncIterator[BoardSession]:
    """A session whose board has one task, number 1, in the foreground."""
    store = store_in(root)
    journal = await store.create()
    session = BoardSession(root / "work", journal, store)
    async with TaskBoard(session.parts(*tools, **more)) as board:
        session.board = board
        board.open()
        yield session
    await journal.close()


def gate() -> tuple[asyncio.Event, asyncio.Event, Callable[[], object]]:
    """(reached, go on, a step of a scripted model that says the first and waits for the second)."""
    reached, go_on = asyncio.Event(), asyncio.Event()

    def step() -> object:
        reached.set()
        return go_on.wait()

    return reached, go_on, step


def ends(events: Sequence[AgentUiEvent]) -> list[TurnFinished]:
    """The ends of turns among events."""
    return [event for event in events if isinstance(event, TurnFinished)]
