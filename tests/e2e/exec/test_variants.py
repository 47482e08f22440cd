"""`buddy exec --variants`: several tries or models at one prompt, the failures of single ones, the budget of
all, and the pick in the session afterwards."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import signal
from pathlib import Path

from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, Stall, Tokens, call, failure, reply
from tests.fake_llm.server import FakeLLM
from tests.support.program import Program, finished
from tests.support.waiting import until

EDIT = ("--permission-mode", "edit")


def tree_of(asked: Asked) -> str:
    """Return the name of the worktree that a request's conversation works in."""
    found = re.findall(r"worktrees/([\w-]+), on", json.dumps(asked.json))
    return found[-1] if found else "main"


def writes(asked: Asked) -> Reply:
    """Each variant writes a file with the name of its worktree in it."""
    if asked.turns[-1][0] == "user":
        return reply(call("write_file", path="new.txt", content=f"{tree_of(asked)}\n"))
    return reply(f"written by {tree_of(asked)}")


def program_of(tmp_path: Path, server: FakeLLM, **settings: object) -> Program:
    program = Program(tmp_path, server.url, settings=settings)
    program.files(main__py="print(1)\n")
    return program


async def test_three_tries_start_from_the_same_files_and_leave_the_tree_alone(tmp_path: Path) -> None:
    async with FakeLLM(writes) as server:
        program = program_of(tmp_path, server)
        (program.repo / "main.py").write_text("print(2)\n")
        (program.repo / "untracked.txt").write_text("mine\n")
        ran = await program.run("exec", "--variants", "3", *EDIT, "write it")

        assert ran.code == 0, ran.err
        answers = [line for line in ran.out.splitlines() if not line.startswith("== ")]
        assert answers == ["written by 1-write-it", "written by 2-write-it", "written by 3-write-it"]
        assert len(re.findall(r"== variant \d · openai/fake-model · done · .* 1 file \+1 −0", ran.out)) == 3
        assert "/variants pick N merges one" in ran.err
        assert program.git("status", "--short") == " M main.py\n?? untracked.txt\n"
        trees = program.repo / ".buddyx/worktrees"
        for name in ("1-write-it", "2-write-it", "3-write-it"):
            assert (trees / name / "new.txt").read_text() == f"{name}\n"
            assert (trees / name / "main.py").read_text() == "print(2)\n"
            assert (trees / name / "untracked.txt").read_text() == "mine\n"


async def test_the_provider_of_one_dies_and_the_other_is_done(tmp_path: Path) -> None:
    def dies(asked: Asked) -> Reply:
        return failure(500) if asked.json["model"] == "poor" else writes(asked)

    async with FakeLLM(dies) as server:
        profile = {"model": "openai/poor", "base_url": f"{server.url}/v1", "api_key_env": "FAKE_LLM_KEY"}
        good = {**profile, "model": "openai/good"}
        program = program_of(
            tmp_path,
            server,
            models={"poor": profile, "good": good},
            network={"tries": 1, "unattended_tries": 1},
        )
        ran = await program.run("exec", "--variants", "poor,good", "--json", *EDIT, "write it")

        assert ran.code == 0, ran.err
        (result,) = ran.objects()
        assert result["is_error"] is False
        first, second = result["variants"]
        assert (first["model"], first["state"], first["error"], first["files"]) == (
            "poor",
            "failed",
            "server",
            [],
        )
        assert (second["model"], second["state"], second["result"]) == (
            "good",
            "completed",
            "written by 2-write-it",
        )
        assert second["files"] == [{"path": "new.txt", "change": "add", "added": 1, "removed": 0}]
        assert Path(second["worktree"], "new.txt").exists()


