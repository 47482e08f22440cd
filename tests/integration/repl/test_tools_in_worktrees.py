"""Every tool of a task in a worktree acts there, and so does what is typed in front of it."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from buddy.workspace.git.run import GitLock
from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, call, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program
from tests.support.repl import Repl, open_repl, open_repl_in

YOLO = ("--permission-mode", "yolo", "--i-know")
TEST = "def test_it():\n    assert open('word.txt').read() == 'changed\\n'\n"


def plays(*calls: Reply, when: str = "go") -> Callable[[Asked], Reply]:
    """One call after the other in the task that is told to go; the others say that they are ready."""

    def script(asked: Asked) -> Reply:
        done = len(asked.tool_results)
        if when not in asked.last_user_text or done >= len(calls):
            return reply("ready")
        return calls[done]

    return script


async def results(repl: Repl, count: int) -> Sequence[str]:
    """Return the results of task 2's calls, once all have ended."""
    await repl.until(lambda: any(len(one.tool_results) == count for one in repl.server.requests), "results")
    await repl.quiet()
    return next(one.tool_results for one in reversed(repl.server.requests) if len(one.tool_results) == count)


async def test_files_searches_commands_and_git_are_those_of_the_worktree(tmp_path: Path) -> None:
    script = plays(
        reply(call("edit_file", path="word.txt", old="start", new="changed")),
        reply(call("read_file", path="word.txt")),
        reply(call("grep", pattern="changed|start")),
        reply(call("find_files", pattern="*.txt")),
        reply(call("list_files", path=".")),
        reply(call("run_shell", command="pwd; echo more > made.txt; cat word.txt")),
        reply(call("git_status")),
        reply(call("git_branch")),
    )
    async with open_repl(tmp_path, script, *YOLO, word__txt="start\n") as repl:
        repo = repl.program.repo
        tree = repo / ".buddyx/worktrees/go"
        (repo / "main_only.txt").write_text("changed in the main tree\n")
        await repl.said("/worktree go", "task 2 started in the background in .buddyx/worktrees/go")
        found = await results(repl, 8)

        assert "1\tchanged" in found[1]
        assert ("word.txt" in found[2], "main_only" in found[2]) == (True, False)
        assert ("word.txt" in found[3], "main_only" in found[3]) == (True, False)
        assert ("word.txt" in found[4], "main_only" in found[4]) == (True, False)
        assert found[5].startswith(f"{tree}\nchanged\n")
        assert "## buddy/go\n M word.txt\n?? made.txt\n" in found[6]
        assert "* buddy/go" in found[7]
        assert (repo / "word.txt").read_text() == "start\n"
        assert repl.program.git("status", "--short") == "?? main_only.txt\n"

        # What the task did is taken back where it was done, commands too.
        said = await repl.said("/undo @2 all yes", "(task 2's edit, in the worktree go)")
        assert "Undone: .buddyx/worktrees/go/made.txt (task 2's command, in the worktree go)" in said
        assert not (tree / "made.txt").exists()
        assert (tree / "word.txt").read_text() == "start\n"


async def test_tests_and_commits_are_those_of_the_worktree(tmp_path: Path) -> None:
    script = plays(
        reply(call("edit_file", path="word.txt", old="start", new="changed")),
        reply(call("run_tests")),
        reply(call("git_add", paths=["word.txt"])),
        reply(call("git_commit", message="all of it")),
    )
    async with open_repl(tmp_path, script, *YOLO, word__txt="start\n", test_word__py=TEST) as repl:
        repl.program.git("config", "user.name", "A")
        repl.program.git("config", "user.email", "a@example.org")
        await repl.said("/worktree go", "task 2 started")
        found = await results(repl, 4)

        assert "1 passed" in found[1]
        assert (repl.program.repo / "word.txt").read_text() == "start\n"
        assert repl.program.git("log", "--format=%s", "main..buddy/go") == "all of it\n"


