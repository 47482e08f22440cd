"""The dispatcher: intents become operations on the task board. Nothing here draws or blocks; work runs beside
the screen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

from buddy.agent.cancel import TurnCancelled, run_cancellable
from buddy.agent.messages import UserPart, text_of
from buddy.agent.tool import ToolError
from buddy.app.invocations import Invocation, fill_server_prompt, invoke, split_line
from buddy.config.settings import ConfigError
from buddy.extend.agent_profiles import profile_of
from buddy.extend.definitions import ExtensionFile
from buddy.extend.mentions import ExpandedPrompt
from buddy.repl.commands.registry import CommandError, Commands, quote_start
from buddy.repl.context import Context
from buddy.repl.intents import (
    ApprovalAnswer,
    Cancel,
    DropNote,
    Intent,
    NewTask,
    NextMode,
    Prompt,
    Queue,
    RecallQueued,
    Rewind,
    ShellLine,
    Slash,
    TaskPanel,
    ToBackground,
    ToTask,
)
from buddy.repl.render import numbers as words
from buddy.repl.user_shell import run_shell_line
from buddy.repl.view.blocks import CommandEcho, NoteBlock
from buddy.repl.view.state import QueueRow, SessionFacts
from buddy.safety.policy.decide import MODE_WORDS
from buddy.sessions.errors import NotSavedError
from buddy.sessions.records import Note
from buddy.tasks.approvals import AnswerRefused
from buddy.tasks.board import TaskError
from buddy.tools.ask_user import Unanswered


class Sent:
    """A submitted text. `task_id` is its task, 0 for whichever is in the foreground."""

    def __init__(self, text: str, task_id: int, since: float) -> None:
        self.text = text
        self.task_id = task_id
        self.since = since
        self.taken_back = asyncio.Event()


class SubmittedPrompts:
    """Submitted prompts whose turn has not started, in order; they can still be withdrawn.

    Whoever delivers one to a task calls `arrived` and delivers it without an await in between: a prompt is
    either withdrawn or becomes a turn, never both and never neither.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._texts: list[Sent] = []

    def register(self, text: str, task_id: int) -> Sent:
        """Register a submitted text; "" is not registered."""
        one = Sent(text, task_id, self._clock())
        if text:
            self._texts.append(one)
        return one

    def release(self, one: Sent) -> None:
        """Note that a prompt is delivered and can't be withdrawn any more."""
        if one in self._texts:
            self._texts.remove(one)

    def since(self, task_id: int) -> float:
        """Return when the latest waiting prompt for this task was submitted, -inf without one."""
        return max((one.since for one in self._to(task_id)), default=float("-inf"))

    def is_any(self, task_id: int) -> bool:
        """Tell whether a prompt for this task waits."""
        return bool(self._to(task_id))

    def take_back(self, task_id: int) -> tuple[str, ...]:
        """Withdraw the waiting prompts for this task and return their texts."""
        taken = self._to(task_id)
        for one in taken:
            one.taken_back.set()
            self._texts.remove(one)
        return tuple(one.text for one in taken)

    def _to(self, task_id: int) -> list[Sent]:
        return [text for text in self._texts if text.task_id in (0, task_id)]


