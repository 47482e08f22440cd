"""`!command` and `!!command`: the user's own shell commands, with their output above the prompt."""

from __future__ import annotations

import asyncio
import codecs
import os
import shlex

from buddy.agent.display import Command
from buddy.agent.lazy_regex import pattern
from buddy.agent.messages import Call, ResultStatus
from buddy.agent.tool import ToolError
from buddy.repl.commands.registry import CommandError
from buddy.repl.context import Context, Work
from buddy.repl.view.blocks import ToolCall
from buddy.sessions.records import Note
from buddy.workspace.processes.child import Child, Exit
from buddy.workspace.processes.launch import shell_argv
from buddy.workspace.processes.pool import CommandRequest

_FULL_SCREEN = pattern(
    r"vi|n?vim|view|vimdiff|nano|pico|micro|emacs|hx|helix|kak|joe|mc|[hba]?top|tig|lazygit|gitui|ncdu|ranger"
    r"|nnn|lf|yazi|fzf|tmux|screen|k9s|watch"
)
_MESSAGE = ("-m", "-F", "-C", "--message", "--file", "--reuse-message", "--no-edit", "--fixup", "--dry-run")
_PRINTS = {
    "top": ("-b",),
    "tmux": ("ls", "list-sessions", "-V"),
    "fzf": ("-f", "--filter"),
    "screen": ("-ls",),
}


def terminal_program(command: str) -> str:
    """Return the name of a simple command's program that needs the terminal; "" for others and for commands
    of several programs."""
    try:
        words = shlex.split(command)
    except ValueError:
        return ""
    if any(sign in command for sign in "|&;<>`\n") or "$(" in command:
        return ""
    while words and (words[0] in ("sudo", "env") or _is_assignment(words[0])):
        words = words[1:]
    if not words:
        return ""
    name, arguments = os.path.basename(words[0]), words[1:]
    if name == "git":
        return _git(arguments)
    if not _FULL_SCREEN().fullmatch(name) or any(word in ("--version", "--help") for word in arguments):
        return ""
    batch = any(word.startswith(_PRINTS.get(name, ())) for word in arguments)
    return "" if batch else name


def _git(arguments: list[str]) -> str:
    """Return the name of a git command that would open an editor."""
    match arguments:
        case ["commit", *rest]:
            short = any(
                word.startswith("-") and not word.startswith("--") and "m" in word[1:] for word in rest
            )
            return "" if short or any(word.startswith(_MESSAGE) for word in rest) else "git commit"
        case ["rebase", *rest]:
            return "git rebase -i" if "-i" in rest or "--interactive" in rest else ""
        case ["add" | "checkout" | "restore" | "stash" as verb, *rest]:
            return f"git {verb} -p" if "-p" in rest or "--patch" in rest else ""
        case _:
            return ""


def _is_assignment(word: str) -> bool:
    name, sign, _value = word.partition("=")
    return bool(sign) and name.isidentifier()


LIMIT_S = 600
SHARED_CHARS = 20_000
LAST_LINE_CHARS = 200


async def run_shell_line(context: Context, command: str, *, private: bool) -> None:
    """Run a command, print its output, and share it with the model unless it is private. Raises
    `CommandError` when it can't be started."""
    sign = "!!" if private else "!"
    if program := terminal_program(command):
        raise CommandError(f"{program} needs the terminal: press Ctrl+Z, run it in your shell, then type fg")
    if target := context.board.task(context.focus).workspace.files_on:
        raise CommandError(
            f"{sign} runs commands on this machine, and task {context.focus} works on {target}: ask the "
            "model for it, or /target local first"
        )
    request = CommandRequest(shell_argv(command), context.boundary.cwd, context.focus)
    try:
        child = context.session.children.start(request)
    except ToolError as error:
        raise CommandError(f"{sign}{command}: {error}") from error
    with context.own.register(f"{sign} {command}") as work:
        child.listeners.append(_LastLine(work).feed)
        ended, ending = await _await_end(context, child, work)
    context.board.parts.cache.clear()  # the command may have changed anything
    text = context.board.parts.redact_text(child.log.text())
    display = Command(command, text, ended.code, ended.signal, ended.seconds)
    status: ResultStatus = "cancelled" if work.cancelled.is_set() else "ok" if ended.code == 0 else "error"
    context.screen.print(
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
        heading = f"I ran `{command}` ({ending})"
        note = Note(note_id, context.focus, f"! {command}", _bounded(text), heading, lead=":")
        context.board.notes.offer(note)


async def _await_end(context: Context, child: Child, work: Work) -> tuple[Exit, str]:
    """Wait for the end of the command and of everything it started."""
    children = context.session.children
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
