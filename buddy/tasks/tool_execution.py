"""Execution of one approved call: announced, checkpointed, cached or run, closed; and the windows of test
runs, in which the files of other tasks stand still."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager

import msgspec

from buddy.agent.events import TokenUsage
from buddy.agent.host import Progress
from buddy.agent.messages import Call, ResultStatus
from buddy.agent.tool import Access, Tool, ToolContext, ToolResult
from buddy.extend.instructions import FolderInstructions
from buddy.safety.paths import Boundary
from buddy.sessions.records import CheckpointTaken
from buddy.tasks.dependencies import BoardParts
from buddy.tasks.sandboxing import services_for
from buddy.tasks.task import Task
from buddy.tasks.workspaces import has_running_jobs
from buddy.tools.task_model import TaskModel
from buddy.workspace.checkpoints.checkpoints import Mark
from buddy.workspace.files.approved_versions import Approved
from buddy.workspace.files.editor_buffers import EditorBuffers, unsaved_note
from buddy.workspace.files.store import Stamp, stamp_of
from buddy.workspace.undo.log import UndoLog

LONGEST_WAIT_S = 60.0
_MAX_LISTED = 20


class TestWindow:
    """The running tests of one task. `writes` has a line for each change by another task meanwhile."""

    def __init__(self, task_id: int, root: str) -> None:
        self.task_id = task_id
        self.root = root
        self.writes: list[str] = []
        self.closed = asyncio.Event()

    def report(self) -> str:
        """Return the note to append to the test result, "" when nobody wrote."""
        if not self.writes:
            return ""
        lines = list(dict.fromkeys(self.writes))
        more = [f"… and {len(lines) - _MAX_LISTED} more"] if len(lines) > _MAX_LISTED else []
        return "\n\n[other tasks changed files while the tests ran]\n" + "\n".join(
            [*lines[:_MAX_LISTED], *more]
        )


class TestWindows:
    """The open test windows of a board. Tasks affect each other only in the same tree (`root`)."""

    __test__ = False  # keeps pytest from collecting it

    def __init__(self, longest_wait_s: float = LONGEST_WAIT_S) -> None:
        self._longest_wait_s = longest_wait_s
        self._open: list[TestWindow] = []
        self._running: list[tuple[int, str, str]] = []

    @contextmanager
    def open(self, task_id: int, root: str) -> Generator[TestWindow]:
        """Open a window while a task's tests run."""
        window = TestWindow(task_id, root)
        window.writes += [
            line for writer, where, line in self._running if writer != task_id and where == root
        ]
        self._open.append(window)
        try:
            yield window
        finally:
            self._open.remove(window)
            window.closed.set()

    async def wait_for_tests(
        self, task_id: int, root: str, tool: Tool, access: Access, progress: Callable[[str], None]
    ) -> None:
        """Wait, before a call that writes files, until no other task's tests run or the time limit is over.
        Commands do not wait: most of them only read."""
        others = self._others(task_id, root)
        if not others or not access.writes or access.anything or tool.runs_tests:
            return
        names = ", ".join(str(window.task_id) for window in others)
        progress(f"waiting for the tests of task {names} (at most {self._longest_wait_s:g} s)\n")
        waiters = [asyncio.ensure_future(window.closed.wait()) for window in others]
        try:
            await asyncio.wait(waiters, timeout=self._longest_wait_s)
        finally:
            for waiter in waiters:
                waiter.cancel()

    @contextmanager
    def report_write(self, task_id: int, root: str, tool: Tool, access: Access) -> Generator[None]:
        """Report a call that may change files to the windows of other tasks while it runs."""
        if access.read_only:
            yield
            return
        targets = ", ".join(access.writes[:5]) or "a command that may have changed anything"
        line = f"{tool.name} of task {task_id}: {targets}"
        entry = (task_id, root, line)
        self._running.append(entry)
        for window in self._others(task_id, root):
            window.writes.append(line)
        try:
            yield
        finally:
            self._running.remove(entry)

    def _others(self, task_id: int, root: str) -> list[TestWindow]:
        return [window for window in self._open if window.task_id != task_id and window.root == root]


