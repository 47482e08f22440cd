"""The side of the program that drives buddy over stdin and stdout."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, cast

from buddy.agent.messages import UserPart
from buddy.app.invocations import expand_line
from buddy.app.options import Options
from buddy.app.session import ProgramSide, Session
from buddy.headless.control import ControlChannel
from buddy.headless.formats import RunFacts, StreamJsonFormat
from buddy.headless.input_lines import read_lines
from buddy.headless.stream import ProgramInput, StreamRun, StreamSession

STDIO = "stdio"
"""The value of --permission-prompt-tool for requests over the control channel."""


def open_program(write: Callable[[str], None]) -> ProgramInput:
    """Begin to read the program's lines."""
    lines = read_lines(sys.stdin.fileno(), asyncio.get_running_loop())
    control = ControlChannel(
        lambda data: write(json.dumps(data) + "\n"), lambda: f"buddy_{os.urandom(6).hex()}"
    )
    return ProgramInput(lines, control)


def program_side(options: Options, program: ProgramInput, request: dict[str, Any]) -> ProgramSide:
    """Return the parts of the session that the program provides, by its options and its `initialize`
    request."""
    named = request.get("sdkMcpServers")
    names = map(str, cast("list[object]", named)) if isinstance(named, list) else ()
    return ProgramSide(
        answers=options.permission_prompt_tool == STDIO,
        servers={name: partial(program.servers.connect, name) for name in names},
    )


async def serve_program(
    program: ProgramInput,
    options: Options,
    session: Session,
    task_id: int,
    output: StreamJsonFormat,
    *,
    facts: Callable[[], RunFacts],
    settle: Callable[[], Awaitable[None]],
    warn: Callable[[str], None],
) -> int:
    """Answer the messages of a program until stdin ends."""

    async def expand(text: str) -> tuple[UserPart, ...]:
        expanded = await expand_line(session, task_id, text, typed=False)
        for note in expanded.notes:
            warn(note)
        return expanded.parts

    run = StreamRun(
        session,
        task_id,
        facts,
        expand,
        output.put,
        warn,
        settle=settle,
        stop_on_denial=options.permission_prompts == "fail",
        replays=options.replay_user_messages,
    )
    return await StreamSession(run, program).serve(output)
