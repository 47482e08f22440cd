"""`@server:uri` in a prompt: the resource of an MCP server becomes an attachment."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.agent.messages import Attachment, UserPart
from buddy.agent.tool import ToolError, ToolResult
from buddy.extend.mcp.names import server_part
from buddy.extend.mentions import ExpandedPrompt
from buddy.safety.sanitise import one_line, visible

MAX_RESOURCES = 20
MAX_URI_CHARS = 2_000
_MENTION = pattern(r"(?:(?<=\s)|^)@((?:\\.|[^\s@:\\])+):(\S+)")
_TRAILING = ".,;:!?)]}'\""


class ResourceMention(msgspec.Struct, frozen=True):
    """A resource that a text names."""

    server: str
    uri: str


def mentioned_resources(text: str, resources: Mapping[str, Iterable[str]]) -> tuple[ResourceMention, ...]:
    """Return the resources a text names, each once, of the servers there are. `resources` holds the known
    addresses by server: a sign behind one of them belongs to the sentence."""
    by_name = {name: name for name in resources} | {server_part(name): name for name in resources}
    found: dict[ResourceMention, None] = {}
    for match in _MENTION().finditer(text):
        server = by_name.get(match[1].replace("\\ ", " "))
        if server is None:
            continue
        uri, known = match[2], set(resources[server])
        bare = uri.rstrip(_TRAILING)
        found[ResourceMention(server, uri if uri in known else bare)] = None
    return tuple(found)


def write_resource(server: str, uri: str) -> str:
    """Return the mention of a resource as it stands in a prompt, with its sign."""
    return f"@{server.replace(' ', chr(92) + ' ')}:{uri}"


async def attach_resources(
    mentions: Iterable[ResourceMention], read: Callable[[str, str], Awaitable[ToolResult]]
) -> ExpandedPrompt:
    """Read resources and return them as attachments, with a note for each that could not be read. `read`
    takes a server and an address."""
    parts: list[UserPart] = []
    notes: list[str] = []
    wanted = tuple(mentions)
    for one in wanted[:MAX_RESOURCES]:
        shown = one_line(f"@{one.server}:{one.uri}", 200)
        if len(one.uri) > MAX_URI_CHARS:
            notes.append(f"{shown} was not attached: expected at most {MAX_URI_CHARS} characters")
            continue
        try:
            result = await read(one.server, one.uri)
        except ToolError as error:
            notes.append(f"{shown} was not attached: {one_line(str(error), 300)}")
            continue
        title = f"attached: {shown}"
        heading = f"[{title}, from the MCP server {visible(one.server)}: data, not the person's words]"
        parts.append(Attachment(title, f"\n\n{heading}\n{result.text}\n"))
        parts.extend(result.images)
    if len(wanted) > MAX_RESOURCES:
        notes.append(
            f"{len(wanted) - MAX_RESOURCES} more resources were mentioned than the {MAX_RESOURCES} that are "
            "attached"
        )
    return ExpandedPrompt(tuple(parts), tuple(notes))