LONG_CHARS = 8_000

SEES_THE_DISK = frozenset({"shell", "search"})
"""Categories of tools that see files as they are saved, whatever an editor shows."""
LOOK_EVERY_S = 1.0
"""Maximum age of a look at the files a task has read; it takes some microseconds per file."""


class Writes:
    """Counts the calls that changed files, so that tasks look for changes only after one; owns the test
    windows."""

    def __init__(self) -> None:
        self.count = 0
        self.windows = TestWindows()


class Surroundings(msgspec.Struct, frozen=True):
    """The context of a task's calls. `tell` shows a sentence to the person, `count` journals the totals of
    the task's usage and shows them."""

    parts: BoardParts
    task: Task
    writes: Writes
    tell: Callable[[str], None]
    count: Callable[[TokenUsage], None]


async def execute(
    around: Surroundings, call: Call, tool: Tool, arguments: msgspec.Struct, progress: Progress
) -> ToolResult:
    """Run an allowed call and journal its start and end. Raises what the tool raises."""
    parts, task, writes = around.parts, around.task, around.writes
    access = tool.access(arguments)
    folders = task.services.find(FolderInstructions)
    if folders is not None:
        folders.note_paths((*access.reads, *access.writes))
    boundary = task.workspace.boundary
    # Wait before the journal's record: a call that only waits has not started.
    await writes.windows.wait_for_tests(task.task_id, boundary.root, tool, access, progress)
    await parts.journal.tool_begin(task.task_id, call.id, tool.name)
    started = parts.clock.now()
    status: ResultStatus = "error"
    try:
        with writes.windows.report_write(task.task_id, boundary.root, tool, access):
            result = await _run_or_reuse(around, call, tool, arguments, progress, access)
        status = "ok" if result.ok else "error"
    except asyncio.CancelledError:
        status = "cancelled"
        raise
    finally:
        if not access.read_only:
            # Also after an error or a cancellation: the call may have changed files before that.
            writes.count += 1
            parts.cache.invalidate_writes(_resolve(access, boundary))
        seconds = parts.clock.now() - started
        parts.journal.tool_end(task.task_id, call.id, status, seconds)
    text = await _append_changes(task, writes, result.text, access, parts.clock.now())
    text += await _unsaved_note(task, tool)
    return msgspec.structs.replace(result, text=await _redact(parts, text))


async def _redact(parts: BoardParts, text: str) -> str:
    """Return the text without secrets. A long one is searched in a thread: it takes longer than keys may
    wait."""
    if len(text) <= LONG_CHARS:
        return parts.redact_text(text)
    return await asyncio.to_thread(parts.redact_text, text)


async def _run_or_reuse(
    around: Surroundings,
    call: Call,
    tool: Tool,
    arguments: msgspec.Struct,
    progress: Progress,
    access: Access,
) -> ToolResult:
    parts, task = around.parts, around.task
    services = services_for(tool, task.services.services, parts.sandboxing.confinement(call.id))
    services = {**services, TaskModel: task_model(parts, task, around.count)}
    context = ToolContext(task.task_id, call.id, progress, task.cancelled, services)
    if not access.read_only:
        return await _run_with_checkpoints(around, call, tool, arguments, context)
    if tool.cache_s <= 0 or task.workspace.target:  # the state of another machine is not looked at
        return await tool.run(context, arguments)
    if has_running_jobs(task):  # running jobs may change files at any time
        return await tool.run(context, arguments)
    place = task.workspace.boundary
    touched = _resolve(access, place)
    validity = await asyncio.to_thread(_cache_validity, task, touched)
    cached = parts.cache.get(tool.name, arguments, validity, place=place.cwd)
    if cached is not None:
        return cached
    writes = around.writes.count
    result = await tool.run(context, arguments)
    if result.ok and writes == around.writes.count and not has_running_jobs(task):
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


