"""`!command` and `!!command`: the person's own shell commands. They run at once, in the workspace, with the
output above the prompt; after `!` the model hears of it with the next prompt, after `!!` it does not. Esc
ends a running one."""

from __future__ import annotations

import asyncio
import codecs

from buddy.agent.display import Command
from buddy.agent.messages import Call, ResultStatus
from buddy.agent.tool import ToolError
from buddy.repl.blocks import ToolCall
from buddy.repl.commands.registry import CommandError
from buddy.repl.own_work import Work
from buddy.repl.port import Context
from buddy.repl.terminal_programs import terminal_program
from buddy.sessions.records import Note
from buddy.workspace.child import Child, Exit
from buddy.workspace.launch import shell_argv
from buddy.workspace.processes import CommandRequest

LIMIT_S = 600
SHARED_CHARS = 20_000
LAST_LINE_CHARS = 200


async def run_shell_line(context: Context, command: str, *, private: bool) -> None:
    """Run it and show it; share it unless it is private. Raises `CommandError` when it can't be started."""
    sign = "!!" if private else "!"
    if program := terminal_program(command):
        raise CommandError(f"{program} needs the terminal: press Ctrl+Z, run it in your shell, then type fg")
    request = CommandRequest(shell_argv(command), context.boundary.cwd, context.focus)
    try:
        child = context.desk.children.start(request)
    except ToolError as error:
        raise CommandError(f"{sign}{command}: {error}") from error
    with context.own.begun(f"{sign} {command}") as work:
        child.listeners.append(_LastLine(work).feed)
        ended, how = await _ended(context, child, work)
    context.board.parts.cache.clear()  # it may have changed anything a task knows of
    text = context.board.parts.redact_text(child.log.text())
    display = Command(command, text, ended.code, ended.signal, ended.seconds)
    status: ResultStatus = "cancelled" if work.cancelled.is_set() else "ok" if ended.code == 0 else "error"
    context.stage.print(
        ToolCall(
            call=Call("", "shell", "{}"),
            title=f"{sign} {command}",
            risk="low",
            status=status,
            text=text,
            display=display,
            seconds=ended.seconds,
            cached=False,
            task_id=0,
            is_own=True,
        )
    )
    if not private:
        note_id = context.board.parts.clock.new_id()
        heading = f"I ran `{command}` ({how}):"
        context.board.notes.offer(Note(note_id, context.focus, f"! {command}", _bounded(text), heading))


async def _ended(context: Context, child: Child, work: Work) -> tuple[Exit, str]:
    """Wait for the end; nothing the command started survives it."""
    children = context.desk.children
    try:
        ended = await children.attend(child, timeout_s=LIMIT_S, cancelled=work.cancelled)
    except asyncio.CancelledError:
        if not work.cancelled.is_set():
            raise
        return await child.wait(), "I ended it with Esc"
    if ended is None:
        await child.end("time limit")
        return await child.wait(), f"ended after {LIMIT_S} s"
    if ended.left_running:
        await child.end("left running")
    return ended, f"exit code {ended.code}" if ended.code is not None else f"ended by {ended.signal}"


def _bounded(text: str) -> str:
    half = SHARED_CHARS // 2
    return text if len(text) <= SHARED_CHARS else f"{text[:half]}\n…\n{text[-half:]}"


class _LastLine:
    """Keeps the last line of the output for the screen; bytes come in any pieces."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._line = ""

    def feed(self, data: bytes) -> None:
        """More output."""
        lines = (self._line + self._decoder.decode(data)).split("\n")
        self._line = lines[-1][-LAST_LINE_CHARS:]
        shown = [line for line in lines[-3:] if line.strip()]
        if shown:
            self._work.last_line = shown[-1][-LAST_LINE_CHARS:]
