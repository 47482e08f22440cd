"""/try and /variants: one prompt, several tasks from one state, compared, one of them picked."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from pathlib import Path

import pytest

from buddy.repl.input.completion import variant_offers
from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, Stall, Tokens, call, failure, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program
from tests.support.repl import Repl, open_repl, open_repl_in

EDIT = ("--permission-mode", "edit")
LINES = "".join(f"line {number}\n" for number in range(1, 11))


def tree_of(asked: Asked) -> str:
    """Return the name of the worktree that a request's conversation works in, "" for the main tree."""
    found = re.findall(r"worktrees/([\w-]+), on", json.dumps(asked.json))
    return found[-1] if found else ""


def edits(asked: Asked) -> Reply:
    """Each variant writes the name of its worktree over line 3."""
    if asked.turns[-1][0] == "user" and "rewrite" in asked.last_user_text:
        return reply(call("edit_file", path="list.txt", old="line 3\n", new=f"{tree_of(asked)}\n"))
    return reply(f"answer of {tree_of(asked) or 'nobody'}")


def line_3(repl: Repl) -> str:
    return (repl.program.repo / "list.txt").read_text().splitlines()[2]


def trees(repl: Repl) -> list[str]:
    folder = repl.program.repo / ".buddyx/worktrees"
    return sorted(one.name for one in folder.iterdir() if (one / ".git").exists()) if folder.exists() else []


async def test_two_variants_work_at_once_and_one_is_picked(tmp_path: Path) -> None:
    async with open_repl(tmp_path, edits, *EDIT, list__txt=LINES) as repl:
        repo = repl.program.repo
        before = LINES.replace("line 9", "mine 9")
        (repo / "list.txt").write_text(before)
        (repo / "new.txt").write_text("untracked\n")
        await repl.said("/try 2 rewrite it", "2 variants started: 1 is task 2, 2 is task 3")
        await repl.shows("no variant is at work any more (2 done): /variants compares them")
        await repl.said("/variants", "2 variants of: rewrite it", "1 +1 −1", "│ fake-model │")

        folder = repo / ".buddyx/worktrees"
        for name in ("1-rewrite-it", "2-rewrite-it"):
            assert (folder / name / "new.txt").read_text() == "untracked\n"
            assert (folder / name / "list.txt").read_text() == before.replace("line 3", name)
        assert (repo / "list.txt").read_text() == before
        await repl.said("/variants diff 1 2", "−1-rewrite-it", "+2-rewrite-it")
        await repl.said("/variants diff 2", "−line 3", "+2-rewrite-it")
        said = await repl.said(
            "/variants pick 2", "Variant 2 picked, not committed: 1 file; /undo @3 undoes it"
        )
        assert "/variants drop rest removes 1 with what they changed" in said
        assert (repo / "list.txt").read_text() == before.replace("line 3", "2-rewrite-it")
        await repl.said("/variants", "done, picked")
        await repl.said("/variants pick 1", "variant 2 is in your tree already; /undo @3 takes it out")
        await repl.said("/variants drop rest", "dropped: variant 1")
        assert trees(repl) == ["2-rewrite-it"]
        await repl.said("/undo @3", "Undone")
        assert (repo / "list.txt").read_text() == before


async def test_the_next_prompt_brings_the_answer_of_the_picked_one_alone(tmp_path: Path) -> None:
    async with open_repl(tmp_path, edits, *EDIT, list__txt=LINES) as repl:
        await repl.said("/try 3 rewrite it", "3 variants started")
        await repl.shows("no variant is at work any more")
        await repl.said("/variants pick 3", "Variant 3 picked")
        await repl.turn("go on")
        sent = json.dumps(repl.server.requests[-1].json)
        assert "I picked variant 3 of 3" in sent
        assert "answer of 3-rewrite-it" in sent
        assert "answer of 1-rewrite-it" not in sent


