"""Commands about tasks, tried on a running board: everything works while tasks run."""

from __future__ import annotations

from pathlib import Path

from buddy.agent.messages import UserMessage, text_of
from buddy.repl.intents import Cancel, DropNote, NextMode, RecallQueued, Rewind, TaskPanel, ToBackground
from buddy.repl.view.live import phase_text
from buddy.repl.view.state import Retrying
from buddy.safety.policy.decide import Approvals
from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, Stall, call, failure, reply
from tests.support.repl import open_repl


def slow(asked: Asked) -> Reply:
    """Answers at once, but stalls where it is asked to be slow and nothing new was said."""
    if asked.last_user_text.endswith("slow"):
        return reply("I am at it, " * 5, fault=Stall(after=4))
    return reply(f"heard: {asked.last_user_text[-40:]}")


async def test_ps_lists_tasks_and_fg_brings_one_to_the_front(tmp_path: Path) -> None:
    async with open_repl(tmp_path, slow) as repl:
        repl.say("be slow")
        await repl.until(lambda: repl.context.board.task(1).running)
        await repl.said("a second thing &", "task 2 started in the background: a second thing")
        await repl.until(lambda: repl.context.board.task(2).state == "finished")
        shown = await repl.said("/ps", "▸ 1", "& 2", "running", "done", "a second thing")
        assert "be slow" in shown
        await repl.said("/fg 2", "── task 2 a second thing", "heard: ")
        assert repl.context.focus == 2
        repl.say("/fg 2")
        await repl.hints("task 2 is already in the foreground")
        await repl.said("/fg 9", "there is no task 9 (tasks: 1, 2)")


async def test_bg_sends_the_running_task_away_and_starts_new_ones(tmp_path: Path) -> None:
    async with open_repl(tmp_path, slow) as repl:
        await repl.said("/bg", "task 1 is not running")
        repl.say("be slow")
        await repl.until(lambda: repl.context.board.task(1).running)
        repl.act(ToBackground())
        await repl.shows("task 1 continues in the background; this is task 2")
        assert repl.context.focus == 2
        await repl.said("/bg look around", "task 3 started in the background: look around")
        await repl.said("/bg 1", "task 1 is not in the foreground; /fg 1 brings it there")
        await repl.said("/bg 9", "there is no task 9 (tasks: 1, 2, 3)")
        await repl.said("/bg 2", "task 2 is not running")
        repl.act(TaskPanel())
        await repl.shows("& 1", "▸ 2")


async def test_a_background_answer_becomes_a_note_that_goes_along_or_is_dropped(tmp_path: Path) -> None:
    async with open_repl(tmp_path, slow) as repl:
        await repl.said("one thing &", "task 2")
        await repl.until(lambda: len(repl.context.board.notes.waiting) == 1)
        repl.act(DropNote())
        await repl.until(lambda: not repl.context.board.notes.waiting)
        await repl.said("another thing &", "task 3")
        await repl.until(lambda: len(repl.context.board.notes.waiting) == 1)
        await repl.said("and now?", "and now?")
        await repl.quiet()
        prompt = repl.context.board.task(1).history[0]
        assert text_of(prompt).startswith("[Background task 3, 'another thing', has finished. Its answer:]")


async def test_steer_and_queue_wait_their_turn_and_can_be_taken_back(tmp_path: Path) -> None:
    def model(asked: Asked) -> Reply:
        if len(asked.tool_results) == 0:
            return reply(call("run_shell", command="sleep 0.4"))
        return reply("done")

    allow = {"permissions": {"allow": ["Bash(sleep 0.4)"]}}
    async with open_repl(tmp_path, model, settings=allow) as repl:
        await repl.said("/steer", "expected the text")
        await repl.said("/queue", "expected the text to queue")
        repl.say("begin")
        await repl.until(lambda: repl.context.board.task(1).running)
        repl.say("/queue first")
        await repl.until(lambda: len(repl.context.board.task(1).queued) == 1)
        repl.say("/queue second")
        await repl.until(lambda: len(repl.context.board.task(1).queued) == 2)
        repl.act(RecallQueued())
        await repl.until(lambda: repl.paper.line == "second")
        repl.say("/steer 1 use pytest")
        await repl.quiet()
        said = [text_of(one) for one in repl.context.board.task(1).history if isinstance(one, UserMessage)]
        assert said == ["begin", "use pytest", "first"]
        repl.act(RecallQueued())
        await repl.hints("nothing is queued")