async def test_the_main_tree_is_outside_and_asks(tmp_path: Path) -> None:
    def script(asked: Asked) -> Reply:
        path = str(tmp_path.resolve() / "repo/word.txt")
        return plays(
            reply(call("edit_file", path="word.txt", old="start", new="mine")),
            reply(call("edit_file", path=path, old="start", new="theirs")),
        )(asked)

    async with open_repl(tmp_path, script, "--permission-mode", "edit", word__txt="start\n") as repl:
        await repl.said("/worktree go", "task 2 started")
        await repl.until(lambda: bool(repl.context.board.inbox.waiting()), "a question")
        (asked,) = repl.context.board.inbox.waiting()
        assert (asked.task_id, asked.event.call.name) == (2, "edit_file")
        await repl.said("/no", "denied")
        await repl.quiet()
        assert (repl.program.repo / "word.txt").read_text() == "start\n"
        assert (repl.program.repo / ".buddyx/worktrees/go/word.txt").read_text() == "mine\n"


async def test_what_is_typed_in_front_of_the_task_is_about_its_tree(tmp_path: Path) -> None:
    script = plays(reply(call("edit_file", path="word.txt", old="start", new="changed")))
    async with open_repl(tmp_path, script, *YOLO, word__txt="start\n") as repl:
        await repl.said("/worktree go", "task 2 started")
        await repl.shows("1 changed file of task 2")
        repl.say("/fg 2")
        await repl.until(lambda: repl.context.focus == 2, "task 2 in front")
        tree = os.path.realpath(repl.program.repo / ".buddyx/worktrees/go")

        await repl.said("!!pwd; cat word.txt", tree, "changed")
        await repl.said("/diff", "−start", "+changed")
        await repl.said("/status", "worktree", ".buddyx/worktrees/go (task 2, buddy/go)")
        await repl.said("/session", "also works in the worktree .buddyx/worktrees/go (task 2, buddy/go)")
        await repl.turn("what is in @word.txt")
        assert any("changed" in text for role, text in repl.server.requests[-1].turns if role == "user")
        await repl.said("/ps", "go")


async def test_a_copy_of_a_task_in_a_worktree_works_there_too(tmp_path: Path) -> None:
    script = plays(reply(call("edit_file", path="word.txt", old="start", new="changed")))
    async with open_repl(tmp_path, script, *YOLO, word__txt="start\n") as repl:
        await repl.said("/worktree go", "task 2 started")
        await repl.shows("1 changed file of task 2")
        repl.say("/fg 2")
        await repl.until(lambda: repl.context.focus == 2, "task 2 in front")
        await repl.said("look at it &", "task 3 started in the background")
        board = repl.context.board
        assert board.task(3).workspace is board.task(2).workspace
        assert board.task(1).workspace is not board.task(2).workspace
        locks = {id(task.services.services[GitLock]) for task in board.tasks.values()}
        assert len(locks) == 1  # git operations of all trees take turns


async def test_after_a_kill_the_worktree_and_its_task_are_there_again(tmp_path: Path) -> None:
    def script(asked: Asked) -> Reply:
        return plays(
            reply(call("edit_file", path="word.txt", old="start", new="half")),
            reply(call("run_shell", command="touch begun; sleep 60")),
        )(asked)

    async with FakeLLM(script) as server:
        program = Program(tmp_path, server.url)
        program.files(word__txt="start\n")
        tree = program.repo / ".buddyx/worktrees/fix"
        process = await program.start("exec", "--worktree=fix", *YOLO, "go")
        while not (tree / "begun").exists():
            await asyncio.sleep(0.02)
        process.kill()
        await process.communicate()
        assert program.git("status", "--short") == ""

        async with open_repl_in(program, server, "-c", *YOLO) as repl:
            board = repl.context.board
            worktree = board.task(1).workspace.worktree
            assert worktree is not None
            assert (worktree.name, board.task(1).state) == ("fix", "paused")
            assert (tree / "word.txt").read_text() == "half\n"
            await repl.said("/worktree merge 1", "Merged, not committed: 2 files")
            assert (program.repo / "word.txt").read_text() == "half\n"


