"""A program that is killed in the middle of an undo: nothing is lost, nothing of it stays in the folder."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType

import pytest

from buddy.workspace.files.locks import FileLocks
from buddy.workspace.undo.log import Effect
from tests.faults.undo_victim import AFTER, BEFORE, held
from tests.support.undo_logs import undo_log

ROOT = Path(__file__).resolve().parents[2]


def run_victim(folder: Path, number: int, way: str = "undo") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.faults.undo_victim", str(folder), str(number), way]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def step_numbers(folder: Path, way: str = "undo") -> list[int]:
    """Every other step of one undo or redo, from its start to its end."""
    total = int(run_victim(folder, 0, way).stdout.removeprefix("done: ").split()[0])
    return [*range(1, total, 2), total]


@pytest.mark.slow
def test_REL_065_an_undo_that_was_killed_leaves_nothing_and_is_done_again_whole(tmp_path: Path) -> None:
    left: list[str] = []
    for number in step_numbers(tmp_path / "undisturbed"):
        folder = tmp_path / f"{number}"
        assert run_victim(folder, number).returncode == -signal.SIGKILL, number
        left += [name for name in held(folder / "work") if ".buddy-" in name]

        log = undo_log(str(folder / "undo"))
        log.entries()
        found = held(folder / "work")
        assert not [name for name in found if ".buddy-" in name], number
        assert all(text in (BEFORE.get(name), AFTER.get(name)) for name, text in found.items()), number
        if log.entries():
            log.undo(FileLocks())
        assert held(folder / "work") == BEFORE, number
    assert left, "some were killed with a file beside another"


@pytest.mark.slow
def test_REL_065_a_redo_that_was_killed_leaves_either_the_link_or_the_file(tmp_path: Path) -> None:
    for number in step_numbers(tmp_path / "undisturbed", "redo"):
        folder = tmp_path / f"{number}"
        assert run_victim(folder, number, "redo").returncode == -signal.SIGKILL, number

        log = undo_log(str(folder / "undo"))
        log.entries()
        found = held(folder / "work")
        assert found["link"] in (BEFORE["link"], AFTER["link"]), number
        assert not [name for name in found if ".buddy-" in name], number
        if log.entries(undone=True):
            log.redo(FileLocks())
        assert held(folder / "work") == AFTER, number


def test_a_file_that_somebody_saved_under_the_name_of_a_temporary_one_stays(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    run_victim(tmp_path, 0)
    (entry,) = undo_log(str(tmp_path / "undo")).entries(undone=True)
    changed = next(file for file in entry.files if file.real.endswith("changed.txt"))
    (folder / changed.temporary).write_text("mine\n")

    log = undo_log(str(tmp_path / "undo"))
    log.redo(FileLocks())
    assert held(folder) == {**AFTER, changed.temporary: "mine\n"}
    log.undo(FileLocks())
    assert held(folder) == {**BEFORE, changed.temporary: "mine\n"}


def test_each_folder_is_looked_at_once_however_many_files_a_command_changed(tmp_path: Path) -> None:
    """Two looks for each of ten thousand files would hold up the start of a session for a second."""
    work = tmp_path / "work"
    effects = [Effect(str(work / f"{at % 3}" / f"{at}"), None, b"x", 0, 0o644) for at in range(300)]
    entry = undo_log(str(tmp_path / "undo")).record(1, "call", "run_shell", effects)
    for number in range(2):  # the third folder is gone
        (work / f"{number}").mkdir(parents=True)
    left = [work / f"{at % 3}" / entry.files[at].temporary for at in (0, 100)]
    for path in left:
        path.write_bytes(b"x")
    (work / "0" / ".mine").write_bytes(b"x")

    opened: list[object] = []

    def count(_frame: FrameType, event: str, called: object) -> None:
        if event == "c_call" and getattr(called, "__name__", "") in {"open", "stat"}:
            opened.append(called)

    log = undo_log(str(tmp_path / "undo"))
    sys.setprofile(count)
    try:
        log.entries()
    finally:
        sys.setprofile(None)
    assert len(opened) < 200
    assert [path for path in work.rglob("*") if path.is_file()] == [work / "0" / ".mine"]


def test_a_folder_that_does_not_tell_its_names_hides_nothing_from_a_start(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    effect = Effect(str(loop / "a.txt"), None, b"x", 0, 0o644)
    entry = undo_log(str(tmp_path / "undo")).record(1, "call", "run_shell", [effect])
    loop.symlink_to(loop)
    assert undo_log(str(tmp_path / "undo")).entries() == (entry,)
    assert loop.is_symlink()