class Dispatcher:
    """Carries out intents. Prompts are sent in the order they were typed, however long reading the mentioned
    files takes; nothing waits for a command."""

    def __init__(self, context: Context, commands: Commands) -> None:
        self.context = context
        self._commands = commands
        self._sending = asyncio.Lock()
        context.session.extensions.catalogue.taken = frozenset(commands.names())
        self._submitted = SubmittedPrompts(context.board.parts.clock.now)

    def act(self, intent: Intent) -> None:
        """Carry out an intent. Errors become a line above the prompt; nothing typed is lost."""
        sent = self._submitted.register(*_addressee(intent))
        self.context.screen.start(self._carry_out(self.context, intent, sent))

    async def _carry_out(self, context: Context, intent: Intent, sent: Sent) -> None:
        try:
            await self._perform(context, intent, sent)
        except TurnCancelled:
            pass  # the text is back in the line
        except (TaskError, CommandError, ConfigError, AnswerRefused, NotSavedError) as error:
            context.screen.print(NoteBlock("error", str(error)))
            if not sent.taken_back.is_set():
                context.screen.give_back(typed_text(intent))
        finally:
            self._submitted.release(sent)

    async def _perform(self, context: Context, intent: Intent, sent: Sent) -> None:
        board, screen = context.board, context.screen
        match intent:
            case Prompt(text):
                async with self._sending:
                    await self._prompt(context, text, sent)
            case Queue(text):
                async with self._sending:
                    sent.task_id = context.focus
                    await board.queue(sent.task_id, await self._content(context, text, sent))
            case NewTask(text):
                async with self._sending:
                    await self._new_task(context, text, sent)
            case ToTask(number, text, aside):
                if aside:
                    await self._slash(context, f"/btw @{number} {text}")
                else:
                    await self._to_task(context, text, sent)
            case Slash(line) if content := await fill_server_prompt(context.session, *split_line(line)):
                async with self._sending:
                    await board.prompt(context.focus, content)
            case Slash(line) if definition := await self._definition(context, line):
                ready = await prepare(context, definition, split_line(line)[1])  # it may ask: no lock is held
                async with self._sending:
                    await send(context, context.focus, ready)
            case Slash(line):
                screen.print(CommandEcho(context.board.parts.redact_text(line)))
                await self._slash(context, line)
                context.branch.refresh()  # /undo, /redo, /worktree merge and others write files
            case ShellLine(command, private):
                await run_shell_line(context, command, private=private)
                context.branch.refresh()
            case ApprovalAnswer(request_id, digest, answer, words):
                board.inbox.answer(request_id, digest, answer, words=words)
            case Cancel():
                self._cancel(context)
            case ToBackground():
                await self._slash(context, "/bg")
            case NextMode():
                context.session.policy.next_mode()
                board.inbox.reconsider()
                mode = context.session.policy.mode
                screen.hint(f"mode: {mode} · {MODE_WORDS[mode]}")
            case RecallQueued():
                message = await board.take_back(context.focus)
                if message is None:
                    screen.hint("nothing is queued")
                else:
                    screen.put(text_of(message))
            case DropNote():
                board.notes.drop_last()
            case TaskPanel():
                await self._slash(context, "/ps")
            case Rewind():
                await self._slash(context, "/rewind")

    async def _prompt(self, context: Context, text: str, sent: Sent) -> None:
        task_id = sent.task_id = context.focus
        if _answer_question(context, task_id, text):
            return
        content = await self._content(context, text, sent)
        if context.session.settings.display.enter_while_running == "queue":
            await context.board.queue(task_id, content)
        else:
            await context.board.prompt(task_id, content)

    async def _new_task(self, context: Context, text: str, sent: Sent) -> None:
        """Start a background task from a copy of the foreground conversation."""
        board = context.board
        task = board.open(copy_of=context.focus)
        board.to_background(task.task_id)
        sent.task_id = task.task_id
        board.submit(task.task_id, await self._content(context, text, sent))
        context.screen.print(
            NoteBlock("info", f"task {task.task_id} started in the background: {task.title}")
        )

    async def _to_task(self, context: Context, text: str, sent: Sent) -> None:
        if sent.task_id in context.board.tasks and _answer_question(context, sent.task_id, text):
            return
        async with self._sending:
            await context.board.prompt(sent.task_id, await self._content(context, text, sent))
        if sent.task_id != context.focus:
            context.screen.hint(f"sent to task {sent.task_id}")

    async def _definition(self, context: Context, line: str) -> ExtensionFile | None:
        """Return the skill or command file that a line calls; None where it means a command of buddy. Raises
        `CommandError` where the file is known and not active."""
        name = split_line(line)[0]
        if self._commands.is_exact(name.lower()):
            return None
        extensions = context.session.extensions
        await extensions.refresh()
        definition = extensions.catalogue.invocable(name)
        if definition is None and (why := extensions.catalogue.why_not(name)):
            raise CommandError(f"/{name} can't be used: {why}")
        return definition

    async def _slash(self, context: Context, line: str) -> None:
        name, argument = (*line.removeprefix("/").split(None, 1), "", "")[:2]
        command = self._commands.find(name.lower())
        if argument and not command.usage:
            raise CommandError(
                f"/{name} takes nothing after it, found {quote_start(argument)}; ↑ brings the line back"
            )
        async with self._sending:  # prompts typed earlier go first
            if command.sends:
                await command.run(context, argument.strip())
        if not command.sends:
            await command.run(context, argument.strip())

    async def _content(self, context: Context, text: str, sent: Sent) -> tuple[UserPart, ...]:
        """Return the content to send to the task. Raises `TurnCancelled` when the prompt was withdrawn."""
        expanded = await run_cancellable(_expand(context, sent.task_id, text), sent.taken_back)
        if sent.taken_back.is_set():  # withdrawn just as the last file was read
            raise TurnCancelled
        self._submitted.release(sent)
        for note in expanded.notes:
            context.screen.print(NoteBlock("warning", note))
        return expanded.parts

    def _cancel(self, context: Context) -> None:
        """End what was started last: the user's command or the turn. Prompts that wait for the turn, or were
        about to start one, return to the input line."""
        task, work = context.board.task(context.focus), context.own.last()
        begun = max(self._submitted.since(task.task_id), task.started_at if task.running else float("-inf"))
        if work is not None and work.since >= begun:
            work.cancelled.set()
            return
        queued = [text_of(message) for message in context.board.cancel(task.task_id)]
        if texts := [*queued, *self._submitted.take_back(task.task_id)]:
            context.screen.put("\n\n".join(texts))

    def facts(self) -> SessionFacts:
        """Collect the facts for the screen that do not arrive as events."""
        context = self.context
        board, session = context.board, context.session
        rows = [
            QueueRow("question", question.task_id, question.question.question, question.number)
            for question in session.questions.waiting()
        ]
        for task in board.tasks.values():
            rows += [QueueRow("steer", task.task_id, text_of(message)) for message in task.steering]
            rows += [QueueRow("queue", task.task_id, text_of(message)) for message in task.queued]
        rows += [QueueRow("note", note.task_number, _note_name(note)) for note in board.notes.waiting]
        return SessionFacts(
            focus=board.focus,
            mode=session.policy.mode,
            model=session.board.parts.model(board.task(board.focus).model).name,
            sandbox=session.sandbox.status,
            queue=tuple(rows),
            names={task.task_id: task.title for task in board.tasks.values()},
            extra=self._extra(context),
            own=context.own.rows(),
            usage=board.task(board.focus).meter.report(),
            untrusted=context.trust.is_open,
            branch=context.branch.text,
            target=session.target_words(board.task(board.focus)),
            jobs=tuple(
                words.running_name(f"job {job.id}", job.command)
                for job in session.jobs.all()
                if job.state != "ended"
            ),
            enter_queues=session.settings.display.enter_while_running == "queue",
            coming=self._submitted.is_any(board.focus) or board.task(board.focus).running,
        )

    def _extra(self, context: Context) -> tuple[str, ...]:
        state = context.session.writer.save_state
        approvals = context.session.policy.approvals
        kind = approvals.now(time.time())
        until = "" if approvals.until is None else f" until {words.clock_time(approvals.until)}"
        parts = [f"NOT SAVED: {state.reason}"] if not state.saved else []
        parts += [f"approvals: {kind}{until}"] if kind != "ask" else []
        return tuple(parts)


