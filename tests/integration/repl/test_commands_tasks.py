"""Commands about tasks, tried on a running board: everything works while tasks run."""

from __future__ import annotations

from pathlib import Path

from buddy.agent.messages import UserMessage, text_of
from buddy.repl.intents import Cancel, DropNote, NextMode, RecallQueued, Rewind, TaskPanel, ToBackground
from buddy.repl.view.live import phase_text
from buddy.repl.view.state import Retrying
from buddy.safety.policy.grants import Approvals
from tests.fake_llm.asked import Asked
from tests.fake_llm.script import Reply, Stall, call, failure, reply
from tests.support.sitting_desk import sitting


def slow(asked: Asked) -> Reply:
    """Answers at once, but stalls where it is asked to be slow and nothing new was said."""
    if asked.last_user_text.endswith("slow"):
        return reply("I am at it, " * 5, fault=Stall(after=4))
    return reply(f"heard: {asked.last_user_text[-40:]}")


async def test_ps_lists_tasks_and_fg_brings_one_to_the_front(tmp_path: Path) -> None:
    async with sitting(tmp_path, slow) as desk:
        desk.say("be slow")
        await desk.until(lambda: desk.context.board.task(1).running)
        await desk.said("a second thing &", "task 2 started in the background: a second thing")
        await desk.until(lambda: desk.context.board.task(2).state == "finished")
        shown = await desk.said("/ps", "▸ 1", "& 2", "running", "done", "a second thing")
        assert "be slow" in shown
        await desk.said("/fg 2", "── task 2 a second thing", "heard: ")
        assert desk.context.focus == 2
        desk.say("/fg 2")
        await desk.hints("task 2 is already in the foreground")
        await desk.said("/fg 9", "there is no task 9 (tasks: 1, 2)")


async def test_bg_sends_the_running_task_away_and_starts_new_ones(tmp_path: Path) -> None:
    async with sitting(tmp_path, slow) as desk:
        await desk.said("/bg", "task 1 is not running")
        desk.say("be slow")
        await desk.until(lambda: desk.context.board.task(1).running)
        desk.act(ToBackground())
        await desk.shows("task 1 continues in the background; this is task 2")
        assert desk.context.focus == 2
        await desk.said("/bg look around", "task 3 started in the background: look around")
        await desk.said("/bg 1", "task 1 is not in the foreground; /fg 1 brings it there")
        await desk.said("/bg 9", "there is no task 9 (tasks: 1, 2, 3)")
        await desk.said("/bg 2", "task 2 is not running")
        desk.act(TaskPanel())
        await desk.shows("& 1", "▸ 2")


async def test_a_background_answer_becomes_a_note_that_goes_along_or_is_dropped(tmp_path: Path) -> None:
    async with sitting(tmp_path, slow) as desk:
        await desk.said("one thing &", "task 2")
        await desk.until(lambda: len(desk.context.board.notes.waiting) == 1)
        desk.act(DropNote())
        await desk.until(lambda: not desk.context.board.notes.waiting)
        await desk.said("another thing &", "task 3")
        await desk.until(lambda: len(desk.context.board.notes.waiting) == 1)
        await desk.said("and now?", "and now?")
        await desk.quiet()
        prompt = desk.context.board.task(1).history[0]
        assert text_of(prompt).startswith("[Background task 3, 'another thing', has finished. Its answer:]")


async def test_steer_and_queue_wait_their_turn_and_can_be_taken_back(tmp_path: Path) -> None:
    def model(asked: Asked) -> Reply:
        if len(asked.tool_results) == 0:
            return reply(call("run_shell", command="sleep 0.4"))
        return reply("done")

    allow = {"permissions": {"allow": ["Bash(sleep 0.4)"]}}
    async with sitting(tmp_path, model, settings=allow) as desk:
        await desk.said("/steer", "expected the text")
        await desk.said("/queue", "expected the text to queue")
        desk.say("begin")
        await desk.until(lambda: desk.context.board.task(1).running)
        desk.say("/queue first")
        await desk.until(lambda: len(desk.context.board.task(1).queued) == 1)
        desk.say("/queue second")
        await desk.until(lambda: len(desk.context.board.task(1).queued) == 2)
        desk.act(RecallQueued())
        await desk.until(lambda: desk.paper.line == "second")
        desk.say("/steer 1 use pytest")
        await desk.quiet()
        said = [text_of(one) for one in desk.context.board.task(1).history if isinstance(one, UserMessage)]
        assert said == ["begin", "use pytest", "first"]
        desk.act(RecallQueued())
        await desk.hints("nothing is queued")


