"""A folder to search in, with everything the search tools need."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from buddy.agent.schema import ArgumentsError
from buddy.agent.tool import Tool, ToolContext, ToolError
from buddy.safety.paths import Boundary
from buddy.tools.grep import grep
from buddy.workspace.files.approved_versions import Approved
from buddy.workspace.processes.environment import ChildEnvironment
from buddy.workspace.processes.pool import ChildProcesses, ProcessSettings
from buddy.workspace.search.runner import SearchSettings


class SearchProject:
    """Asks search tools about `root`."""

    def __init__(self, root: Path, children: ChildProcesses) -> None:
        self.root = root
        self.children = children
        self.cancelled = asyncio.Event()

    def put(self, name: str, content: str | bytes) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    async def ask(self, tool: Tool, limit_s: float = 10, **arguments: Any) -> str:
        services = {
            Boundary: Boundary(str(self.root), str(self.root), "/nonexistent-home"),
            Approved: Approved(),
            ChildProcesses: self.children,
            SearchSettings: SearchSettings(time_limit_s=limit_s),
        }
        context = ToolContext(1, "c", lambda _text: None, self.cancelled, services)
        try:
            return (await tool.run(context, tool.decode(json.dumps(arguments)))).text
        except (ToolError, ArgumentsError) as error:
            return f"refused: {error}"

    async def grep(self, pattern: str, **arguments: Any) -> str:
        return await self.ask(grep, pattern=pattern, **arguments)


@asynccontextmanager
async def search_project(folder: Path) -> AsyncGenerator[SearchProject]:
    """An empty folder below another one; no child outlives it."""
    root = folder.resolve() / "work"
    root.mkdir()
    environment = ChildEnvironment({"PATH": os.environ["PATH"]}, "s")
    async with ChildProcesses(environment, ProcessSettings(str(folder / "out"))) as children:
        yield SearchProject(root, children)