def _answer_question(context: Context, task_id: int, text: str) -> bool:
    """Take the text as the answer to the task's oldest question; return False when it has none."""
    questions = context.session.questions
    question = next((waiting for waiting in questions.waiting() if waiting.task_id == task_id), None)
    if question is None:
        return False
    try:
        questions.answer(f"{question.number} {text}")
    except Unanswered as error:
        raise CommandError(str(error)) from error
    context.screen.hint(f"answered question {question.number} of task {task_id}")
    return True


async def _expand(context: Context, task_id: int, text: str) -> ExpandedPrompt:
    return await context.session.expand(task_id, text)


def _addressee(intent: Intent) -> tuple[str, int]:
    """Return the typed text of a prompt and its task (0: the foreground task); "" for other intents."""
    match intent:
        case Prompt() | Queue():
            return typed_text(intent), 0
        case ToTask(number, _, aside):
            return "" if aside else typed_text(intent), number
        case _:
            return "", 0


def typed_text(intent: Intent) -> str:
    """Return the typed text of an intent, to restore it in the input line after a failure.

    "" for keys and answers, and for one-line commands: as in a shell, Up recalls them, and the next text is
    not appended to them.
    """
    match intent:
        case Prompt(text) | Queue(text):
            return text
        case NewTask(text):
            return f"/bg {text}"
        case ToTask(number, text, aside):
            return f"@{number}{'?' if aside else ''} {text}"
        case Slash(line):
            return line if "\n" in line else ""
        case ShellLine(command, private):
            return f"{'!!' if private else '!'}{command}"
        case (
            ApprovalAnswer()
            | Cancel()
            | ToBackground()
            | NextMode()
            | RecallQueued()
            | DropNote()
            | TaskPanel()
            | Rewind()
        ):
            return ""


