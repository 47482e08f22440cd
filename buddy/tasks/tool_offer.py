"""The tools that a task's model is offered, and the record of what changed the beginning of its prompts."""

from __future__ import annotations

from collections.abc import Callable

from buddy.agent.tool import Tool, ToolRegistry
from buddy.tasks.dependencies import BoardParts
from buddy.tasks.task import Declared, Task
from buddy.tools.builtin import offered
from buddy.tools.search_tools import NO_LATE_TOOLS, narrow, search_tools


def tools_of_task(
    parts: BoardParts, task: Task, hides: Callable[[Tool], bool], note: Callable[[tuple[Tool, ...]], None]
) -> ToolRegistry:
    """Return the tools of a task's next request, for its turns and for every request that shares their cached
    beginning. `note` hears of tools that a search admits."""
    model = parts.model(task.model).model
    fit = task.workspace.fit

    def available() -> ToolRegistry:
        tools = offered(parts.tools, model, task.tools, hides)
        return ToolRegistry(map(fit, tools.list_all())) if task.workspace.target else tools

    tools = available()
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
        now=lambda: available().list_all(),
        # A subagent with a list of its own finds nothing else, however late it comes.
        arrivals=parts.arrivals if task.tools is None else NO_LATE_TOOLS,
    )


def note_declared(task: Task, tools: ToolRegistry, system: str) -> None:
    """Record the beginning of a turn's prompts, and what changed in it since the last turn of this
    conversation: a prompt cache begins anew with it."""
    names = tuple(tool.name for tool in tools.list_all())
    texts = tuple(tool.description for tool in tools.list_all())
    before, task.declared = task.declared, Declared(names, hash(texts), hash(system))
    if before is None or before == task.declared or not task.history:
        return
    came = [name for name in names if name not in before.names]
    went = [name for name in before.names if name not in names]
    pieces = [f"{_shortened(came)} joined"] if came else []
    pieces += [f"{_shortened(went)} left"] if went else []
    if not pieces and before.names != names:
        pieces.append("the order of the tools changed")
    if not pieces and before.texts != task.declared.texts:
        pieces.append("what the tools say of themselves changed")
    if before.system != task.declared.system:
        pieces.append("the system prompt changed")
    task.prefix_changes.append("; ".join(pieces))


def note_loaded(task: Task, tools: ToolRegistry, admitted: tuple[Tool, ...], system: str) -> None:
    """Record tools that a search admitted."""
    task.loaded_tools = (*task.loaded_tools, *(tool.name for tool in admitted))
    note_declared(task, tools, system)


def _shortened(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
