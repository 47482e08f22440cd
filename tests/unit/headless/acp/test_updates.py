"""Events as ACP updates: diffs, arriving calls, progress, replies that break off."""

from __future__ import annotations

import pytest

from buddy.agent.display import NOTHING, Diff, FileDiff, Plain
from buddy.agent.events import (
    ReplyFinished,
    ReplyTiming,
    ToolCallDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)
from buddy.agent.messages import (
    NO_USAGE,
    AssistantMessage,
    Call,
    Finish,
    Text,
    ToolMessage,
    UserMessage,
)
from buddy.agent.tool import ToolRegistry
from buddy.headless.acp.updates import (
    PROGRESS_CHARS,
    CallPlace,
    TurnUpdates,
    content_of,
    diff_blocks,
    fenced,
    replay,
)
from buddy.tools.builtin import BUILTIN_TOOLS

TOOLS = ToolRegistry(BUILTIN_TOOLS)


def turn(*, streams_terminals: bool = False) -> TurnUpdates:
    return TurnUpdates(TOOLS.get, CallPlace("/project"), streams_terminals=streams_terminals)


def started(name: str, arguments: str, call_id: str = "c1") -> ToolStarted:
    return ToolStarted(Call(call_id, name, arguments), "low", f"{name} it", begun=True)


def finished(display: Diff | Plain, call_id: str = "c1") -> ToolFinished:
    return ToolFinished(call_id, "ok", "text", display, 0.1, cached=False)


def cut(finish: Finish) -> ReplyFinished:
    message = AssistantMessage("m", (Text("so"),), "model", "chat", finish, NO_USAGE)
    return ReplyFinished(message, ReplyTiming(0, 0))


def test_each_hunk_is_a_pair_of_texts() -> None:
    diff = "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n@@ -9,1 +9,2 @@\n y\n+z\n\\ No newline at end of file\n"
    file = FileDiff("a.py", "update", diff, 2, 1)
    blocks = list(diff_blocks(file, CallPlace("/project")))
    assert [(one.path, one.old_text, one.new_text) for one in blocks] == [
        ("/project/a.py", "a\nb\nc\n", "a\nB\nc\n"),
        ("/project/a.py", "y\n", "y\nz\n"),
    ]


def test_a_new_file_has_no_old_text_and_a_deleted_one_is_named() -> None:
    new = FileDiff("n.py", "add", "@@ -0,0 +1,1 @@\n+x\n", 1, 0)
    [block] = diff_blocks(new, CallPlace("/"))
    assert (block.old_text, block.new_text) == (None, "x\n")
    [gone] = diff_blocks(FileDiff("big.bin", "delete", "", 0, 0), CallPlace("/"))
    assert gone.content.text == "big.bin: deleted"


def test_a_call_is_announced_once_while_its_arguments_arrive() -> None:
    updates = turn()
    delta = ToolCallDelta("r", "c1", "read_file", '{"pa')
    [first] = updates.of(delta)
    assert (first.session_update, first.kind, first.status) == ("tool_call", "read", "pending")
    assert list(updates.of(delta)) == []
    [second] = updates.of(started("read_file", '{"path": "a.py"}'))
    assert (second.session_update, second.status) == ("tool_call_update", "in_progress")
    assert [place.path for place in second.locations] == ["/project/a.py"]


def test_a_call_of_a_reply_that_broke_off_is_closed() -> None:
    updates = turn()
    list(updates.of(ToolCallDelta("r", "c1", "read_file", "{")))
    assert list(updates.of(cut("calls"))) == []
    [update] = updates.of(cut("cut"))
    assert (update.tool_call_id, update.status) == ("c1", "failed")


def test_progress_is_bounded_and_ends_with_the_latest_output() -> None:
    updates = turn()
    list(updates.of(started("run_shell", '{"command": "x"}')))
    for piece in ("a" * PROGRESS_CHARS, "the end"):
        [update] = updates.of(ToolProgress("c1", piece))
    text = update.content[0].content.text
    assert text.endswith("the end\n```")
    assert len(text) < PROGRESS_CHARS + 50


def test_a_client_that_shows_terminals_gets_output_as_it_comes() -> None:
    updates = turn(streams_terminals=True)
    [start] = updates.of(started("run_shell", '{"command": "x"}'))
    assert start.field_meta == {"terminal_info": {"terminal_id": "c1", "cwd": "/project"}}
    [update] = updates.of(ToolProgress("c1", "out"))
    assert update.field_meta == {"terminal_output": {"terminal_id": "c1", "data": "out"}}
    [end] = updates.of(finished(Plain("done")))
    assert end.field_meta == {"terminal_exit": {"terminal_id": "c1", "exit_code": None, "signal": None}}


def test_a_finished_edit_names_the_place_of_its_first_change() -> None:
    updates = turn()
    list(updates.of(started("edit_file", "not json")))
    [end] = updates.of(finished(Diff((FileDiff("a.py", "update", "@@ -7,1 +7,1 @@\n-a\n+b\n", 1, 1),))))
    assert [(place.path, place.line) for place in end.locations] == [("/project/a.py", 7)]


@pytest.mark.parametrize("text", ["plain", "has ``` inside", "has ````` inside"])
def test_nothing_closes_a_code_block_from_inside(text: str) -> None:
    block = fenced(text)
    fence = block.split("text\n")[0]
    assert fence not in block[len(fence) : -len(fence)]


def test_a_failure_shows_the_reason_the_model_reads() -> None:
    [part] = content_of(NOTHING, "error: no such file", CallPlace("/"))
    assert "no such file" in part.content.text


def test_a_saved_conversation_is_replayed_in_order() -> None:
    history = (
        UserMessage("u", (Text("hi"),), "prompt"),
        AssistantMessage(
            "a", (Text("look"), Call("c", "read_file", '{"path": "a"}')), "m", "chat", "calls", NO_USAGE
        ),
        ToolMessage("t", "c", "read_file", "alpha", "ok"),
        AssistantMessage("b", (Call("d", "read_file", "{}"),), "m", "chat", "cut", NO_USAGE),
    )
    kinds = [update.session_update for update in replay(history, TOOLS.get, CallPlace("/project"))]
    assert kinds == ["user_message_chunk", "agent_message_chunk", "tool_call", "tool_call_update"]


def test_files_of_another_machine_are_shown_as_text_with_its_name() -> None:
    there = CallPlace("/project", "box")
    updates = TurnUpdates(TOOLS.get, there)
    [start] = updates.of(started("edit_file", '{"path": "a.py"}'))
    [end] = updates.of(finished(Diff((FileDiff("a.py", "update", "@@ -1,1 +1,1 @@\n-x\n+y\n", 1, 1),))))
    assert start.locations == []
    assert end.locations is None
    [part] = end.content or []
    assert part.content.text.startswith("box:a.py\n```text\n@@")
    reply_ = AssistantMessage(
        "m", (Call("c1", "read_file", '{"path": "/etc/x"}'),), "model", "chat", "tool_calls", NO_USAGE
    )
    [again] = replay([reply_], TOOLS.get, there)
    assert again.locations == []
