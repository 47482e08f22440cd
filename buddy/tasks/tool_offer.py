"""The tools that a task's model is offered, and the record of what changed the beginning of its prompts."""

from __future__ import annotations

from collections.abc import Callable

from buddy.agent.tool import Tool, ToolRegistry
from buddy.tasks.dependencies import BoardParts
from buddy.tasks.task import Task
from buddy.tools.builtin import offered
from buddy.tools.search_tools import narrow, search_tools


def tools_of_task(
    parts: BoardParts, task: Task, hides: Callable[[Tool], bool], note: Callable[[tuple[Tool, ...]], None]
) -> ToolRegistry:
    """Return the tools of a task's next request, for its turns and for every request that shares their cached
    beginning. `note` hears of tools that a search admits."""
    model = parts.model(task.model).model
    tools = offered(parts.tools, model, task.tools, hides)
    search = parts.tools.get(search_tools.name)
    if search is None:  # the person switched it off: nothing can be found, so everything is offered
        return tools
    agents = parts.catalogue is not None and any(
        one.state == "active" for one in parts.catalogue.of_kind("agent")
    )
    return narrow(
        tools,
        most=parts.direct_tools,
        window=task.meter.window.limit,
        admitted=task.loaded_tools,
        is_core=lambda tool: tool.core or (agents and tool.delegates),  # the prompt lists the subagents
        search=search,
        note=note,
        now=lambda: offered(parts.tools, model, task.tools, hides).list_all(),
    )


def note_declared(task: Task, tools: ToolRegistry) -> None:
    """Record the tools a turn declares, and the change since the last one of this conversation: a prompt
    cache begins anew with it."""
    names = tuple(tool.name for tool in tools.list_all())
    before, task.declared_tools = task.declared_tools, names
    if before is None or before == names or not task.history:
        return
    came = [name for name in names if name not in before]
    went = [name for name in before if name not in names]
    pieces = [f"{_shortened(came)} joined"] if came else []
    pieces += [f"{_shortened(went)} left"] if went else []
    task.prefix_changes.append("; ".join(pieces) or "the order of the tools changed")


def note_loaded(task: Task, tools: ToolRegistry, admitted: tuple[Tool, ...]) -> None:
    """Record tools that a search admitted."""
    task.loaded_tools = (*task.loaded_tools, *(tool.name for tool in admitted))
    note_declared(task, tools)


def _shortened(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
