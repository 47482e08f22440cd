"""Opening what was judged, and nothing else: links swapped in, pipes, devices, hard links."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from buddy.agent.tool import ToolError
from buddy.safety.paths import open_beneath, open_parent, replace_beneath, replace_file


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "file").write_bytes(b"inside")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_bytes(b"outside")
    return root


@pytest.fixture(autouse=True)
def no_descriptor_is_left_open() -> Iterator[None]:
    before = set(os.listdir("/dev/fd"))
    yield
    assert len(set(os.listdir("/dev/fd"))) == len(before)


def content(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def test_a_file_is_opened_step_by_step(root: Path) -> None:
    assert content(open_beneath(str(root), "a/b/file", os.O_RDONLY)) == b"inside"
    directory = os.open(root, os.O_RDONLY)
    assert content(open_beneath(directory, "a/b/file", os.O_RDONLY)) == b"inside"
    os.close(directory)
    created = open_beneath(str(root), "a/new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
    assert os.fstat(created).st_mode & 0o777 == 0o640 & ~_umask()
    os.close(created)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("relative", ["", "/a", "../outside/file", "a/../a", "a//b", "./a", "a/", "a/\0"])
def test_only_plain_relative_names_are_taken(root: Path, relative: str) -> None:
    with pytest.raises(ToolError, match="expected a plain relative path"):
        open_beneath(str(root), relative, os.O_RDONLY)


def test_a_link_on_the_way_or_at_the_end_is_refused(root: Path) -> None:
    (root / "dir").symlink_to("../outside")
    (root / "file").symlink_to("a/b/file")
    for relative in ("dir/file", "file", "a/b/file/x"):
        with pytest.raises(ToolError, match="is a link or not a folder"):
            open_beneath(str(root), relative, os.O_RDONLY)


def test_what_is_missing_is_said_by_the_system(root: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_beneath(str(root), "a/none/file", os.O_RDONLY)
    with pytest.raises(FileNotFoundError):
        open_beneath(f"{root}/none", "file", os.O_RDONLY)


def test_the_parent_of_a_file_that_is_not_there_yet(root: Path) -> None:
    parent, name = open_parent(str(root), "a/b/new")
    assert (os.path.samestat(os.fstat(parent), (root / "a/b").stat()), name) == (True, "new")
    os.close(parent)


def test_SEC_061_a_link_swapped_in_while_writing_never_leads_outside(root: Path, tmp_path: Path) -> None:
    folder, away, link = root / "a", root / "a.away", root / "a.link"
    link.symlink_to("../outside")
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            os.rename(folder, away)
            os.rename(link, folder)
            os.rename(folder, link)
            os.rename(away, folder)

    swapper = threading.Thread(target=swap)
    swapper.start()
    for number in range(1000):
        for path in ("a/b/file", "a/file"):
            try:
                replace_beneath(str(root), path, b"%d" % number, 0o644)
            except (ToolError, FileNotFoundError):
                continue  # the folder was away, or a link, at that instant
    done.set()
    swapper.join()
    replace_beneath(str(root), "a/file", b"at rest", 0o644)
    assert (tmp_path / "outside" / "file").read_bytes() == b"outside"
    assert os.listdir(tmp_path / "outside") == ["file"]
    assert (folder / "file").read_bytes() == b"at rest"


def test_SEC_062_a_hard_link_is_replaced_not_written_through(root: Path, tmp_path: Path) -> None:
    os.link(tmp_path / "outside" / "file", root / "a" / "hard")
    replace_beneath(str(root), "a/hard", b"new", 0o600)
    assert (root / "a" / "hard").read_bytes() == b"new"
    assert (tmp_path / "outside" / "file").read_bytes() == b"outside"


def test_a_link_in_the_place_of_the_file_is_replaced(root: Path, tmp_path: Path) -> None:
    (root / "link").symlink_to("../outside/file")
    replace_beneath(str(root), "link", b"new", 0o640)
    assert not (root / "link").is_symlink()
    assert (root / "link").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "outside" / "file").read_bytes() == b"outside"


def test_a_write_that_fails_leaves_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "folder" / "file").mkdir(parents=True)

    with pytest.raises(OSError, match="directory"):
        replace_file(tmp_path / "folder" / "file", b"new")

    assert os.listdir(tmp_path / "folder") == ["file"]
