"""Pipes where git expects files: they are seen before git is started, and buddy itself waits for none."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from buddy.safety.git_configuration import executing_keys
from buddy.safety.git_repository import IN_FOLDERS, IN_GIT_FOLDER, files_that_wait, read_regular


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "repo"
    (root / "a" / "b").mkdir(parents=True)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    for name in (".gitignore", ".gitattributes"):
        (root / name).write_text("*.o\n")
    return root


def waiting(root: Path, cwd: Path | None = None) -> tuple[str, ...]:
    return files_that_wait(str(cwd or root), str(root), str(root / ".git"))


def in_its_place(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    return path


def test_ordinary_files_and_missing_ones_hold_nothing_up(repository: Path) -> None:
    assert waiting(repository) == waiting(repository, repository / "a" / "b") == ()


@pytest.mark.parametrize("name", [*IN_FOLDERS, *(f".git/{name}" for name in IN_GIT_FOLDER)])
def test_SEC_063_a_pipe_is_seen_before_git_opens_it(repository: Path, name: str) -> None:
    os.mkfifo(in_its_place(repository / name))
    assert waiting(repository, repository / "a" / "b") == (str(repository / name),)
    if name != ".git/HEAD":  # without it there is no repository, and git does nothing
        keys = executing_keys(str(repository), str(repository))
        assert keys == (f"{repository / name}: a pipe or a device, git would wait for it",)


def test_sockets_devices_and_links_to_them_are_seen_in_folders_on_the_way(repository: Path) -> None:
    (repository / "a" / ".gitignore").symlink_to("/dev/zero")
    inner = repository / "a" / "b"
    os.mknod(inner / ".gitattributes", stat.S_IFSOCK | 0o600)
    assert waiting(repository, inner) == (str(inner / ".gitattributes"), str(repository / "a" / ".gitignore"))
    assert waiting(repository) == ()


def test_the_look_ends_at_the_root_of_the_file_system() -> None:
    assert files_that_wait("/", "/nowhere", "/nowhere/.git") == ()


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    os.mkfifo(tmp_path / "pipe")
    assert read_regular(str(tmp_path / "file"), 4) == b"0123"
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "missing", Path("/dev/zero")):
        assert read_regular(str(path), 4) == b""
    assert read_regular("/proc/self/mem", 4) == b""
    assert read_regular("nul\0byte", 4) == b""
