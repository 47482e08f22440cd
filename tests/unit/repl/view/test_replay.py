"""A conversation that was left, printed again."""

from __future__ import annotations

import json

from buddy.agent.messages import (
    CANCELLED_TEXT,
    NO_USAGE,
    AssistantMessage,
    Call,
    Finish,
    Message,
    Text,
    ToolMessage,
    UserMessage,
)
from buddy.repl.render.markdown import MarkdownStream
from buddy.repl.view.blocks import Markdown, NoteBlock, ToolCall, UserPrompt
from buddy.repl.view.replay import SHOWN_CHARS, SHOWN_MESSAGES, blocks_of


def said(text: str, finish: Finish, *calls: Call) -> AssistantMessage:
    return AssistantMessage("a", (Text(text), *calls), "m", "chat", finish, NO_USAGE)


def test_only_a_reply_that_is_the_last_one_can_be_continued() -> None:
    history: list[Message] = [
        UserMessage("u", (Text("one"),), "prompt"),
        said("begun", "cut"),
        UserMessage("v", (Text("two"),), "prompt"),
        said("begun too", "cut"),
    ]
    assert blocks_of(history, 0) == [
        UserPrompt("one", "prompt", 0, 0),
        Markdown("begun"),
        NoteBlock("warning", "this reply broke off here"),
        UserPrompt("two", "prompt", 0, 0),
        Markdown("begun too"),
        NoteBlock("warning", "this reply broke off here; /continue resumes it"),
    ]


def test_a_call_is_named_by_its_beginning_and_by_its_task_where_there_are_several() -> None:
    call = Call("c", "run_shell", json.dumps({"command": "echo " + "x" * 200}))
    history: list[Message] = [said("", "calls", call), ToolMessage("t", "c", "run_shell", "x", "ok")]
    (alone,) = blocks_of(history, 0)
    (one_of_two,) = blocks_of(history, 2)
    assert isinstance(alone, ToolCall)
    assert isinstance(one_of_two, ToolCall)
    assert alone.title == "run_shell echo " + "x" * 94 + "…"
    assert (alone.task_id, one_of_two.task_id) == (0, 2)


def test_arguments_that_no_tool_would_take_name_nothing_and_end_nothing() -> None:
    for arguments in ("[" * 100_000, '{"path": ' + "[" * 100_000, '{"path": "a", "path": "b"}', "{"):
        history: list[Message] = [
            said("", "calls", Call("c", "read_file", arguments)),
            ToolMessage("t", "c", "read_file", "refused", "error"),
        ]
        (block,) = blocks_of(history, 0)
        assert isinstance(block, ToolCall)
        assert block.title == "read_file"


def test_a_reply_comes_in_blocks_as_it_did_when_it_arrived() -> None:
    text = "Words.\n\n- one\n- two\n\n```python\nprint(1)\n```\n\nThe end."
    stream = MarkdownStream()
    for piece in (text[:20], text[20:]):
        stream.feed(piece)
    assert blocks_of([said(text, "stop")], 0) == stream.finish()


def test_of_a_long_conversation_only_the_end_is_shown() -> None:
    turn: list[Message] = [UserMessage("u", (Text("more"),), "prompt"), said("x" * SHOWN_CHARS, "stop")]
    history = [*turn, *turn]
    assert blocks_of(history, 0) == [
        NoteBlock("hint", "not shown: 3 earlier messages; /export writes all"),
        Markdown("x" * SHOWN_CHARS),
    ]
    short: list[Message] = [UserMessage("u", (Text(str(number)),), "prompt") for number in range(100)]
    assert blocks_of(short, 0)[:2] == [
        NoteBlock("hint", f"not shown: {100 - SHOWN_MESSAGES} earlier messages; /export writes all"),
        UserPrompt(str(100 - SHOWN_MESSAGES), "prompt", 0, 0),
    ]


def test_a_thousand_calls_that_were_cancelled_leave_room_for_what_was_said() -> None:
    calls = [Call(f"c{at}", "read_file", json.dumps({"path": f"f{at}"})) for at in range(1000)]
    results = [
        ToolMessage(f"t{at}", one.id, one.name, CANCELLED_TEXT, "cancelled") for at, one in enumerate(calls)
    ]
    asked = UserMessage("u", (Text("read all"),), "prompt")
    for after in ((), (UserMessage("v", (Text("and now?"),), "prompt"),)):
        blocks = blocks_of([asked, said("", "calls", *calls), *results, *after], 0)
        titles = [block.title for block in blocks if isinstance(block, ToolCall)]
        assert titles == ["read_file f0", "read_file f1", "read_file f2"]
        assert blocks[0] == UserPrompt("read all", "prompt", 0, 0)
        assert blocks[4] == NoteBlock("hint", "997 more calls were cancelled")
        assert len(blocks) == 5 + len(after)
