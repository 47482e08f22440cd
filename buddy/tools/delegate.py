"""`delegate`: part of the work for a subagent, a conversation of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from buddy.agent.display import Plain
from buddy.agent.formatting import keep_ends
from buddy.agent.tool import ToolContext, ToolError, ToolResult, no_access, tool

MAX_REPORT_CHARS = 30_000


class Assignment(msgspec.Struct, frozen=True):
    """Task of a subagent. `tools`: the names it may use, None for all; `model` "" is its parent's;
    `worktree`: the name of the one it works in, "" for where its parent works; `call_id` is the call that
    starts it."""

    text: str
    tools: tuple[str, ...] | None
    model: str
    worktree: str = ""
    agent: str = ""
    call_id: str = ""


class AgentDefaults(msgspec.Struct, frozen=True):
    """Defaults of a subagent file for what a call leaves open: `background` (None: as usual), and `worktree`:
    it works in one of its own."""

    background: bool | None = None
    worktree: bool = False


class Report(msgspec.Struct, frozen=True):
    """Outcome and last text of a subagent."""

    task_id: int
    ok: bool
    text: str


class Delegation(msgspec.Struct, frozen=True):
    """Functions that start and end subagents. `describe` returns what a subagent file says (it raises
    `ToolError` for a name there is none of). `start` gives one to a task and returns its number (it raises
    `ToolError`); `attend` waits for its end, and ends it when cancelled; `report_later` does not wait: the
    report reaches the task once the model has nothing else to do. `isolate` makes a worktree for a task's
    subagent and returns its name (it raises `ToolError`), `release` removes one that is not needed."""

    describe: Callable[[str], AgentDefaults]
    start: Callable[[int, Assignment], int]
    attend: Callable[[int], Awaitable[Report]]
    report_later: Callable[[int], None]
    isolate: Callable[[int, str], Awaitable[str]]
    release: Callable[[str], Awaitable[None]]


def _preview(_ctx: ToolContext, arguments: Any) -> Plain:
    where = "in the background" if arguments.background else "while this task waits"
    match arguments.tools:
        case None:
            tools = "all this task has, but ask_user"
        case []:
            tools = "none"
        case names:
            tools = ", ".join(names)
    model = arguments.model or "the model of this task"
    agent = f"\nsubagent: {arguments.agent}" if arguments.agent else ""
    place = "\nworks in: a git worktree of its own" if arguments.isolation else ""
    return Plain(f"a subagent {where}", f"{arguments.task}\n\ntools: {tools}\nmodel: {model}{agent}{place}")


@tool(
    anywhere=True,
    risk="medium",
    category="tasks",
    access=no_access,
    preview=_preview,
    delegates=True,
    aliases=("Task", "agent", "subagent", "spawn_agent", "new_task"),
    argument_aliases={
        "prompt": "task",
        "description": "task",
        "instructions": "task",
        "message": "task",
        "allowed_tools": "tools",
        "run_in_background": "background",
        "subagent_type": "agent",
        "agent_type": "agent",
    },
)
async def delegate(
    ctx: ToolContext,
    task: Annotated[str, Meta(description="All it needs to know; it sees nothing else")],
    tools: Annotated[list[str], Meta(description="Names; left out: all of yours")] | None = None,
    background: bool = True,
    model: Annotated[str, Meta(description="A profile of the person's; left out: yours")] = "",
    isolation: Literal["worktree"] | None = None,
    agent: Annotated[str, Meta(description="One that the system prompt lists")] = "",
) -> ToolResult:
    """Give large, self-contained work with a short answer to a subagent, which has a context of its own. It
    works in the background; its last message reaches you when you have nothing else to do: end your reply to
    wait for it. `background`: false waits here. Two subagents must not change the same files unless each has
    `isolation`: "worktree", a branch from the last commit, whose changes the person brings over."""
    if not task.strip():
        raise ToolError("the task is empty; write what the subagent shall do, with all it needs to know")
    delegation = ctx.service(Delegation)
    chosen = None if tools is None else tuple(tools)
    defaults = delegation.describe(agent)
    background = background if defaults.background is None else defaults.background
    isolated = isolation is not None or defaults.worktree
    worktree = await delegation.isolate(ctx.task_id, task) if isolated else ""
    try:
        number = delegation.start(ctx.task_id, Assignment(task, chosen, model, worktree, agent, ctx.call_id))
    except ToolError:
        await delegation.release(worktree)
        raise
    if background:
        delegation.report_later(number)
        said = (
            f"task {number} works on it in the background{_place(worktree)}; its answer comes when you have "
            "nothing else to do"
        )
        return ToolResult(said, Plain(f"task {number} in the background", task))
    ctx.progress(f"task {number} works on it{_place(worktree)}\n")
    report = await delegation.attend(number)
    return ToolResult(
        keep_ends(report.text, MAX_REPORT_CHARS), Plain(f"task {number}", report.text), ok=report.ok
    )


def _place(worktree: str) -> str:
    return f" in the worktree {worktree}, which starts from the last commit" if worktree else ""
