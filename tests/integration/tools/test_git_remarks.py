"""Remarks of git on stderr, in repositories that give it reason to with every command: never a part of its
answers, and told beside them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from buddy.agent.display import Diff, Display, FileDiff, Plain
from buddy.agent.tool import ToolError, ToolResult
from buddy.tools.git import git_branch, git_diff, git_log, git_show, git_status
from buddy.tools.git_write import git_add, git_checkout, git_commit, git_stash
from buddy.workspace.processes.child import KEPT_BYTES
from tests.security.test_git_hostile import config, git, repository
from tests.support.tool_project import CommandProject, tool_project


def _ambiguous(folder: Path) -> None:
    git(folder, "update-ref", "refs/tags/HEAD", "HEAD")


def _attributes_nobody_can_read(folder: Path) -> None:
    (folder.parent / "loop").symlink_to("loop")
    config(folder, ("core.attributesFile", str(folder.parent / "loop")))


def _line_ends(folder: Path) -> None:
    config(folder, ("core.autocrlf", "true"), ("core.safecrlf", "warn"))


def _traced(folder: Path) -> None:
    (folder.parent / "home" / ".gitconfig").write_text("[trace2]\n\tnormalTarget = 1\n")


def _trace_and_a_filter(folder: Path) -> None:
    """The first setting git lists comes right after its remarks."""
    (folder.parent / "home" / ".gitconfig").write_text("[trace2]\n\tnormalTarget = 1\n")
    config(folder, ("filter.evil.clean", "false"), ("filter.evil.required", "true"))


NOISES = (_ambiguous, _attributes_nobody_can_read, _line_ends, _traced, _trace_and_a_filter)


async def looked(project: CommandProject) -> dict[str, ToolResult]:
    return {
        "status": await project.call(git_status),
        "diff": await project.call(git_diff),
        "staged": await project.call(git_diff, staged=True),
        "between": await project.call(git_diff, ref="main~1..main"),
        "log": await project.call(git_log),
        "show": await project.call(git_show, ref="main~1"),
        "file": await project.call(git_show, ref="main:a.txt"),
        "branch": await project.call(git_branch),
    }


def without_remarks(text: str) -> str:
    before, _, last = text.removesuffix("]\n").rpartition("[git says: ")
    return before if text.endswith("]\n") and "\n" not in last else text


def named(text: str) -> str:
    """A log without the names that point to commits: a tag called HEAD is one more."""
    return text.replace("tag: HEAD, ", "").replace(", tag: HEAD", "")


def quieted(display: Display) -> Display:
    return Plain(display.summary, named(display.body)) if isinstance(display, Plain) else display


@pytest.mark.parametrize("noise", NOISES)
async def test_answers_are_the_same_whatever_git_says_on_the_side(
    tmp_path: Path, noise: Callable[[Path], None]
) -> None:
    async with tool_project(tmp_path) as project:
        repository(project.root)
        quiet = await looked(project)
        noise(project.root)
        noisy = await looked(project)
        for name, result in noisy.items():
            assert named(without_remarks(result.text)) == quiet[name].text, name
            assert quieted(result.display) == quiet[name].display, name
        warns = noise not in (_traced, _trace_and_a_filter)
        assert any("[git says: " in result.text for result in noisy.values()) == warns


async def test_what_git_warns_of_is_told_beside_its_answer(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        repository(project.root)
        _line_ends(project.root)
        for name in ("c.txt", "d.txt", "e.txt", "f.txt"):
            (project.root / name).write_text("x\n")
        git(project.root, "add", "--intent-to-add", ".")
        result = await project.call(git_diff)
        lines = result.text.splitlines()
        assert lines[0].startswith("diff --git a/a.txt b/a.txt")
        assert lines[-1].startswith("[git says: warning: in the working copy of 'a.txt', LF will be replaced")
        assert lines[-1].endswith("; and 3 more]")
        assert isinstance(result.display, Diff)
        shown = {file.path: file for file in result.display.files}
        assert shown["f.txt"] == FileDiff("f.txt", "add", "@@ -0,0 +1 @@\n+x\n", added=1, removed=0)
        assert "LF will be replaced" not in (await project.call(git_diff, path="b.txt")).text


@pytest.mark.parametrize("noise", NOISES[:4])
async def test_changes_are_made_and_a_failure_still_says_why(
    tmp_path: Path, noise: Callable[[Path], None]
) -> None:
    async with tool_project(tmp_path) as project:
        repository(project.root)
        config(project.root, ("user.name", "A"), ("user.email", "a@example.org"))
        noise(project.root)
        await project.call(git_add, paths=["new.txt"])
        await project.call(git_commit, message="third")
        assert "third" in (await project.call(git_log, limit=1)).text
        await project.call(git_stash)
        shown = await project.call(git_stash, action="show")
        assert isinstance(shown.display, Diff)
        # b.txt was staged by the person, so that the commit left it where it was
        assert [file.path for file in shown.display.files] == ["a.txt", "b.txt"]
        await project.call(git_checkout, ref="main~1")
        with pytest.raises(ToolError, match=r"(?s)git failed .*nowhere"):
            await project.call(git_log, ref="nowhere")
        with pytest.raises(ToolError, match=r"(?s)git failed .*nowhere"):
            await project.call(git_show, ref="nowhere")


async def test_a_program_that_talks_without_end_on_the_side_is_not_held_up(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        request = project.request("head -c 5000000 /dev/zero | tr '\\0' x >&2; echo answer")
        done = await project.children.run_apart(request, timeout_s=30, cancelled=project.cancelled)
        assert (done.ok, done.text, done.remarks) == (True, "answer\n", "x" * KEPT_BYTES)
        left = project.request("(sleep 60 & echo on its own >&2) ; echo answer")
        done = await project.children.run_apart(left, timeout_s=30, cancelled=project.cancelled)
        assert (done.text, done.remarks) == ("answer\n", "on its own\n")