async def test_a_conflict_with_what_was_changed_meanwhile_merges_nothing(tmp_path: Path) -> None:
    async with open_repl(tmp_path, edits, *EDIT, list__txt=LINES) as repl:
        await repl.said("/try 2 rewrite it", "2 variants started")
        await repl.shows("no variant is at work any more")
        mine = LINES.replace("line 3", "mine 3")
        (repl.program.repo / "list.txt").write_text(mine)
        said = await repl.said("/variants pick 1", "nothing was brought over")
        assert "list.txt: both changed lines 3 to 3" in said
        assert (repl.program.repo / "list.txt").read_text() == mine
        (repl.program.repo / "list.txt").write_text(LINES.replace("line 8", "mine 8"))
        await repl.said("/variants pick 1", "Variant 1 picked, not committed: 1 file")
        assert line_3(repl) == "1-rewrite-it"
        assert "mine 8" in (repl.program.repo / "list.txt").read_text()


async def test_the_same_variant_picked_twice_changes_nothing_the_second_time(tmp_path: Path) -> None:
    async with open_repl(tmp_path, edits, *EDIT, list__txt=LINES) as repl:
        await repl.said("/try 2 rewrite it", "2 variants started")
        await repl.shows("no variant is at work any more")
        await repl.said("/variants pick 1", "Variant 1 picked, not committed: 1 file")
        await repl.said("/variants pick 1", "nothing: the main tree already has all changes")
        await repl.said("/undo @2", "Undone")
        assert line_3(repl) == "line 3"
        await repl.said("/variants pick 2", "Variant 2 picked, not committed: 1 file")


async def test_one_is_cancelled_and_continued_and_a_running_one_is_not_picked(tmp_path: Path) -> None:
    stuck = {"1-rewrite-it"}

    def stalls(asked: Asked) -> Reply:
        return reply("never", fault=Stall()) if tree_of(asked) in stuck else edits(asked)

    async with open_repl(tmp_path, stalls, *EDIT, list__txt=LINES) as repl:
        await repl.said("/try 2 rewrite it", "2 variants started")
        board = repl.context.board
        await repl.until(lambda: not board.task(3).running, "variant 2 is done")
        await repl.said("/variants pick 1", "variant 1 still works; pick it when it is done")
        await repl.said("/variants", "running", "done")
        repl.say("/variants cancel 1")
        await repl.hints("variant 1 is cancelled; /continue 2 goes on with it")
        await repl.shows("no variant is at work any more (1 cancelled, 1 done)")
        await repl.said("/variants cancel 1", "variant 1 is not running")
        stuck.clear()
        repl.say("/continue 2")
        await repl.until(lambda: board.task(2).state == "finished", "variant 1 is done")
        await repl.said("/variants diff 1", "+1-rewrite-it")
        repl.say("@3 rewrite it again")
        await repl.until(lambda: board.task(3).outcome is None or board.task(3).running, "variant 2 goes on")
        await repl.quiet()


async def test_one_dies_with_its_provider_and_the_other_is_picked(tmp_path: Path) -> None:
    def dies(asked: Asked) -> Reply:
        return failure(500) if asked.json["model"] == "poor" else edits(asked)

    async with FakeLLM(dies) as server:
        profile = {"base_url": f"{server.url}/v1", "api_key_env": "FAKE_LLM_KEY"}
        models = {
            "poor": {"model": "openai/poor", **profile},
            "good": {"model": "openai/good", **profile},
        }
        program = Program(tmp_path, server.url, settings={"models": models, "network": {"tries": 1}})
        program.files(list__txt=LINES)
        async with open_repl_in(program, server, *EDIT) as repl:
            await repl.said("/try on poor,good rewrite it", "2 variants started")
            await repl.shows("no variant is at work any more (1 failed, 1 done)")
            said = await repl.said("/variants", "poor", "good", "variant 1 (failed): ")
            assert re.search(r"1 │ +2 │ poor +│ failed │.*│ none ", said)
            await repl.said("/variants pick 2", "Variant 2 picked, not committed: 1 file")
            assert line_3(repl) == "2-rewrite-it"


