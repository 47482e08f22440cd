"""Links that change between the moment a call is judged and the moment it writes."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from buddy.agent.tool import ToolError
from buddy.tools.files.edit import edit_file
from buddy.tools.files.read import read_file
from buddy.tools.files.write import write_file
from buddy.workspace.files.store import Replacement, load, replace
from tests.support.tool_project import ToolProject


class Swapper:
    """A thread that swaps a name between two link targets as fast as it can."""

    def __init__(self, name: Path, targets: tuple[str, str]) -> None:
        self._name, self._targets = name, targets
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Swapper:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        fresh = self._name.with_name("fresh-link")
        while not self._stop.is_set():
            for target in self._targets:
                fresh.symlink_to(target)
                os.rename(fresh, self._name)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "f.txt").write_text("precious\n")
    return folder


@pytest.fixture
def project(tmp_path: Path) -> ToolProject:
    (tmp_path / "work").mkdir()
    return ToolProject(tmp_path / "work")


def leftovers(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


async def test_SEC_061_a_link_swapped_between_approval_and_write_never_writes_outside(
    project: ToolProject, outside: Path
) -> None:
    project.put("real/f.txt", "inside\n")
    link = project.root / "dir"
    link.symlink_to("real")
    written = refused = 0
    with Swapper(link, ("real", str(outside))):
        for number in range(1000):
            call = f"call {number}"
            arguments = {"path": "dir/f.txt", "content": f"{number}\n"}
            # The policy judged this call when the link led inside.
            project.approved.remember(call, "dir/f.txt", str(project.root / "real/f.txt"))
            await project.ask(read_file, path="real/f.txt")
            try:
                await project.call(write_file, call_id=call, **arguments)
                written += 1
            except ToolError:
                refused += 1
    assert (outside / "f.txt").read_text() == "precious\n"
    assert leftovers(outside) == ["f.txt"]
    assert written + refused == 1000
    assert written > 0
    assert refused > 0


async def test_SEC_061_a_path_that_leads_elsewhere_than_in_its_preview_is_refused(
    project: ToolProject, outside: Path
) -> None:
    project.put("real/f.txt", "precious\n")
    link = project.root / "dir"
    link.symlink_to("real")
    arguments = {"path": "dir/f.txt", "old": "precious", "new": "gone"}
    project.preview(edit_file, "c1", **arguments)
    link.unlink()
    link.symlink_to(outside)
    with pytest.raises(ToolError, match="leads to another file than when this call was approved"):
        await project.call(edit_file, call_id="c1", **arguments)
    assert (outside / "f.txt").read_text() == "precious\n"


def test_SEC_061_a_folder_that_becomes_a_link_is_not_followed(project: ToolProject, outside: Path) -> None:
    """The lowest layer: the real path was worked out, then a folder on it was replaced."""
    real = str(project.put("dir/f.txt", "precious\n"))
    loaded = load(real, "dir/f.txt")
    os.rename(project.root / "dir", project.root / "moved")
    (project.root / "dir").symlink_to(outside)
    with pytest.raises(ToolError, match="is a link or no folder"):
        replace(Replacement(real, "dir/f.txt", b"gone\n", loaded))
    with pytest.raises(ToolError, match="is a link or no folder"):
        load(real, "dir/f.txt")
    with pytest.raises(ToolError, match="is a link or no folder"):
        replace(Replacement(str(project.root / "dir/new.txt"), "dir/new.txt", b"x", None))
    assert leftovers(outside) == ["f.txt"]
    assert (outside / "f.txt").read_text() == "precious\n"


def test_SEC_061_a_file_that_becomes_a_link_is_neither_read_nor_written_through(
    project: ToolProject, outside: Path
) -> None:
    path = project.put("f.txt", "mine\n")
    loaded = load(str(path), "f.txt")
    path.unlink()
    path.symlink_to(outside / "f.txt")
    with pytest.raises(ToolError, match="a link that was not there before"):
        load(str(path), "f.txt")
    with pytest.raises(ToolError, match="changed by something else"):
        replace(Replacement(str(path), "f.txt", b"gone\n", loaded))
    assert (outside / "f.txt").read_text() == "precious\n"


async def test_a_file_created_where_one_appeared_meanwhile_is_refused(project: ToolProject) -> None:
    path = project.root / "new.txt"
    path.write_text("somebody's\n")
    with pytest.raises(ToolError, match="appeared while it was being written"):
        replace(Replacement(str(path), "new.txt", b"mine\n", None))
    assert path.read_text() == "somebody's\n"
    assert leftovers(project.root) == ["new.txt"]
