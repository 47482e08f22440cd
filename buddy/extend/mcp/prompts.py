"""Prompts of MCP servers as commands: `/mcp__server__prompt words`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

import msgspec

from buddy.agent.messages import Attachment, Text, UserPart
from buddy.agent.tool import ToolError, ToolResult
from buddy.extend.mcp.names import server_part, tool_names
from buddy.extend.mcp.records import PromptInfo
from buddy.safety.sanitise import one_line, visible

PREFIX = "mcp__"
MAX_WORDS_CHARS = 20_000


class ServerPrompt(msgspec.Struct, frozen=True):
    """A prompt as a command. `command` is its name without the slash."""

    command: str
    server: str
    info: PromptInfo

    def about(self) -> str:
        """Return its arguments and the server's words about it, in one line."""
        return one_line(f"{self.usage()} {self.info.description}".strip(), 200)

    def usage(self) -> str:
        """Return its arguments; an optional one stands in brackets."""
        names = [one.name if one.required else f"[{one.name}]" for one in self.info.arguments]
        return one_line(" ".join(names), 200)


def prompts_of(server: str, prompts: Iterable[PromptInfo]) -> tuple[ServerPrompt, ...]:
    """Return the prompts of a server under the names they are called by."""
    infos = {info.name: info for info in prompts}
    names = tool_names(server_part(server), infos)
    return tuple(ServerPrompt(names[name], server, info) for name, info in infos.items())


def values_of(prompt: ServerPrompt, words: str) -> dict[str, str]:
    """Return the arguments of a prompt from the words behind its name: in the order the server lists them, or
    as `name=value`. The last argument takes what is left. Raises `ToolError`."""
    if len(words) > MAX_WORDS_CHARS:
        raise ToolError(f"expected at most {MAX_WORDS_CHARS:,} characters behind /{prompt.command}")
    arguments = prompt.info.arguments
    usage = f"usage: /{prompt.command} {prompt.usage()}".rstrip()
    try:
        pieces = shlex.split(words)
    except ValueError as error:
        raise ToolError(f"a quotation mark is not closed; {usage}") from error
    values: dict[str, str] = {}
    names = {one.name for one in arguments}
    for piece in pieces:
        name, equals, value = piece.partition("=")
        free = [one.name for one in arguments if one.name not in values]
        if equals and name in names:
            values[name] = value
        elif free:
            values[free[0]] = piece
        elif arguments:
            values[arguments[-1].name] += f" {piece}"
        else:
            raise ToolError(f"/{prompt.command} takes no arguments, found {one_line(piece, 80)!r}")
    missing = [one.name for one in arguments if one.required and one.name not in values]
    if missing:
        raise ToolError(f"{one_line(', '.join(missing), 200)} is missing; {usage}")
    return values


def content_of(prompt: ServerPrompt, words: str, result: ToolResult) -> tuple[UserPart, ...]:
    """Return the content to send: the line that the person typed, and the server's text as an attachment."""
    title = f"attached: /{prompt.command}"
    heading = f"[{title}, a prompt of the MCP server {visible(prompt.server)} that the person chose]"
    return (
        Text(f"/{prompt.command} {words}".strip()),
        Attachment(title, f"\n\n{heading}\n{result.text}\n"),
        *result.images,
    )