async def test_a_worktree_that_can_not_be_made_is_named_and_the_others_start(tmp_path: Path) -> None:
    async with open_repl(tmp_path, edits, *EDIT, list__txt=LINES) as repl:
        heads = repl.program.repo / ".git/refs/heads/buddy"
        heads.mkdir(parents=True)
        (heads / "2-rewrite-it.lock").touch()
        said = await repl.said("/try 3 rewrite it", "2 variants started: 1 is task 2, 3 is task 3")
        assert "variant 2 was not started: git could not do it" in said
        await repl.shows("no variant is at work any more (2 done)")
        await repl.said("/variants pick 2", "expected a variant (1, 3), found '2'")
        await repl.said("/variants pick 3", "Variant 3 picked")
        assert line_3(repl) == "3-rewrite-it"


async def test_nothing_is_left_where_fewer_than_two_could_be_made(tmp_path: Path) -> None:
    async with open_repl(tmp_path, edits, *EDIT, list__txt=LINES) as repl:
        heads = repl.program.repo / ".git/refs/heads/buddy"
        heads.mkdir(parents=True)
        (heads / "2-rewrite-it.lock").touch()
        await repl.said("/try 2 rewrite it", "nothing was started, fewer than 2 worktrees could be made: git")
        assert trees(repl) == []
        assert list(repl.context.board.tasks) == [1]
        (heads / "2-rewrite-it.lock").unlink()
        assert repl.program.git("branch", "--list", "buddy/*") == ""
        shutil.rmtree(repl.program.repo / ".git")
        await repl.said("/try 2 rewrite it", "a worktree needs a git repository")
        await repl.said("/variants", "there are no variants; /try 3 PROMPT starts some")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("/try rewrite it", "expected a number or models, then the prompt"),
        ("/try 3", "expected a number or models, then the prompt"),
        ("/try 1 rewrite it", "expected 2 to 8 tries, found 1"),
        ("/try 99999999999 rewrite it", "expected 2 to 8 tries"),
        ("/try on openai/a rewrite it", "expected 2 to 8 models, found 1"),
        ("/try on nobody/a,nobody/b rewrite it", "nothing was started: "),
        ("/variants pick 1", "there are no variants"),
        ("/variants choose 1", "expected diff, pick, cancel or drop and a variant, found 'choose'"),
        ("/variants drop rest", "pick a variant first"),
    ],
)
async def test_what_can_not_be_is_said_and_starts_nothing(tmp_path: Path, line: str, expected: str) -> None:
    async with open_repl(tmp_path, edits, *EDIT, list__txt=LINES) as repl:
        await repl.said(line, expected)
        assert list(repl.context.board.tasks) == [1]
        assert trees(repl) == []


async def test_changes_are_dropped_only_when_they_are_given_up_by_name(tmp_path: Path) -> None:
    async with open_repl(tmp_path, edits, *EDIT, list__txt=LINES) as repl:
        await repl.said("/try 2 rewrite it", "2 variants started")
        await repl.shows("no variant is at work any more")
        await repl.said("/variants drop 1", "has changes, and no variant is in your tree")
        assert trees(repl) == ["1-rewrite-it", "2-rewrite-it"]
        await repl.said("/variants drop rest", "pick a variant first, or drop each by its number")
        await repl.said("/variants drop 1 discard", "dropped: variant 1")
        assert trees(repl) == ["2-rewrite-it"]
        await repl.said("/variants pick 1", "is gone")
        await repl.said("/variants diff 1", "is gone")
        said = await repl.said("/variants", "│ dropped")
        assert "cancelled" not in said
        await repl.said("@3 go on", "no variant is at work any more (1 done)")


