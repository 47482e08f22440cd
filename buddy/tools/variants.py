"""`retrieve_variant`: the result of another variant of the same prompt."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from buddy.agent.tool import Access, ToolContext, ToolError, ToolResult, tool

ResultPart = Literal["answer", "diff", "file"]


class VariantResults(msgspec.Struct, frozen=True):
    """The results of the other variants, for the tool: `read` takes the call, the variant's number, the part
    and a path. It raises `ToolError`."""

    read: Callable[[ToolContext, int, ResultPart, str], Awaitable[ToolResult]]


def _access(arguments: Any) -> Access:
    """Return the file by its name in the caller's own tree: rules about paths hold for it there too."""
    return Access(reads=(arguments.path,)) if arguments.path else Access()


def _subject(arguments: Any) -> str:
    return " ".join(filter(None, (str(arguments.number), arguments.what, arguments.path)))


@tool(
    risk="low",
    category="tasks",
    access=_access,
    subject=_subject,
    core=True,
    for_variants=True,
    argument_aliases={"variant": "number", "part": "what", "file": "path", "file_path": "path"},
)
async def retrieve_variant(
    ctx: ToolContext,
    number: int,
    what: ResultPart = "answer",
    path: Annotated[str, Meta(description="For what=file: relative to the top of its tree")] = "",
) -> ToolResult:
    """Read the result of another variant: the same prompt, worked on by another try or model in a tree of its
    own. `what`: its last answer, its changes as a diff, or one file as it left it. A variant that still works
    shows what it has so far."""
    if what == "file" and not path:
        raise ToolError('what="file" needs the path of a file; what="diff" names the changed ones')
    if what != "file" and path:
        raise ToolError(f'a path goes with what="file", found what="{what}"')
    return await ctx.service(VariantResults).read(ctx, number, what, path)
