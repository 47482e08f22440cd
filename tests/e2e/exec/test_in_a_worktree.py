"""A whole run in a worktree: `--worktree`, what it leaves, and what a resume finds."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program

EDIT = ("--permission-mode", "edit")


def writes(asked: Asked) -> Reply:
    """Writes new.txt when asked to "write"."""
    if asked.turns[-1][0] == "user" and "write it" in asked.last_user_text:
        return reply(call("write_file", path="new.txt", content="new\n"))
    return reply("done")


def program_of(tmp_path: Path, server: FakeLLM) -> Program:
    program = Program(tmp_path, server.url)
    program.files(main__py="print(1)\n")
    return program


async def test_a_run_in_a_worktree_leaves_the_main_tree_alone_and_says_where_its_changes_are(
    tmp_path: Path,
) -> None:
    async with FakeLLM(writes) as server:
        program = program_of(tmp_path, server)
        (program.repo / "main.py").write_text("print(2)\n")
        ran = await program.run("exec", "--worktree=fix", *EDIT, "write it")

        assert (ran.code, ran.out) == (0, "done\n")
        assert ran.told() == [
            "this session works in .buddyx/worktrees/fix, on the branch buddy/fix; "
            "it starts from the last commit, without your 1 uncommitted change (--carry copies them)",
        ]
        assert "1 changed file of task 1 in .buddyx/worktrees/fix (branch buddy/fix)" in ran.err
        assert program.git("status", "--short") == " M main.py\n"
        tree = program.repo / ".buddyx/worktrees/fix"
        assert ((tree / "new.txt").read_text(), (tree / "main.py").read_text()) == ("new\n", "print(1)\n")
        assert str(tree) in server.requests[0].turns[0][1]

        again = await program.run("exec", "-w", *EDIT, "look")
        assert "works in .buddyx/worktrees/look" in again.err
        assert sorted(one.name for one in tree.parent.iterdir() if one.is_dir()) == ["fix", "fix.state"]


async def test_a_session_goes_on_in_its_worktree_and_a_name_is_used_again(tmp_path: Path) -> None:
    async with FakeLLM(writes) as server:
        program = program_of(tmp_path, server)
        await program.run("exec", "--worktree=fix", *EDIT, "write it")
        tree = program.repo / ".buddyx/worktrees/fix"
        (tree / "new.txt").unlink()
        ran = await program.run("exec", "--continue", *EDIT, "write it again")
        assert (ran.code, (tree / "new.txt").exists(), (program.repo / "new.txt").exists()) == (
            0,
            True,
            False,
        )
        other = await program.run("exec", "--worktree=fix", *EDIT, "look")
        assert (other.code, (tree / "new.txt").exists()) == (0, True)


async def test_a_worktree_without_changes_goes_and_comes_back_with_the_session(tmp_path: Path) -> None:
    async with FakeLLM(writes) as server:
        program = program_of(tmp_path, server)
        await program.run("exec", "--worktree=fix", "look")
        tree = program.repo / ".buddyx/worktrees/fix"
        assert not tree.exists()
        assert program.git("branch", "--list", "buddy/*") == ""
        ran = await program.run("exec", "--continue", *EDIT, "write it")
        assert ".buddyx/worktrees/fix was recreated" in ran.err
        assert "after `buddy resume --last`, /worktree diff 1 shows them" in ran.err
        assert (tree / "new.txt").exists()


async def test_nothing_is_sent_to_a_worktree_that_somebody_removed(tmp_path: Path) -> None:
    async with FakeLLM(writes) as server:
        program = program_of(tmp_path, server)
        await program.run("exec", "--worktree=fix", *EDIT, "write it")
        shutil.rmtree(program.repo / ".buddyx/worktrees/fix")
        before = await program.prompts()
        ran = await program.run("exec", "--continue", *EDIT, "write it")

        assert ran.code == 2
        assert "its worktree .buddyx/worktrees/fix is gone (branch buddy/fix)" in ran.err
        assert await program.prompts() == before
        assert not (program.repo / "new.txt").exists()


async def test_what_can_not_be_is_said_before_anything_is_asked(tmp_path: Path) -> None:
    async with FakeLLM([]) as server:
        program = program_of(tmp_path, server)
        bad = await program.run("exec", "--worktree=a/b", "x")
        assert (bad.code, "expected a name of letters" in bad.err) == (4, True)
        resumed = await program.run("exec", "--continue", "--worktree", "x")
        assert (resumed.code, "--worktree is for new sessions" in resumed.err) == (2, True)
        empty = await program.run("exec", "--worktree=", "x")
        assert (empty.code, "--worktree= needs a name" in empty.err) == (2, True)
        alone = await program.run("exec", "--carry", "x")
        assert (alone.code, "--carry goes with --worktree" in alone.err) == (2, True)
        shutil.rmtree(program.repo / ".git")
        none = await program.run("exec", "--worktree", "x")
        assert (none.code, "a worktree needs a git repository" in none.err) == (4, True)
        assert server.requests == []
