"""Temporary folders outlive their owner only until the next sweep, and a sweep takes nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from buddy.workspace.temporary import TemporaryFolder, remove_abandoned
from tests.capabilities import NOBODY, requires

OWNER = """
import sys, time
from buddy.workspace.temporary import TemporaryFolder
folder = TemporaryFolder("test", sys.argv[1])
print(folder.path, flush=True)
sys.stdin.read()
"""


def make_abandoned(parent: Path) -> Path:
    """Return the folder of a process that was killed."""
    with start_owner(parent) as owner:
        assert owner.stdout is not None
        path = Path(owner.stdout.readline().strip())
        owner.kill()
    assert path.is_dir()
    return path


def start_owner(parent: Path) -> subprocess.Popen[str]:
    argv = (sys.executable, "-c", OWNER, str(parent))
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_folder_is_private_and_gone_when_it_is_closed(tmp_path: Path) -> None:
    with TemporaryFolder("test", str(tmp_path)) as path:
        assert Path(path).stat().st_mode & 0o777 == 0o700
        Path(path, "file").write_text("x")
        assert [entry.name for entry in tmp_path.iterdir()] == [Path(path).name]
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_killed_process_is_removed_and_that_of_a_living_one_stays(tmp_path: Path) -> None:
    left = make_abandoned(tmp_path)
    (left / "tmp").mkdir()
    (left / "tmp" / "file").write_text("x")
    with start_owner(tmp_path) as owner:
        assert owner.stdout is not None
        living = Path(owner.stdout.readline().strip())
        with TemporaryFolder("test", str(tmp_path)) as own:
            assert remove_abandoned(parent=str(tmp_path)) == 1
            assert sorted(map(str, tmp_path.iterdir())) == sorted((str(living), own))
        assert owner.stdin is not None
        owner.kill()
    assert remove_abandoned(parent=str(tmp_path)) == 1
    assert list(tmp_path.iterdir()) == []


def test_links_in_a_folder_and_in_its_place_are_not_followed(tmp_path: Path) -> None:
    parent, outside = tmp_path / "tmp", tmp_path / "outside"
    parent.mkdir()
    (outside / "folder").mkdir(parents=True)
    (outside / "folder" / "file").write_text("x")
    left = make_abandoned(parent)
    (left / "link").symlink_to(outside)
    (left / "sub").mkdir()
    (left / "sub" / "link").symlink_to(outside / "folder")
    (parent / "buddy-test.abcdefgh").symlink_to(outside)
    assert remove_abandoned(parent=str(parent)) == 1
    assert [entry.name for entry in parent.iterdir()] == ["buddy-test.abcdefgh"]
    assert (outside / "folder" / "file").read_text() == "x"


def test_what_is_not_known_to_be_abandoned_stays(tmp_path: Path) -> None:
    kept = [
        "buddy-test-abcdefgh",
        "buddy-test.abc",
        "other.abcdefgh",
        "..buddy-test.abcdefgh",
        "buddy-.abcdefgh",
    ]
    for name in kept:
        (tmp_path / name).mkdir(mode=0o700)
    for name in ("buddy-test.openopen", ".buddy-test.fullfull"):
        (tmp_path / name).mkdir(mode=0o700)
    (tmp_path / "buddy-test.openopen").chmod(0o755)  # not as one is made
    (tmp_path / ".buddy-test.fullfull" / "file").write_text("x")
    (tmp_path / "buddy-test.filefile").write_text("x")
    before = sorted(tmp_path.rglob("*"))
    assert remove_abandoned(parent=str(tmp_path)) == 0
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_that_a_person_made_with_such_a_name_stays(tmp_path: Path) -> None:
    own = tmp_path / "buddy-notes.AbCd1234"  # as mktemp -d makes it
    own.mkdir(mode=0o700)
    (own / "notes").write_text("x")
    assert remove_abandoned(parent=str(tmp_path)) == 0
    assert (own / "notes").read_text() == "x"


def test_an_empty_folder_whose_maker_was_killed_before_naming_it_goes(tmp_path: Path) -> None:
    (tmp_path / ".buddy-test.abcdefgh").mkdir(mode=0o700)
    assert remove_abandoned(parent=str(tmp_path)) == 1
    assert list(tmp_path.iterdir()) == []


def test_folders_are_made_while_others_sweep(tmp_path: Path) -> None:
    stopped = threading.Event()

    def sweep() -> None:
        while not stopped.is_set():
            remove_abandoned(parent=str(tmp_path))

    sweepers = [threading.Thread(target=sweep) for _ in range(3)]
    for sweeper in sweepers:
        sweeper.start()
    try:
        for _ in range(300):
            with TemporaryFolder("test", str(tmp_path)) as path:
                Path(path, "file").write_text("x")
                assert Path(path, "file").read_text() == "x"
    finally:
        stopped.set()
        for sweeper in sweepers:
            sweeper.join()
    remove_abandoned(parent=str(tmp_path))
    assert list(tmp_path.iterdir()) == []


@requires("root")
def test_folders_of_another_user_stay(tmp_path: Path) -> None:
    left = make_abandoned(tmp_path)
    (left / "file").write_text("x")
    os.chown(left, NOBODY, NOBODY)
    assert remove_abandoned(parent=str(tmp_path)) == 0
    assert (left / "file").read_text() == "x"


def fill_deep(top: Path) -> None:
    """Make 3,000 folders in each other: deeper than the stack, longer than a path."""
    folder = os.open(top, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=folder)
        deeper = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = deeper
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
    os.close(folder)


def fill_closed(top: Path) -> None:
    for name in ("a", "b"):
        (top / name / "inner" / "deep").mkdir(parents=True)
        (top / name / "inner" / "deep" / "file").write_text("x")
    (top / "a" / "inner" / "deep").chmod(0)
    (top / "a" / "inner").chmod(0)
    (top / "a").chmod(0)
    (top / "b" / "inner").chmod(0o500)
    (top / "b").chmod(0o400)


def fill_odd(top: Path) -> None:
    os.mkfifo(top / "pipe")
    (top / "new\nline \udcff").mkdir()
    (top / "dangling").symlink_to("nothing")
    (top / "self").symlink_to("self")
    for number in range(1500):
        (top / str(number)).touch()


@pytest.mark.parametrize("fill", [fill_deep, fill_closed, fill_odd])
@pytest.mark.parametrize("is_abandoned", [True, False])
def test_nothing_a_command_puts_there_keeps_a_folder(tmp_path: Path, fill, is_abandoned: bool) -> None:
    if is_abandoned:
        fill(make_abandoned(tmp_path))
        assert remove_abandoned(parent=str(tmp_path)) == 1
    else:
        with TemporaryFolder("test", str(tmp_path)) as path:
            fill(Path(path))
    assert list(tmp_path.iterdir()) == []


REMOVE_AS_NOBODY = """
import os, sys
from buddy.workspace.temporary import TemporaryFolder, remove_abandoned
from tests.unit.workspace.test_temporary import fill_closed
from pathlib import Path
user = int(sys.argv[2])
os.setgroups([]); os.setresgid(user, user, user); os.setresuid(user, user, user)
child = os.fork()
if child == 0:
    fill_closed(Path(TemporaryFolder("test", sys.argv[1]).path))
    os._exit(0)  # closes nothing, as a kill does
