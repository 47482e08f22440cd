from __future__ import annotations

from buddy.agent.display import NOTHING
from buddy.agent.events import (
    AgentUiEvent,
    Notice,
    ReplyFinished,
    ReplyStarted,
    ReplyTiming,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from buddy.agent.messages import NO_USAGE, AssistantMessage, Call, Text, UserMessage
from buddy.headless.serve.running_turn import MAX_PROGRESS_CHARS, RunningTurn

STARTED = TurnStarted((UserMessage("p", (Text("hi"),), "prompt"),))
REPLY = ReplyStarted("r", "m")
CALL = Call("c", "run_shell", "{}")
TOOL = ToolStarted(CALL, "high", "run_shell ls", begun=True)
DONE = ToolFinished("c", "ok", "text", NOTHING, 0.1, cached=False)
FINISHED = ReplyFinished(
    AssistantMessage("r", (Text("ab"), CALL), "m", "chat", "calls", NO_USAGE), ReplyTiming(0, 0)
)


def _after(*events: AgentUiEvent) -> RunningTurn:
    turn = RunningTurn(1)
    for event in events:
        turn.add(event)
    return turn


def test_deltas_of_a_block_become_one() -> None:
    turn = _after(STARTED, REPLY, ThinkingDelta("r", 0, "x"), TextDelta("r", 1, "a"), TextDelta("r", 1, "b"))
    assert turn.events() == (REPLY, ThinkingDelta("r", 0, "x"), TextDelta("r", 1, "ab"))


def test_the_prompts_are_there_until_the_first_request() -> None:
    assert _after(STARTED).events() == (STARTED,)
    assert _after(STARTED, REPLY).events() == (REPLY,)


def test_a_finished_reply_replaces_its_deltas() -> None:
    turn = _after(REPLY, TextDelta("r", 0, "ab"), ToolCallDelta("r", "c", "run_shell", "{"), FINISHED)
    assert turn.events() == (REPLY, FINISHED)
    assert turn.previews() == ()


def test_calls_and_their_output_stay_until_the_next_request() -> None:
    turn = _after(REPLY, FINISHED, TOOL, ToolProgress("c", "one\n"), ToolProgress("c", "two\n"))
    assert turn.events() == (REPLY, FINISHED, TOOL, ToolProgress("c", "one\ntwo\n"))
    turn.add(DONE)
    assert turn.events() == (REPLY, FINISHED, TOOL, DONE)
    turn.add(ReplyStarted("s", "m"))
    assert turn.events() == (ReplyStarted("s", "m"),)


def test_nothing_is_left_after_the_turn() -> None:
    turn = _after(STARTED, REPLY, FINISHED, TOOL, DONE, TurnFinished("completed", "", "", 1, 0.1))
    assert (turn.events(), turn.previews()) == ((), ())


def test_output_without_end_is_bounded() -> None:
    turn = _after(REPLY, TOOL)
    for number in range(5_000):
        turn.add(ToolProgress("c", f"{number:0100d}"))
    (progress,) = [event for event in turn.events() if isinstance(event, ToolProgress)]
    assert len(progress.text) == MAX_PROGRESS_CHARS
    assert progress.text.endswith("4999")


def test_a_call_that_arrives_is_previewed_when_it_grew() -> None:
    turn = _after(REPLY, ToolCallDelta("r", "c", "write_file", '{"path":"a.py","content":"x = 1\\ny'))
    (preview,) = turn.changed_previews()
    assert (preview.task_id, preview.name, preview.path, preview.lines, preview.end) == (
        1, "write_file", "a.py", 2, "x = 1\ny"
    )  # fmt: skip
    assert list(turn.changed_previews()) == []
    assert turn.previews() == (preview,)
    turn.add(ToolCallDelta("r", "c", "write_file", " = 2"))
    assert [preview.end for preview in turn.changed_previews()] == ["x = 1\ny = 2"]


def test_notices_are_not_repeated() -> None:
    assert _after(REPLY, Notice("info", "x")).events() == (REPLY,)
