"""`/name words`: a skill or command file of that name becomes a prompt, with its commands run and its files
attached."""

from __future__ import annotations

import asyncio
import os
from functools import partial

import msgspec

from buddy.agent.formatting import keep_ends
from buddy.agent.messages import Attachment, Text, UserPart
from buddy.agent.tool import ToolError, ToolResult
from buddy.app.session import Session
from buddy.extend.agent_profiles import profile_of
from buddy.extend.command_text import (
    MAX_COMMANDS,
    PlainPiece,
    ShellPiece,
    fill_in,
    gemini_pieces,
    pieces_of,
)
from buddy.extend.definitions import ExtensionFile, read_body
from buddy.extend.mentions import ExpandedPrompt, expand
from buddy.safety.policy.rules_loading import rules_of_claude
from buddy.safety.sanitise import one_line
from buddy.tasks.task import TaskError
from buddy.tools.files.read import read_file
from buddy.tools.shell import run_shell

MAX_OUTPUT_CHARS = 30_000
SERVER_PROMPT = "mcp__"
"""The beginning of the names of MCP prompts."""


class Invocation(msgspec.Struct, frozen=True):
    """A definition made ready to be sent. `model` is "" for the task's own; `agent` names a subagent file;
    `fork`: it works in a task of its own. `notes` are sentences for the person."""

    definition: ExtensionFile
    parts: tuple[UserPart, ...]
    notes: tuple[str, ...]
    model: str
    agent: str
    fork: bool


def split_line(line: str) -> tuple[str, str]:
    """Return the name and the words of a line that begins with a slash; the words keep their spelling."""
    name, _, words = line.removeprefix("/").partition(" ")
    first, newline, rest = name.partition("\n")
    return first, f"{rest} {words}".strip() if newline else words.strip()


async def invoke(session: Session, task_id: int, definition: ExtensionFile, arguments: str) -> Invocation:
    """Fill in the text of a definition for a task: its commands run under the policy, in order. Raises
    `ToolError` where the file can't be read or a command may not run."""
    front = await asyncio.to_thread(read_body, definition)
    if definition.is_toml:
        pieces = gemini_pieces(front.body, arguments)
    else:
        pieces = pieces_of(fill_in(front.body, arguments))
    commands = sum(isinstance(piece, ShellPiece) for piece in pieces)
    if commands > MAX_COMMANDS:
        raise ToolError(f"{definition.label}: expected at most {MAX_COMMANDS} commands, found {commands}")
    notes = _allow(session, task_id, definition)
    own = "".join(piece.text if isinstance(piece, PlainPiece) else "…" for piece in pieces)
    attached = await _attach(session, task_id, own)  # before output of commands is in the text: it is data
    texts: list[str] = []
    for piece in pieces:
        match piece:
            case PlainPiece(text):
                texts.append(text)
            case ShellPiece(command):
                texts.append(await _output(session, task_id, definition, command))
    title = f"attached: /{definition.name} ({definition.label})"
    heading = f"[{title}]"
    if definition.kind == "skill":
        heading += f"\n[files of this skill: {os.path.realpath(definition.folder)}]"
    return Invocation(
        definition,
        (
            Text(f"/{definition.name} {arguments}".strip()),
            Attachment(title, f"\n\n{heading}\n{''.join(texts)}\n"),
            *attached.parts[1:],
        ),
        (*notes, *attached.notes),
        _model(session, definition),
        definition.agent if session.extensions.catalogue.find("agent", definition.agent) else "",
        definition.fork,
    )


async def _attach(session: Session, task_id: int, text: str) -> ExpandedPrompt:
    """Attach the files a text mentions. Others wrote the text, so a secret file or one outside of the
    workspace is asked about, as if the model wanted to read it."""

    async def read(path: str) -> ToolResult:
        return await session.board.run_for_person(task_id, read_file.name, {"path": path})

    return await expand(text, session.board.task(task_id).workspace.boundary.cwd, read)


async def _output(session: Session, task_id: int, definition: ExtensionFile, command: str) -> str:
    try:
        result = await session.board.run_for_person(task_id, run_shell.name, {"command": command})
    except ToolError as error:
        raise ToolError(f"{definition.label}: `{command[:200]}` did not run: {error}") from error
    return keep_ends(result.text, MAX_OUTPUT_CHARS)


def _allow(session: Session, task_id: int, definition: ExtensionFile) -> tuple[str, ...]:
    """Let the turn do what a file of the person's own allows; a project's or a plug-in's allows nothing."""
    if not definition.allowed_tools or definition.scope != "user":
        return ()
    rules = rules_of_claude({"allow": list(definition.allowed_tools)}, "session", definition.label)
    named = tuple(rule for rule in rules.rules if rule.argv or rule.path or rule.host)
    session.board.allow_for_turn(task_id, named)
    return ()


def _model(session: Session, definition: ExtensionFile) -> str:
    """Return the model a file asks for; "" where the person has no profile of that name: a file must not
    choose another company's model."""
    return definition.model if definition.model in session.settings.models else ""


async def fill_server_prompt(session: Session, name: str, words: str) -> tuple[UserPart, ...] | None:
    """Return the content of the MCP prompt a line calls, None where it calls none. Raises `TaskError`."""
    if session.mcp is None or not name.startswith(SERVER_PROMPT):
        return None
    try:
        content = await session.mcp.fill_prompt(name, words)
    except ToolError as error:
        raise TaskError(str(error)) from error
    if content is None:
        known = ", ".join(f"/{command}" for command, _about in session.mcp.prompt_commands()[:20]) or "none"
        raise TaskError(
            f"there is no MCP prompt /{one_line(name, 80)} now (prompts: {known}); /mcp shows the servers"
        )
    return content


async def expand_line(session: Session, task_id: int, line: str, *, typed: bool) -> ExpandedPrompt:
    """Expand a prompt that may call a skill or command file by a slash: what a program sends, which has no
    commands of its own. `typed`: a person chose the files it mentions; otherwise others may have written
    parts of it, and secret files and files outside are asked about. Raises `TaskError` where the file can't
    be used."""
    expand_text = session.expand if typed else partial(_attach, session)
    name, words = split_line(line)
    if not line.startswith("/") or not name:
        return await expand_text(task_id, line)
    if (content := await fill_server_prompt(session, name, words)) is not None:
        return ExpandedPrompt(content, ())
    await session.extensions.refresh()
    catalogue = session.extensions.catalogue
    definition = catalogue.invocable(name)
    if definition is None:
        if why := catalogue.why_not(name):
            raise TaskError(f"/{name} can't be used: {why}")
        return await expand_text(task_id, line)
    board = session.board
    try:
        ready = await invoke(session, task_id, definition, words)
        if ready.agent and not board.task(task_id).history:
            board.work_by(task_id, await asyncio.to_thread(profile_of, catalogue, ready.agent))
    except ToolError as error:
        board.forget_allowed(task_id)
        raise TaskError(str(error)) from error
    if ready.model and ready.model != board.task(task_id).model:
        board.change_model(task_id, ready.model)
    return ExpandedPrompt(ready.parts, ready.notes)
