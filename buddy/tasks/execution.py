"""A call's way through the board: begun → cache → the tool → what it changed → ended."""

from __future__ import annotations

import asyncio

import msgspec

from buddy.agent.host import Progress
from buddy.agent.messages import Call, ResultStatus
from buddy.agent.tool import Access, Tool, ToolContext, ToolResult
from buddy.tasks.parts import BoardParts
from buddy.tasks.task import Task


class Writes:
    """Counts what changed files, so that tasks look for changes only when there were any."""

    def __init__(self) -> None:
        self.count = 0


async def execute(
    parts: BoardParts,
    task: Task,
    writes: Writes,
    call: Call,
    tool: Tool,
    arguments: msgspec.Struct,
    progress: Progress,
) -> ToolResult:
    """Run an allowed call. Raises what the tool raises; the journal knows before and after."""
    access = tool.access(arguments)
    await parts.memory.tool_begin(task.number, call.id, tool.name)
    started = parts.clock.now()
    status: ResultStatus = "cancelled"
    try:
        result = await _cached_or_run(parts, task, call, tool, arguments, progress, access)
        status = "ok" if result.ok else "error"
    except asyncio.CancelledError:
        raise
    except BaseException:
        status = "error"
        raise
    finally:
        if not access.read_only:
            writes.count += 1
            parts.cache.invalidate_writes(access, lambda path: path)
        seconds = parts.clock.now() - started
        parts.memory.tool_end(task.number, call.id, status, seconds)
    text = await _with_changes(task, writes, result.text, access)
    return msgspec.structs.replace(result, text=parts.redact_text(text))


async def _cached_or_run(
    parts: BoardParts,
    task: Task,
    call: Call,
    tool: Tool,
    arguments: msgspec.Struct,
    progress: Progress,
    access: Access,
) -> ToolResult:
    cacheable = tool.cache_s > 0 and access.read_only
    if cacheable:
        found = parts.cache.get(tool.name, arguments)
        if found is not None:
            return found
    context = ToolContext(task.number, call.id, progress, task.cancelled, task.services.services)
    result = await tool.run(context, arguments)
    if cacheable and result.ok:
        parts.cache.set(tool.name, arguments, result, life_s=tool.cache_s, access=access)
    return result


async def _with_changes(task: Task, writes: Writes, text: str, access: Access) -> str:
    """The result, and what became different in files the model has read: after a shell command, and when
    anybody else wrote."""
    if writes.count == task.seen_writes and not access.anything:
        return text
    task.seen_writes = writes.count
    changes = await asyncio.to_thread(task.services.changes)
    if not changes:
        return text
    return f"{text}\n\n[files you have read changed]\n" + "\n".join(changes)