async def test_cancel_gives_queued_text_back(tmp_path: Path) -> None:
    async with sitting(tmp_path, slow) as desk:
        desk.say("be slow")
        await desk.until(lambda: desk.context.board.task(1).running)
        desk.say("/queue and then this")
        await desk.until(lambda: bool(desk.context.board.task(1).queued))
        desk.act(Cancel())
        await desk.until(lambda: desk.paper.line == "and then this")
        await desk.shows("cancelled")
        assert "(cancelled)" not in await desk.said("/ps", "be slow")


async def test_continue_and_retry_go_on_where_something_is_open(tmp_path: Path) -> None:
    async with sitting(tmp_path, slow) as desk:
        await desk.said("/continue", "task 1 has nothing to continue")
        await desk.said("/retry", "task 1 did not fail")
        desk.say("be slow")
        await desk.until(lambda: len(desk.server.requests) == 1)
        await desk.until(lambda: desk.paper.state.task(1).stream_block >= 0)
        desk.act(Cancel())
        await desk.quiet()
        await desk.said("/continue", "heard: ")
        await desk.quiet()
        assert desk.context.board.task(1).state == "idle"


async def test_kill_wait_and_timeout(tmp_path: Path) -> None:
    async with sitting(tmp_path, slow) as desk:
        await desk.said("something slow &", "task 2 started")
        await desk.said("/kil 2", "/kill is destructive")
        desk.say("/wait 2")
        await desk.said("/timeout", "expected a time")
        await desk.said("/timeout 2 soon", "expected a time like 90s, 10m or 1h, found 'soon'")
        desk.say("/timeout 2 5m")
        await desk.hints("task 2 will be cancelled after 5 m")
        desk.say("/timeout 2 off")
        await desk.hints("task 2 has no time limit")
        desk.say("/timeout 2 0.05s")
        await desk.shows("task 2: cancelled")
        await desk.said("/kill 2", "task 2 is closed")
        await desk.said("/kill 2", "task 2 is already closed")
        await desk.said("@2 more", "task 2 is closed; start another one with `TEXT &`")
        assert desk.paper.line == "@2 more", "nothing typed is lost"
        await desk.said("/fg 2", "task 2 is closed")
        assert "closed" not in await desk.said("/ps", "▸ 1")


async def test_a_number_without_measure_is_told(tmp_path: Path) -> None:
    many = "1" * 5000
    async with sitting(tmp_path, slow) as desk:
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
            assert "bug" not in await desk.said(command, said)
            await desk.quiet()
        task = desk.context.board.task(1)
        assert (desk.context.session.policy.approvals, task.deadline) == (Approvals(), None)
        assert task.meter.budget.max_cost_usd == task.meter.session.max_cost_usd == 0
        await desk.said(f"/rewind {many}", "expected the number of a prompt, 1 to 1")


async def test_killing_the_task_in_front_leaves_another_one_there(tmp_path: Path) -> None:
    async with sitting(tmp_path, slow) as desk:
        desk.say("be slow")
        await desk.until(lambda: desk.context.board.task(1).running)
        await desk.said("/kill", "task 1 is closed")
        assert desk.context.focus == 2
        await desk.said("still here?", "heard: still here?")


async def test_a_question_on_the_side_disturbs_nothing(tmp_path: Path) -> None:
    def model(asked: Asked) -> Reply:
        if "This is a side question" in asked.last_user_text:
            return reply("Because of the *fixtures*.")
        return slow(asked)

    async with sitting(tmp_path, model) as desk:
        await desk.said("/btw", "expected a question")
        await desk.said("hello", "heard: hello")
        await desk.quiet()
        desk.say("be slow")
        await desk.until(lambda: len(desk.server.requests) == 2)
        before = list(desk.context.board.task(1).history)
        await desk.said("/btw why pytest?", "btw: why pytest?", "Because of the fixtures.")
        await desk.said("@1? why pytest?", "Because of the fixtures.")
        assert desk.context.board.task(1).running
        assert desk.context.board.task(1).history == before
        asked = desk.server.requests[2]
        assert ("user", "hello") in asked.turns
        assert asked.tool_names, "servers refuse calls in a history without tools"
        assert desk.context.board.task(1).meter.total.output_tokens >= 10


async def test_a_question_on_the_side_can_be_ended_and_may_fail(tmp_path: Path) -> None:
    def model(asked: Asked) -> Reply:
        if "for ever" in asked.last_user_text:
            return reply("no", fault=Stall())
        if "This is a side question" in asked.last_user_text:
            return reply(call("read_file", path="main.py"))
        return reply("hm")

    async with sitting(tmp_path, model) as desk:
        desk.say("/btw for ever?")
        await desk.until(lambda: desk.front.controller.facts().own != ())
        assert desk.front.controller.facts().own[0].title == "btw: for ever?"
        desk.act(Cancel())
        await desk.shows("cancelled, not answered")
        await desk.said("/btw which?", "the model did not answer the side question")
        assert desk.paper.line == "", "Up recalls it"
        assert desk.context.board.task(1).history == []