async def test_all_variants_share_one_budget(tmp_path: Path) -> None:
    def expensive(asked: Asked) -> Reply:
        if asked.turns[-1][0] == "user":
            return reply(call("list_files", path="."), usage=Tokens(cost=0.4))
        return reply("listed", usage=Tokens(cost=0.4))

    async with FakeLLM(expensive) as server:
        program = program_of(tmp_path, server)
        ran = await program.run("exec", "--variants", "3", "--max-cost", "1", "--json", "look")
        (result,) = ran.objects()
        assert result["total_cost_usd"] <= 1.2, result
        states = [one["state"] for one in result["variants"]]
        assert "limit" in states
        limited = next(one for one in result["variants"] if one["state"] == "limit")
        assert "the budget of all variants" in limited["result"]


async def test_a_denied_call_of_one_is_counted_for_it_alone(tmp_path: Path) -> None:
    def asks(asked: Asked) -> Reply:
        if asked.turns[-1][0] == "user" and tree_of(asked) == "1-look":
            return reply(call("run_shell", command="touch x"))
        return reply("done")

    async with FakeLLM(asks) as server:
        program = program_of(tmp_path, server)
        ran = await program.run("exec", "--variants", "2", "--json", "look")
        (result,) = ran.objects()
        assert [len(one["permission_denials"]) for one in result["variants"]] == [1, 0]
        assert [one["is_error"] for one in result["variants"]] == [True, False]
        assert ran.code == 0
        strict = await program.run(
            "exec", "--variants", "2", "--json", "--permission-prompts", "fail", "look"
        )
        assert [one["state"] for one in strict.objects()[0]["variants"]] == ["cancelled", "completed"]


async def test_stream_json_marks_every_event_with_its_variant(tmp_path: Path) -> None:
    def delegates(asked: Asked) -> Reply:
        if "which you delegated" in asked.last_user_text:
            return reply("written by 1-write-it")
        if "subtask" in asked.last_user_text:
            return reply("looked")
        if tree_of(asked) == "1-write-it" and asked.turns[-1][0] == "user":
            return reply(call("delegate", task="subtask"))
        return writes(asked)

    async with FakeLLM(delegates) as server:
        program = program_of(tmp_path, server)
        arguments = ("--output-format", "stream-json", "--include-partial-messages")
        ran = await program.run("exec", "--variants", "2", *arguments, *EDIT, "write it")

        assert ran.code == 0, ran.err
        *events, everything = ran.objects()
        marks = {(event["variant"], event["task"]) for event in events}
        assert marks == {(1, 2), (2, 3)}
        assert len({event["uuid"] for event in events}) == len(events)
        for number, answer in ((1, "written by 1-write-it"), (2, "written by 2-write-it")):
            own = [event for event in events if event["variant"] == number]
            assert [own[0]["type"], own[0]["subtype"], own[-1]["type"]] == ["system", "init", "result"]
            assert own[0]["cwd"].endswith(f"{number}-write-it")
            assert [one["result"] for one in own if one["type"] == "result"] == [answer]
            assert any(one["type"] == "stream_event" for one in own)
        work = [event["variant"] for event in events if event.get("subtype") == "task_started"]
        assert work == [1]
        assert everything["type"] == "variants"
        assert [one["result"] for one in everything["variants"]] == [
            "written by 1-write-it",
            "written by 2-write-it",
        ]


async def test_the_result_of_a_variant_is_written_while_another_still_works(tmp_path: Path) -> None:
    def one_stalls(asked: Asked) -> Reply:
        return reply("never", fault=Stall()) if tree_of(asked) == "2-write-it" else writes(asked)

    async with FakeLLM(one_stalls) as server:
        program = program_of(tmp_path, server)
        process = await program.start(
            "exec", "--variants", "2", "--output-format", "stream-json", *EDIT, "write it"
        )
        assert process.stdout is not None
        async with asyncio.timeout(60):
            while True:
                line = json.loads(await process.stdout.readline())
                if line["type"] == "result":
                    break
        assert (line["variant"], line["result"]) == (1, "written by 1-write-it")
        process.send_signal(signal.SIGINT)
        ran = await finished(process)
        *_events, second, everything = ran.objects()
        assert (second["type"], second["variant"], second["is_error"]) == ("result", 2, True)
        assert [one["state"] for one in everything["variants"]] == ["completed", "cancelled"]


