"""Selection of the tools a model is offered. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection

from buddy.agent.pattern import pattern
from buddy.agent.registry import ToolRegistry
from buddy.agent.tool import Tool

PATCHERS = pattern(r"(?:^|/)(?:gpt-5|gpt-6|codex|o3|o4)|codex", re.IGNORECASE)
"""Models trained on the patch format; the others edit by quoting."""


def prefers_patches(model: str) -> bool:
    """Tell whether a model, by the name that is sent or litellm's, was trained on `apply_patch`."""
    return PATCHERS().search(model) is not None


def is_offered(tool: Tool, model: str, only: Collection[str] | None, never: Collection[str]) -> bool:
    """Tell whether a model gets this tool. `only`: the names chosen for a subagent, None for all."""
    other = "edit_file" if prefers_patches(model) else "apply_patch"
    if tool.name == other or tool.name in never:
        return False
    return only is None or tool.name in only or any(alias in only for alias in tool.aliases)


def offered(
    tools: ToolRegistry, model: str, only: Collection[str] | None = None, never: Collection[str] = ()
) -> ToolRegistry:
    """The tools of a task on this model. Where one of the two ways to edit is switched off, the other is
    offered to every model."""
    both = tools.get("edit_file") is not None and tools.get("apply_patch") is not None
    return ToolRegistry(
        tool
        for tool in tools.list_all()
        if is_offered(tool, model, only, never)
        or (not both and tool.name in ("edit_file", "apply_patch") and (only is None or tool.name in only))
    )