async def test_cancel_gives_queued_text_back(tmp_path: Path) -> None:
    async with open_repl(tmp_path, slow) as repl:
        repl.say("be slow")
        await repl.until(lambda: repl.context.board.task(1).running)
        repl.say("/queue and then this")
        await repl.until(lambda: bool(repl.context.board.task(1).queued))
        repl.act(Cancel())
        await repl.until(lambda: repl.paper.line == "and then this")
        await repl.shows("cancelled")
        assert "(cancelled)" not in await repl.said("/ps", "be slow")


async def test_continue_and_retry_go_on_where_something_is_open(tmp_path: Path) -> None:
    async with open_repl(tmp_path, slow) as repl:
        await repl.said("/continue", "task 1 has nothing to continue")
        await repl.said("/retry", "task 1 did not fail")
        repl.say("be slow")
        await repl.until(lambda: len(repl.server.requests) == 1)
        await repl.until(lambda: repl.paper.state.task(1).stream_block >= 0)
        repl.act(Cancel())
        await repl.quiet()
        await repl.said("/continue", "heard: ")
        await repl.quiet()
        assert repl.context.board.task(1).state == "idle"


async def test_kill_wait_and_timeout(tmp_path: Path) -> None:
    async with open_repl(tmp_path, slow) as repl:
        await repl.said("something slow &", "task 2 started")
        await repl.said("/kil 2", "/kill is destructive")
        repl.say("/wait 2")
        await repl.said("/timeout", "expected a time")
        await repl.said("/timeout 2 soon", "expected a time like 90s, 10m or 1h, found 'soon'")
        repl.say("/timeout 2 5m")
        await repl.hints("task 2 will be cancelled after 5 m")
        repl.say("/timeout 2 off")
        await repl.hints("task 2 has no time limit")
        repl.say("/timeout 2 0.05s")
        await repl.shows("task 2: cancelled")
        await repl.said("/kill 2", "task 2 is closed")
        await repl.said("/kill 2", "task 2 is already closed")
        await repl.said("@2 more", "task 2 is closed; start another one with `TEXT &`")
        assert repl.paper.line == "@2 more", "nothing typed is lost"
        await repl.said("/fg 2", "task 2 is closed")
        assert "closed" not in await repl.said("/ps", "▸ 1")


async def test_a_number_without_measure_is_told(tmp_path: Path) -> None:
    many = "1" * 5000
    async with open_repl(tmp_path, slow) as repl:
        for command, said in {
            f"/kill {many}": "expected the number of a task, found '111",
            "/timeout 1 0m": "expected a time above 0 and up to a year, found '0m'",
            f"/timeout 1 {many}": "expected a time above 0 and up to a year, found '111",
            "/approve 0": "expected a time above 0 and up to a year, found '0'",
            "/approve 99999999999999999999": "expected a time above 0 and up to a year",
            f"/approve {many}": "expected a time above 0 and up to a year",
            f"/undo yes {many}": "expected /undo",
            f"/worktree diff {many}": "there is no task and no worktree",
            f"/budget @{many} 5": "expected a task like @3",
            f"/budget {many}": "expected 0 (no limit) to 1,000,000 dollars, found '111",
            "/budget -1": "expected 0 (no limit) to 1,000,000 dollars, found '-1'",
            "/budget nan": "expected 0 (no limit) to 1,000,000 dollars, found 'nan'",
            "/budget inf": "expected 0 (no limit) to 1,000,000 dollars, found 'inf'",
            f"/btw @{many} why": "heard: ",
            f"/steer {many} more": "heard: ",
        }.items():
            assert "bug" not in await repl.said(command, said)
            await repl.quiet()
        task = repl.context.board.task(1)
        assert (repl.context.session.policy.approvals, task.deadline) == (Approvals(), None)
        assert task.meter.budget.max_cost_usd == repl.context.board.budget(0).max_cost_usd == 0
        await repl.said(f"/rewind {many}", "expected the number of a prompt, 1 to 1")


