"""Intents become operations on the task board. Nothing here draws, nothing blocks: work runs beside the
screen."""

from __future__ import annotations

import asyncio

from buddy.agent.messages import UserPart, text_of
from buddy.config.settings import ConfigError
from buddy.repl.blocks import Note
from buddy.repl.commands.registry import CommandError, Commands
from buddy.repl.intents import (
    Answer,
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
from buddy.repl.port import Context
from buddy.repl.shell_lines import run_shell_line
from buddy.repl.view_state import DeskFacts, QueueRow
from buddy.sessions.journal import NotSavedError
from buddy.tasks.board import TaskError
from buddy.tasks.inbox import AnswerRefused


class AtDesk:
    """Carries out what the person wants. Text is sent in the order it was typed, however long the files take
    that a line mentions; nothing waits for a command."""

    def __init__(self, context: Context, commands: Commands) -> None:
        self.context = context
        self._commands = commands
        self._sending = asyncio.Lock()

    def act(self, intent: Intent) -> None:
        """Carry out an intent. Errors become a line above the prompt; nothing typed is lost."""
        self.context.stage.start(self._carried_out(self.context, intent))

    async def _carried_out(self, context: Context, intent: Intent) -> None:
        try:
            await self._done(context, intent)
        except (TaskError, CommandError, ConfigError, AnswerRefused, NotSavedError) as error:
            context.stage.print(Note("error", str(error)))
            context.stage.give_back(typed_text(intent))

    async def _done(self, context: Context, intent: Intent) -> None:
        board, stage = context.board, context.stage
        match intent:
            case Prompt(text):
                async with self._sending:
                    await self._prompt(context, text)
            case Queue(text):
                async with self._sending:
                    await board.queue(context.focus, await self._content(context, context.focus, text))
            case NewTask(text):
                async with self._sending:
                    await self._new_task(context, text)
            case ToTask(number, text, aside):
                await self._to_task(context, number, text, aside=aside)
            case Slash(line):
                await self._slash(context, line)
            case ShellLine(command, private):
                await run_shell_line(context, command, private=private)
            case Answer(request_id, digest, answer):
                board.inbox.answer(request_id, digest, answer)
            case Cancel():
                self._cancel(context)
            case ToBackground():
                await self._slash(context, "/bg")
            case NextMode():
                context.desk.policy.next_mode()
                board.inbox.reconsider()
                stage.hint(f"mode: {context.desk.policy.mode}")
            case RecallQueued():
                message = await board.take_back(context.focus)
                if message is None:
                    stage.hint("nothing is queued")
                else:
                    stage.put(text_of(message))
            case DropNote():
                board.notes.drop_last()
            case TaskPanel():
                await self._slash(context, "/ps")
            case Rewind():
                await self._slash(context, "/rewind")

    async def _prompt(self, context: Context, text: str) -> None:
        number = context.focus
        content = await self._content(context, number, text)
        if context.desk.settings.display.enter_while_running == "queue":
            await context.board.queue(number, content)
        else:
            await context.board.steer(number, content)

    async def _new_task(self, context: Context, text: str) -> None:
        """A background task that starts from a copy of the conversation in front."""
        board = context.board
        task = board.open(copy_of=context.focus)
        task.background = True
        board.submit(task.number, await self._content(context, task.number, text))
        context.stage.print(Note("info", f"task {task.number} started in the background: {task.title}"))

    async def _to_task(self, context: Context, number: int, text: str, *, aside: bool) -> None:
        if aside:
            await self._slash(context, f"/btw @{number} {text}")
            return
        async with self._sending:
            await context.board.steer(number, await self._content(context, number, text))
        if number != context.focus:
            context.stage.hint(f"sent to task {number}")

    async def _slash(self, context: Context, line: str) -> None:
        name, argument = (*line.removeprefix("/").split(None, 1), "", "")[:2]
        command = self._commands.find(name.lower())
        async with self._sending:  # what was typed before it goes first
            if command.sends:
                await command.run(context, argument.strip())
        if not command.sends:
            await command.run(context, argument.strip())

    async def _content(self, context: Context, number: int, text: str) -> tuple[UserPart, ...]:
        expanded = await context.desk.expand(number, text)
        for note in expanded.notes:
            context.stage.print(Note("warning", note))
        return expanded.parts

    def _cancel(self, context: Context) -> None:
        """What was begun last is ended first: a command of the person's own, or the turn."""
        task, work = context.board.task(context.focus), context.own.last()
        if work is not None and (not task.running or work.since >= task.started_at):
            work.cancelled.set()
            return
        texts = context.board.cancel(context.focus)
        if texts:
            context.stage.put("\n\n".join(text_of(message) for message in texts))

    def facts(self) -> DeskFacts:
        """What the screen shows but does not come as events."""
        context = self.context
        board, desk = context.board, context.desk
        rows = [
            QueueRow("question", one.task_id, f"{one.question.question} (/answer {one.number} …)")
            for one in desk.questions.waiting()
        ]
        for task in board.tasks.values():
            rows += [QueueRow("steer", task.number, text_of(message)) for message in task.steering]
            rows += [QueueRow("queue", task.number, text_of(message)) for message in task.queued]
        rows += [QueueRow("note", note.task_number, note.title) for note in board.notes.waiting]
        return DeskFacts(
            focus=board.focus,
            mode=desk.policy.mode,
            model=desk.board.parts.model(board.task(board.focus).model).name,
            sandbox=desk.sandbox,
            queue=tuple(rows),
            names={task.number: task.title for task in board.tasks.values()},
            extra=self._extra(context),
            own=context.own.rows(),
            numbers={one.event.request_id: one.number for one in board.inbox.waiting()},
            usage=board.task(board.focus).meter.report(),
            untrusted=desk.trust_is_asked(),
        )

    def _extra(self, context: Context) -> tuple[str, ...]:
        state = context.desk.memory.save_state
        kind = context.desk.policy.approvals.kind
        words = [f"NOT SAVED: {state.reason}"] if not state.saved else []
        words += [f"approvals: {kind}"] if kind != "ask" else []
        return tuple(words)


def typed_text(intent: Intent) -> str:
    """What the person typed for an intent, so that it can be put back into the line when it failed; "" for
    keys and answers, and for a command of one line: as in a shell it is recalled by Up, and what is typed
    next isn't appended to it."""
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
            Answer()
            | Cancel()
            | ToBackground()
            | NextMode()
            | RecallQueued()
            | DropNote()
            | TaskPanel()
            | Rewind()
        ):
            return ""
