"""The difference of two worktrees that began in the same state, and a worktree made like another one."""

from __future__ import annotations

import os
from pathlib import Path

from buddy.workspace.worktrees.changes import FileChanged, WorktreeChanges, between, carry
from tests.unit.workspace.worktrees.test_worktrees import commit, plain, trees_of

FILE = 0o100644


def changes(*files: FileChanged) -> WorktreeChanges:
    return WorktreeChanges(files, "state", ())


def changed(path: str, before: bytes | None, after: bytes | None) -> FileChanged:
    return FileChanged(
        path, before, after, (FILE if before is not None else 0, FILE if after is not None else 0)
    )


def test_a_file_that_one_of_them_changed_is_compared_with_what_it_was() -> None:
    one = changes(changed("a", b"1", b"2"))
    assert between(one, changes()) == (changed("a", b"2", b"1"),)
    assert between(changes(), one) == (changed("a", b"1", b"2"),)


def test_files_that_both_made_changed_or_deleted_are_compared_with_each_other() -> None:
    one = changes(changed("new", None, b"x"), changed("same", b"1", b"2"), changed("gone", b"1", None))
    other = changes(changed("new", None, b"y"), changed("same", b"1", b"2"), changed("gone", b"1", b"3"))
    assert between(one, other) == (changed("gone", None, b"3"), changed("new", b"x", b"y"))


def test_a_file_that_only_one_of_them_made_is_new_or_gone_in_the_other() -> None:
    one = changes(changed("new", None, b"x"))
    assert between(one, changes()) == (changed("new", b"x", None),)
    assert between(changes(), one) == (changed("new", None, b"x"),)
    assert between(one, one) == ()


def test_permissions_alone_are_a_difference() -> None:
    runs = FileChanged("run", b"1", b"1", (FILE, 0o100755))
    assert between(changes(), changes(runs)) == (runs,)


async def test_a_worktree_is_made_like_another_one_whatever_is_saved_meanwhile(tmp_path: Path) -> None:
    def prepare(folder: Path) -> None:
        plain(folder)
        for name in ("gone.txt", "kept.txt"):
            (folder / name).write_text(f"{name}\n")
        commit(folder)

    async with trees_of(tmp_path, prepare) as trees:
        main, home = Path(trees.main), str(tmp_path / "home")
        (main / "a.txt").write_text("mine\n")
        (main / "gone.txt").unlink()
        (main / "new").mkdir()
        (main / "new/b.txt").write_text("untracked\n")
        (main / "link").symlink_to("a.txt")
        first = await trees.make("first")
        carry(first, await trees.uncommitted_paths(), home)
        (main / "a.txt").write_text("saved later\n")
        (main / "late.txt").write_text("saved later\n")
        commit(main, "later")

        second = await trees.make("second", start=first.path)
        assert carry(second, await trees.uncommitted_paths(first.path), home, source=first.path) == ()
        there = Path(second.path)
        assert sorted(one.name for one in there.iterdir()) == [
            ".git",
            ".gitignore",
            "a.txt",
            "kept.txt",
            "link",
            "new",
        ]
        assert (there / "a.txt").read_text() == "mine\n"
        assert (there / "new/b.txt").read_text() == "untracked\n"
        assert os.readlink(there / "link") == "a.txt"