def _note_name(note: Note) -> str:
    """Name a note for the user; a `!` command is named as it was typed."""
    return f"task {note.answer_of}'s answer ({note.title})" if note.answer_of else note.title


async def prepare(context: Context, definition: ExtensionFile, words: str) -> Invocation:
    """Make a definition ready to be sent to the task in front. Raises `CommandError`."""
    try:
        ready = await invoke(context.session, context.focus, definition, words)
    except ToolError as error:
        context.board.forget_allowed(context.focus)
        raise CommandError(str(error)) from error
    for note in ready.notes:
        context.screen.print(NoteBlock("warning", note))
    return ready


async def send(context: Context, task_id: int, ready: Invocation) -> None:
    """Send what is ready: to the task, or to one of its own. Raises `CommandError`, `TaskError`."""
    if ready.fork or ready.agent:
        await _fork(context, ready)
        return
    board = context.board
    task = board.task(task_id)
    if task.running or not ready.model or ready.model == task.model:
        await board.prompt(task_id, ready.parts)
        return
    before = task.model
    board.change_model(task_id, ready.model)
    try:
        runner = board.submit(task_id, ready.parts)
    except TaskError:
        board.change_model(task_id, before)
        raise
    runner.add_done_callback(partial(_change_back, context, task_id, before, ready.model))


def _change_back(context: Context, task_id: int, before: str, used: str, _runner: asyncio.Task[None]) -> None:
    task = context.board.tasks.get(task_id)
    if task is not None and task.model == used and not task.running and not task.closed:
        context.board.change_model(task_id, before)


async def _fork(context: Context, ready: Invocation) -> None:
    """Give it to a task of its own in the background; its answer becomes a note, like that of `TEXT &`."""
    board = context.board
    profile = None
    if ready.agent:
        try:
            profile = await asyncio.to_thread(profile_of, context.session.extensions.catalogue, ready.agent)
        except ToolError as error:
            raise CommandError(str(error)) from error
    model = ready.model or (
        profile.model if profile is not None and profile.model in board.parts.profiles else ""
    )
    task = board.open(model=model or board.task(context.focus).model)
    board.to_background(task.task_id)
    if profile is not None:
        board.work_by(task.task_id, profile)
    board.submit(task.task_id, ready.parts)
    who = f" as {ready.agent}" if ready.agent else ""
    text = f"task {task.task_id} started in the background{who}: {task.title}"
    context.screen.print(NoteBlock("info", text))
