"""Intents become operations on the task board. Nothing here draws or blocks: work runs beside the screen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from buddy.agent.cancel import TurnCancelled, run_cancellable
from buddy.agent.messages import UserPart, text_of
from buddy.config.settings import ConfigError
from buddy.extend.mentions import ExpandedPrompt
from buddy.repl.commands.registry import CommandError, Commands
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
from buddy.sessions.journal import NotSavedError
from buddy.sessions.records import Note
from buddy.tasks.approvals import AnswerRefused
from buddy.tasks.board import TaskError
from buddy.tools.ask_user import Unanswered


class Sent:
    """One text. `number`: the task it goes to, 0 while that is whichever is in front."""

    def __init__(self, text: str, task_id: int, since: float) -> None:
        self.text = text
        self.task_id = task_id
        self.since = since
        self.taken_back = asyncio.Event()


class OnTheWay:
    """Every text of a session that is on its way, in the order it was sent. Whoever hands one to a task calls
    `arrived` and hands it over without waiting for anything in between: it is taken back or it becomes a
    turn, never both and never neither."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._texts: list[Sent] = []

    def sent(self, text: str, task_id: int) -> Sent:
        """A text that goes to a task; "" is none, and never on its way."""
        one = Sent(text, task_id, self._clock())
        if text:
            self._texts.append(one)
        return one

    def arrived(self, one: Sent) -> None:
        """It can't be taken back any more."""
        if one in self._texts:
            self._texts.remove(one)

    def since(self, task_id: int) -> float:
        """When the last text for this task was sent, if one is on its way."""
        return max((one.since for one in self._to(task_id)), default=float("-inf"))

    def is_any(self, task_id: int) -> bool:
        """Tell whether a prompt for this task is on its way."""
        return bool(self._to(task_id))

    def take_back(self, task_id: int) -> tuple[str, ...]:
        """Withdraw the prompts on their way to this task, and return their texts."""
        taken = self._to(task_id)
        for one in taken:
            one.taken_back.set()
            self._texts.remove(one)
        return tuple(one.text for one in taken)

    def _to(self, task_id: int) -> list[Sent]:
        return [one for one in self._texts if one.task_id in (0, task_id)]


