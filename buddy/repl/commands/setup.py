"""Commands about the set-up: settings, keys, this machine, and features this version does not have."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Iterator
from typing import Any, cast

import msgspec

from buddy.agent.tool import ToolContext, ToolError
from buddy.config.settings import Settings
from buddy.extend.scaffolds.templates import REQUEST_WORDS, parse_request
from buddy.extend.scaffolds.tools import create_for_person, describe_all
from buddy.extend.system_prompt import read_template, render_template
from buddy.repl.commands.registry import CommandError, command
from buddy.repl.context import Context
from buddy.repl.view.blocks import NoteBlock, PlainText
from buddy.safety.sanitise import new_id

_SECRET = frozenset({"api_key", "env", "headers", "api_key_command"})
_SET = "(set)"


@command(family="setup", usage="[all]", choices=("all",))
async def config(context: Context, argument: str) -> None:
    """Show the settings files and the settings in force (all: defaults too)"""
    session = context.session
    files = [*session.loaded.files] or ["no config file: all defaults (buddy init writes a commented one)"]
    if session.loaded.project and not session.launch.trusted:
        files.append(f"{session.loaded.project} (not trusted: ignored; /trust)")
    current = dict(_flat(msgspec.to_builtins(session.settings)))
    defaults = dict(_flat(msgspec.to_builtins(Settings())))
    rows = [
        f"{key} = {context.board.parts.redact_text(_as_toml(value))}"
        for key, value in current.items()
        if argument == "all" or value != defaults.get(key)
    ]
    context.screen.print(PlainText("\n".join(files)))
    if rows:
        context.screen.print(PlainText("\n".join(rows)))


def _as_toml(value: object) -> str:
    """Format a value as it would be written in the file."""
    match value:
        case None:
            return "(none)"
        case _ if value is _SET:
            return _SET
        case bool():
            return str(value).lower()
        case str():
            return f'"{value}"'
        case list() | tuple():
            return f"[{', '.join(map(_as_toml, cast('list[object]', value)))}]"
        case dict():
            table = cast("dict[str, object]", value)
            return f"{{{', '.join(f'{key} = {_as_toml(one)}' for key, one in table.items())}}}"
        case _:
            return str(value)


def _flat(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in table.items():
        name = f"{prefix}{key}"
        if key in _SECRET and value:
            yield name, _SET
        elif isinstance(value, dict):
            yield from _flat(cast("dict[str, Any]", value), f"{name}.")
        else:
            yield name, value


@command(family="setup")
async def doctor(context: Context, argument: str) -> None:
    """Check what works on this machine"""
    context.screen.print(await asyncio.to_thread(context.doctor))


@command(family="setup", usage="[FOCUS]", sends=True, essential=True)
async def init(context: Context, argument: str) -> None:
    """Let the model study the repository and write an AGENTS.md"""
    focus = f"\n\nPay special attention to: {argument}" if argument else ""
    text = render_template(await read_template("init.md"), {"focus": focus})
    await context.board.prompt(context.focus, text)


@command(family="setup", name="new-project", usage="[TEMPLATE DIR [NAME=VALUE …]]")
async def new_project(context: Context, argument: str) -> None:
    """Create a project from a template, as one change that /undo takes back; alone, list the templates"""
    scaffolds = context.session.scaffolds
    try:
        request = parse_request(shlex.split(argument))
        if not request.template:
            lines = await asyncio.to_thread(describe_all, scaffolds)
            context.screen.print(PlainText("\n".join((*lines, f"/new-project {REQUEST_WORDS}"))))
            return
        if not request.directory:
            raise CommandError(f"which folder? Expected: /new-project {REQUEST_WORDS}")
        name = os.path.basename(os.path.abspath(os.path.join(context.boundary.cwd, request.directory)))
        project = await asyncio.to_thread(
            scaffolds.new_project, request.template, name, request.values, request.components
        )
        task = context.board.task(context.focus)
        call_id = f"new-project {request.directory} {new_id()}"
        services = task.services.services
        tool_context = ToolContext(task.task_id, call_id, lambda _text: None, asyncio.Event(), services)
        result = await create_for_person(tool_context, project, request.directory)
    except (ToolError, ValueError) as error:
        raise CommandError(str(error)) from error
    context.screen.print(PlainText(result.text))


@command(family="setup", usage="DIR", completes=("path",), only_explains=True)
async def cd(context: Context, argument: str) -> None:
    """Explain how to work in another directory"""
    where = context.boundary
    raise CommandError(
        f"This session belongs to {where.cwd}. To work elsewhere, leave, cd {argument or 'DIR'}, and start "
        "buddy there."
    )


@command(family="setup", name="add-dir", usage="DIR", completes=("path",), only_explains=True)
async def add_dir(context: Context, argument: str) -> None:
    """Explain how to give access to another directory"""
    raise CommandError(
        "Folders can only be added at the start. Leave, then run: "
        f"buddy -r {context.session.session_id} --add-dir {argument or 'DIR'}"
    )


@command(family="setup", usage="[PROFILE]", only_explains=True)
async def login(context: Context, argument: str) -> None:
    """Explain how to store a key"""
    advice = (
        "don't type keys here, where they would be saved in the history: "
        f"run  buddy login {argument}".rstrip()
    )
    context.screen.print(
        NoteBlock("info", f"{advice}  in another terminal; it is used from the next request on")
    )


@command(family="setup", only_explains=True)
async def logout(context: Context, argument: str) -> None:
    """Show where keys are stored"""
    sentence = "keys come from the environment, the keyring, or credentials.json in buddy's data folder"
    context.screen.print(NoteBlock("info", f"{sentence}; buddy doctor shows what is used"))
