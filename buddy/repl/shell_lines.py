"""`!command` and `!!command`: the person's own shell commands. They run at once, in the workspace, with the
output above the prompt; after `!` the model hears of it with the next prompt, after `!!` it does not."""

from __future__ import annotations

import asyncio

from buddy.agent.display import Command
from buddy.agent.messages import Call
from buddy.repl.blocks import ToolCall
from buddy.repl.port import Context
from buddy.tasks.board import Note
from buddy.workspace.launch import shell_argv
from buddy.workspace.processes import Request

LIMIT_S = 600
SHARED_CHARS = 20_000


async def run_shell_line(context: Context, command: str, *, private: bool) -> None:
    """Run it and show it; share it unless it is private."""
    desk = context.desk
    request = Request(shell_argv(command), desk.boundary.cwd, context.focus)
    finished = await desk.children.run(request, timeout_s=LIMIT_S, cancelled=asyncio.Event())
    text = desk.board.parts.redact_text(finished.text)
    code = finished.exit.code
    display = Command(command, text, code, finished.exit.signal, finished.exit.seconds)
    call = Call("", "shell", "{}")
    title = f"{'!!' if private else '!'} {command}"
    status = "ok" if finished.ok else "error"
    seconds = finished.exit.seconds
    context.stage.print(
        ToolCall(call, title, "low", status, text, display, seconds, cached=False, task_id=context.focus)
    )
    if not private:
        shared = (
            text
            if len(text) <= SHARED_CHARS
            else text[: SHARED_CHARS // 2] + "\n…\n" + text[-SHARED_CHARS // 2 :]
        )
        heading = f"I ran `{command}` (exit code {code}):"
        desk.board.notes.append(Note(context.focus, f"! {command}", shared, heading))
