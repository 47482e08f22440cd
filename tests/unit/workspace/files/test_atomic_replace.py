"""Somebody saves a file between the last look at it and the step that replaces it: they lose nothing."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from buddy.tools.files.edit import edit_file
from buddy.tools.files.move import move_file
from buddy.tools.files.patch import apply_patch
from buddy.workspace.files.atomic_replace import DISK, Disk, rename_to_free
from tests.support.tool_project import ToolProject
from tests.support.undo_logs import undo_log

THEIRS = "theirs, saved just now\n"


def in_place(path: Path, text: str = THEIRS) -> None:
    path.write_text(text)


def by_rename(path: Path, text: str = THEIRS) -> None:
    beside = path.with_name("editor-saves")
    beside.write_text(text)
    beside.rename(path)


def with_the_same_outside(path: Path) -> None:
    """As long, and with the same times: as fast as the clock of the file system is coarse."""
    status = path.stat()
    path.write_text("OLD\n")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def as_a_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("elsewhere")


def as_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def with_other_permissions(path: Path) -> None:
    path.chmod(0o755)


def look(path: Path) -> tuple[int, object]:
    if path.is_symlink():
        return 0, os.readlink(path)
    return path.stat().st_mode, path.read_bytes() if path.is_file() else sorted(os.listdir(path))


class Editor:
    """Somebody who saves a file at given steps: just before it changes places, is renamed, or goes back."""

    def __init__(self, *saves: Callable[[], object], can_exchange: bool = True) -> None:
        self._saves = list(saves)
        self._can_exchange = can_exchange
        self.disk = Disk(DISK.write, DISK.sync, self._rename, self._exchange)

    def _save(self) -> None:
        if self._saves:
            self._saves.pop(0)()

    def _rename(self, source: str, target: str, folder: int) -> None:
        self._save()
        DISK.rename(source, target, folder)

    def _exchange(self, one: str, other: str, folder: int) -> bool:
        if not self._can_exchange:
            return False
        self._save()
        return DISK.exchange(one, other, folder)


SAVES = [in_place, by_rename, with_the_same_outside, as_a_link, as_a_folder, with_other_permissions]


def project_with(tmp_path: Path, *saves: Callable[[Path], object], can_exchange: bool = True) -> ToolProject:
    path = tmp_path / "work" / "a.txt"
    path.parent.mkdir()
    path.write_text("old\n")
    editor = Editor(*(lambda save=save: save(path) for save in saves), can_exchange=can_exchange)
    return ToolProject(path.parent, session=tmp_path / "session", disk=editor.disk)


@pytest.mark.parametrize("save", SAVES)
async def test_an_edit_is_refused_and_what_was_saved_stays(
    tmp_path: Path, save: Callable[[Path], object]
) -> None:
    expected = tmp_path / "expected"
    expected.write_text("old\n")
    save(expected)
    project = project_with(tmp_path, save)
    answer = await project.ask(edit_file, path="a.txt", old="old", new="new")
    assert answer.startswith("refused: a.txt was changed by something else while it was being edited")
    assert look(project.root / "a.txt") == look(expected)
    assert (os.listdir(project.root), project.undo.entries()) == (["a.txt"], ())


@pytest.mark.parametrize("save", [in_place, with_the_same_outside, with_other_permissions])
async def test_where_names_cannot_change_places_a_save_into_the_file_stays(
    tmp_path: Path, save: Callable[[Path], object]
) -> None:
    project = project_with(tmp_path, save, can_exchange=False)
    answer = await project.ask(edit_file, path="a.txt", old="old", new="new")
    assert answer.startswith("refused: a.txt was changed by something else")
    assert project.bytes("a.txt") in {THEIRS.encode(), b"OLD\n", b"old\n"}
    assert os.listdir(project.root) == ["a.txt"]
    assert await project.ask(edit_file, path="a.txt", old=project.bytes("a.txt").decode(), new="new\n")
    assert (project.bytes("a.txt"), os.listdir(project.root)) == (b"new\n", ["a.txt"])


@pytest.mark.parametrize("again", [in_place, by_rename])
async def test_of_two_saves_the_newest_stands(tmp_path: Path, again: Callable[[Path, str], object]) -> None:
    project = project_with(tmp_path, in_place, lambda path: again(path, "the newest\n"))
    await project.ask(edit_file, path="a.txt", old="old", new="new")
    assert (project.bytes("a.txt"), os.listdir(project.root)) == (b"the newest\n", ["a.txt"])


async def test_what_cannot_be_put_back_is_kept_and_named(tmp_path: Path) -> None:
    def breaks(_path: Path) -> None:
        raise OSError(5, "Input/output error")

    project = project_with(tmp_path, in_place, breaks)
    answer = await project.ask(edit_file, path="a.txt", old="old", new="new")
    (kept,) = (name for name in os.listdir(project.root) if name != "a.txt")
    assert f"What was saved then is in {kept} beside it" in answer
    assert project.bytes(kept) == THEIRS.encode()


@pytest.mark.parametrize("save", SAVES)
async def test_a_file_that_was_saved_is_not_deleted(tmp_path: Path, save: Callable[[Path], object]) -> None:
    expected = tmp_path / "expected"
    expected.write_text("old\n")
    save(expected)
    project = project_with(tmp_path, save)
    patch = "*** Begin Patch\n*** Delete File: a.txt\n*** End Patch"
    assert "a.txt was changed by something else" in await project.ask(apply_patch, patch=patch)
    assert look(project.root / "a.txt") == look(expected)
    assert (os.listdir(project.root), project.undo.entries()) == (["a.txt"], ())


@pytest.mark.parametrize("save", SAVES)
async def test_an_undo_does_not_take_back_what_was_saved(
    tmp_path: Path, save: Callable[[Path], object]
) -> None:
    expected = tmp_path / "expected"
    expected.write_text("new\n")
    save(expected)
    project = project_with(tmp_path, lambda _path: None, save)
    await project.call(edit_file, path="a.txt", old="old", new="new")
    with pytest.raises(Exception, match=r"a\.txt was changed by something else"):
        project.undo.undo(project.locks)
    assert look(project.root / "a.txt") == look(expected)
    assert (os.listdir(project.root), len(project.undo.entries())) == (["a.txt"], 1)


async def test_a_move_replaces_nothing_that_appears(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    (tmp_path / "from").write_text("from\n")
    (tmp_path / "to").write_text(THEIRS)
    try:
        with pytest.raises(FileExistsError):
            rename_to_free("from", folder, "to", folder)
    finally:
        os.close(folder)
    assert (tmp_path / "to").read_text() == THEIRS
    project = ToolProject(tmp_path)
    assert (await project.ask(move_file, source="from", target="free")).startswith("from: file moved to free")


async def test_what_was_saved_when_buddy_was_killed_is_not_swept(tmp_path: Path) -> None:
    project = project_with(tmp_path)
    await project.call(edit_file, path="a.txt", old="old", new="new lines")
    temporary = project.root / project.undo.entries()[0].files[0].temporary
    left = {b"old\n": False, b"new": False, b"": False, THEIRS.encode(): True}
    for found, stays in left.items():
        temporary.write_bytes(found)
        undo_log(str(tmp_path / "session")).entries()
        assert temporary.exists() is stays, found


@pytest.mark.slow
async def test_no_save_of_a_busy_editor_is_lost(tmp_path: Path) -> None:
    project = project_with(tmp_path)
    path = project.root / "a.txt"
    by_rename(path, "save 0 mark\n")
    lost: list[str] = []
    done, begun = threading.Event(), threading.Event()
    chosen = random.Random(4)

    def edits_in_person() -> None:
        for number in range(1, 151):
            begun.wait(60)
            begun.clear()
            time.sleep(chosen.random() * 0.004)
            (in_place if number % 2 else by_rename)(path, f"save {number} mark\n")
            until = time.monotonic() + 40  # an older one stands there on its way back, while the disk is busy
            while not path.read_text().startswith(f"save {number} ") and time.monotonic() < until:
                pass
            if time.monotonic() >= until:
                lost.append(path.read_text())
        done.set()

    person = threading.Thread(target=edits_in_person)
    person.start()
    made = 0
    while not done.is_set():
        begun.set()
        answer = await project.ask(edit_file, path="a.txt", old="mark", new="mark too")
        made += not answer.startswith("refused")
    person.join()
    assert (lost, made > 0, path.read_text().startswith("save 150 ")) == ([], True, True)
    assert os.listdir(project.root) == ["a.txt"]
