"""A call's way through the board: other tasks' tests → begun → cache → checkpoint → the tool → checkpoint →
what it changed → ended."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

import msgspec

from buddy.agent.host import Progress
from buddy.agent.messages import Call, ResultStatus
from buddy.agent.tool import Access, Tool, ToolContext, ToolResult
from buddy.extend.instructions import FolderInstructions
from buddy.safety.paths import Boundary
from buddy.sessions.records import CheckpointTaken
from buddy.tasks.dependencies import BoardParts
from buddy.tasks.sandboxing import services_for
from buddy.tasks.task import Task
from buddy.tasks.test_windows import TestWindows
from buddy.tasks.workspaces import jobs_run
from buddy.workspace.checkpoints.checkpoints import Mark
from buddy.workspace.files.approved_versions import Approved
from buddy.workspace.files.store import Stamp, stamp_of
from buddy.workspace.undo.log import UndoLog

LONG_CHARS = 8_000

LOOK_EVERY_S = 1.0
"""How old a look at the files a task has read may be; it takes some microseconds a file."""


class Writes:
    """Counts what changed files, so that tasks look for changes only when there were any; knows whose tests
    run."""

    def __init__(self) -> None:
        self.count = 0
        self.windows = TestWindows()


class Surroundings(msgspec.Struct, frozen=True):
    """The surroundings in which the calls of a task run. `tell` says a sentence to the person."""

    parts: BoardParts
    task: Task
    writes: Writes
    tell: Callable[[str], None]


async def execute(
    around: Surroundings, call: Call, tool: Tool, arguments: msgspec.Struct, progress: Progress
) -> ToolResult:
    """Run an allowed call. Raises what the tool raises; the journal knows before and after."""
    parts, task, writes = around.parts, around.task, around.writes
    access = tool.access(arguments)
    folders = task.services.services.get(FolderInstructions)
    if isinstance(folders, FolderInstructions):
        folders.note_paths((*access.reads, *access.writes))
    boundary = task.workspace.boundary
    await writes.windows.clear(task.number, boundary.root, tool, access, progress)
    await parts.memory.tool_begin(task.number, call.id, tool.name)
    started = parts.clock.now()
    status: ResultStatus = "error"
    try:
        with writes.windows.writing(task.number, boundary.root, tool, access):
            result = await _answered(around, call, tool, arguments, progress, access)
        status = "ok" if result.ok else "error"
    except asyncio.CancelledError:
        status = "cancelled"
        raise
    finally:
        if not access.read_only:
            writes.count += 1
            parts.cache.invalidate_writes(_resolved(access, boundary))
        seconds = parts.clock.now() - started
        parts.memory.tool_end(task.number, call.id, status, seconds)
    text = await _with_changes(task, writes, result.text, access, parts.clock.now())
    return msgspec.structs.replace(result, text=await _without_secrets(parts, text))


async def _without_secrets(parts: BoardParts, text: str) -> str:
    """The text as everybody gets it. Looking through a long one takes longer than keys may wait."""
    if len(text) <= LONG_CHARS:
        return parts.redact_text(text)
    return await asyncio.to_thread(parts.redact_text, text)


async def _answered(
    around: Surroundings,
    call: Call,
    tool: Tool,
    arguments: msgspec.Struct,
    progress: Progress,
    access: Access,
) -> ToolResult:
    parts, task = around.parts, around.task
    services = services_for(tool, task.services.services, parts.sandboxing.confinement(call.id))
    context = ToolContext(task.number, call.id, progress, task.cancelled, services)
    if not access.read_only:
        return await _changing(around, call, tool, arguments, context)
    if tool.cache_s <= 0:
        return await tool.run(context, arguments)
    if jobs_run(task):  # they change files whenever they like
        return await tool.run(context, arguments)
    place = task.workspace.boundary
    touched = _resolved(access, place)
    validity = await asyncio.to_thread(_outside, task, touched)
    found = parts.cache.get(tool.name, arguments, validity, place=place.cwd)
    if found is not None:
        return found
    writes = around.writes.count
    result = await tool.run(context, arguments)
    if result.ok and writes == around.writes.count and not jobs_run(task):
        parts.cache.set(
            tool.name,
            arguments,
            result,
            life_s=tool.cache_s,
            access=touched,
            validity=validity,
            place=place.cwd,
        )
    return result


def _resolved(access: Access, boundary: Boundary) -> Access:
    """The same with real paths: one place may have many names."""
    reads, writes = (
        tuple(_real(path, boundary) for path in paths) for paths in (access.reads, access.writes)
    )
    return Access(reads, writes, access.anything)


def _real(path: str, boundary: Boundary) -> str:
    if path == "~" or path.startswith("~/"):
        path = boundary.home + path[1:]
    try:
        return os.path.realpath(os.path.join(boundary.cwd, path))
    except ValueError:  # a NUL: no such path is touched
        return path


def _outside(task: Task, access: Access) -> tuple[object, ...]:
    """Return what must stay the same for a result to hold: the state of what it was read from, and the
    number of undone changes. Blocks; call it in a thread."""
    log = task.services.services.get(UndoLog)
    return (log.switched if isinstance(log, UndoLog) else 0, *map(_stamp, access.reads))


def _stamp(path: str) -> Stamp | None:
    try:
        return stamp_of(os.stat(path))
    except (OSError, ValueError):
        return None


async def _changing(
    around: Surroundings, call: Call, tool: Tool, arguments: msgspec.Struct, context: ToolContext
) -> ToolResult:
    """Run a call that may change files, with the tree kept before and after. Whatever way it ends, what it
    did by then is its own."""
    checkpoints = around.task.workspace.checkpoints
    if checkpoints is None or _only_reads(around.task, call):
        return await _in_window(around, tool, arguments, context)
    if tool.keeps_undo:
        result = await _in_window(around, tool, arguments, context)
        _record(around, call, {"entry": checkpoints.entry_of(call.id)})
        return result
    mark = await checkpoints.begin(around.task.number, call.id, tool.name)
    if isinstance(mark, str) and mark:
        around.tell(mark)
    try:
        return await _in_window(around, tool, arguments, context)
    finally:
        if isinstance(mark, Mark):
            taken = await checkpoints.end(mark)
            if isinstance(taken, str):
                around.tell(taken)
            else:
                for note in taken.notes:
                    around.tell(note)
                _record(
                    around,
                    call,
                    {"before": taken.before, "after": taken.after, "entry": taken.entry_id},
                )


def _only_reads(task: Task, call: Call) -> bool:
    """A command that was judged to change nothing, so that it ran without a question: two looks at the tree
    would cost more than it does."""
    approved = task.services.services.get(Approved)
    return isinstance(approved, Approved) and approved.only_reads(call.id)


def _record(around: Surroundings, call: Call, data: dict[str, str | int]) -> None:
    taken = CheckpointTaken(around.parts.clock.new_id(), call.id, data)
    around.parts.memory.record_checkpoint(around.task.number, taken)


async def _in_window(
    around: Surroundings, tool: Tool, arguments: msgspec.Struct, context: ToolContext
) -> ToolResult:
    """Run the tool; tests are told what other tasks wrote meanwhile."""
    if not tool.runs_tests:
        return await tool.run(context, arguments)
    task = around.task
    with around.writes.windows.open(task.number, task.workspace.boundary.root) as window:
        result = await tool.run(context, arguments)
    return msgspec.structs.replace(result, text=result.text + window.told())


async def _with_changes(task: Task, writes: Writes, text: str, access: Access, now: float) -> str:
    """The result, and what became different in files the model has read: looked for after a shell command,
    when anybody else of us wrote, and now and then, because the person writes too."""
    if writes.count == task.seen_writes and not access.anything and now - task.looked_at < LOOK_EVERY_S:
        return text
    task.seen_writes, task.looked_at = writes.count, now
    changes = await asyncio.to_thread(task.services.changes)
    if not changes:
        return text
    return f"{text}\n\n[files you have read changed]\n" + "\n".join(changes)
