"""Changes of a worktree brought to the main tree: three-way, all or nothing; what is there is never lost."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from buddy.agent.display import Diff
from buddy.agent.tool import ToolError
from buddy.tools.worktree_merge import bring, changes_diff, is_there, links_by_hand
from buddy.workspace.worktrees.changes import WorktreeStates
from buddy.workspace.worktrees.worktrees import Worktree
from tests.security.test_git_hostile import git
from tests.support.tool_project import ToolProject
from tests.support.undo_logs import SEAL
from tests.unit.workspace.worktrees.test_worktrees import trees_of

LINES = "".join(f"{number}\n" for number in range(1, 11))


class Pair(msgspec.Struct):
    """A main tree and a worktree of it."""

    main: Path
    tree: Path
    states: WorktreeStates
    worktree: Worktree
    project: ToolProject

    async def bring(self, *, protected: bool = False) -> list[tuple[str, str]]:
        """Return the merged changes: path and kind."""
        diff = await bring(self.project.context(2), self.states.changes(self.worktree), protected=protected)
        return [(file.path, file.change) for file in diff.files]

    async def refused(self) -> str:
        before = _files(self.main)
        with pytest.raises(ToolError) as caught:
            await self.bring()
        assert _files(self.main) == before
        return str(caught.value).removeprefix("nothing was brought over; these can't be merged:\n")


def _files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not {".git", ".buddyx"} & set(path.relative_to(folder).parts)
    }


@asynccontextmanager
async def pair(
    tmp_path: Path, *, links: Mapping[str, str] | None = None, **files: str | bytes
) -> AsyncIterator[Pair]:
    def prepare(folder: Path) -> None:
        git(folder, "init", "-q", "-b", "main")
        for name, content in files.items():
            path = folder / name.replace("__", ".").replace("_in_", "/")
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        for name, target in (links or {}).items():
            (folder / name).symlink_to(target)
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", "first", "--allow-empty")

    async with trees_of(tmp_path, prepare) as trees:
        tree = await trees.make("x")
        states = WorktreeStates({"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")}, SEAL)
        states.begin(tree)
        project = ToolProject(Path(trees.main), session=tmp_path / "session")
        yield Pair(Path(trees.main), Path(tree.path), states, tree, project)


async def test_disjoint_lines_of_both_are_kept(tmp_path: Path) -> None:
    async with pair(tmp_path, a__txt=LINES) as two:
        (two.tree / "a.txt").write_text(LINES.replace("2\n", "two\n", 1))
        (two.main / "a.txt").write_text(LINES.replace("9\n", "nine\n"))

        assert await two.bring() == [("a.txt", "update")]
        assert (two.main / "a.txt").read_text() == LINES.replace("2\n", "two\n", 1).replace("9\n", "nine\n")
        assert await two.bring() == []  # all of it is there, and there is nothing more to undo
        assert len(two.project.undo.entries()) == 1


async def test_new_deleted_and_runnable_files_come_and_one_undo_takes_all_back(tmp_path: Path) -> None:
    async with pair(tmp_path, gone__txt="g\n", run__sh="echo\n") as two:
        before = _files(two.main)
        (two.tree / "gone.txt").unlink()
        (two.tree / "new/deep").mkdir(parents=True)
        (two.tree / "new/deep/a b.txt").write_text("n\n")
        (two.tree / "run.sh").chmod(0o755)

        assert sorted(await two.bring()) == [
            ("gone.txt", "delete"),
            ("new/deep/a b.txt", "add"),
            ("run.sh", "update"),
        ]
        assert sorted(_files(two.main)) == ["new/deep/a b.txt", "run.sh"]
        assert os.stat(two.main / "run.sh").st_mode & stat.S_IXUSR
        two.project.undo.undo(two.project.locks, 2)
        assert _files(two.main) == before
        assert not (two.main / "new").exists()


async def test_committed_and_uncommitted_changes_come_alike(tmp_path: Path) -> None:
    async with pair(tmp_path, a__txt="1\n", b__txt="1\n") as two:
        (two.tree / "a.txt").write_text("2\n")
        git(two.tree, "add", "-A")
        git(two.tree, "commit", "-qm", "two")
        (two.tree / "b.txt").write_text("2\n")

        assert sorted(await two.bring()) == [("a.txt", "update"), ("b.txt", "update")]
        assert git(two.main, "status", "--short") == " M a.txt\n M b.txt\n"
        assert git(two.main, "log", "--oneline").count("\n") == 1


async def test_every_conflict_is_named_and_nothing_is_changed(tmp_path: Path) -> None:
    files = dict.fromkeys(("both__txt", "fine__txt", "gone_here__txt", "gone_there__txt"), LINES)
    async with pair(tmp_path, **files, data__bin=b"\0one") as two:
        for name in ("both.txt", "fine.txt", "gone_here.txt"):
            (two.tree / name).write_text(LINES.replace("5\n", "five\n"))
        (two.tree / "gone_there.txt").unlink()
        (two.tree / "data.bin").write_bytes(b"\0two")
        (two.tree / "new.txt").write_text("theirs\n")
        (two.main / "both.txt").write_text(LINES.replace("5\n", "FIVE\n"))
        (two.main / "gone_here.txt").unlink()
        (two.main / "gone_there.txt").write_text("changed\n")
        (two.main / "data.bin").write_bytes(b"\0three")
        (two.main / "new.txt").write_text("mine\n")

        assert (await two.refused()).splitlines() == [
            "both.txt: both changed lines 5 to 5 (of the file as it was)",
            "data.bin: binary, and changed in both",
            "gone_here.txt: changed in the worktree, deleted in the main tree",
            "gone_there.txt: deleted in the worktree, changed in the main tree",
            "new.txt: made in both, with different contents",
        ]


async def test_a_link_in_the_main_tree_leads_nothing_out_of_it(tmp_path: Path) -> None:
    async with pair(tmp_path, src_in_a__txt="1\n") as two:
        outside = tmp_path / "outside"
        (two.main / "src").rename(outside)
        (two.main / "src").symlink_to(outside)
        (two.tree / "src/a.txt").write_text("2\n")
        (two.tree / "src/b.txt").write_text("new\n")

        said = await two.refused()
        assert said.count("it leads elsewhere in the main tree") == 2
        assert sorted(os.listdir(outside)) == ["a.txt"]
        assert (outside / "a.txt").read_text() == "1\n"


async def test_N3_links_are_named_and_the_other_files_come(tmp_path: Path) -> None:
    async with pair(tmp_path, a__txt="1\n", c__txt="c\n") as two:
        (two.tree / "b").symlink_to("/etc/passwd")
        (two.tree / "sub").mkdir()
        (two.tree / "sub/l").symlink_to("../a.txt")
        (two.tree / "c.txt").unlink()
        (two.tree / "c.txt").symlink_to("a.txt")
        (two.tree / "a.txt").write_text("2\n")
        changes = two.states.changes(two.worktree)
        call = two.project.context(2, "merge of x")

        assert await two.bring() == [("a.txt", "update")]
        assert not any(os.path.lexists(two.main / name) for name in ("b", "sub/l"))
        assert (two.main / "c.txt").read_text() == "c\n"
        assert links_by_hand(call, changes) == (
            "b (a link to /etc/passwd)",
            "c.txt (a link to a.txt)",
            "sub/l (a link to ../a.txt)",
        )


async def test_N3_a_worktree_with_links_is_not_dropped_before_they_are_made(tmp_path: Path) -> None:
    async with pair(tmp_path, a__txt="1\n", old="x\n") as two:
        (two.tree / "b").symlink_to("a.txt")
        (two.tree / "a.txt").write_text("2\n")
        changes = two.states.changes(two.worktree)
        call = two.project.context(2, "merge of x")
        await bring(call, changes)
        assert not is_there(call, changes)
        (two.main / "b").symlink_to("elsewhere")
        assert not is_there(call, changes)
        (two.main / "b").unlink()
        (two.main / "b").symlink_to("a.txt")
        assert is_there(call, changes)
        assert links_by_hand(call, changes) == ()


async def test_N3_a_link_that_went_or_became_a_file_is_named_as_well(tmp_path: Path) -> None:
    async with pair(tmp_path, links={"gone": "a.txt", "file": "a.txt"}, a__txt="1\n") as two:
        (two.tree / "gone").unlink()
        (two.tree / "file").unlink()
        (two.tree / "file").write_text("a file now\n")
        changes = two.states.changes(two.worktree)
        call = two.project.context(2, "merge of x")
        assert links_by_hand(call, changes) == (
            "file (a file in place of the link)",
            "gone (no longer there)",
        )
        assert await two.bring() == []
        assert (two.main / "gone").is_symlink()
        (two.main / "gone").unlink()
        (two.main / "file").unlink()
        (two.main / "file").write_text("a file now\n")
        assert links_by_hand(call, changes) == ()
        assert is_there(call, changes)


async def test_N3_a_conflict_elsewhere_still_refuses_everything(tmp_path: Path) -> None:
    async with pair(tmp_path, a__txt="1\n") as two:
        (two.tree / "b").symlink_to("/etc/passwd")
        (two.tree / "a.txt").write_text("2\n")
        (two.main / "a.txt").write_text("3\n")
        assert (await two.refused()).startswith("a.txt: both changed lines 1 to 1")


@pytest.mark.parametrize("name", ["\x1b[2Jx", "a\nb", "\u202ex"])
async def test_N3_names_and_targets_of_links_do_not_write_on_the_terminal(tmp_path: Path, name: str) -> None:
    async with pair(tmp_path, a__txt="1\n") as two:
        (two.tree / name).symlink_to(name * 2)
        (told,) = links_by_hand(two.project.context(2), two.states.changes(two.worktree))
        assert told.isprintable()


async def test_protected_names_come_only_when_that_is_said(tmp_path: Path) -> None:
    async with pair(tmp_path, a__txt="1\n") as two:
        (two.tree / ".vscode").mkdir()
        (two.tree / ".vscode/tasks.json").write_text("{}\n")

        assert (await two.refused()).endswith("/worktree merge N protected brings such files too")
        assert await two.bring(protected=True) == [(".vscode/tasks.json", "add")]


async def test_secrets_stay_where_they_are_and_are_named(tmp_path: Path) -> None:
    async with pair(tmp_path, a__txt="1\n") as two:
        (two.tree / ".env").write_text("KEY=1\n")
        (two.tree / "a.txt").write_text("2\n")

        assert two.states.changes(two.worktree).left_out == (".env",)
        assert await two.bring() == [("a.txt", "update")]
        assert not (two.main / ".env").exists()


async def test_files_git_converts_are_compared_as_they_lie_on_disk(tmp_path: Path) -> None:
    async with pair(
        tmp_path, __gitattributes="*.txt text eol=crlf\n", a__txt="1\r\n2\r\n3\r\n4\r\n5\r\n"
    ) as two:
        assert (two.tree / "a.txt").read_bytes() == b"1\r\n2\r\n3\r\n4\r\n5\r\n"
        assert two.states.changes(two.worktree).files == ()
        (two.tree / "a.txt").write_bytes(b"one\r\n2\r\n3\r\n4\r\n5\r\n")
        (two.main / "a.txt").write_bytes(b"1\r\n2\r\n3\r\n4\r\nfive\r\n")

        assert await two.bring() == [("a.txt", "update")]
        assert (two.main / "a.txt").read_bytes() == b"one\r\n2\r\n3\r\n4\r\nfive\r\n"


async def test_nothing_is_lost_with_a_worktree_while_the_main_tree_has_all_of_it(tmp_path: Path) -> None:
    async with pair(tmp_path, a__txt="1\n") as two:
        (two.tree / "a.txt").write_text("2\n")
        changes = two.states.changes(two.worktree)
        call = two.project.context(2, "merge of x")
        assert not is_there(call, changes)
        await bring(call, changes)
        assert is_there(call, changes)

        (two.main / "a.txt").write_text("3\n")  # the person goes on with what was brought over
        assert is_there(call, changes)
        assert not is_there(two.project.context(2, "another"), changes)
        (two.main / "a.txt").write_text("2\n")
        assert is_there(two.project.context(2, "another"), changes)

        two.project.undo.undo(two.project.locks, 2)
        assert not is_there(call, changes)


async def test_what_no_state_takes_is_never_said_to_be_there(tmp_path: Path) -> None:
    async with pair(tmp_path, a__txt="1\n") as two:
        (two.tree / ".env").write_text("KEY=1\n")
        assert not is_there(two.project.context(2), two.states.changes(two.worktree))


async def test_a_worktree_whose_beginning_is_not_known_is_left_to_git(tmp_path: Path) -> None:
    async with pair(tmp_path, a__txt="1\n") as two:
        (Path(two.worktree.record_folder) / "made.json").unlink()
        with pytest.raises(ToolError, match="git merge buddy/x takes its commits"):
            two.states.changes(two.worktree)


async def test_the_diff_has_what_a_person_reads(tmp_path: Path) -> None:
    async with pair(tmp_path, a__txt="1\n", b__txt="1\n") as two:
        (two.tree / "a.txt").write_text("2\n")
        (two.tree / "b.txt").unlink()
        (two.tree / "c.txt").write_text("3\n")
        shown = changes_diff(two.states.changes(two.worktree))

        assert isinstance(shown, Diff)
        assert [(one.path, one.change, one.added, one.removed) for one in shown.files] == [
            ("a.txt", "update", 1, 1),
            ("b.txt", "delete", 0, 1),
            ("c.txt", "add", 1, 0),
        ]


async def test_RU_H12_a_planted_repository_of_worktree_states_is_thrown_away(tmp_path: Path) -> None:
    async with pair(tmp_path, a__txt=LINES) as two:
        config = Path(two.worktree.record_folder) / "states" / "config"
        shutil.rmtree(config.parent)
        config.parent.mkdir()
        git(two.main, "init", "-q", "--bare", str(config.parent))
        with open(config, "a", encoding="utf-8") as file:  # noqa: ASYNC230 - a small file
            file.write(f"[core]\n\tfsmonitor = touch {tmp_path}/OWNED; false\n")
        assert two.states.changes(two.worktree).files == ()
        assert not (tmp_path / "OWNED").exists()
        assert "touch" not in config.read_text()
