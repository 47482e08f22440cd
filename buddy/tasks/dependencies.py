"""The services a task board needs, as records of functions, so that tests can replace each of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Protocol, TypeVar, cast

import msgspec

from buddy.agent.budget import Budget, DayBudget, Price, Window
from buddy.agent.host import Limits, Sampling
from buddy.agent.messages import Message
from buddy.agent.provider import Provider
from buddy.agent.tool import Tool, ToolRegistry
from buddy.extend.catalogue import ExtensionCatalogue
from buddy.extend.hooks.protocol import HookDispatcher
from buddy.llm.rate_limiter import Governor
from buddy.safety.paths import Boundary
from buddy.safety.policy.facts import Facts
from buddy.safety.policy.rules import Rule
from buddy.safety.policy.session import Policy
from buddy.safety.seal import Seal
from buddy.sessions.writer import SessionWriter
from buddy.tools.cache import ToolCache
from buddy.tools.search_tools import NO_LATE_TOOLS, LateTools
from buddy.workspace.checkpoints.checkpoints import Checkpoints
from buddy.workspace.sandbox.profile import Confinement
from buddy.workspace.sandbox.status import SandboxStatus
from buddy.workspace.worktrees.worktrees import Worktree, Worktrees

T = TypeVar("T")


class Library(Protocol):
    """A library that takes seconds to load."""

    name: str

    @property
    def is_loaded(self) -> bool:
        """Tell whether loading is over."""
        ...

    async def load(self) -> None:
        """Wait until it is loaded. A failure is raised by the request that needs the library."""
        ...


class ModelAccess(msgspec.Struct, frozen=True):
    """A model with everything needed to ask it. `name` is what the person calls it (a profile or litellm's
    name), `model` is what is sent, `price` computes dollars from a usage, `library` is loaded before the
    first request; `sees` is False where the model is known not to take pictures."""

    name: str
    model: str
    provider: Provider
    window: Window
    price: Price
    sampling: Sampling
    governor: Governor
    library: Library | None = None
    sees: bool = True


class Clock(msgspec.Struct, frozen=True):
    """Time and randomness: monotonic seconds, wall time (grants expire by it, also after a resume), sleep, a
    number in [0, 1), a new id."""

    now: Callable[[], float]
    wall: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    random: Callable[[], float]
    new_id: Callable[[], str]


class TaskServices(msgspec.Struct, frozen=True):
    """The services for the tools of one task.

    `services` go into `ToolContext`; `copy` makes the services of a task that starts as a copy; `changes`
    returns a line for each file the task has read that changed since; `forget_shown` is called when results
    left the model's context.
    """

    services: Mapping[type, object]
    copy: Callable[[int], TaskServices]
    changes: Callable[[], tuple[str, ...]]
    forget_shown: Callable[[], None]

    def find(self, kind: type[T]) -> T | None:
        """Return the service of this type, None when the task has none."""
        return cast("T | None", self.services.get(kind))


def as_it_is(tool: Tool) -> Tool:
    """Return a tool unchanged: on this machine every one works."""
    return tool


class Workspace(msgspec.Struct, frozen=True):
    """The tree a task works in: the project's own tree or a worktree of it.

    `system` is the prompt, which names the folder; `facts` surveys a call for the policy (may raise
    `ToolError`); `services` makes the services of a task, by its id; `checkpoints` is None when effects of
    commands are not recorded; `worktree` is None for the project's own tree. `target` is the name of the
    target whose shell runs its commands, "" for none, `target_shown` names it for people; `files_on` is the
    same where the files are on that machine, "" where they are on this one. `fit` returns a tool as it works
    there: one that can't says so when it is called, and does nothing here.
    """

    boundary: Boundary
    system: str
    facts: Callable[[Tool, msgspec.Struct], Facts]
    services: Callable[[int], TaskServices]
    checkpoints: Checkpoints | None = None
    worktree: Worktree | None = None
    target: str = ""
    target_shown: str = ""
    files_on: str = ""
    fit: Callable[[Tool], Tool] = as_it_is


class WorktreeParts(msgspec.Struct, frozen=True):
    """The services for worktrees: git's side, the person's environment (for their global ignore file), the
    `Workspace` of a worktree, and the seal of saved states."""

    trees: Worktrees
    variables: Mapping[str, str]
    workspace: Callable[[Worktree], Workspace]
    seal: Seal


class CallSandbox(Protocol):
    """The sandbox of single calls, each by its id."""

    async def prepare(self, tool: Tool, boundary: Boundary) -> SandboxStatus:
        """Prepare the sandbox for a call of this tool. Raises `ToolError` when a required sandbox is
        missing."""
        ...

    def confine(self, call_id: str, confinement: Confinement | None) -> None:
        """Set the confinement of an allowed call."""
        ...

    def confinement(self, call_id: str) -> Confinement | None:
        """Return the confinement of a call."""
        ...

    def note_allowed(self, call_id: str, facts: Facts) -> None:
        """Remember which protected names an allowed call may change."""
        ...

    def take_repairs(self) -> tuple[str, ...]:
        """Return, once, a sentence for each protected name that a command changed and buddy restored."""
        ...


class BoardParts(msgspec.Struct, frozen=True):
    """The services and settings of a task board.

    `workspace` is the project's own tree. `model` looks up a model by the person's name for it ("": the
    default) and raises `ConfigError`; `profiles` are the names the person gave to models; `note_facts`
    receives the facts of each judged call; `redact` removes secrets of known shapes from a message;
    `save_rules` and `forget_rule` change the person's saved rules; `sandboxing` confines calls; `attended`:
    a person is there; `has_approver`: a person or a program answers requests for approval; `day` is None
    without a daily budget; `target` returns the workspace of another machine by its name, also of one that
    is not in the settings; `worktrees` is None where worktrees are not available, `hooks` and `catalogue`
    where there are no extensions. With more than `direct_tools` tools a model is offered the core of them and
    `search_tools`; 0 offers all. `arrivals` are servers whose tools are still to come; `server_words`
    returns what the system prompt says of servers, given the names of a task's tools, None for all, and that
    of its subagent file; `agent_servers` runs the servers such a file defines, and gives a sentence for each
    that is missing.
    """

    workspace: Workspace
    tools: ToolRegistry
    model: Callable[[str], ModelAccess]
    policy: Policy
    note_facts: Callable[[str, Facts], None]
    sandboxing: CallSandbox
    journal: SessionWriter
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
    has_approver: bool
    steering: str
    follow_ups: str
    profiles: tuple[str, ...] = ()
    day: DayBudget | None = None
    worktrees: WorktreeParts | None = None
    target: Callable[[str], Workspace] | None = None
    hooks: HookDispatcher | None = None
    catalogue: ExtensionCatalogue | None = None
    direct_tools: int = 0
    arrivals: LateTools = NO_LATE_TOOLS
    server_words: Callable[[frozenset[str] | None, str], str] = lambda _only, _agent: ""
    agent_servers: Callable[[str], AbstractAsyncContextManager[tuple[str, ...]]] = lambda _agent: nullcontext(
        ()
    )
