"""Walking a tree: everything that is there, nothing twice, nothing outside, and an end."""

from __future__ import annotations

import os
import time
from pathlib import Path

from buddy.workspace.search.ignore import IgnoreTree
from buddy.workspace.search.walk import walk


def make(root: Path, *names: str) -> str:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    return str(root.resolve())


def test_files_come_in_order_and_ignored_things_are_named_but_not_entered(tmp_path: Path) -> None:
    root = make(tmp_path, "b/c", "a", "b/.x", "out/deep/y", "k.log", "vendor/z", "vendor/.git/HEAD")
    (tmp_path / ".gitignore").write_text("out/\n*.log\n")

    found = walk(root, IgnoreTree(root))

    assert found.files == [".gitignore", "a", "b/.x", "b/c", "vendor/z"]
    assert sorted(found.ignored) == ["k.log", "out/", "vendor/.git/"]
    assert found.whole


def test_links_are_named_and_never_followed(tmp_path: Path) -> None:
    outside = make(tmp_path / "outside", "secret")
    root = make(tmp_path / "in", "a")
    (tmp_path / "in" / "loop").symlink_to(root)
    (tmp_path / "in" / "away").symlink_to(outside)
    os.mkfifo(tmp_path / "in" / "pipe")

    found = walk(root, IgnoreTree(root))

    assert found.files == ["a"]
    assert sorted(found.links) == ["away", "loop"]
    assert found.special == ["pipe"]


def test_a_walk_that_is_stopped_or_bounded_says_that_it_is_not_whole(tmp_path: Path) -> None:
    root = make(tmp_path, *(f"{n}/{m}" for n in range(20) for m in range(5)))

    assert not walk(root, None, lambda: True).whole
    bounded = walk(root, None, max_files=30)
    assert (bounded.whole, 30 <= len(bounded.files) <= 35) == (False, True)


def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    started = time.monotonic()

    assert walk(str(tmp_path / "nothing"), None).unreadable == ["."]
    assert time.monotonic() - started < 40  # a deadline against hanging
