"""git as a model uses it: looking, changing, and what is shown of both."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from buddy.agent.display import Diff, FileDiff, Plain
from buddy.agent.tool import Access, ToolError
from buddy.tools.git import file_of_ref, git_branch, git_diff, git_log, git_show, git_status
from buddy.tools.git_write import git_add, git_checkout, git_commit, git_pull, git_push, git_stash
from buddy.workspace.git.diff import parse_diff
from buddy.workspace.git.run import GitLock
from tests.security.test_git_hostile import config, git, program, repository
from tests.support.processes import processes_with
from tests.support.tool_project import CommandProject, tool_project
from tests.support.waiting import until


async def test_status_shows_branch_and_changes(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        repository(project.root)
        result = await project.call(git_status)
        assert result.text == "## main\n M a.txt\nM  b.txt\n?? new.txt\n"
        assert result.display == Plain("3 changed paths", result.text)
        assert (await project.call(git_status, path="a.txt")).text == "## main\n M a.txt\n"


async def test_a_clean_tree_says_so(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        git(repository(project.root), "reset", "-q", "--hard")
        (project.root / "new.txt").unlink()
        assert (await project.call(git_status)).text == "## main\nnothing changed, nothing untracked\n"


async def test_a_path_that_is_not_there_is_not_taken_for_one_without_changes(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        git(repository(project.root), "reset", "-q", "--hard")
        for path in ("*.txt", "nwe.txt"):
            for tool in (git_status, git_diff, git_log, git_show):
                said = (await project.call(tool, path=path)).text
                assert f"; {path} does not exist." in said, (tool.name, said)
        assert "Did you mean new.txt" in (await project.call(git_diff, path="nwe.txt")).text
        assert (await project.call(git_log, path="new.txt")).text == "no commits\n"


async def test_diff_is_text_for_the_model_and_files_for_the_person(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        repository(project.root)
        result = await project.call(git_diff)
        assert "+two\n" in result.text
        assert result.display == Diff(
            (FileDiff("a.txt", "update", "@@ -1 +1,2 @@\n one\n+two\n", added=1, removed=0),)
        )
        staged = await project.call(git_diff, cached=True)
        assert isinstance(staged.display, Diff)
        assert [file.path for file in staged.display.files] == ["b.txt"]
        against = await project.call(git_diff, ref="HEAD~1")
        assert isinstance(against.display, Diff)
        assert [(file.path, file.change) for file in against.display.files] == [
            ("a.txt", "update"),
            ("b.txt", "add"),
        ]
        assert (await project.call(git_diff, path="b.txt")).text == "no differences\n"


async def test_additions_deletions_renames_binaries_and_odd_names_are_told_apart(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        folder = repository(project.root)
        (folder / "long.txt").write_text("".join(f"{n}\n" for n in range(50)))
        git(folder, "add", ".")
        git(folder, "commit", "-qm", "third")
        git(folder, "mv", "long.txt", 'odd "näme"\t.txt')
        git(folder, "rm", "-q", "b.txt")
        (folder / "bin").write_bytes(b"\0\1")
        (folder / "with blank").write_text("-- sql comment\n++ plus\n")
        git(folder, "add", ".")
        result = await project.call(git_diff, staged=True)
        assert isinstance(result.display, Diff)
        found = [
            (file.path, file.change, file.new_path, file.added, file.removed) for file in result.display.files
        ]
        assert found == [
            ("b.txt", "delete", "", 0, 1),
            ("bin", "add", "", 0, 0),
            ("long.txt", "move", 'odd "näme"\t.txt', 0, 0),
            ("with blank", "add", "", 2, 0),
        ]


async def test_log_show_and_branches(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        repository(project.root)
        lines = (await project.call(git_log)).text.splitlines()
        assert [line.split(" A: ")[1] for line in lines] == ["second (HEAD -> main)", "first"]
        assert len((await project.call(git_log, max_count=1)).text.splitlines()) == 1
        assert len((await project.call(git_log, path="b.txt")).text.splitlines()) == 1
        shown = await project.call(git_show, ref="HEAD~1", path="a.txt")
        assert "    first" in shown.text
        assert isinstance(shown.display, Diff)
        assert shown.display.files == (FileDiff("a.txt", "add", "@@ -0,0 +1 @@\n+one\n", added=1, removed=0),)
        assert (await project.call(git_show, ref="HEAD:a.txt")).text == "one\n"
        assert (await project.call(git_branch)).text.startswith("* main ")


def _merge(folder: Path) -> Path:
    """Merge a branch that adds c.txt into one that adds b.txt."""
    git(repository(folder), "reset", "-q", "--hard")
    git(folder, "checkout", "-q", "-b", "topic", "HEAD~1")
    (folder / "c.txt").write_text("c\n")
    git(folder, "add", "c.txt")
    git(folder, "commit", "-qm", "topic adds c")
    git(folder, "checkout", "-q", "main")
    git(folder, "merge", "-q", "--no-edit", "topic")
    return folder


@pytest.mark.parametrize("configured", ["", "separate", "off", "remerge"])
async def test_RU_15_a_merge_is_shown_against_its_first_parent(tmp_path: Path, configured: str) -> None:
    async with tool_project(tmp_path) as project:
        folder = _merge(project.root)
        if configured:
            git(folder, "config", "log.diffMerges", configured)
        for path in ("", "c.txt"):
            shown = await project.call(git_show, path=path)
            assert isinstance(shown.display, Diff)
            assert shown.display.files == (
                FileDiff("c.txt", "add", "@@ -0,0 +1 @@\n+c\n", added=1, removed=0),
            )
            assert shown.text.endswith("+c\n[a merge, compared with its first parent]\n")
        assert "a merge" not in (await project.call(git_show, ref="topic")).text


async def test_RU_15_an_unchanged_path_is_told_with_where_the_file_is(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        folder = _merge(project.root)
        (folder / "sub").mkdir()
        (folder / "sub" / "d.txt").write_text("d\n")
        git(folder, "add", ".")
        git(folder, "commit", "-qm", "adds sub/d")
        git(folder, "commit", "-q", "--allow-empty", "-m", "nothing at all")
        expected = {
            ("HEAD", "c.txt"): "HEAD does not change c.txt; the file itself is HEAD:c.txt\n",
            (
                "HEAD",
                str(folder / "sub/d.txt"),
            ): "HEAD does not change sub/d.txt; the file itself is HEAD:sub/d.txt\n",
            ("HEAD", "sub"): "HEAD does not change sub\n",
            ("main~2", "sub/d.txt"): "main~2 does not change sub/d.txt\n",
        }
        for (ref, path), said in expected.items():
            assert (await project.call(git_show, ref=ref, path=path)).text == said
        named = "HEAD does not change c.txt; the file itself is HEAD:c.txt".rpartition(" ")[2]
        assert (await project.call(git_show, ref=named)).text == "c\n"
        assert "nothing at all" in (await project.call(git_show)).text


async def test_secret_files_are_left_out_of_a_diff_unless_named(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        folder = repository(project.root)
        (folder / ".env").write_text("KEY=hunter2\n")
        git(folder, "add", "-f", ".env")
        result = await project.call(git_diff, staged=True)
        assert "hunter2" not in result.text
        assert "hunter2" not in repr(result.display)
        assert "(not shown: " in result.text
        assert "hunter2" in (await project.call(git_diff, staged=True, path=".env")).text


def test_reading_a_file_of_a_commit_counts_as_reading_it() -> None:
    assert git_show.access(git_show.decode('{"ref": "HEAD:.env"}')) == Access(reads=(".env",))
    assert git_diff.access(git_diff.decode('{"path": "x/.env", "ref": "HEAD"}')) == Access(reads=("x/.env",))
    assert git_status.access(git_status.decode("{}")) == Access(reads=(".",))


@pytest.mark.parametrize(
    ("ref", "path"),
    [
        ("HEAD:.env", ".env"),
        (":.env", ".env"),
        (":0:.env", ".env"),
        ("v1^:./a b", "./a b"),
        (":/fix", ""),
        ("HEAD", ""),
    ],
)
def test_the_file_a_ref_names_is_found(ref: str, path: str) -> None:
    assert file_of_ref(ref) == path


@pytest.mark.parametrize("ref", ["HEAD:.env", "HEAD:.env..HEAD:a.txt", ":0:.env"])
async def test_a_diff_or_log_of_a_file_by_ref_is_refused(tmp_path: Path, ref: str) -> None:
    async with tool_project(tmp_path) as project:
        repository(project.root)
        for tool in (git_diff, git_log):
            with pytest.raises(ToolError, match="git_show shows a file of a commit"):
                await project.call(tool, ref=ref)
        if ".." in ref:
            with pytest.raises(ToolError, match="one file of one commit"):
                await project.call(git_show, ref=ref)


async def test_secrets_in_a_stash_are_left_out(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        folder = repository(project.root)
        await identity(project)
        (folder / ".env").write_text("KEY=hunter2\n")
        git(folder, "add", "-f", ".env")
        await project.call(git_stash)
        result = await project.call(git_stash, action="show")
        assert "hunter2" not in result.text
        assert "+two" in result.text


async def test_a_repository_larger_than_the_workspace_is_seen_only_inside_it(tmp_path: Path) -> None:
    outer = tmp_path / "outer"
    repository(outer)
    async with tool_project(outer) as project:
        (project.root / "mine.txt").write_text("x\n")
        (outer / "theirs.txt").write_text("x\n")
        status = (await project.call(git_status)).text
        assert status == "## main\n?? ./\n"
        assert (await project.call(git_diff)).text == "no differences\n"
        with pytest.raises(ToolError, match="outside the workspace"):
            await project.call(git_show, ref="HEAD:a.txt")


async def test_outside_a_repository_and_before_the_first_commit_it_says_so(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        with pytest.raises(ToolError, match=r"expected a git repository, found no \.git"):
            await project.call(git_status)
        git(project.root, "init", "-q", "-b", "main")
        assert (await project.call(git_status)).text.startswith("## No commits yet on main\n")
        with pytest.raises(ToolError, match="git failed"):
            await project.call(git_log)


async def identity(project: CommandProject) -> None:
    config(project.root, ("user.name", "A"), ("user.email", "a@example.org"))


async def test_add_commit_checkout_and_stash_change_the_repository(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        repository(project.root)
        await identity(project)
        await project.call(git_add, paths=["new.txt"])
        assert "A  new.txt" in (await project.call(git_status)).text
        await project.call(git_commit, message="-m is no option\n\nbody", paths=["new.txt"])
        assert git(project.root, "log", "-1", "--format=%B").strip() == "-m is no option\n\nbody"
        await project.call(git_stash, message="later")
        assert "later" in (await project.call(git_stash, action="list")).text
        await project.call(git_stash, action="pop")
        await project.call(git_checkout, ref="topic", create=True)
        assert (await project.call(git_status)).text.startswith("## topic\n")
        await project.call(git_checkout, paths=["a.txt"])
        assert (project.root / "a.txt").read_text() == "one\n"
        await project.call(git_checkout, branch="main")


async def test_changes_refuse_what_they_cannot_mean(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        repository(project.root)
        for call, words in (
            (project.call(git_add, paths=[]), "at least one path"),
            (project.call(git_commit, message=" "), "message is empty"),
            (project.call(git_checkout), "found neither"),
            (project.call(git_checkout, ref="--force"), "expected a commit"),
            (project.call(git_checkout, ref="x", create=True, paths=["a.txt"]), "found both"),
            (project.call(git_push, remote="ext::sh -c id"), "configured remote"),
            (project.call(git_push, remote="--receive-pack=id"), "configured remote"),
            (project.call(git_push, branch="+main"), "not offered"),
            (project.call(git_push, branch=":main"), "not offered"),
            (project.call(git_pull, remote="https://example.org"), "configured remote"),
            (project.call(git_checkout, ref="nowhere"), "git failed"),
        ):
            with pytest.raises(ToolError, match=words):
                await call


async def test_push_and_pull_reach_a_remote(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        folder = repository(project.root)
        await identity(project)
        git(tmp_path, "init", "-q", "--bare", "remote.git")
        git(folder, "remote", "add", "origin", str(tmp_path / "remote.git"))
        await project.call(git_push, branch="main", set_upstream=True)
        git(tmp_path, "clone", "-q", "remote.git", "other", "-b", "main")
        (tmp_path / "other" / "c.txt").write_text("c\n")
        git(tmp_path / "other", "add", ".")
        git(tmp_path / "other", "commit", "-qm", "theirs")
        git(tmp_path / "other", "push", "-q")
        await project.call(git_pull, branch="main")
        assert (folder / "c.txt").read_text() == "c\n"


@pytest.mark.parametrize(("hook_s", "committed"), [(0.3, True), (60, False)])
async def test_a_cancelled_git_that_writes_may_end_by_itself_and_is_ended_when_it_does_not(
    tmp_path: Path, hook_s: float, committed: bool
) -> None:
    async with tool_project(tmp_path) as project:
        folder = repository(project.root)
        await identity(project)
        hook = folder / ".git" / "hooks" / "pre-commit"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/begun\nsleep {hook_s}\n")
        hook.chmod(0o755)
        (folder / "new.txt").write_text("new\n")
        git(folder, "add", "new.txt")
        call = asyncio.ensure_future(project.call(git_commit, message="a change"))
        await until((tmp_path / "begun").exists)
        project.cancelled.set()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert ("a change" in git(folder, "log", "--format=%s")) == committed
        assert not (folder / ".git" / "index.lock").exists()
        assert not processes_with(str(hook))


async def test_the_current_branch_alone_is_pushed_where_none_is_named(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        folder = repository(project.root)
        await identity(project)
        git(tmp_path, "init", "-q", "--bare", "remote.git")
        git(folder, "remote", "add", "origin", str(tmp_path / "remote.git"))
        git(folder, "config", "remote.origin.push", "+refs/heads/*:refs/heads/*")
        git(folder, "branch", "other")
        await project.call(git_push)
        assert git(tmp_path / "remote.git", "branch", "--format=%(refname:short)").split() == ["main"]


async def test_an_approval_shows_the_command_and_what_the_repository_would_run(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        folder = repository(project.root)
        config(folder, ("gpg.program", "/evil"))
        program(folder / ".git" / "hooks", "pre-commit")
        assert git_commit.preview is not None
        shown = git_commit.preview(project.context(), git_commit.decode('{"message": "it is"}'))
        assert shown == Plain(
            "git commit '--message=it is'",
            "the repository brings programs of its configuration (gpg.program) and hooks (pre-commit); "
            "they run",
        )


async def test_writers_take_turns_and_readers_do_not_wait(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        repository(project.root)
        lock = project.context().service(GitLock)
        async with lock:
            work = asyncio.ensure_future(project.call(git_add, paths=["new.txt"]))
            assert "?? new.txt" in (await project.call(git_status)).text
            assert not work.done()
        await work
        adds = [project.call(git_add, paths=["new.txt"]) for _ in range(10)]
        await asyncio.gather(*adds)


async def test_cancelling_a_writer_ends_git_and_frees_the_lock(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        folder = repository(project.root)
        await identity(project)
        hook = folder / ".git" / "hooks" / "pre-commit"
        hook.write_text("#!/bin/sh\ntouch hooked\nsleep 60\n")
        hook.chmod(0o755)
        work = asyncio.ensure_future(project.call(git_commit, message="x"))
        while not (folder / "hooked").exists():
            await asyncio.sleep(0.01)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        async with project.context().service(GitLock):
            pass


async def test_a_long_diff_is_shortened_and_hides_what_it_cannot_name(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        folder = repository(project.root)
        (folder / "a.txt").write_text("x" * 80 + "\n" + "y\n" * 70_000)
        result = await project.call(git_diff)
        assert "bytes left out; the whole is in" in result.text
        assert len(result.text) < 140_000


def test_content_cannot_imitate_a_header() -> None:
    text = (
        "commit 1\n\n    diff --git a/x b/x\n\ndiff --git a/a b/a\nindex 1..2 100644\n--- a/a\n+++ b/a\n"
        "@@ -1,2 +1,2 @@\n-diff --git a/s b/s\n+++ b/other\n"
    )
    parsed = parse_diff(text)
    assert parsed.files == (
        FileDiff("a", "update", "@@ -1,2 +1,2 @@\n-diff --git a/s b/s\n+++ b/other\n", added=1, removed=1),
    )
    assert parsed.text == text
