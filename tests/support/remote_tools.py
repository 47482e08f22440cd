"""Calls of tools in a session whose first task works on a target named box."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from buddy.agent.tool import Tool, ToolResult
from buddy.app.options import Options
from buddy.config.settings import TargetSettings
from tests.support.scripted_session import ScriptedSession, scripted_session

YOLO = Options(permission_mode="yolo", i_know=True, trust=True, target="box")


@asynccontextmanager
async def session_on(settings: TargetSettings, root: Path) -> AsyncIterator[ScriptedSession]:
    """Open a session whose first task works on the target."""
    (root / "work").mkdir(parents=True, exist_ok=True)
    async with scripted_session(root, targets={"box": settings}, options=YOLO) as session:
        yield session


async def call(session: ScriptedSession, tool: Tool, arguments: Mapping[str, object]) -> ToolResult:
    """Run a call with the tool as the task's model is offered it."""
    task = session.board.task(1)
    return await session.call(task.workspace.fit(tool), arguments, task=task)


async def until(holds: Callable[[], bool], *, limit_s: float = 30) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < deadline, "it did not become true"
        await asyncio.sleep(0.02)
