"""Worktrees: made where nothing else looks, never over something that is there, removed only with what is
elsewhere too; and nothing the repository brings runs meanwhile."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from buddy.agent.tool import ToolError
from buddy.workspace.git.run import GitLock
from buddy.workspace.processes.child import Child
from buddy.workspace.processes.pool import ChildProcesses, CommandRequest
from buddy.workspace.worktrees.changes import carry
from buddy.workspace.worktrees.worktrees import Kept, Worktrees, WorktreeStanding, read_origin
from tests.security.test_git_hostile import MARK, config, git, program
from tests.support.tool_project import tool_project
from tests.support.waiting import until


def commit(folder: Path, text: str = "more") -> str:
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", text)
    return git(folder, "rev-parse", "HEAD").strip()


def plain(folder: Path) -> Path:
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("one\n")
    (folder / ".gitignore").write_text(".env\n")
    commit(folder, "first")
    return folder


class OtherGit(ChildProcesses):
    """Processes of which `git worktree add` is a script, whose arguments are the command."""

    def __init__(self, like: ChildProcesses, script: str) -> None:
        super().__init__(like.environment, like.settings)
        self._script = script

    def start(self, request: CommandRequest, *, errors: int = -1) -> Child:
        if {"worktree", "add"} <= set(request.argv):
            argv = ("/bin/sh", "-c", self._script, "sh", *request.argv)
            request = msgspec.structs.replace(request, argv=argv)
        return super().start(request, errors=errors)


@asynccontextmanager
async def trees_of(
    tmp_path: Path, prepare: Callable[[Path], object] = plain, *, script: str = '"$@"'
) -> AsyncIterator[Worktrees]:
    async with tool_project(tmp_path) as project, OtherGit(project.children, script) as children:
        prepare(project.root)
        yield Worktrees(children, str(project.root), GitLock())


async def refused(trees: Worktrees, wanted: str = "a task", *, exact: bool = False) -> str:
    with pytest.raises(ToolError) as caught:
        await trees.make(wanted, exact=exact)
    return str(caught.value)


async def test_a_worktree_lies_where_the_main_tree_does_not_look(tmp_path: Path) -> None:
    async with trees_of(tmp_path) as trees:
        main = Path(trees.main)
        (main / ".env").write_text("KEY=1")
        tree = await trees.make("Fix the parser: it drops the last line of every file")

        assert (tree.name, tree.branch) == ("fix-the-parser-it-drops", "buddy/fix-the-parser-it-drops")
        assert tree.display_path == ".buddyx/worktrees/fix-the-parser-it-drops"
        assert sorted(os.listdir(tree.path)) == [
            ".git",
            ".gitignore",
            "a.txt",
        ]  # no .env: nothing ignored comes
        assert git(main, "status", "--short") == ""
        assert os.stat(main / ".buddyx").st_mode & 0o777 == 0o700
        assert trees.all() == (tree,)
        assert (trees.missing(tree), (await trees.standing(tree)).is_untouched) == ("", True)
        assert read_origin(tree) == Kept(git(main, "rev-parse", "HEAD").strip())


@pytest.mark.parametrize("nonsense", [b"", b"{}", b"\xff", b'{"commit": "\xff"}', b"[" * 100_000])
async def test_what_is_known_of_a_worktree_may_be_nonsense(tmp_path: Path, nonsense: bytes) -> None:
    async with trees_of(tmp_path) as trees:
        tree = await trees.make("fix")
        Path(tree.record_folder, "made.json").write_bytes(nonsense)
        assert read_origin(tree) is None


async def test_names_and_branches_that_are_taken_are_left_alone(tmp_path: Path) -> None:
    async with trees_of(tmp_path) as trees:
        git(Path(trees.main), "branch", "buddy/fix-2")
        made = [(await trees.make("fix")).name for _ in range(3)]

        assert made == ["fix", "fix-3", "fix-4"]
        assert await refused(trees, "fix", exact=True) == (
            ".buddyx/worktrees/fix is there already; give the worktree another name"
        )
        assert "there is a branch buddy/fix-2 already" in await refused(trees, "fix-2", exact=True)
        assert (await trees.make("…")).name == "task"


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", ".git", "a.state", "-b", "x" * 60, "a\nb", "ä"])
async def test_a_name_is_a_name(tmp_path: Path, name: str) -> None:
    async with trees_of(tmp_path) as trees:
        assert "expected a name of letters" in await refused(trees, name, exact=True)


async def test_no_repository_and_no_commit_are_told_apart(tmp_path: Path) -> None:
    async with trees_of(tmp_path, lambda _folder: None) as trees:
        assert "needs a git repository" in await refused(trees)
        git(Path(trees.main), "init", "-q")
        assert "no commit yet" in await refused(trees)
        config(Path(trees.main), ("core.bare", "true"))
        assert "is bare" in await refused(trees)
        assert not (Path(trees.main) / ".buddyx").exists()


async def test_a_detached_head_is_a_place_to_start_from(tmp_path: Path) -> None:
    async with trees_of(tmp_path) as trees:
        main = Path(trees.main)
        first = git(main, "rev-parse", "HEAD").strip()
        (main / "a.txt").write_text("two\n")
        commit(main)
        git(main, "checkout", "-q", first)
        tree = await trees.make("x")

        assert (Path(tree.path) / "a.txt").read_text() == "one\n"
        assert (await trees.standing(tree)).is_untouched


async def test_the_main_tree_may_be_a_worktree_itself(tmp_path: Path) -> None:
    def prepare(folder: Path) -> None:
        elsewhere = folder.parent / "origin"
        elsewhere.mkdir()
        plain(elsewhere)
        folder.rmdir()
        git(elsewhere, "worktree", "add", "-q", str(folder))

    async with trees_of(tmp_path, prepare) as trees:
        tree = await trees.make("x")

        assert (trees.missing(tree), git(Path(tree.path), "branch", "--show-current")) == ("", "buddy/x\n")
        assert await trees.remove(tree) == git(Path(trees.main), "rev-parse", "HEAD").strip()


async def test_a_worktree_can_start_from_another(tmp_path: Path) -> None:
    async with trees_of(tmp_path) as trees:
        first = await trees.make("first")
        (Path(first.path) / "b.txt").write_text("b\n")
        commit(Path(first.path))
        second = await trees.make("second", start=first.path)

        assert (Path(second.path) / "b.txt").exists()
        assert (await trees.standing(second)).own == 0


async def test_nothing_the_repository_brings_runs(tmp_path: Path) -> None:
    def hostile(folder: Path) -> None:
        plain(folder)
        evil = program(folder)
        for hook in ("post-checkout", "post-index-change", "reference-transaction", "post-commit"):
            shutil.copy(evil, folder / ".git/hooks" / hook)
        (folder / ".gitattributes").write_text("*.txt filter=evil\n")
        git(folder, "-c", "core.hooksPath=/dev/null", "add", "-A")
        git(folder, "-c", "core.hooksPath=/dev/null", "commit", "-qm", "x")
        run = str(evil)
        config(
            folder,
            ("filter.evil.smudge", run),
            ("filter.evil.clean", run),
            ("filter.evil.process", run),
            ("filter.evil.required", "true"),
            ("core.fsmonitor", run),
            ("core.hooksPath", str(folder / ".git/hooks")),
        )

    async with trees_of(tmp_path, hostile) as trees:
        tree = await trees.make("x")
        (Path(tree.path) / "a.txt").write_text("changed\n")
        await trees.standing(tree)
        await trees.remove(tree, discard=True)

        assert not (Path(trees.main).parent / MARK).exists()


async def test_a_link_in_the_place_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    async with trees_of(tmp_path) as trees:
        outside = tmp_path / "outside"
        outside.mkdir()
        (Path(trees.main) / ".buddyx").mkdir()
        (Path(trees.main) / ".buddyx/worktrees").symlink_to(outside)

        assert "found a link or a file" in await refused(trees)
        assert os.listdir(outside) == []


async def test_what_could_not_be_made_leaves_nothing(tmp_path: Path) -> None:
    async with trees_of(tmp_path) as trees:
        main = Path(trees.main)
        git(main, "branch", "buddy")  # a branch in the place of the folder of branches
        assert "git could not do it" in await refused(trees, "x")
        assert trees.all() == ()
        assert os.listdir(main / ".buddyx/worktrees") == [".gitignore"]
        assert git(main, "worktree", "list").count("\n") == 1


async def test_a_worktree_whose_git_leads_elsewhere_is_not_looked_at(tmp_path: Path) -> None:
    async with trees_of(tmp_path) as trees:
        tree = await trees.make("x")
        other = tmp_path / "other"
        other.mkdir()
        plain(other)
        (Path(tree.path) / ".git").write_text(f"gitdir: {other}/.git\n")

        assert "belongs to another repository" in trees.missing(tree)
        with pytest.raises(ToolError, match="belongs to another repository"):
            await trees.remove(tree, discard=True)


async def test_changes_and_commits_are_counted(tmp_path: Path) -> None:
    async with trees_of(tmp_path) as trees:
        main, tree = Path(trees.main), await trees.make("x")
        (main / "b.txt").write_text("b\n")
        commit(main)
        (Path(tree.path) / "c.txt").write_text("c\n")
        commit(Path(tree.path))
        (Path(tree.path) / "a.txt").write_text("new\n")
        (Path(tree.path) / "ü.txt").write_text("new\n")
        standing = await trees.standing(tree)

        assert sorted(standing.changed) == [" M a.txt", "?? ü.txt"]
        assert (standing.ahead, standing.behind, standing.own) == (1, 1, 1)


async def test_commits_that_are_elsewhere_too_are_not_its_own(tmp_path: Path) -> None:
    async with trees_of(tmp_path) as trees:
        main, tree = Path(trees.main), await trees.make("x")
        (Path(tree.path) / "c.txt").write_text("c\n")
        commit(Path(tree.path))
        git(main, "merge", "-q", tree.branch)

        assert (await trees.standing(tree)).is_untouched
        await trees.remove(tree)
        assert git(main, "branch", "--list", "buddy/*") == ""
        assert not os.path.lexists(tree.path)
        assert not os.path.lexists(tree.record_folder)


async def test_a_branch_with_commits_of_its_own_outlives_its_worktree(tmp_path: Path) -> None:
    async with trees_of(tmp_path) as trees:
        main, tree = Path(trees.main), await trees.make("x")
        (Path(tree.path) / "c.txt").write_text("c\n")
        tip = commit(Path(tree.path))

        assert await trees.remove(tree) == ""
        assert git(main, "rev-parse", tree.branch).strip() == tip


async def test_what_is_thrown_away_can_be_named(tmp_path: Path) -> None:
    async with trees_of(tmp_path) as trees:
        main, tree = Path(trees.main), await trees.make("x")
        (Path(tree.path) / "c.txt").write_text("c\n")
        tip = commit(Path(tree.path))

        assert await trees.remove(tree, discard=True) == tip
        assert git(main, "branch", "--list", "buddy/*") == ""


async def test_a_worktree_that_is_gone_says_so(tmp_path: Path) -> None:
    async with trees_of(tmp_path) as trees:
        tree = await trees.make("x")
        shutil.rmtree(tree.path)

        assert trees.missing(tree) == "its worktree .buddyx/worktrees/x is gone (branch buddy/x)"
        with pytest.raises(ToolError, match="is gone"):
            await trees.standing(tree)
        (Path(tree.path)).mkdir()
        assert "has no .git" in trees.missing(tree)


async def test_what_git_warns_of_is_no_part_of_its_answers(tmp_path: Path) -> None:
    async with trees_of(tmp_path) as trees:
        main = Path(trees.main)
        git(main, "update-ref", "refs/tags/HEAD", "HEAD")  # git says before each answer: HEAD is ambiguous
        tree = await trees.make("fix")
        (Path(tree.path) / "a.txt").write_text("two\n")
        (main / "a.txt").write_text("mine\n")

        assert await trees.standing(tree) == WorktreeStanding((" M a.txt",), ahead=0, behind=0, own=0)
        assert await trees.uncommitted_paths() == (" M a.txt",)
        assert await trees.remove(tree, discard=True) == git(main, "rev-parse", "refs/heads/main").strip()


async def test_a_worktree_that_changed_since_it_was_looked_at_is_not_tidied_away(tmp_path: Path) -> None:
    async with trees_of(tmp_path) as trees:
        tree = await trees.make("fix")
        (Path(tree.path) / "new.txt").write_text("saved at the last moment\n")
        with pytest.raises(ToolError, match=r"\.buddyx/worktrees/fix has changes by now; it stays"):
            await trees.remove(tree, untouched=True)

        assert (Path(tree.path) / "new.txt").read_text() == "saved at the last moment\n"
        (Path(tree.path) / "new.txt").unlink()
        await trees.remove(tree, untouched=True)
        assert trees.all() == ()


async def test_submodules_are_left_alone(tmp_path: Path) -> None:
    def prepare(folder: Path) -> None:
        inner = folder.parent / "inner"
        inner.mkdir()
        plain(inner)
        plain(folder)
        git(folder, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "sub")
        commit(folder)

    async with trees_of(tmp_path, prepare) as trees:
        tree = await trees.make("x")

        assert os.listdir(Path(tree.path) / "sub") == []
        assert (await trees.standing(tree)).is_untouched
        await trees.remove(tree)
        assert (Path(trees.main) / "sub/a.txt").exists()


@pytest.mark.parametrize(
    "said", ["git: 'worktree' is not a git command. See 'git --help'.", "usage: git worktree"]
)
async def test_a_git_that_is_too_old_is_named(tmp_path: Path, said: str) -> None:
    async with trees_of(tmp_path, script=f'echo "{said}"; exit 1') as trees:
        assert await refused(trees) == "this git is too old for worktrees; 2.17 or newer has what is needed"


async def test_a_full_disk_leaves_nothing_half_made(tmp_path: Path) -> None:
    full = 'timeout 60 "$@"; echo "fatal: write error: No space left on device"; exit 128'
    async with trees_of(tmp_path, script=full) as trees:
        main = Path(trees.main)
        assert "No space left on device" in await refused(trees)
        assert os.listdir(main / ".buddyx/worktrees") == [".gitignore"]
        assert git(main, "branch", "--list", "buddy/*") == ""
        assert git(main, "worktree", "list").count("\n") == 1


async def test_one_that_is_cancelled_leaves_nothing_half_made(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    async with trees_of(tmp_path, script=f'touch {begun}; "$@"; sleep 1') as trees:
        making = asyncio.ensure_future(trees.make("x"))
        await until(begun.exists)
        making.cancel()
        with pytest.raises(asyncio.CancelledError):
            await making
        assert os.listdir(Path(trees.main) / ".buddyx/worktrees") == [".gitignore"]
        assert git(Path(trees.main), "branch", "--list", "buddy/*") == ""


async def test_uncommitted_changes_are_carried_but_no_secrets(tmp_path: Path) -> None:
    def prepare(folder: Path) -> None:
        plain(folder)
        (folder / "gone.txt").write_text("g\n")
        (folder / "run.sh").write_text("echo\n")
        commit(folder)

    async with trees_of(tmp_path, prepare) as trees:
        main = Path(trees.main)
        (main / "a.txt").write_text("mine\n")
        (main / "gone.txt").unlink()
        (main / "deep/new").mkdir(parents=True)
        (main / "deep/new/ü\n.txt").write_text("new\n")
        (main / "run.sh").chmod(0o755)
        (main / "link").symlink_to("a.txt")
        (main / ".env").write_text("ignored")
        (main / "id_rsa").write_text("secret by name")
        tree = await trees.make("x")
        left_out = carry(tree, await trees.uncommitted_paths(), str(tmp_path / "home"))

        assert left_out == ("id_rsa",)
        there = Path(tree.path)
        assert sorted(one.name for one in there.iterdir()) == [
            ".git",
            ".gitignore",
            "a.txt",
            "deep",
            "link",
            "run.sh",
        ]
        assert (there / "a.txt").read_text() == "mine\n"
        assert (there / "deep/new/ü\n.txt").read_text() == "new\n"
        assert os.readlink(there / "link") == "a.txt"
        assert os.access(there / "run.sh", os.X_OK)


async def test_what_is_carried_goes_through_no_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()

    def prepare(folder: Path) -> None:
        plain(folder)
        (folder / "src").symlink_to(outside)
        commit(folder)

    async with trees_of(tmp_path, prepare) as trees:
        main = Path(trees.main)
        (main / "src").unlink()
        (main / "src").mkdir()
        (main / "src/a.txt").write_text("inside\n")
        tree = await trees.make("x")
        with pytest.raises((ToolError, OSError)):
            carry(tree, ("?? src/a.txt",), str(tmp_path / "home"))

        assert os.listdir(outside) == []


async def test_a_list_of_changes_over_128_kb_is_carried_whole_and_too_many_are_counted(
    tmp_path: Path,
) -> None:
    async with trees_of(tmp_path) as trees:
        main = Path(trees.main)
        names = [f"{number:04}-{'n' * 150}" for number in range(1000)]
        for name in names:
            (main / name).write_text(name)
        tree = await trees.make("fix")
        changed = await trees.uncommitted_paths()
        assert changed == tuple(f"?? {name}" for name in names)
        assert carry(tree, changed, str(tmp_path / "home")) == ()
        assert [(Path(tree.path) / name).read_text() for name in names] == names
        assert (await trees.standing(tree)).changed == changed
        many = tuple(f"?? {number}" for number in range(5_001))
        with pytest.raises(ToolError, match="there are 5,001 changes, and at most 5,000 can be carried over"):
            carry(tree, many, str(tmp_path / "home"))


async def test_a_list_of_changes_that_is_cut_is_not_carried(tmp_path: Path) -> None:
    async with trees_of(tmp_path) as trees:
        tree = await trees.make("x")
        with pytest.raises(ToolError, match="list of the changes is too long to be read whole"):
            carry(tree, (" M a.txt", "[… 5,000 lines left out …]"), str(tmp_path / "home"))


async def test_a_file_in_the_place_of_a_folder_is_carried_and_the_other_way_round(tmp_path: Path) -> None:
    def prepare(folder: Path) -> None:
        plain(folder)
        (folder / "folder/deep").mkdir(parents=True)
        (folder / "folder/deep/a.txt").write_text("a\n")
        (folder / "file").write_text("f\n")
        commit(folder)

    async with trees_of(tmp_path, prepare) as trees:
        main = Path(trees.main)
        shutil.rmtree(main / "folder")
        (main / "folder").write_text("now a file\n")
        (main / "file").unlink()
        (main / "file").mkdir()
        (main / "file/b.txt").write_text("b\n")
        tree = await trees.make("x")

        assert carry(tree, await trees.uncommitted_paths(), str(tmp_path / "home")) == ()
        assert (Path(tree.path) / "folder").read_text() == "now a file\n"
        assert (Path(tree.path) / "file/b.txt").read_text() == "b\n"
