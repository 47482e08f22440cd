"""/worktree: tasks that work beside each other in worktrees of their own, and what becomes of that."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path

import pytest

from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, call, reply
from tests.support.repl import open_repl

EDIT = ("--permission-mode", "edit")
LINES = "".join(f"line {number}\n" for number in range(1, 11))


def edits(asked: Asked) -> Reply:
    """ "change line 3 to x" changes that line of list.txt."""
    found = re.findall(r"change line (\d+) to (\w+)", asked.last_user_text)
    if asked.turns[-1][0] != "user" or not found:
        return reply("ready")
    number, word = found[-1]
    return reply(call("edit_file", path="list.txt", old=f"line {number}\n", new=f"{word}\n"))


async def test_two_tasks_edit_the_same_file_and_both_are_brought_over(tmp_path: Path) -> None:
    async with open_repl(tmp_path, edits, *EDIT, list__txt=LINES) as repl:
        repo = repl.program.repo
        await repl.said("/worktree change line 2 to two", "task 2 started in the background in")
        await repl.said("/worktree change line 9 to nine", "task 3 started in the background in")
        await repl.shows("1 changed file of task 2", "1 changed file of task 3")

        assert (repo / "list.txt").read_text() == LINES
        assert repl.program.git("status", "--short") == ""
        await repl.said("/worktree merge 2", "Merged, not committed: 1 file; /undo @2 undoes it")
        await repl.said("/worktree merge 3", "Merged, not committed: 1 file; /undo @3 undoes it")
        expected = LINES.replace("line 2\n", "two\n").replace("line 9\n", "nine\n")
        assert (repo / "list.txt").read_text() == expected


async def test_the_same_lines_changed_in_both_are_refused_and_nothing_is_lost(tmp_path: Path) -> None:
    async with open_repl(tmp_path, edits, *EDIT, list__txt=LINES, other__txt="a\n") as repl:
        repo = repl.program.repo
        (repo / "other.txt").write_text("mine, not committed\n")
        said = await repl.said("/worktree change line 2 to two", "task 2 started")
        assert "without your 1 uncommitted change" in said
        await repl.shows("1 changed file of task 2")
        mine = LINES.replace("line 2\n", "mine\n")
        (repo / "list.txt").write_text(mine)

        said = await repl.said("/worktree merge 2", "nothing was brought over")
        assert "list.txt: both changed lines 2 to 2 (of the file as it was)" in said
        assert (repo / "list.txt").read_text() == mine
        assert (repo / "other.txt").read_text() == "mine, not committed\n"

        (repo / "list.txt").write_text(LINES.replace("line 9\n", "mine\n"))
        await repl.said("/worktree merge 2", "Merged, not committed: 1 file")
        merged = LINES.replace("line 9\n", "mine\n").replace("line 2\n", "two\n")
        assert (repo / "list.txt").read_text() == merged
        assert repl.program.git("diff", "--cached", "--name-only") == ""
        await repl.said("/undo @2", "Undone: ")
        assert (repo / "list.txt").read_text() == LINES.replace("line 9\n", "mine\n")


async def test_worktrees_are_listed_shown_and_dropped_only_without_loss(tmp_path: Path) -> None:
    async with open_repl(tmp_path, edits, *EDIT, list__txt=LINES) as repl:
        await repl.said(
            "/worktree", "there are no worktrees (an unchanged one is removed when its task ends)"
        )
        await repl.said("/worktree change line 2 to two", "task 2 started")
        await repl.shows("1 changed file of task 2")
        name = "change-line-2-to-two"
        tree = repl.program.repo / ".buddyx/worktrees" / name

        await repl.said("/worktree", f".buddyx/worktrees/{name}", f"buddy/{name}", "1 file", "+0 −0")
        await repl.said("/ps", f"change line 2 to two · worktree {name}")
        await repl.said("/worktree diff 2", "−line 2", "+two")
        await repl.said(f"/worktree diff {name}", "−line 2", "+two")
        await repl.said("/worktree drop 2", "has 1 changed file that the main tree does not have")
        assert tree.exists()
        await repl.said("/worktree merge 2", "Merged, not committed: 1 file")
        await repl.said("/worktree merge 2", "nothing: the main tree already has all changes")
        await repl.said("/worktree drop 2", "is removed")
        assert not tree.exists()
        assert repl.program.git("branch", "--list", "buddy/*") == ""


async def test_N3_a_merge_names_the_links_and_brings_the_rest(tmp_path: Path) -> None:
    async with open_repl(tmp_path, edits, *EDIT, list__txt=LINES) as repl:
        await repl.said("/worktree change line 2 to two", "task 2 started")
        await repl.shows("1 changed file of task 2")
        (repl.program.repo / ".buddyx/worktrees/change-line-2-to-two/short").symlink_to("list.txt")

        said = await repl.said("/worktree merge 2", "Merged, not committed: 1 file")
        assert "symbolic links are not merged; make them by hand: short (a link to list.txt)" in said
        assert not (repl.program.repo / "short").is_symlink()
        await repl.said("/worktree merge 2", "nothing: the main tree already has the other changes")
        await repl.said("/worktree drop 2", "that the main tree does not have")
        (repl.program.repo / "short").symlink_to("list.txt")
        await repl.said("/worktree drop 2", "is removed")


async def test_what_is_discarded_is_said_with_the_way_back(tmp_path: Path) -> None:
    def commits(asked: Asked) -> Reply:
        if asked.turns[-1][0] == "tool":
            return reply("committed")
        return reply(
            call(
                "run_shell",
                command="echo x > x && git add x && git -c user.name=A -c user.email=a@b commit -qm x",
            )
        )

    async with open_repl(tmp_path, commits, "--permission-mode", "yolo", "--i-know", list__txt=LINES) as repl:
        await repl.said("/worktree make x", "task 2 started")
        await repl.shows("1 commit of task 2")
        tip = repl.program.git("rev-parse", "buddy/make-x")[:12]
        await repl.said("/worktree drop 2 discard", f"git branch buddy/make-x {tip} brings its 1 commit back")


async def test_a_folder_in_which_a_job_runs_is_not_taken_away_from_it(tmp_path: Path) -> None:
    def serves(asked: Asked) -> Reply:
        if asked.turns[-1][0] == "tool":
            return reply("it serves")
        return reply(call("run_shell", command="sleep 300", background=True))

    async with open_repl(tmp_path, serves, "--permission-mode", "yolo", "--i-know", list__txt=LINES) as repl:
        await repl.said("/worktree serve it", "task 2 started")
        await repl.shows("it serves")
        await repl.quiet()
        await repl.said("/worktree drop 2", "job 1 still runs in .buddyx/worktrees/serve-it")
        assert (repl.program.repo / ".buddyx/worktrees/serve-it/list.txt").read_text() == LINES
        await repl.said("/worktree drop 2 discard", "is removed")


async def test_commands_say_what_they_expect(tmp_path: Path) -> None:
    async with open_repl(tmp_path, edits, list__txt=LINES) as repl:
        for line, said in {
            "/worktree merge": "expected /worktree merge N, where N is a task or the name of a worktree",
            "/worktree diff 1": "task 1 works in the main tree",
            "/worktree drop 7": "there is no task and no worktree '7'; /worktree lists them",
            "/worktree diff 1 discard": "expected /worktree diff N",
        }.items():
            await repl.said(line, said)


async def test_a_task_without_changes_leaves_no_worktree_and_gets_one_again(tmp_path: Path) -> None:
    async with open_repl(tmp_path, edits, *EDIT, list__txt=LINES) as repl:
        await repl.said("/worktree look around", "task 2 started")
        await repl.quiet()
        assert list((repl.program.repo / ".buddyx/worktrees").iterdir()) == [
            repl.program.repo / ".buddyx/worktrees/.gitignore"
        ]
        assert repl.program.git("branch", "--list", "buddy/*") == ""

        await repl.turn("@2 change line 4 to four")
        await repl.shows("1 changed file of task 2 in .buddyx/worktrees/look-around")
        assert (repl.program.repo / "list.txt").read_text() == LINES


async def test_a_subagent_in_a_worktree_leaves_the_tree_alone_and_says_where_its_changes_are(
    tmp_path: Path,
) -> None:
    def delegates(asked: Asked) -> Reply:
        if "You are a subagent" in asked.last_user_text:
            return edits(asked)
        if asked.turns[-1][0] == "tool":
            return reply("delegated")
        task = "change line 5 to five"
        return reply(call("delegate", task=task, background=False, isolation="worktree"))

    async with open_repl(
        tmp_path, delegates, "--permission-mode", "yolo", "--i-know", list__txt=LINES
    ) as repl:
        await repl.turn("have it done")
        (result,) = [
            text for asked in repl.server.requests for text in asked.tool_results if "ready" in text
        ][-1:]

        assert "[Its changes are not in your tree: 1 changed file of task 2" in result
        assert (repl.program.repo / "list.txt").read_text() == LINES
        await repl.said("/ps -a", "change line 5 to five · subagent of 1 · worktree ")
        await repl.said("/worktree merge 2", "Merged, not committed: 1 file")
        assert "five\n" in (repl.program.repo / "list.txt").read_text()


async def test_a_task_can_start_with_what_is_not_committed_yet(tmp_path: Path) -> None:
    async with open_repl(tmp_path, edits, *EDIT, list__txt=LINES) as repl:
        repo = repl.program.repo
        (repo / "list.txt").write_text(LINES.replace("line 9\n", "mine\n"))
        await repl.said("/worktree --carry", "expected a prompt: /worktree --carry TEXT")
        await repl.said("/worktree --carry change line 2 to two", "task 2 started in the background in")
        await repl.shows("1 changed file of task 2")
        tree = repo / ".buddyx/worktrees/change-line-2-to-two"
        both = LINES.replace("line 9\n", "mine\n").replace("line 2\n", "two\n")
        assert (tree / "list.txt").read_text() == both

        said = await repl.said("/worktree diff 2", "+two")
        assert "+mine" not in said
        await repl.said("/worktree merge 2", "Merged, not committed: 1 file")
        assert (repo / "list.txt").read_text() == both


async def test_a_worktree_that_can_not_be_filled_leaves_nothing(tmp_path: Path) -> None:
    async with open_repl(tmp_path, edits, *EDIT, list__txt=LINES) as repl:
        for number in range(5_001):
            (repl.program.repo / f"new-{number}.txt").touch()
        said = "the worktree could not be filled: there are 5,001 changes, and at most 5,000 can be"
        await repl.said("/worktree --carry change line 2 to two", said)
        assert repl.program.git("branch", "--list", "buddy/*") == ""
        assert [one.name for one in (repl.program.repo / ".buddyx/worktrees").iterdir()] == [".gitignore"]
        assert len(repl.context.board.tasks) == 1


async def test_a_worktree_that_is_cancelled_while_it_is_filled_leaves_nothing(tmp_path: Path) -> None:
    async with open_repl(tmp_path, edits, *EDIT, list__txt=LINES) as repl:
        for number in range(500):
            (repl.program.repo / f"new-{number}.txt").touch()
        places = repl.context.board.workspaces
        making = asyncio.create_task(places.make("cut", carrying=True))
        tree = repl.program.repo / ".buddyx/worktrees/cut"
        await repl.until(lambda: any(tree.glob("new-*.txt")), "a file that is carried over")
        making.cancel()
        with pytest.raises(asyncio.CancelledError):
            await making

        assert [one.name for one in tree.parent.iterdir()] == [".gitignore"]
        assert repl.program.git("branch", "--list", "buddy/*") == ""


async def test_what_was_changed_in_a_dropped_worktree_does_not_stand_in_the_way_of_undo(
    tmp_path: Path,
) -> None:
    async with open_repl(tmp_path, edits, *EDIT, list__txt=LINES) as repl:
        await repl.turn("change line 1 to one")
        await repl.said("/worktree change line 2 to two", "task 2 started")
        await repl.shows("1 changed file of task 2")
        await repl.said("/worktree drop 2 discard", "is removed")
        await repl.said("/undo", "Undone: list.txt (task 1's edit)")
        assert (repl.program.repo / "list.txt").read_text() == LINES


async def test_what_was_taken_back_in_a_dropped_worktree_does_not_stand_in_the_way_of_redo(
    tmp_path: Path,
) -> None:
    async with open_repl(tmp_path, edits, *EDIT, list__txt=LINES) as repl:
        await repl.turn("change line 1 to one")
        await repl.said("/worktree change line 2 to two", "task 2 started")
        await repl.shows("1 changed file of task 2")
        await repl.said("/undo @1", "Undone: list.txt (task 1's edit).")
        await repl.said("/undo @2", "Undone: ", "(task 2's edit, in the worktree change-line-2-to-two)")
        await repl.said("/worktree drop 2", "is removed")
        await repl.said("/redo", "Redone: list.txt (task 1's edit)")
        assert (repl.program.repo / "list.txt").read_text() == LINES.replace("line 1\n", "one\n")
        await repl.said("/redo", "nothing was taken back")


async def test_a_worktree_that_somebody_removed_is_named_and_the_other_changes_go_on(tmp_path: Path) -> None:
    async with open_repl(tmp_path, edits, *EDIT, list__txt=LINES) as repl:
        await repl.turn("change line 1 to one")
        await repl.said("/worktree change line 2 to two", "task 2 started")
        await repl.shows("1 changed file of task 2")
        name = "change-line-2-to-two"
        shutil.rmtree(repl.program.repo / ".buddyx/worktrees" / name)
        lost = f".buddyx/worktrees/{name} is gone: 1 change made in it can no longer be undone"
        await repl.said("/undo", lost, "Undone: list.txt (task 1's edit)")
        assert (repl.program.repo / "list.txt").read_text() == LINES


async def test_undo_says_which_tree_it_was_wherever_one_is(tmp_path: Path) -> None:
    async with open_repl(tmp_path, edits, *EDIT, list__txt=LINES) as repl:
        await repl.said("/worktree change line 2 to two", "task 2 started")
        await repl.shows("1 changed file of task 2")
        await repl.turn("change line 1 to one")
        await repl.said("/fg 2")
        await repl.said("/undo", "(task 1's edit", "in the main tree). /redo")
        await repl.said("/undo", "Undone: list.txt (task 2's edit). /redo")
        await repl.said("/fg 1")
        await repl.said("/redo", "Redone: ", "(task 2's edit, in the worktree change-line-2-to-two).")
