"""Walks through trees that are deeper than Python's stack, and what works in such trees."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from buddy.safety.paths import remove_tree, walk_tree
from buddy.safety.trusted_files import trusted_things
from buddy.workspace.checkpoints.snapshots import folders_below, only_folders
from buddy.workspace.undo.trash import size_of

DEPTH = 1_200
assert sys.getrecursionlimit() < 2 * DEPTH


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """A folder with 1,200 folders within each other."""
    top = tmp_path / "top"
    top.mkdir()
    folder = os.open(top, os.O_RDONLY)
    try:
        for _ in range(DEPTH):
            os.mkdir("d", dir_fd=folder)
            inside = os.open("d", os.O_RDONLY, dir_fd=folder)
            os.close(folder)
            folder = inside
        yield top
    finally:
        os.close(folder)
        for depth in range(DEPTH if top.exists() else 0, 0, -1):
            os.rmdir(top / "/".join("d" * depth))


def test_a_deep_tree_is_walked_to_its_end(deep: Path) -> None:
    assert sum(1 for _ in walk_tree(str(deep))) == DEPTH + 1
    assert only_folders(str(deep))
    assert folders_below(str(deep.parent), "top")[0] == "top"
    assert size_of(str(deep)) == 0


def test_files_below_a_deep_folder_are_seen_before_trust(deep: Path) -> None:
    root = deep.parent / "root"
    (root / ".buddyx").mkdir(parents=True)
    deep.rename(root / ".buddyx" / "ext")
    (root / ".buddyx" / "ext" / "d" / "evil.py").write_text("x\n")
    try:
        assert ".buddyx/ext/d/evil.py" in trusted_things(str(root))
    finally:
        (root / ".buddyx" / "ext" / "d" / "evil.py").unlink()
        (root / ".buddyx" / "ext").rename(deep)


def test_folders_taken_out_are_not_entered_and_links_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a" / "inner").mkdir(parents=True)
    (tmp_path / "b" / "inner").mkdir(parents=True)
    (tmp_path / "b" / "file").write_text("x")
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "loop").symlink_to("loop")
    seen = {}
    for folder, folders, names in walk_tree(str(tmp_path)):
        seen[os.path.relpath(folder, tmp_path)] = (sorted(folders), names)
        if "a" in folders:
            folders.remove("a")

    assert seen == {
        ".": (["a", "b", "link"], ["loop"]),
        "b": (["inner"], ["file"]),
        "b/inner": ([], []),
    }


def test_a_deep_tree_is_removed_and_what_links_lead_to_stays(deep: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("x")
    (deep / "link").symlink_to(tmp_path / "mine")
    (deep / "d" / "file").write_text("x")

    remove_tree(str(deep))

    assert sorted(os.listdir(tmp_path)) == ["mine"]
    assert (tmp_path / "mine" / "file").exists()


def test_what_is_not_there_cannot_be_removed(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        remove_tree(str(tmp_path / "missing"))


def test_a_folder_that_is_not_there_has_nothing(tmp_path: Path) -> None:
    assert list(walk_tree(str(tmp_path / "missing"))) == []