async def test_killing_the_task_in_front_leaves_another_one_there(tmp_path: Path) -> None:
    async with open_repl(tmp_path, slow) as repl:
        repl.say("be slow")
        await repl.until(lambda: repl.context.board.task(1).running)
        await repl.said("/kill", "task 1 is closed")
        assert repl.context.focus == 2
        await repl.said("still here?", "heard: still here?")


async def test_a_question_on_the_side_disturbs_nothing(tmp_path: Path) -> None:
    def model(asked: Asked) -> Reply:
        if "This is a side question" in asked.last_user_text:
            return reply("Because of the *fixtures*.")
        return slow(asked)

    async with open_repl(tmp_path, model) as repl:
        await repl.said("/btw", "expected a question")
        await repl.said("hello", "heard: hello")
        await repl.quiet()
        repl.say("be slow")
        await repl.until(lambda: len(repl.server.requests) == 2)
        before = list(repl.context.board.task(1).history)
        await repl.said("/btw why pytest?", "btw: why pytest?", "Because of the fixtures.")
        await repl.said("@1? why pytest?", "Because of the fixtures.")
        assert repl.context.board.task(1).running
        assert repl.context.board.task(1).history == before
        asked = repl.server.requests[2]
        assert ("user", "hello") in asked.turns
        assert asked.tool_names, "servers refuse calls in a history without tools"
        assert repl.context.board.task(1).meter.total.output_tokens >= 10


async def test_a_question_on_the_side_can_be_ended_and_may_fail(tmp_path: Path) -> None:
    def model(asked: Asked) -> Reply:
        if "for ever" in asked.last_user_text:
            return reply("no", fault=Stall())
        if "This is a side question" in asked.last_user_text:
            return reply(call("read_file", path="main.py"))
        return reply("hm")

    async with open_repl(tmp_path, model) as repl:
        repl.say("/btw for ever?")
        await repl.until(lambda: repl.front.controller.facts().own != ())
        assert repl.front.controller.facts().own[0].title == "btw: for ever?"
        repl.act(Cancel())
        await repl.shows("cancelled, not answered")
        await repl.said("/btw which?", "the model did not answer the side question")
        assert repl.paper.line == "", "Up recalls it"
        assert repl.context.board.task(1).history == []


async def test_after_a_rate_limit_of_a_day_whoever_asks_again_is_answered(tmp_path: Path) -> None:
    script = [failure(429, retry_after="86400"), reply("let in again")]
    async with open_repl(tmp_path, script) as repl:
        await repl.said("hello", "The provider asks to wait 86,400 s")
        await repl.quiet()
        await repl.said("/retry", "let in again")


async def test_who_waits_for_others_after_a_rate_limit_is_said_to(tmp_path: Path) -> None:
    async with open_repl(tmp_path, [failure(429, retry_after="60"), reply("never")]) as repl:
        await repl.said("hello", "; trying again")
        repl.act(Cancel())
        await repl.quiet()
        repl.say("hello again")
        phase = repl.paper.state.task(1)
        await repl.until(lambda: isinstance(phase.phase, Retrying), "waiting for the end of the limit")
        assert len(repl.server.requests) == 1
        assert repl.paper.text().count("trying again") == 1, (
            "what waits its turn is no news for the scrollback"
        )