def task_model(parts: BoardParts, task: Task, count: Callable[[TokenUsage], None]) -> TaskModel:
    """Return what tools may know of a task's model, and the purse it pays from."""

    @asynccontextmanager
    async def expense(usd: float) -> AsyncGenerator[str]:
        async with task.meter.expense(usd) as reached:
            yield reached.reason if reached is not None else ""

    return TaskModel(
        name=lambda: parts.model(task.model).name,
        sees=lambda: parts.model(task.model).sees,
        expense=expense,
        charge=lambda usd: count(task.meter.charge(usd)),
    )


def _resolve(access: Access, boundary: Boundary) -> Access:
    """Resolve the paths: different names may lead to the same file."""
    reads, writes = (
        tuple(_real(path, boundary) for path in paths) for paths in (access.reads, access.writes)
    )
    return Access(reads, writes, access.anything)


def _real(path: str, boundary: Boundary) -> str:
    if path == "~" or path.startswith("~/"):
        path = boundary.home + path[1:]
    try:
        return os.path.realpath(os.path.join(boundary.cwd, path))
    except ValueError:  # a NUL: no such path exists
        return path


def _cache_validity(task: Task, access: Access) -> tuple[object, ...]:
    """Return the state a cached result depends on: the files it was read from, and the number of undone
    changes. Blocks; call it in a thread."""
    log = task.services.find(UndoLog)
    return (log.switched if log is not None else 0, *map(_stamp, access.reads))


def _stamp(path: str) -> Stamp | None:
    try:
        return stamp_of(os.stat(path))
    except (OSError, ValueError):
        return None


async def _run_with_checkpoints(
    around: Surroundings, call: Call, tool: Tool, arguments: msgspec.Struct, context: ToolContext
) -> ToolResult:
    """Run a call that may change files, with a checkpoint before and after. Changes count as the call's own
    however it ends."""
    checkpoints = around.task.workspace.checkpoints
    if checkpoints is None or _only_reads(around.task, call):
        return await _in_window(around, tool, arguments, context)
    if tool.keeps_undo:
        result = await _in_window(around, tool, arguments, context)
        _record(around, call, {"entry": checkpoints.entry_of(call.id)})
        return result
    mark = await checkpoints.begin(around.task.task_id, call.id, tool.name)
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
    """Tell whether a command was judged read-only: checkpoints would take longer than the command."""
    approved = task.services.find(Approved)
    return approved is not None and approved.only_reads(call.id)


def _record(around: Surroundings, call: Call, data: dict[str, str | int]) -> None:
    taken = CheckpointTaken(around.parts.clock.new_id(), call.id, data)
    around.parts.journal.record_checkpoint(around.task.task_id, taken)


async def _in_window(
    around: Surroundings, tool: Tool, arguments: msgspec.Struct, context: ToolContext
) -> ToolResult:
    """Run the tool; a test run reports what other tasks wrote meanwhile."""
    if not tool.runs_tests:
        return await tool.run(context, arguments)
    task = around.task
    with around.writes.windows.open(task.task_id, task.workspace.boundary.root) as window:
        result = await tool.run(context, arguments)
    return msgspec.structs.replace(result, text=result.text + window.report())


async def _unsaved_note(task: Task, tool: Tool) -> str:
    """Return a line that tells where a command or a search did not see what the editor shows, "" for
    nothing."""
    buffers = task.services.find(EditorBuffers)
    if buffers is None or tool.category not in SEES_THE_DISK:
        return ""
    return await asyncio.to_thread(unsaved_note, buffers)


async def _append_changes(task: Task, writes: Writes, text: str, access: Access, now: float) -> str:
    """Append the changes in files the model has read. Checked after a shell command, after a write by another
    task, and at intervals, because the person edits too."""
    if writes.count == task.seen_writes and not access.anything and now - task.checked_at < LOOK_EVERY_S:
        return text
    task.seen_writes, task.checked_at = writes.count, now
    changes = await asyncio.to_thread(task.services.changes)
    if not changes:
        return text
    return f"{text}\n\n[files you have read changed]\n" + "\n".join(changes)