class Dispatcher:
    """Carries out what the person wants. Text is sent in the order it was typed, however long the files take
    that a line mentions; nothing waits for a command."""

    def __init__(self, context: Context, commands: Commands) -> None:
        self.context = context
        self._commands = commands
        self._sending = asyncio.Lock()
        self._way = OnTheWay(context.board.parts.clock.now)

    def act(self, intent: Intent) -> None:
        """Carry out an intent. Errors become a line above the prompt; nothing typed is lost."""
        sent = self._way.sent(*_destined(intent))
        self.context.screen.start(self._carried_out(self.context, intent, sent))

    async def _carried_out(self, context: Context, intent: Intent, sent: Sent) -> None:
        try:
            await self._done(context, intent, sent)
        except TurnCancelled:
            pass  # it stands in the line again
        except (TaskError, CommandError, ConfigError, AnswerRefused, NotSavedError) as error:
            context.screen.print(NoteBlock("error", str(error)))
            if not sent.taken_back.is_set():
                context.screen.give_back(typed_text(intent))
        finally:
            self._way.arrived(sent)

    async def _done(self, context: Context, intent: Intent, sent: Sent) -> None:
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
            case Slash(line):
                screen.print(CommandEcho(context.board.parts.redact_text(line)))
                await self._slash(context, line)
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
        number = sent.task_id = context.focus
        if _answered(context, number, text):
            return
        content = await self._content(context, text, sent)
        if context.session.settings.display.enter_while_running == "queue":
            await context.board.queue(number, content)
        else:
            await context.board.prompt(number, content)

    async def _new_task(self, context: Context, text: str, sent: Sent) -> None:
        """A background task that starts from a copy of the conversation in front."""
        board = context.board
        task = board.open(copy_of=context.focus)
        board.to_background(task.task_id)
        sent.task_id = task.task_id
        board.submit(task.task_id, await self._content(context, text, sent))
        context.screen.print(
            NoteBlock("info", f"task {task.task_id} started in the background: {task.title}")
        )

    async def _to_task(self, context: Context, text: str, sent: Sent) -> None:
        if sent.task_id in context.board.tasks and _answered(context, sent.task_id, text):
            return
        async with self._sending:
            await context.board.prompt(sent.task_id, await self._content(context, text, sent))
        if sent.task_id != context.focus:
            context.screen.hint(f"sent to task {sent.task_id}")

    async def _slash(self, context: Context, line: str) -> None:
        name, argument = (*line.removeprefix("/").split(None, 1), "", "")[:2]
        command = self._commands.find(name.lower())
        async with self._sending:  # what was typed before it goes first
            if command.sends:
                await command.run(context, argument.strip())
        if not command.sends:
            await command.run(context, argument.strip())

    async def _content(self, context: Context, text: str, sent: Sent) -> tuple[UserPart, ...]:
        """Return the content to send to the task. Raises `TurnCancelled` when the prompt was taken back."""
        expanded = await run_cancellable(_expanded(context, sent.task_id, text), sent.taken_back)
        if sent.taken_back.is_set():  # in the moment the last file was read
            raise TurnCancelled
        self._way.arrived(sent)
        for note in expanded.notes:
            context.screen.print(NoteBlock("warning", note))
        return expanded.parts

    def _cancel(self, context: Context) -> None:
        """End what was started last: a command the user started, or the turn. Prompts that wait for the turn,
        or were about to start one, return to the input line."""
        task, work = context.board.task(context.focus), context.own.last()
        begun = max(self._way.since(task.task_id), task.started_at if task.running else float("-inf"))
        if work is not None and work.since >= begun:
            work.cancelled.set()
            return
        waited = [text_of(message) for message in context.board.cancel(task.task_id)]
        if texts := [*waited, *self._way.take_back(task.task_id)]:
            context.screen.put("\n\n".join(texts))

    def facts(self) -> SessionFacts:
        """Collect the facts the screen shows that do not arrive as events."""
        context = self.context
        board, session = context.board, context.session
        rows = [
            QueueRow("question", one.task_id, f"{one.question.question} (/answer {one.number} …)")
            for one in session.questions.waiting()
        ]
        for task in board.tasks.values():
            rows += [QueueRow("steer", task.task_id, text_of(message)) for message in task.steering]
            rows += [QueueRow("queue", task.task_id, text_of(message)) for message in task.queued]
        rows += [QueueRow("note", note.task_number, _named(note)) for note in board.notes.waiting]
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
            branch=context.branch.shown,
            jobs=tuple(
                words.running_name(f"job {job.id}", job.command)
                for job in session.jobs.all()
                if job.state != "ended"
            ),
            enter_queues=session.settings.display.enter_while_running == "queue",
            coming=self._way.is_any(board.focus) or board.task(board.focus).running,
        )

    def _extra(self, context: Context) -> tuple[str, ...]:
        state = context.session.writer.save_state
        kind = context.session.policy.approvals.kind
        words = [f"NOT SAVED: {state.reason}"] if not state.saved else []
        words += [f"approvals: {kind}"] if kind != "ask" else []
        return tuple(words)


def _answered(context: Context, task_id: int, text: str) -> bool:
    """Take text for a task that asks as the answer to its oldest question; False when it asks nothing."""
    questions = context.session.questions
    asked = next((one for one in questions.waiting() if one.task_id == task_id), None)
    if asked is None:
        return False
    try:
        questions.answer(f"{asked.number} {text}")
    except Unanswered as error:
        raise CommandError(str(error)) from error
    context.screen.hint(f"answered question {asked.number} of task {task_id}")
    return True


async def _expanded(context: Context, task_id: int, text: str) -> ExpandedPrompt:
    return await context.session.expand(task_id, text)


def _destined(intent: Intent) -> tuple[str, int]:
    """The text for a conversation, as it was typed, and the task it goes to: 0 is the one in front. "" where
    an intent is none."""
    match intent:
        case Prompt() | Queue():
            return typed_text(intent), 0
        case ToTask(number, _, aside):
            return "" if aside else typed_text(intent), number
        case _:
            return "", 0


def typed_text(intent: Intent) -> str:
    """Return the typed text of an intent, to be put back into the input line when it failed; "" for keys and
    answers, and for a one-line command: as in a shell it is recalled by Up, and text typed next isn't
    appended to it."""
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


def _named(note: Note) -> str:
    """A note as the person knows it; a `!` command stands there as it was typed."""
    return f"task {note.answer_of}'s answer ({note.title})" if note.answer_of else note.title
