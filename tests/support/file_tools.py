"""A project for tests of file tools: its folder, the services of a task, and calls made as a model makes them
(JSON in, result or refusal out)."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from buddy.agent.display import Display
from buddy.agent.schema import ArgumentsError
from buddy.agent.tool import Tool, ToolContext, ToolError, ToolResult
from buddy.safety.paths import Boundary
from buddy.tools.files.edit import edit_file
from buddy.tools.files.listing import list_files
from buddy.tools.files.move import copy_file, delete_file, move_file
from buddy.tools.files.patch import apply_patch
from buddy.tools.files.read import read_file
from buddy.tools.files.write import write_file
from buddy.workspace.files.approved_versions import Approved
from buddy.workspace.files.atomic_replace import DISK, Disk
from buddy.workspace.files.locks import FileLocks
from buddy.workspace.files.read_tracking import FileViews
from buddy.workspace.undo.log import UndoLog
from buddy.workspace.undo.trash import Trash
from tests.support.undo_logs import undo_log

TOOLS: tuple[Tool, ...] = (
    edit_file,
    write_file,
    apply_patch,
    read_file,
    list_files,
    copy_file,
    move_file,
    delete_file,
)


class ToolProject:
    """One session's files; tasks share locks, undo log and approvals, each has its own views."""

    def __init__(self, root: Path, *, session: Path | None = None, disk: Disk = DISK) -> None:
        self.root = Path(os.path.realpath(root))
        self.boundary = Boundary(str(self.root), str(self.root), "/nonexistent-home")
        self.locks = FileLocks()
        self.undo = undo_log(str(session or self.root / ".buddyx" / "sessions" / "s" / "undo"), disk)
        self.approved = Approved()
        self.trash = Trash(str(self.root / ".buddyx" / "trash"))
        self.views: dict[int, FileViews] = {}
        self.calls = 0

    def services(self, task_id: int = 1) -> dict[type, object]:
        views = self.views.setdefault(task_id, FileViews())
        return {
            Boundary: self.boundary,
            FileViews: views,
            FileLocks: self.locks,
            UndoLog: self.undo,
            Approved: self.approved,
            Trash: self.trash,
        }

    def context(self, task_id: int = 1, call_id: str = "") -> ToolContext:
        self.calls += 1
        name = call_id or f"call-{self.calls}"
        return ToolContext(task_id, name, lambda _text: None, asyncio.Event(), self.services(task_id))

    async def call(self, tool: Tool, *, task_id: int = 1, call_id: str = "", **arguments: Any) -> ToolResult:
        """Run a call. Raises `ToolError` or `ArgumentsError` as the loop would see them."""
        decoded = tool.decode(json.dumps(arguments))
        return await tool.run(self.context(task_id, call_id), decoded)

    async def ask(self, tool: Tool, *, task_id: int = 1, **arguments: Any) -> str:
        """Return the text the model gets: the result, or "refused: …"."""
        try:
            return (await self.call(tool, task_id=task_id, **arguments)).text
        except (ToolError, ArgumentsError) as error:
            return f"refused: {error}"

    def preview(self, tool: Tool, call_id: str, *, task_id: int = 1, **arguments: Any) -> Display:
        decoded = tool.decode(json.dumps(arguments))
        assert tool.preview is not None
        return tool.preview(self.context(task_id, call_id), decoded)

    def put(self, name: str, content: str | bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def bytes(self, name: str) -> bytes:
        return (self.root / name).read_bytes()
