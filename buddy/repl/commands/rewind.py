"""Going back in a conversation: to before an earlier prompt. Files stay as they are; the journal keeps what
was said."""

from __future__ import annotations

from buddy.agent.messages import Text, UserMessage, text_of
from buddy.repl.blocks import Note, Table
from buddy.repl.commands.registry import CommandError, command
from buddy.repl.port import Context
from buddy.safety.sanitise import one_line
from buddy.tasks.task import Task

SHOWN = 20


@command(family="session", usage="[N]")
async def rewind(context: Context, argument: str) -> None:
    """Go back to before an earlier prompt (of the conversation; /undo takes edits back)"""
    task = context.board.task(context.focus)
    points = prompts_of(task)
    if not points:
        raise CommandError("there is no earlier prompt to go back to")
    if not argument:
        rows = [
            (str(number), one_line(text_of(task.history[at]), 100)) for number, at in enumerate(points, 1)
        ]
        context.stage.print(Table(("", "prompt"), tuple(rows[-SHOWN:])))
        context.stage.hint("/rewind N goes back to before that prompt, and puts it into the line again")
        return
    if not argument.isdecimal() or not 1 <= int(argument) <= len(points):
        raise CommandError(f"expected the number of a prompt, 1 to {len(points)}, found {argument!r}")
    if task.running:
        raise CommandError(f"task {task.number} is running; cancel it first (Esc)")
    at = points[int(argument) - 1]
    text = prompt_text(task, at)
    await _cut(context, task, at)
    said = f"back to before prompt {argument}; files stay as they are (/undo takes edits back)"
    context.stage.print(Note("info", said))
    context.stage.put(text)


def prompts_of(task: Task) -> list[int]:
    """Where in the history the person's own prompts stand."""
    return [
        at
        for at, message in enumerate(task.history)
        if isinstance(message, UserMessage) and message.origin in ("prompt", "follow_up")
    ]


def prompt_text(task: Task, at: int) -> str:
    """What the person typed: the text without attached notes and files."""
    message = task.history[at]
    parts = message.parts if isinstance(message, UserMessage) else ()
    texts = [part.text for part in parts if isinstance(part, Text)]
    typed = [
        text for text in texts if not text.startswith(("[I ran ", "[Background task ", "\n\n[attached: "))
    ]
    return "".join(typed).strip()


async def _cut(context: Context, task: Task, kept: int) -> None:
    memory = context.board.parts.memory
    await memory.replace_history(task.number, "rewound", kept)
    if task.compaction is not None and task.compaction.through > kept:
        await memory.record_compaction(task.number, None)
        task.compaction = None
    del task.history[kept:]
    task.not_run = ()
    task.state, task.reason = "idle", ""
    task.services.forget_shown()
    memory.record_task(task.number, task.record())


COMMANDS = (rewind,)
