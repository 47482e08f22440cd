"""The side of the program that drives buddy over stdin and stdout."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import msgspec

from buddy.agent.messages import UserPart
from buddy.app.invocations import expand_line
from buddy.app.options import Options
from buddy.app.session import ProgramSide, Session
from buddy.headless.control import ControlChannel
from buddy.headless.formats import RunFacts
from buddy.headless.input_lines import read_lines
from buddy.headless.stream import ProgramInput, StreamRun, StreamSession
from buddy.headless.stream_format import StreamJsonFormat
from buddy.headless.structured import AnswerSchema

STDIO = "stdio"
"""The value of --permission-prompt-tool for requests over the control channel."""


class DrivenRun:
    """A run that a program drives. `options` has what the program asked for, `side` is what it provides."""

    def __init__(
        self,
        options: Options,
        program: ProgramInput,
        names: Sequence[str],
        write: Callable[[str], None],
        warn: Callable[[str], None],
    ) -> None:
        self.options = options
        self.side = ProgramSide(
            answers=options.permission_prompt_tool == STDIO,
            servers={name: partial(program.servers.connect, name) for name in names},
        )
        self._program = program
        self._write = write
        self._warn = warn

    async def serve(
        self,
        session: Session,
        task_id: int,
        schema: AnswerSchema | None,
        facts: Callable[[], RunFacts],
        settle: Callable[[Session], Awaitable[None]],
    ) -> int:
        """Answer the messages of the program until stdin ends; return the exit code."""

        async def expand(text: str) -> tuple[UserPart, ...]:
            expanded = await expand_line(session, task_id, text, typed=False)
            for note in expanded.notes:
                self._warn(note)
            return expanded.parts

        output = StreamJsonFormat(self._write, partial=self.options.include_partial_messages)
        run = StreamRun(
            session,
            task_id,
            facts,
            expand,
            output.put,
            self._warn,
            settle=lambda: settle(session),
            schema=schema,
            stop_on_denial=self.options.permission_prompts == "fail",
            replays=self.options.replay_user_messages,
        )
        return await StreamSession(run, self._program).serve(output)


async def open_program(
    options: Options, write: Callable[[str], None], warn: Callable[[str], None]
) -> DrivenRun:
    """Begin to read the program's lines; wait for the first one, which may say more about the run."""
    lines = read_lines(sys.stdin.fileno(), asyncio.get_running_loop())
    control = ControlChannel(
        lambda data: write(json.dumps(data) + "\n"), lambda: f"buddy_{os.urandom(6).hex()}"
    )
    program = ProgramInput(lines, control)
    request = await program.initialize_request()
    options, names = take_servers(take_request(options, request), request)
    return DrivenRun(options, program, names, write, warn)


def take_request(options: Options, request: Mapping[str, Any]) -> Options:
    """Return the options with what an `initialize` request says about the session."""
    changes: dict[str, Any] = {}
    prompt = request.get("systemPrompt")
    if isinstance(prompt, list):
        prompt = "\n\n".join(map(str, cast("list[object]", prompt)))
    if isinstance(prompt, str) and prompt:
        changes["system_prompt"] = prompt
    if isinstance(appended := request.get("appendSystemPrompt"), str):
        changes["append_system_prompt"] = "\n\n".join(filter(None, (options.append_system_prompt, appended)))
    for field, name in (("json_schema", "jsonSchema"), ("agents", "agents")):
        if given := request.get(name):
            changes[field] = json.dumps(given)
    return msgspec.structs.replace(options, **changes)


def take_servers(options: Options, request: Mapping[str, Any]) -> tuple[Options, tuple[str, ...]]:
    """Return the options without the servers of the program itself, and the names of those."""
    named = request.get("sdkMcpServers")
    names = [str(name) for name in cast("list[object]", named)] if isinstance(named, list) else []
    configs: list[str] = []
    for text in options.mcp_config:
        table = _servers_of(text)
        own = [name for name, entry in table.items() if _is_of_program(entry)]
        names += own
        others = {name: entry for name, entry in table.items() if name not in own}
        configs += [json.dumps({"mcpServers": others}) if own else text] if others or not own else []
    return msgspec.structs.replace(options, mcp_config=tuple(configs)), tuple(dict.fromkeys(names))


def _servers_of(text: str) -> dict[str, Any]:
    """Return the servers of JSON on the command line; {} for a file and for what is none."""
    if not text.lstrip().startswith("{"):
        return {}
    try:
        table: object = json.loads(text).get("mcpServers")
    except (ValueError, RecursionError):
        return {}  # whoever reads it again reports it
    return cast("dict[str, Any]", table) if isinstance(table, dict) else {}


def _is_of_program(entry: object) -> bool:
    return isinstance(entry, dict) and cast("dict[str, Any]", entry).get("type") == "sdk"
