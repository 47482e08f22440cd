"""Turns as they run: begun, brought to their end whatever happens in them, and what an end means for the
task."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import Literal

from msgspec.structs import replace

from buddy.agent.events import Notice
from buddy.agent.formatting import format_count
from buddy.agent.host import Outcome
from buddy.agent.loop import agent_loop, agent_loop_continue
from buddy.agent.messages import UserMessage
from buddy.agent.receipt import receipt_text
from buddy.sessions.journal import NotSavedError
from buddy.sessions.records import Note
from buddy.tasks.task import Task, TaskError
from buddy.tasks.turn_host import TurnParts, agent_of, host_of

_log = logging.getLogger(__name__)
CLOSE_LIMIT_S = 5
UNSAVED_LIMIT_S = 0.5


class Running:
    """The turns of a board's tasks. `is_foreground` says whether a task is the one in front; `offer` takes
    what a finished background task says to it."""

    def __init__(
        self,
        shared: TurnParts,
        tasks: Mapping[int, Task],
        *,
        is_foreground: Callable[[int], bool],
        offer: Callable[[Note], None],
    ) -> None:
        self._shared = shared
        self._memory = shared.board.memory
        self._tasks = tasks
        self._is_foreground = is_foreground
        self._offer = offer
        self._leaving = False

    def start(self, task: Task, prompts: tuple[UserMessage, ...]) -> asyncio.Task[None]:
        """Begin a turn with these prompts, or go on with what the history waits for when there are none."""
        task.begin(self._shared.board.clock.now())
        task.runner = asyncio.create_task(self._run(task, prompts), name=f"task {task.number}")
        return task.runner

    async def end_all(self) -> None:
        """Cancel every turn and await it; what ran is paused, and goes on after a resume."""
        self._leaving = True
        runners = [task.runner for task in self._tasks.values() if task.runner and not task.runner.done()]
        for task in self._tasks.values():
            if task.running:
                task.reason = "buddy was left"
                task.cancelled.set()
            if task.deadline is not None:
                task.deadline.cancel()
        if not runners:
            return
        saved = self._memory.save_state.saved
        _done, late = await asyncio.wait(runners, timeout=CLOSE_LIMIT_S if saved else UNSAVED_LIMIT_S)
        for runner in late:
            runner.cancel()
        if late and not self._memory.save_state.saved:
            # They wait for a disk that refuses, and nothing may interrupt that. The writer, when it is
            # closed, tells them so; its own end tells the person what is lost.
            with contextlib.suppress(NotSavedError):
                await self._memory.close()
        await asyncio.wait(runners)

    async def _run(self, task: Task, prompts: tuple[UserMessage, ...]) -> None:
        self._memory.record_task(task.number, task.record())
        try:
            task.outcome = await self._turn(task, prompts)
        except asyncio.CancelledError:
            task.outcome = Outcome("cancelled", "cancelled", "", 0, ())
        except TaskError as error:
            task.outcome = Outcome("failed", str(error), "", 0, ())
            self._say(task, "error", f"task {task.number}: {error}")
        # The border of a task: whatever happens in one, SystemExit and MemoryError included, only it fails.
        except BaseException as error:  # noqa: BLE001 - see above
            _log.error("task %d failed", task.number, exc_info=error)
            reason = f"{type(error).__name__}: {error}"
            task.outcome = Outcome("failed", reason, "crash", 0, ())
            self._say(task, "error", f"task {task.number} failed: {reason}")
        gone = ""
        try:
            if not self._leaving:
                gone = await self._shared.places.settled(task)
        finally:  # who leaves meanwhile cancels that look
            task.steering[:0] = task.taken  # a turn that broke off did not get to them
            task.taken.clear()
            self._ended(task, task.outcome)
        in_front = self._is_foreground(task.number) and self._shared.board.attended
        if task.left and not in_front:  # who works there is told when they leave
            self._say(task, "info", task.left)
        if gone and not task.parent:  # of a subagent's only its answer is waited for
            self._say(task, "info", gone)

    def _say(self, task: Task, level: Literal["info", "error"], text: str) -> None:
        """Say it in front: of a task in the background the last words of a turn alone are shown."""
        front = next(filter(self._is_foreground, self._tasks), task.number)
        self._shared.hub.emit(front, Notice(level, text))

    async def _turn(self, task: Task, prompts: tuple[UserMessage, ...]) -> Outcome:
        again = await self._shared.places.ready(task)
        if again:
            self._shared.hub.emit(task.number, Notice("info", again))
        access = self._shared.board.model(task.model)
        agent = agent_of(self._shared, task, access, lambda: self._is_foreground(task.number))
        host = host_of(self._shared, task)
        if prompts:
            return await agent_loop(prompts, agent, task.history, host)
        return await agent_loop_continue(agent, task.history, host)

    def _ended(self, task: Task, outcome: Outcome) -> None:
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
        if task.deadline is not None:
            task.deadline.cancel()
            task.deadline = None
        self._shared.delegations.ended(task)
        task.runner = None
        with contextlib.suppress(NotSavedError):  # the writer was closed first: it has said what is lost
            if task.background and not task.parent and outcome.outcome == "completed":
                self._offer(self._answer_of(task))  # first: a task that counts as finished has said so
            self._memory.record_task(task.number, task.record())
            if not any(other.running for other in self._tasks.values()):
                self._memory.idle()

    def _answer_of(self, task: Task) -> Note:
        left = f" Its changes are not in this tree: {task.left}." if task.left else ""
        outcome = task.outcome
        troubles = _troubles(outcome.refused, outcome.failed) if outcome is not None else ""
        heading = f"Background task {task.number}, {task.title!r}, has finished{troubles}.{left} Its answer:"
        text = task.last_answer()
        if outcome is not None and outcome.receipt is not None:
            text = f"{text}\n\n[receipt of its changes]\n{receipt_text(outcome.receipt)}"
        note_id = self._shared.board.clock.new_id()
        return Note(note_id, task.number, task.title, text, heading, answer_of=task.number)


def _troubles(refused: int, failed: int) -> str:
    """Calls that did not do what the task wanted, behind "has finished"."""
    parts = [f"{format_count(refused, 'call')} refused" if refused else ""]
    parts.append(f"{format_count(failed, 'call')} failed" if failed else "")
    said = ", ".join(filter(None, parts))
    return f" ({said})" if said else ""
