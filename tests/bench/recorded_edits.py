"""The edit tools behind the interface of the recorded edit cases' runner.

cd REPOSITORY && python ../shared/recorded/run_edits.py --adapter tests.bench.recorded_edits
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

from buddy.agent.schema import ArgumentsError
from buddy.agent.tool import ToolError
from buddy.tools.files.edit import edit_file
from buddy.tools.files.patch import apply_patch
from buddy.tools.files.read import read_file
from buddy.tools.files.write import write_file
from tests.support.tool_project import ToolProject


class Session:
    """One folder with one task that edits in it."""

    def __init__(self, root: str) -> None:
        store = tempfile.mkdtemp(prefix="undo_")
        self._project = ToolProject(Path(root), session=Path(store))
        weakref.finalize(self, shutil.rmtree, store, ignore_errors=True)

    def do(self, op: str, path: str, args: dict[str, Any]) -> tuple[bool, str]:
        """Run one operation of a case."""
        try:
            return True, self._do(op, path, args)
        except (ToolError, ArgumentsError) as error:
            return False, str(error)

    def _do(self, op: str, path: str, args: dict[str, Any]) -> str:
        match op:
            case "read":
                return self._run(read_file, path=path)
            case "search_replace":
                return self._run(edit_file, path=path, **_quote(args))
            case "multi_edit":
                return self._run(edit_file, path=path, edits=[_quote(edit) for edit in args["edits"]])
            case "apply_patch":
                return self._run(apply_patch, patch=args["patch"])
            case "write":
                return self._run(write_file, path=path, content=args["content"])
            case "undo":
                self._project.undo.undo(self._project.locks)
                return "taken back"
            case _:
                raise NotImplementedError

    def _run(self, tool: Any, **arguments: Any) -> str:
        return asyncio.run(self._project.call(tool, **arguments)).text


def _quote(edit: dict[str, Any]) -> dict[str, Any]:
    return {"old": edit["old_string"], "new": edit["new_string"], "all": edit.get("replace_all", False)}


def open_session(root: str) -> Session:
    """The request of the runner."""
    return Session(root)
