"""The requests of the page and of programs, and what they do in the session."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from buddy.agent.display import Diff, FileDiff
from buddy.agent.messages import typed_text
from buddy.agent.tool import ToolError
from buddy.app.session import Session
from buddy.config.settings import ConfigError
from buddy.tasks.approvals import AnswerRefused
from buddy.tasks.task import Task, TaskError
from buddy.tools.ask_user import Unanswered
from buddy.tools.files.task_diff import diff_of

MAX_TEXT_CHARS = 500_000
MAX_WORDS_CHARS = 10_000
MAX_DIFF_CHARS = 1_000_000
Words = Annotated[str, Meta(max_length=MAX_WORDS_CHARS)]
PromptText = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT_CHARS)]
TaskId = Annotated[int, Meta(ge=0, description="A task; 0 is the one in the foreground")]


class RequestRefused(Exception):
    """A request that can't be carried out. `status` is that of HTTP."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class PromptRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A prompt. It starts a turn, or waits for the end of the one that runs. `new_task`: it starts a task in
    the background, from a copy of this one's conversation."""

    text: PromptText
    task_id: TaskId = 0
    new_task: bool = False


class SteerRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Words for the running turn, which reads them before its next step."""

    text: PromptText
    task_id: TaskId = 0


class CancelRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The running turn is to end; texts that wait for it are returned."""

    task_id: TaskId = 0


class AnswerRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer to a request for approval, with the id and the digest of what was shown. `words` tell the
    model why not."""

    request_id: str
    digest: str
    answer: Literal["once", "session", "rule", "denied"]
    words: Words = ""


class ReplyRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer to a question of the model, in words or by the number of an option."""

    question: int
    words: Annotated[str, Meta(min_length=1, max_length=MAX_WORDS_CHARS)]


class Accepted(msgspec.Struct, frozen=True):
    """A text was taken for this task. `waits`: a turn runs, and it comes after it. `notes` are about files
    that the text mentions and could not be read."""

    task_id: int
    waits: bool
    notes: tuple[str, ...]


class Cancelled(msgspec.Struct, frozen=True):
    """A task was told to stop. `texts` had been waiting and are not sent."""

    task_id: int
    texts: tuple[str, ...]


class Answered(msgspec.Struct, frozen=True):
    """The answer counts."""

    answered: bool = True


class SessionRequests:
    """The operations of one session, by requests from outside."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def prompt(self, request: PromptRequest) -> Accepted:
        """Start a turn, queue a text, or start a task. Raises `RequestRefused`."""
        board = self._session.board
        task = self._task(request.task_id)
        expanded = await self._session.expand(task.task_id, request.text)
        try:
            if request.new_task:
                # After the await: a text whose files can't be read must not leave an empty task.
                task = board.open(copy_of=task.task_id)
                board.to_background(task.task_id)
            waits = task.running
            await board.queue(task.task_id, expanded.parts)
        except (TaskError, ConfigError) as error:
            raise RequestRefused(409, str(error)) from error
        return Accepted(task.task_id, waits, expanded.notes)

    async def steer(self, request: SteerRequest) -> Accepted:
        """Send words to a running turn. Raises `RequestRefused` where none runs."""
        task = self._task(request.task_id)
        expanded = await self._session.expand(task.task_id, request.text)
        if not task.running:
            raise RequestRefused(409, f"task {task.task_id} is not running: send a prompt instead")
        try:
            await self._session.board.prompt(task.task_id, expanded.parts)
        except (TaskError, ConfigError) as error:
            raise RequestRefused(409, str(error)) from error
        return Accepted(task.task_id, False, expanded.notes)

    async def cancel(self, request: CancelRequest) -> Cancelled:
        """Cancel a task's turn. Raises `RequestRefused` where none runs."""
        task = self._task(request.task_id)
        if not task.running:
            raise RequestRefused(409, f"task {task.task_id} is not running")
        texts = self._session.board.cancel(task.task_id, "cancelled on the page")
        return Cancelled(task.task_id, tuple(typed_text(message) for message in texts))

    async def answer(self, request: AnswerRequest) -> Answered:
        """Answer a request for approval. Raises `RequestRefused` when it is closed or another was shown."""
        inbox = self._session.board.inbox
        try:
            inbox.answer(request.request_id, request.digest, request.answer, words=request.words)
        except AnswerRefused as error:
            raise RequestRefused(409, str(error)) from error
        except (ConfigError, OSError) as error:
            raise RequestRefused(500, f"the rule can't be saved: {error}") from error
        return Answered()

    async def reply(self, request: ReplyRequest) -> Answered:
        """Answer a question of the model. Raises `RequestRefused`."""
        try:
            self._session.questions.answer_number(request.question, request.words)
        except Unanswered as error:
            raise RequestRefused(409, str(error)) from error
        return Answered()

    async def diff(self, task_id: int | None) -> Diff:
        """Return what the session changed, or one task. Raises `RequestRefused`."""
        session = self._session
        cwd, tasks = session.launch.boundary.cwd, list(session.board.tasks.values())
        if task_id is not None:
            tasks = [self._task(task_id)]
            task_id, cwd = tasks[0].task_id, tasks[0].workspace.boundary.cwd

        def read() -> list[FileDiff]:
            logs = {"": session.undo} if task_id is None else {}
            # Each machine's log once; several tasks may work there.
            logs |= {task.workspace.files_on: session.undo_of(task.task_id) for task in tasks}
            diffs = (diff_of(log, log.entries(task_id), cwd, machine) for machine, log in logs.items())
            return [file for diff in diffs for file in diff.files]

        try:
            return Diff(shorten(await asyncio.to_thread(read)))
        except (ToolError, OSError) as error:
            raise RequestRefused(500, f"the changes can't be read: {error}") from error

    def _task(self, task_id: int) -> Task:
        board = self._session.board
        try:
            return board.task(task_id or board.focus)
        except TaskError as error:
            raise RequestRefused(404, str(error)) from error


def shorten(files: Sequence[FileDiff], max_chars: int = MAX_DIFF_CHARS) -> tuple[FileDiff, ...]:
    """Return the files with at most so many characters of differences; the counts stay."""
    left = max_chars
    short: list[FileDiff] = []
    for file in files:
        if len(file.diff) > left:
            more = f"\\ not shown: the rest of {len(file.diff):,} characters\n"
            whole_lines = file.diff[:left].rpartition("\n")
            file = msgspec.structs.replace(file, diff="".join(whole_lines[:2]) + more)
        left = max(0, left - len(file.diff))
        short.append(file)
    return tuple(short)