async def test_RU_A12_retry_now_asks_at_once_whatever_the_provider_asked_to_wait(tmp_path: Path) -> None:
    script = [failure(429, retry_after="60"), reply("here"), failure(429, retry_after="60"), reply("there")]
    async with open_repl(tmp_path, script) as repl:
        await repl.said("/retry now", "task 1 did not fail")
        await repl.said("hello", "; trying again")
        repl.act(Cancel())
        await repl.quiet()
        repl.say("hello again")
        phase = repl.paper.state.task(1)
        await repl.until(lambda: isinstance(phase.phase, Retrying), "waiting for the end of the limit")
        shown = phase_text(repl.paper.state, phase, phase.heard_at)
        assert "for the end of the 429 rate limit; /retry now asks at once" in shown
        await repl.said("/retry now", "here")
        await repl.quiet()
        repl.say("and once more")
        await repl.until(lambda: isinstance(phase.phase, Retrying), "waiting before it is sent again")
        await repl.said("/retry now", "there")
        assert len(repl.server.requests) == 4


async def test_RU_A12_retry_now_is_refused_where_nothing_waits(tmp_path: Path) -> None:
    async with open_repl(tmp_path, slow) as repl:
        repl.say("be slow")
        await repl.until(lambda: repl.paper.state.task(1).stream_block >= 0)
        await repl.said("/retry now", "task 1 is not waiting to retry")


async def test_rewind_goes_back_to_before_a_prompt(tmp_path: Path) -> None:
    async with open_repl(tmp_path, slow) as repl:
        await repl.said("/rewind", "there is no earlier prompt")
        await repl.said("first", "heard: first")
        await repl.quiet()
        await repl.said("second", "heard: second")
        await repl.quiet()
        repl.act(Rewind())
        await repl.shows("1 │ first", "2 │ second")
        await repl.said("/rewind 3", "expected the number of a prompt, 1 to 2")
        await repl.said("/rewind 2", "back to before prompt 2")
        assert repl.paper.line == "second"
        assert [text_of(one) for one in repl.context.board.task(1).history] == ["first", "heard: first"]
        await repl.said("third", "heard: third")
        await repl.quiet()
        assert [text for _role, text in repl.server.requests[-1].turns if "second" in text] == []


async def test_rewind_waits_for_the_turn(tmp_path: Path) -> None:
    async with open_repl(tmp_path, slow) as repl:
        repl.say("be slow")
        await repl.until(lambda: bool(repl.context.board.task(1).history))
        await repl.said("/rewind 1", "task 1 is running; cancel it first (Esc)")


async def test_shift_tab_goes_through_the_modes(tmp_path: Path) -> None:
    async with open_repl(tmp_path, slow) as repl:
        repl.act(NextMode())
        await repl.hints("mode: edit")


async def test_RU_P4_2_esc_ends_a_compaction_and_the_conversation_stays_whole(tmp_path: Path) -> None:
    script = [reply("first " * 40), reply("second " * 40), reply("no", fault=Stall())]
    async with open_repl(tmp_path, script) as repl:
        await repl.said("one", "first first")
        await repl.quiet()
        await repl.said("two", "second second")
        await repl.quiet()
        repl.say("/compact")
        await repl.until(lambda: len(repl.server.requests) == 3)
        assert repl.front.controller.facts().own[0].title == "/compact"
        repl.act(Cancel())
        await repl.shows("Not compacted: cancelled")
        await repl.said("/compact show", "nothing is compacted")


async def test_ps_keeps_a_long_failure_in_its_row_and_prints_all_of_it_for_one_task(tmp_path: Path) -> None:
    words = "the key was not accepted " * 8
    async with open_repl(tmp_path, lambda _asked: failure(401, words)) as repl:
        repl.say("sing")
        await repl.until(lambda: repl.context.board.task(1).state == "failed")
        listed = (await repl.said("/ps", "▸ 1", "… /ps 1)")).rpartition("❯ /ps\n")[2]
        assert len([row for row in listed.splitlines() if row.startswith(("▸", " "))]) == 1
        reason = repl.context.board.task(1).reason
        assert len(reason) > 100
        assert reason in await repl.said("/ps 1", "task 1: sing", reason)
        await repl.said("/ps 7", "there is no task 7")
