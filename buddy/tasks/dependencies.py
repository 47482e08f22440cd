"""The parts of the task board: records of functions and services, so that tests give their own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import msgspec

from buddy.agent.budget import Budget, DayBudget, Price, Window
from buddy.agent.host import Limits, Sampling
from buddy.agent.messages import Message
from buddy.agent.provider import Provider
from buddy.agent.tool import Tool, ToolRegistry
from buddy.llm.rate_limiter import Governor
from buddy.safety.paths import Boundary
from buddy.safety.policy.facts import Facts
from buddy.safety.policy.rules import Rule
from buddy.safety.policy.session import Policy
from buddy.safety.seal import Seal
from buddy.sessions.writer import SessionWriter
from buddy.tools.cache import ToolCache
from buddy.workspace.checkpoints.checkpoints import Checkpoints
from buddy.workspace.sandbox.profile import Confinement
from buddy.workspace.sandbox.status import SandboxStatus
from buddy.workspace.worktrees.worktrees import Worktree, Worktrees


class Library(Protocol):
    """A library that takes seconds to load."""

    name: str

    @property
    def is_loaded(self) -> bool:
        """Tell whether nothing is waited for any more."""
        ...

    async def load(self) -> None:
        """Wait for it. A failure is told by the request that needs it."""
        ...


class ModelAccess(msgspec.Struct, frozen=True):
    """A model ready to be asked. `name` is what the person calls it (a profile or litellm's name), `model`
    what is sent, `price` dollars for a usage, `library` what its lane needs first."""

    name: str
    model: str
    provider: Provider
    window: Window
    price: Price
    sampling: Sampling
    governor: Governor
    library: Library | None = None


class Clock(msgspec.Struct, frozen=True):
    """Time and chance: seconds of a monotonic clock, wall time (grants expire by it, also after a resume),
    sleeping, a number in [0, 1), a new id."""

    now: Callable[[], float]
    wall: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    random: Callable[[], float]
    new_id: Callable[[], str]


class TaskServices(msgspec.Struct, frozen=True):
    """The services the tools of one task get. `services` go into `ToolContext`; `copy` makes those of a task
    that starts from a copy of this one's conversation; `changes` says what became different in files the task
    has read; `forget_shown` is called when results left the model's context."""

    services: Mapping[type, object]
    copy: Callable[[int], TaskServices]
    changes: Callable[[], tuple[str, ...]]
    forget_shown: Callable[[], None]


class Workspace(msgspec.Struct, frozen=True):
    """The tree a task works in: the project's own tree, or a worktree of it.

    `system`: the prompt, which names the place; `facts` looks at a call for the policy (it may raise
    `ToolError`); `services` makes those of a task, by its number; `checkpoints`: None where effects of
    commands are not kept; `worktree`: None for the project's own tree.
    """

    boundary: Boundary
    system: str
    facts: Callable[[Tool, msgspec.Struct], Facts]
    services: Callable[[int], TaskServices]
    checkpoints: Checkpoints | None = None
    worktree: Worktree | None = None


class WorktreeParts(msgspec.Struct, frozen=True):
    """The parts worktrees are made with: git's side of it, the person's environment (for what they ignore
    everywhere), the workspace one becomes, and the seal of the states kept of them."""

    trees: Worktrees
    variables: Mapping[str, str]
    workspace: Callable[[Worktree], Workspace]
    seal: Seal


class CallSandbox(Protocol):
    """The sandbox as calls meet it, each by its id."""

    async def look(self, tool: Tool, boundary: Boundary) -> SandboxStatus:
        """Get ready for a call of this tool. Raises `ToolError` where a sandbox is demanded and missing."""
        ...

    def confine(self, call_id: str, confinement: Confinement | None) -> None:
        """Say how an allowed call is to be confined."""
        ...

    def confinement(self, call_id: str) -> Confinement | None:
        """Return how it is confined."""
        ...

    def note_allowed(self, call_id: str, facts: Facts) -> None:
        """Remember what an allowed call may change that sandboxed commands may not."""
        ...

    def take_put_back(self) -> tuple[str, ...]:
        """Return what was done about protected names that commands changed, a sentence each, once."""
        ...


class BoardParts(msgspec.Struct, frozen=True):
    """Everything a task board needs.

    `workspace` is the project's own tree. `model` finds a model by the person's name for it ("" is the
    default) and raises `ConfigError`; `redact` takes known secret shapes out of a message; `save_rules`
    writes rules the person wants for good, `forget_rule` deletes one of them; `sandboxing` confines calls;
    `attended`: somebody is there to be asked; `day`: None where no day is counted; `worktrees`: None where
    tasks can't have their own.
    """

    workspace: Workspace
    tools: ToolRegistry
    model: Callable[[str], ModelAccess]
    policy: Policy
    judged: Callable[[str, Facts], None]
    sandboxing: CallSandbox
    memory: SessionWriter
    cache: ToolCache
    redact: Callable[[Message], Message]
    redact_text: Callable[[str], str]
    save_rules: Callable[[tuple[Rule, ...]], None]
    forget_rule: Callable[[Rule], None]
    clock: Clock
    limits: Limits
    task_budget: Budget
    session_budget: Budget
    attended: bool
    steering: str
    follow_ups: str
    day: DayBudget | None = None
    worktrees: WorktreeParts | None = None
