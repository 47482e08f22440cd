"""Listing on another machine that lies about what it holds."""

from __future__ import annotations

import asyncio

from buddy.agent.tool import ToolContext
from buddy.safety.paths import Located
from buddy.tools.files.elsewhere import MAX_WALKED, find_there
from buddy.workspace.elsewhere import RemoteStatus, TargetFiles
from buddy.workspace.files.access import DiskFiles
from buddy.workspace.files.approved_versions import Approved

FOLDER = RemoteStatus(0, 0o040755, 0)


class EndlessFolders(DiskFiles):
    """Files of a machine on which every folder holds others."""

    name = "box"

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self._names = names
        self.listed = 0

    def for_call(self, _is_cancelled: object) -> EndlessFolders:
        return self

    def locate(self, given: str) -> Located:
        return Located(given, "/srv", "/srv", True, ".", "", "")

    def status(self, _real: str) -> RemoteStatus:
        return FOLDER

    def entries(self, _real: str) -> list[tuple[str, RemoteStatus]]:
        self.listed += 1
        return [(name, FOLDER) for name in self._names]

    def read_link(self, _real: str) -> str:
        return ""

    def is_secret(self, _real: str) -> bool:
        return False


def _find(there: EndlessFolders) -> str:
    services = {Approved: Approved(), TargetFiles: there}
    ctx = ToolContext(1, "call", lambda _text: None, asyncio.Event(), services)
    return find_there(ctx, there, ".", lambda _name: True, 10, lambda: False).text


def test_ATTACK10_folders_in_each_other_without_end_are_left() -> None:
    there = EndlessFolders([f"folder{number}" for number in range(50)])
    assert "not every folder was looked at" in _find(there)
    assert there.listed == MAX_WALKED


def test_ATTACK10_a_path_without_end_is_left() -> None:
    there = EndlessFolders(["x" * 200])
    assert "not every folder was looked at" in _find(there)
    assert there.listed < 30