async def test_the_budget_is_that_of_all_of_them(tmp_path: Path) -> None:
    def paid(asked: Asked) -> Reply:
        return reply(f"answer of {tree_of(asked)}", usage=Tokens(input=1000, output=0))

    settings = {"budget": {"task_tokens": 30_000}}
    async with open_repl(tmp_path, paid, settings=settings, list__txt=LINES) as repl:
        await repl.said("/try 2 look", "2 variants started")
        await repl.shows("no variant is at work any more")
        await repl.said(
            "/budget @2", "budget of all variants of task 2's prompt: 30,000 tokens", "2,000 tokens"
        )
        await repl.said("/budget @3 2k tokens", "budget of all variants of task 3's prompt: 2,000 tokens")
        await repl.said("@2 look again", "0 of the budget of all variants are left")
        await repl.quiet()
        await repl.said("/budget @2 60k tokens", "60,000 tokens")
        repl.say("/continue 2")
        await repl.until(lambda: repl.context.board.task(2).state == "finished", "it goes on")


async def test_a_variant_reads_the_results_of_another_one(tmp_path: Path) -> None:
    def reads(asked: Asked) -> Reply:
        if asked.turns[-1][0] != "user" or "compare" not in asked.last_user_text:
            return edits(asked)
        return reply(
            call("retrieve_variant", number=1),
            call("retrieve_variant", number=1, what="diff"),
            call("retrieve_variant", number=1, what="file", path="list.txt"),
            call("retrieve_variant", number=1, what="file", path="../../../outside.txt"),
            call("retrieve_variant", number=1, what="file", path=".env"),
            call("retrieve_variant", number=1, what="file", path="link.txt"),
            call("retrieve_variant", number=7),
        )

    async with open_repl(tmp_path, reads, *EDIT, "--permission-mode", "auto", list__txt=LINES) as repl:
        await repl.said("/try 2 rewrite it", "2 variants started")
        await repl.shows("no variant is at work any more")
        tree = repl.program.repo / ".buddyx/worktrees/1-rewrite-it"
        (tree / ".env").write_text("PASSWORD=hunter2hunter2\n")
        (tree / "link.txt").symlink_to("/etc/hostname")
        repl.say("@3 compare it with variant 1")
        approve = asyncio.ensure_future(_approve(repl))

        def results_read() -> list[str]:
            return [text for role, text in repl.server.requests[-1].turns if role == "tool"]

        await repl.until(lambda: len(results_read()) == 8, "compared")
        approve.cancel()
        results = results_read()[1:]
        assert "[variant 1, finished]\nanswer of 1-rewrite-it" in results[0]
        assert "-line 3" in results[1]
        assert "+1-rewrite-it" in results[1]
        assert "hunter2" not in results[1]
        assert "1-rewrite-it" in results[2]
        assert "[variant 1, finished]" in results[2]
        assert "expected a path inside the tree of variant 1" in results[3]
        assert "hunter2" not in results[4]
        assert "is a link" in results[5] or "inside the tree" in results[5]
        assert "there is no variant 7 (variants: 1, 2)" in results[6]


async def test_a_diff_leaves_out_the_files_that_its_reader_may_not_read(tmp_path: Path) -> None:
    changed = {
        "private/plan.txt": "the plan",
        "private/deep/map.txt": "the map",
        "asked.txt": "the question",
        "notes/day.txt": "the day",
        "~/home.txt": "the home",
    }

    def compares(asked: Asked) -> Reply:
        if asked.turns[-1][0] == "user" and "compare" in asked.last_user_text:
            return reply(call("retrieve_variant", number=1, what="diff"))
        return edits(asked)

    rules = json.dumps({"permissions": {"deny": ["Read(private/**)"], "ask": ["Read(asked.txt)"]}})
    async with open_repl(tmp_path, compares, *EDIT, "--settings", rules, list__txt=LINES) as repl:
        await repl.said("/try 2 rewrite it", "2 variants started")
        await repl.shows("no variant is at work any more")
        tree = repl.program.repo / ".buddyx/worktrees/1-rewrite-it"
        for path, text in {**changed, ".env": "PASSWORD=hunter2hunter2"}.items():
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_text(f"{text}\n")
        (repl.program.repo / ".buddyx/worktrees/2-rewrite-it/notes").symlink_to("private")
        await repl.said("@3 compare it with variant 1", "no variant is at work any more")
        (text,) = [text for role, text in repl.server.requests[-1].turns if role == "tool"][1:]

    assert "+1-rewrite-it" in text
    assert "+the home" in text, "a folder named ~ is no home"
    for secret in ("the plan", "the map", "the question", "the day", "hunter2"):
        assert secret not in text
    assert (
        "Changed, and not shown because reading it is not allowed: "
        "asked.txt, notes/day.txt, private/deep/map.txt, private/plan.txt" in text
    )
    assert "Not compared (secret by name, too large or unreadable): .env" in text