async def test_an_interrupt_ends_all_of_them(tmp_path: Path) -> None:
    async with FakeLLM(lambda _asked: reply("never", fault=Stall())) as server:
        program = program_of(tmp_path, server)
        process = await program.start("exec", "--variants", "2", "wait")
        await until(lambda: len(server.requests) == 2)
        process.send_signal(signal.SIGINT)
        ran = await finished(process)
        assert ran.code == 130
        assert ran.out.count("· cancelled ·") == 2
        trees = program.repo / ".buddyx/worktrees"
        assert [one.name for one in trees.iterdir() if (one / ".git").exists()] == []


async def test_what_can_not_be_is_said_before_anything_is_asked(tmp_path: Path) -> None:
    async with FakeLLM([]) as server:
        program = program_of(tmp_path, server)
        for arguments, expected in (
            (("--variants", "1"), "--variants needs a number from 2 to 8"),
            (("--variants", "9"), "--variants needs a number from 2 to 8"),
            (("--variants", "a,,b"), "--variants needs a number from 2 to 8"),
            (("--variants", "2", "--worktree"), "does not go with --worktree"),
            (("--variants", "2", "--ephemeral"), "does not go with --ephemeral"),
            (("--variants", "2", "--output-format", "sse"), "records of sse have no place for the number"),
            (("--variants", "2", "--output-format", "codex-json"), "records of codex-json have no place"),
            (("--variants", "a,b", "-m", "c"), "--variants names the models already"),
        ):
            ran = await program.run("exec", *arguments, "x")
            assert (ran.code, expected in ran.err) == (2, True), (arguments, ran.err)
        unknown = await program.run("exec", "--variants", "nobody/x,nobody/y", "x")
        assert unknown.code == 4, unknown.err
        assert program.sessions() == []
        shutil.rmtree(program.repo / ".git")
        none = await program.run("exec", "--variants", "2", "x")
        assert (none.code, "a worktree needs a git repository" in none.err) == (4, True)
        assert server.requests == []


async def test_a_rule_about_reading_a_file_holds_for_the_trees_of_other_variants(tmp_path: Path) -> None:
    def reads(asked: Asked) -> Reply:
        if asked.turns[-1][0] == "user":
            return reply(
                call("retrieve_variant", number=1, what="file", path="private/plan.txt"),
                call("retrieve_variant", number=1, what="file", path="main.py"),
            )
        return reply("done")

    async with FakeLLM(reads) as server:
        program = Program(tmp_path, server.url)
        (program.repo / "private").mkdir()
        (program.repo / "private/plan.txt").write_text("the plan\n")
        program.files(main__py="print(1)\n")
        rules = json.dumps({"permissions": {"deny": ["Read(private/**)"]}})
        ran = await program.run("exec", "--variants", "2", "--settings", rules, "look")
        assert ran.code == 0, ran.err
        results = [text for role, text in server.requests[-1].turns if role == "tool"]
        assert "the plan" not in results[0]
        assert "print(1)" in results[1]


async def test_variants_continue_a_conversation_and_can_be_continued_one_by_one(tmp_path: Path) -> None:
    async with FakeLLM(writes) as server:
        program = program_of(tmp_path, server)
        await program.run("exec", *EDIT, "write it first")
        before = len(server.requests)
        (program.repo / "new.txt").unlink()
        ran = await program.run("exec", "--continue", "--variants", "2", *EDIT, "write it")
        assert ran.code == 0, ran.err
        for asked in server.requests[before:]:
            assert "write it first" in json.dumps(asked.json)
        none = await program.run("exec", "--continue", "--variants", "2", *EDIT)
        assert (none.code, "--variants needs a prompt" in none.err) == (2, True)
