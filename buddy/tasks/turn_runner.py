"""The runner of turns: builds their agents, starts them, brings each to its end whatever happens, and updates
its task."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from functools import partial
from typing import Literal

from msgspec.structs import replace

from buddy.agent.cancel import TurnCancelled, run_cancellable
from buddy.agent.events import LibraryLoading, Notice, RetryScheduled
from buddy.agent.formatting import format_count, name_first
from buddy.agent.host import Agent, Limits, Outcome
from buddy.agent.loop import agent_loop, agent_loop_continue
from buddy.agent.messages import Text, UserMessage
from buddy.agent.provider import ErrorKind, ModelDelta, ModelRequest, Provider
from buddy.agent.receipt import receipt_text
from buddy.agent.tool import Tool, ToolRegistry
from buddy.llm.rate_limiter import GovernedProvider
from buddy.sessions.errors import NotSavedError
from buddy.sessions.records import Note, VariantMark
from buddy.tasks.dependencies import BoardParts, Library, ModelAccess
from buddy.tasks.event_hub import EventHub
from buddy.tasks.hook_points import TaskHooks
from buddy.tasks.task import Declared, Task, TaskError
from buddy.tasks.turn_host import TurnParts, build_host
from buddy.tools.builtin import offered
from buddy.tools.search_tools import NO_LATE_TOOLS, narrow, search_tools

_log = logging.getLogger(__name__)
# A turn that does not react to its cancellation for this long is cancelled as an asyncio task too.
CLOSE_LIMIT_S = 5
# Shorter while the disk refuses writes: turns then wait for records that are not saved anyway.
UNSAVED_LIMIT_S = 0.5


_VARIANT_STATES = {"finished": "done", "idle": "done"}


class TurnRunner:
    """The running turns of a board. `is_foreground` tells whether a task is in the foreground; `offer` gives
    it the answer of a finished background task."""

    def __init__(
        self,
        shared: TurnParts,
        tasks: Mapping[int, Task],
        *,
        is_foreground: Callable[[int], bool],
        offer: Callable[[Note], None],
    ) -> None:
        self._shared = shared
        self._journal = shared.board.journal
        self._tasks = tasks
        self._is_foreground = is_foreground
        self._offer = offer
        self._leaving = False

    def start(self, task: Task, prompts: tuple[UserMessage, ...]) -> asyncio.Task[None]:
        """Start a turn with these prompts; without prompts it continues the history."""
        task.begin_turn(self._shared.board.clock.now())
        task.runner = asyncio.create_task(self._run(task, prompts), name=f"task {task.task_id}")
        return task.runner

    async def end_all(self) -> None:
        """Cancel every turn and wait for its end; running tasks become paused and continue after a resume."""
        self._leaving = True
        runners = [task.runner for task in self._tasks.values() if task.runner and not task.runner.done()]
        for task in self._tasks.values():
            if task.running:
                task.reason = "buddy exited"
                task.cancelled.set()
            if task.deadline is not None:
                task.deadline.cancel()
        if not runners:
            return
        saved = self._journal.save_state.saved
        _done, late = await asyncio.wait(runners, timeout=CLOSE_LIMIT_S if saved else UNSAVED_LIMIT_S)
        for runner in late:
            runner.cancel()
        if late and not self._journal.save_state.saved:
            # They wait for a disk that refuses writes, which no cancellation interrupts. Closing the
            # writer makes their waits fail; it also tells the person what is lost.
            with contextlib.suppress(NotSavedError):
                await self._journal.close()
        await asyncio.wait(runners)

    async def _run(self, task: Task, prompts: tuple[UserMessage, ...]) -> None:
        self._journal.record_task(task.task_id, task.record())
        try:
            task.outcome = await self._turn(task, prompts)
        except asyncio.CancelledError:
            task.outcome = Outcome("cancelled", "cancelled", "", 0, ())
        except TaskError as error:
            task.outcome = Outcome("failed", str(error), "", 0, ())
            self._notify(task, "error", f"task {task.task_id}: {error}")
        # The border of a task: whatever is raised, SystemExit and MemoryError included, only this task fails.
        except BaseException as error:  # noqa: BLE001 - see above
            _log.error("task %d failed", task.task_id, exc_info=error)
            reason = f"{type(error).__name__}: {error}"
            task.outcome = Outcome("failed", reason, "crash", 0, ())
            self._notify(task, "error", f"task {task.task_id} failed: {reason}")
        removed_tree = ""
        try:
            if not self._leaving:
                removed_tree = await self._shared.workspaces.clean_up_after(task)
        finally:  # leaving buddy cancels the await above
            task.steering[:0] = task.in_delivery  # not recorded: the next turn gets it
            task.in_delivery.clear()
            self._finish(task, task.outcome)
        in_front = self._is_foreground(task.task_id) and self._shared.board.attended
        if task.variant is not None:
            self._notify_of_variants(task, task.variant)
        elif task.worktree_state and not in_front:  # for the foreground task the summary at exit says it
            self._notify(task, "info", task.worktree_state)
        if removed_tree and not task.parent:  # a subagent's parent waits for its answer only
            self._notify(task, "info", removed_tree)

    def _notify(self, task: Task, level: Literal["info", "error"], text: str) -> None:
        """Print a notice in the foreground task: of a background task only the end of a turn is shown."""
        front = next(filter(self._is_foreground, self._tasks), task.task_id)
        self._shared.hub.emit(front, Notice(level, text))

    def _notify_of_variants(self, task: Task, mark: VariantMark) -> None:
        """Tell the person once that no variant of a prompt is at work any more."""
        group = [
            other
            for other in self._tasks.values()
            if other.variant is not None and other.variant.group == mark.group
        ]
        if self._shared.board.attended and not any(other.running for other in group if other is not task):
            states = [_VARIANT_STATES.get(other.state, other.state) for other in group if not other.closed]
            ends = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
            self._notify(task, "info", f"no variant is at work any more ({ends}): /variants compares them")

    async def _turn(self, task: Task, prompts: tuple[UserMessage, ...]) -> Outcome:
        restored_tree = await self._shared.workspaces.prepare(task)
        if restored_tree:
            self._shared.hub.emit(task.task_id, Notice("info", restored_tree))
        hooks = TaskHooks(
            self._shared.board, task, lambda notice: self._shared.hub.emit(task.task_id, notice)
        )
        if prompts:
            prompts = await hooks.before_turn(prompts)
        async with contextlib.AsyncExitStack() as stack:
            prompts = await self._start_own_servers(task, prompts, stack)
            access = self._shared.board.model(task.model)
            agent = build_agent(self._shared, task, access, lambda: self._is_foreground(task.task_id))
            host = build_host(self._shared, task)
            if prompts:
                return await agent_loop(prompts, agent, task.history, host)
            return await agent_loop_continue(agent, task.history, host)

    async def _start_own_servers(
        self, task: Task, prompts: tuple[UserMessage, ...], stack: contextlib.AsyncExitStack
    ) -> tuple[UserMessage, ...]:
        """Start the MCP servers that the task's subagent file defines, until the stack is left. Returns the
        prompts, with a note about the servers that are missing."""
        board, profile = self._shared.board, task.profile
        if profile is None or not profile.own_servers:
            return prompts
        entering = stack.enter_async_context(board.agent_servers(profile.name))
        try:
            missing = await run_cancellable(entering, task.cancelled)
        except TurnCancelled:  # the loop ends at once, and records the prompts
            return prompts
        if not missing or not prompts:
            return prompts
        text = f"[{'; '.join(missing)}]"
        return (*prompts, UserMessage(board.clock.new_id(), (Text(text),), "note"))

    def _finish(self, task: Task, outcome: Outcome) -> None:
        match outcome.outcome:
            case "completed":
                task.state = "finished" if task.background else "idle"
            case "limit":
                task.state = "paused"
            case "failed":
                task.state = "failed"
            case "cancelled":
                task.state = "paused" if self._leaving else "cancelled"
        task.reason = task.reason or outcome.reason
        task.outcome = replace(outcome, reason=task.reason)
        task.receipt = outcome.receipt
        task.worked_s += self._shared.board.clock.now() - task.started_at
        if task.deadline is not None:
            task.deadline.cancel()
            task.deadline = None
        self._shared.delegations.end_children(task)
        task.runner = None
        task.call_limits = replace(task.call_limits, rules=())
        with contextlib.suppress(NotSavedError):  # the closed writer has reported what is lost
            if task.background and not (task.parent or task.variant) and outcome.outcome == "completed":
                self._offer(
                    self._answer_of(task)
                )  # before the record: a task recorded as finished has its note
            self._journal.record_task(task.task_id, task.record())
            if not any(other.running for other in self._tasks.values()):
                self._journal.idle()

    def _answer_of(self, task: Task) -> Note:
        changes = f". Its changes are not in this tree: {task.worktree_state}" if task.worktree_state else ""
        outcome = task.outcome
        troubles = _describe_failures(outcome.refused, outcome.failed) if outcome is not None else ""
        heading = f"Background task {task.task_id}, {task.title!r}, has finished{troubles}{changes}"
        text = task.last_answer()
        if outcome is not None and outcome.receipt is not None:
            text = f"{text}\n\n[receipt of its changes]\n{receipt_text(outcome.receipt)}"
        note_id = self._shared.board.clock.new_id()
        return Note(
            note_id, task.task_id, task.title, text, heading, answer_of=task.task_id, lead=". Its answer:"
        )


def _describe_failures(refused: int, failed: int) -> str:
    """Return ` (2 calls refused, 1 call failed)`, "" when there were none."""
    parts = [f"{format_count(refused, 'call')} refused" if refused else ""]
    parts.append(f"{format_count(failed, 'call')} failed" if failed else "")
    counts = ", ".join(filter(None, parts))
    return f" ({counts})" if counts else ""


WAITS_FOR_RETRY = "an earlier request was refused; this one waits until it was retried"


class PausingProvider:
    """A provider whose stream pauses while front ends are too far behind."""

    def __init__(self, inner: Provider, hub: EventHub) -> None:
        self._inner = inner
        self._ready = hub.ready
        self.lane = inner.lane

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        """Pass on the inner stream; pause while `hub.ready` is not set."""
        ready = self._ready
        stream = self._inner.stream(request)
        try:
            async for delta in stream:
                yield delta
                if not ready.is_set():
                    await ready.wait()
        finally:
            await stream.aclose()


class LoadingProvider:
    """A provider whose requests wait for a library, and report that they do."""

    def __init__(self, inner: Provider, library: Library, tell: Callable[[LibraryLoading], None]) -> None:
        self._inner = inner
        self._library = library
        self._tell = tell
        self.lane = inner.lane

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        """Pass on the inner stream once the library is loaded."""
        library = self._library
        if not library.is_loaded:
            self._tell(LibraryLoading(library.name, loaded=False))
            await library.load()
            self._tell(LibraryLoading(library.name, loaded=True))
        stream = self._inner.stream(request)
        try:
            async for delta in stream:
                yield delta
        finally:
            await stream.aclose()


def build_agent(
    shared: TurnParts, task: Task, access: ModelAccess, is_foreground: Callable[[], bool]
) -> Agent:
    """Build the agent of a turn."""
    limits = shared.board.limits

    def report_wait(wait_s: float, kind: ErrorKind) -> None:
        shared.hub.emit(task.task_id, RetryScheduled(0, limits.tries, wait_s, kind, WAITS_FOR_RETRY))

    def tell(event: LibraryLoading) -> None:
        shared.hub.emit(task.task_id, event)

    provider: Provider = GovernedProvider(access.provider, access.governor, is_foreground, report_wait)
    if access.library is not None and not access.library.is_loaded:
        provider = LoadingProvider(provider, access.library, tell)

    def note(admitted: tuple[Tool, ...]) -> None:
        note_loaded(task, tools, admitted, system)
        shared.board.journal.record_task(task.task_id, task.record())

    tools = tools_of_task(shared.board, task, partial(shared.delegations.hides, task), note)
    system = task.system_prompt(shared.board)
    note_declared(task, tools, system)
    return Agent(
        provider=PausingProvider(provider, shared.hub),
        tools=tools,
        model=access.model,
        system=system,
        limits=_limits_of(task, limits),
        sampling=access.sampling,
        compaction=task.compaction,
    )


def _limits_of(task: Task, limits: Limits) -> Limits:
    most = task.profile.max_replies if task.profile else 0
    return replace(limits, max_replies=min(most, limits.max_replies)) if most else limits


def _with_own(tools: ToolRegistry, task: Task) -> frozenset[str] | None:
    """Return the names a task may use, None for all: those of the servers its subagent file defines come
    beside its list."""
    profile = task.profile
    if task.tools is None or profile is None or not profile.own_servers:
        return task.tools
    own = (tool.name for tool in tools.list_all() if tool.agent == profile.name)
    return task.tools.union(name for name in own if profile.allows_own(name))


def tools_of_task(
    parts: BoardParts, task: Task, hides: Callable[[Tool], bool], note: Callable[[tuple[Tool, ...]], None]
) -> ToolRegistry:
    """Return the tools of a task's next request, for its turns and for every request that shares their cached
    beginning. `note` hears of tools that a search admits."""
    model = parts.model(task.model).model
    fit = task.workspace.fit

    def available() -> ToolRegistry:
        tools = offered(parts.tools, model, _with_own(parts.tools, task), hides)
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
    pieces = [f"{name_first(came, 8)} joined"] if came else []
    pieces += [f"{name_first(went, 8)} left"] if went else []
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