async def test_after_a_rate_limit_of_a_day_whoever_asks_again_is_answered(tmp_path: Path) -> None:
    script = [failure(429, retry_after="86400"), reply("let in again")]
    async with sitting(tmp_path, script) as desk:
        await desk.said("hello", "The provider asks to wait 86,400 s")
        await desk.quiet()
        await desk.said("/retry", "let in again")


async def test_who_waits_for_others_after_a_rate_limit_is_said_to(tmp_path: Path) -> None:
    async with sitting(tmp_path, [failure(429, retry_after="60"), reply("never")]) as desk:
        await desk.said("hello", "; trying again")
        desk.act(Cancel())
        await desk.quiet()
        desk.say("hello again")
        phase = desk.paper.state.task(1)
        await desk.until(lambda: isinstance(phase.phase, Retrying), "waiting for the end of the limit")
        assert len(desk.server.requests) == 1
        assert desk.paper.text().count("trying again") == 1, (
            "what waits its turn is no news for the scrollback"
        )


async def test_RU_A12_retry_now_asks_at_once_whatever_the_provider_asked_to_wait(tmp_path: Path) -> None:
    script = [failure(429, retry_after="60"), reply("here"), failure(429, retry_after="60"), reply("there")]
    async with sitting(tmp_path, script) as desk:
        await desk.said("/retry now", "task 1 did not fail")
        await desk.said("hello", "; trying again")
        desk.act(Cancel())
        await desk.quiet()
        desk.say("hello again")
        phase = desk.paper.state.task(1)
        await desk.until(lambda: isinstance(phase.phase, Retrying), "waiting for the end of the limit")
        shown = phase_text(desk.paper.state, phase, phase.heard_at)
        assert "for the end of the 429 rate limit; /retry now asks at once" in shown
        await desk.said("/retry now", "here")
        await desk.quiet()
        desk.say("and once more")
        await desk.until(lambda: isinstance(phase.phase, Retrying), "waiting before it is sent again")
        await desk.said("/retry now", "there")
        assert len(desk.server.requests) == 4


async def test_RU_A12_retry_now_is_refused_where_nothing_waits(tmp_path: Path) -> None:
    async with sitting(tmp_path, slow) as desk:
        desk.say("be slow")
        await desk.until(lambda: desk.paper.state.task(1).stream_block >= 0)
        await desk.said("/retry now", "task 1 is not waiting to retry")


async def test_rewind_goes_back_to_before_a_prompt(tmp_path: Path) -> None:
    async with sitting(tmp_path, slow) as desk:
        await desk.said("/rewind", "there is no earlier prompt")
        await desk.said("first", "heard: first")
        await desk.quiet()
        await desk.said("second", "heard: second")
        await desk.quiet()
        desk.act(Rewind())
        await desk.shows("1 │ first", "2 │ second")
        await desk.said("/rewind 3", "expected the number of a prompt, 1 to 2")
        await desk.said("/rewind 2", "back to before prompt 2")
        assert desk.paper.line == "second"
        assert [text_of(one) for one in desk.context.board.task(1).history] == ["first", "heard: first"]
        await desk.said("third", "heard: third")
        await desk.quiet()
        assert [text for _role, text in desk.server.requests[-1].turns if "second" in text] == []


async def test_rewind_waits_for_the_turn(tmp_path: Path) -> None:
    async with sitting(tmp_path, slow) as desk:
        desk.say("be slow")
        await desk.until(lambda: bool(desk.context.board.task(1).history))
        await desk.said("/rewind 1", "task 1 is running; cancel it first (Esc)")


async def test_shift_tab_goes_through_the_modes(tmp_path: Path) -> None:
    async with sitting(tmp_path, slow) as desk:
        desk.act(NextMode())
        await desk.hints("mode: edit")


async def test_RU_P4_2_esc_ends_a_compaction_and_the_conversation_stays_whole(tmp_path: Path) -> None:
    script = [reply("first " * 40), reply("second " * 40), reply("no", fault=Stall())]
    async with sitting(tmp_path, script) as desk:
        await desk.said("one", "first first")
        await desk.quiet()
        await desk.said("two", "second second")
        await desk.quiet()
        desk.say("/compact")
        await desk.until(lambda: len(desk.server.requests) == 3)
        assert desk.front.controller.facts().own[0].title == "/compact"
        desk.act(Cancel())
        await desk.shows("Not compacted: cancelled")
        await desk.said("/compact show", "nothing is compacted")