os.waitpid(child, 0)
print(remove_abandoned(parent=sys.argv[1]), os.listdir(sys.argv[1]))
"""


@requires("root")
def test_an_ordinary_user_removes_folders_it_may_not_even_read(tmp_path: Path) -> None:
    place = Path("/tmp") / f"for-nobody-{os.getpid()}"  # tmp_path is root's alone
    place.mkdir()
    try:
        os.chown(place, NOBODY, NOBODY)
        done = subprocess.run(
            (sys.executable, "-c", REMOVE_AS_NOBODY, str(place), str(NOBODY)),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout == "1 []\n", done.stderr
    finally:
        subprocess.run(("rm", "-rf", place), check=True)


def test_a_sweep_is_bounded_and_the_next_one_goes_on(tmp_path: Path) -> None:
    left = make_abandoned(tmp_path)
    for number in range(40):
        (left / str(number)).touch()
    assert remove_abandoned(parent=str(tmp_path), most=30) == 0
    assert len(list(left.iterdir())) == 11
    assert remove_abandoned(parent=str(tmp_path)) == 1


def test_a_stopped_sweep_removes_nothing_more(tmp_path: Path) -> None:
    left = make_abandoned(tmp_path)
    stopped = threading.Event()
    stopped.set()
    assert remove_abandoned(stopped.is_set, str(tmp_path)) == 0
    assert left.is_dir()