async def test_a_session_in_a_worktree_says_when_it_is_left_what_stands_there(tmp_path: Path) -> None:
    script = plays(reply(call("edit_file", path="word.txt", old="start", new="changed")))
    async with FakeLLM(script) as server:
        program = Program(tmp_path, server.url)
        program.files(word__txt="start\n")
        async with open_repl_in(program, server, "--worktree=fix", *YOLO) as repl:
            await repl.shows("this session works in .buddyx/worktrees/fix, on the branch buddy/fix")
            await repl.turn("go")
            assert "1 changed file" not in repl.paper.text()
        first, last = repl.front.farewell.split("\n")
        assert first.startswith("1 changed file of task 1 in .buddyx/worktrees/fix (branch buddy/fix)")
        assert last.startswith("resume with: buddy resume")
        assert (program.repo / "word.txt").read_text() == "start\n"


async def test_a_session_in_which_nothing_was_said_leaves_no_worktree(tmp_path: Path) -> None:
    async with FakeLLM([]) as server:
        program = Program(tmp_path, server.url)
        program.files(word__txt="start\n")
        async with open_repl_in(program, server, "-w") as repl:
            await repl.shows("this session works in .buddyx/worktrees/session")
        assert [one.name for one in (program.repo / ".buddyx/worktrees").iterdir()] == [".gitignore"]
        assert program.git("branch", "--list", "buddy/*") == ""


async def test_a_task_that_is_killed_names_what_it_leaves_and_one_without_changes_leaves_nothing(
    tmp_path: Path,
) -> None:
    script = plays(reply(call("edit_file", path="word.txt", old="start", new="changed")))
    async with open_repl(tmp_path, script, *YOLO, word__txt="start\n") as repl:
        await repl.said("/worktree go", "task 2 started")
        await repl.shows("1 changed file of task 2")
        await repl.said("/kill 2", "task 2 is closed; 1 changed file of task 2 in .buddyx/worktrees/go")
        assert (repl.program.repo / ".buddyx/worktrees/go").exists()
        await repl.said("/worktree drop go discard", "is removed")


async def test_a_file_that_git_ignores_but_a_call_wrote_keeps_its_worktree(tmp_path: Path) -> None:
    script = plays(
        reply(call("write_file", path="out/report.md", content="hours of work\n")),
        reply(call("write_file", path="out/draft.md", content="draft\n")),
        reply(call("delete_file", path="out/draft.md")),
    )
    async with open_repl(tmp_path, script, *YOLO, word__txt="start\n") as repl:
        (repl.program.repo / ".gitignore").write_text("out/\n")
        repl.program.git("add", ".gitignore")
        repl.program.git("commit", "-qm", "ignore")
        await repl.said("/worktree go", "task 2 started")
        await repl.shows(
            "1 file that git ignores (out/report.md) of task 2 in .buddyx/worktrees/go (branch buddy/go): "
            "copy what you need, /worktree drop 2 removes it"
        )
        written = repl.program.repo / ".buddyx/worktrees/go/out/report.md"
        assert written.read_text() == "hours of work\n"


async def test_what_is_sent_to_a_task_whose_worktree_is_gone_comes_back_into_the_line(tmp_path: Path) -> None:
    script = plays(reply(call("edit_file", path="word.txt", old="start", new="changed")))
    async with open_repl(tmp_path, script, *YOLO, word__txt="start\n") as repl:
        await repl.said("/worktree go", "task 2 started")
        await repl.shows("1 changed file of task 2")
        shutil.rmtree(repl.program.repo / ".buddyx/worktrees/go")
        await repl.said("@2 more", "its worktree .buddyx/worktrees/go is gone (branch buddy/go)")
        assert repl.paper.line == "@2 more"
        await repl.said("/worktree drop 2", "is gone (branch buddy/go); forgotten")
        assert repl.program.git("branch", "--list", "--format=%(refname:short)", "buddy/*") == "buddy/go\n"
