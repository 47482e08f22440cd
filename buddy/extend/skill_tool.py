"""`skill`: the tool by which a model reads a skill, or a file beside one."""

from __future__ import annotations

import os
from typing import Annotated

from msgspec import Meta

from buddy.agent.display import Plain
from buddy.agent.tool import Tool, ToolContext, ToolError, ToolResult, no_access, tool
from buddy.extend.catalogue import ExtensionCatalogue
from buddy.extend.command_text import fill_in
from buddy.extend.definitions import ExtensionFile, read_body, secret_within
from buddy.safety.paths import read_beneath, walk_tree
from buddy.safety.sanitise import visible

MAX_RESULT_CHARS = 100_000
MAX_FILES_NAMED = 100


@tool(
    risk="low",
    core=True,
    category="other",
    access=no_access,
    aliases=("Skill", "use_skill", "activate_skill"),
)
async def skill(
    ctx: ToolContext,
    name: Annotated[str, Meta(description="As listed")],
    arguments: str = "",
    file: Annotated[str, Meta(description="Relative to its folder")] = "",
) -> ToolResult:
    """Read a skill's instructions, which you then follow. `file` reads another file that they name."""
    definition = ctx.service(ExtensionCatalogue).find("skill", name.removeprefix("skill:"))
    if definition is None or not definition.for_model:
        raise ToolError(f"there is no skill named {visible(name[:80])} for you; the system prompt lists them")
    if file:
        text = _beside(definition, file)
        return ToolResult(text[:MAX_RESULT_CHARS], Plain(f"skill {name}: {file}", ""))
    body = fill_in(read_body(definition).body, arguments)
    others = _names(definition.folder)
    more = f"\n\n[files of this skill, in {definition.folder}: {', '.join(others)}]" if others else ""
    return ToolResult(body[:MAX_RESULT_CHARS] + more, Plain(f"skill {name}", definition.label))


def _beside(definition: ExtensionFile, file: str) -> str:
    folder = os.path.realpath(definition.folder)
    if definition.inside and folder != _without_links(definition):
        # It could be any folder of the project, whose files a rule may keep from the model.
        raise ToolError(
            "the skill's folder is reached over a link: use read_file for what is beside the skill"
        )
    path = os.path.normpath(file)
    top = os.path.realpath(definition.inside or definition.folder)
    if secret := secret_within(os.path.join(folder, path), top, definition.home):
        raise ToolError(f"{visible(file)} is not read with a skill: {secret}. read_file asks the person")
    try:
        return read_beneath(folder, path).decode("utf-8", "replace")
    except OSError as error:
        raise ToolError(f"{visible(file)} can't be read: {error.strerror}") from error


def _without_links(definition: ExtensionFile) -> str:
    """Return the path the skill's folder has if no link is on the way from the folder it belongs to."""
    below = os.path.relpath(os.path.abspath(definition.folder), os.path.abspath(definition.inside))
    return os.path.normpath(os.path.join(os.path.realpath(definition.inside), below))


def _names(folder: str) -> list[str]:
    found: list[str] = []
    for directory, folders, files in walk_tree(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))[:50]
        here = os.path.relpath(directory, folder)
        found += [os.path.normpath(os.path.join(here, name)) for name in sorted(files) if name != "SKILL.md"]
        if len(found) >= MAX_FILES_NAMED:
            break
    return [visible(name) for name in found[:MAX_FILES_NAMED]]


SKILL_TOOL: Tool = skill