async def _approve(repl: Repl) -> None:
    """Answer yes to whatever is asked."""
    while True:
        if repl.context.board.inbox.waiting():
            repl.say("/ok all")
        await asyncio.sleep(0.05)


async def test_only_variants_are_offered_the_results_of_others(tmp_path: Path) -> None:
    async with open_repl(tmp_path, edits, *EDIT, list__txt=LINES) as repl:
        await repl.turn("hello")
        await repl.said("/try 2 look", "2 variants started")
        await repl.shows("no variant is at work any more")
        offered = [
            ("retrieve_variant" in json.dumps(asked.json["tools"]), bool(tree_of(asked)))
            for asked in repl.server.requests
        ]
        assert offered == [(False, False), (True, True), (True, True)]


async def test_numbers_are_completed_and_tasks_are_named_variants(tmp_path: Path) -> None:
    async with open_repl(tmp_path, edits, *EDIT, list__txt=LINES) as repl:
        assert variant_offers(repl.context, "") == []
        await repl.said("/try 2 look", "2 variants started")
        assert [offer.text for offer in variant_offers(repl.context, "")] == ["1", "2"]
        await repl.said("/ps", "look · variant 1 · worktree 1-look")
        await repl.quiet()
        await repl.said("/try 3 look", "3 variants started")
        await repl.quiet()
        assert [offer.text for offer in variant_offers(repl.context, "")] == ["1", "2", "3"]
        await repl.said("/variants all", "2 variants of: look", "3 variants of: look")
        await repl.said("/variants diff 1 @2", "these are variants of different prompts")
        await repl.said("/help variants", "one prompt, several tries or models")


async def test_variants_start_from_the_main_tree_only(tmp_path: Path) -> None:
    async with open_repl(tmp_path, edits, *EDIT, list__txt=LINES) as repl:
        await repl.said("/worktree rewrite it", "task 2 started")
        await repl.quiet()
        repl.say("/fg 2")
        await repl.until(lambda: repl.context.focus == 2, "task 2 in front")
        await repl.said("/try 2 rewrite it", "variants start from the main tree, and task 2 works in")


async def test_the_rest_is_dropped_also_where_one_still_works(tmp_path: Path) -> None:
    def stalls(asked: Asked) -> Reply:
        return reply("never", fault=Stall()) if tree_of(asked) == "1-rewrite-it" else edits(asked)

    async with open_repl(tmp_path, stalls, *EDIT, list__txt=LINES) as repl:
        await repl.said("/try 3 rewrite it", "3 variants started")
        board = repl.context.board
        await repl.until(lambda: not (board.task(3).running or board.task(4).running), "two are done")
        await repl.said("/variants pick 2", "/variants drop rest removes 1 and 3 with what they changed")
        await repl.said("/variants drop rest", "dropped: variant 1, 3")
        assert [board.task(task_id).closed for task_id in (2, 3, 4)] == [True, False, True]
        assert trees(repl) == ["2-rewrite-it"]
        await repl.said("/variants drop rest", "nothing is left to drop")
        await repl.said("/continue 2", "task 2 is closed")
