"""The agent room as a library: a turn to iterate, a conversation over several turns; declaring tools and
finding them by name."""

from __future__ import annotations

import asyncio
import json
import re
import textwrap
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from buddy.agent.events import AgentUiEvent, ReplyFinished, SteeringAccepted, TextDelta, TurnFinished
from buddy.agent.host import Agent, Allowed, Denied
from buddy.agent.library import (
    BlockFinished,
    BlockStarted,
    Conversation,
    ConversationSnapshot,
    Ids,
    complete,
    create_agent_stream,
    from_dicts,
    start,
    stream_assistant_response,
    to_dicts,
    with_blocks,
)
from buddy.agent.messages import (
    CANCELLED_TEXT,
    Call,
    Image,
    Message,
    Text,
    ToolMessage,
    UserMessage,
    text_of,
)
from buddy.agent.provider import Finished, ModelDelta, ModelRequest, ProviderError, TextPiece
from buddy.agent.tool import Access, Tool, ToolContext, ToolError, ToolRegistry, call_title, tool
from tests.support.laws import Bench, ScriptedLane, calls, check_laws, says
from tests.support.legal_history import is_legal


@tool(
    risk="low", aliases=("peek",), category="files", access=lambda arguments: Access(reads=(arguments.path,))
)
async def look(ctx: ToolContext, path: str, lines: int = 10) -> str:
    """Look at a file."""
    return f"{path} by {ctx.service(Reader).name}"


@tool(risk="low", category="files")
async def zoom(ctx: ToolContext) -> str:
    """Zoom."""
    return "zoomed"


class Reader:
    """A service."""

    name = "reader"


def said(text: str) -> UserMessage:
    return UserMessage("u1", (Text(text),), "prompt")


def agent(lane: Any, *tools: Tool) -> Agent:
    return Agent(provider=lane, tools=ToolRegistry(tools), model="m", system="be kind")


# --- streams ----------------------------------------------------------------------------------------------


async def test_a_turn_is_iterated_to_its_end_and_its_messages_are_the_result() -> None:
    stream = start(["hi"], agent(ScriptedLane(says("hello"))))
    events: list[AgentUiEvent] = [event async for event in stream]
    check_laws(events)
    assert [text_of(one) for one in await stream.result()] == ["hi", "hello"]
    assert [event async for event in stream] == [], "an iterator that ended stays ended"


async def test_a_result_can_be_awaited_without_iterating() -> None:
    stream = create_agent_stream(["hi"], agent(ScriptedLane(says("hello"))))
    assert [text_of(one) for one in await stream.result()] == ["hi", "hello"]
    assert isinstance([event async for event in stream][-1], TurnFinished)


async def test_a_turn_starts_on_a_copy_of_the_history() -> None:
    history = [said("one")]
    lane = ScriptedLane(says("hello"))
    await start(["two"], agent(lane), history).result()
    assert [text_of(one) for one in lane.requests[0].history] == ["one", "two"]
    assert len(history) == 1


async def test_a_failure_of_the_provider_is_an_outcome_and_a_bug_is_raised() -> None:
    failed = start(["hi"], agent(ScriptedLane([ProviderError("auth", "no key")])))
    assert (await failed.outcome()).reason == "no key"

    def bug() -> None:
        raise ZeroDivisionError("a bug")

    broken = start(["hi"], agent(ScriptedLane([bug])))
    with pytest.raises(ZeroDivisionError):
        await broken.result()
    last = [event async for event in broken][-1]
    assert isinstance(last, TurnFinished)
    assert (last.outcome, last.error) == ("failed", "crash")


async def test_a_stream_that_is_closed_ends_its_turn_and_its_request() -> None:
    lane = ScriptedLane([TextPiece("a"), asyncio.Event().wait, Finished("stop")])
    stream = start(["hi"], agent(lane))
    async for event in stream:
        if isinstance(event, TextDelta):
            break
    await stream.aclose()
    assert lane.closed == 1
    with pytest.raises(asyncio.CancelledError):
        await stream.result()


async def test_a_turn_runs_on_a_host_of_ones_own_and_is_iterated_all_the_same() -> None:
    bench = Bench(ScriptedLane(says("hello")))
    stream = start(["hi"], bench.agent, bench.history, bench.host())
    events: list[AgentUiEvent] = [event async for event in stream]
    bench.check()
    assert events == bench.events
    assert [text_of(one) for one in bench.history] == ["hi", "hello"]


async def test_a_conversation_that_goes_on_from_another_ones_history_uses_none_of_its_ids() -> None:
    first = Conversation(agent(ScriptedLane(calls(("c2", "look", '{"path": "a"}')), says("1")), look))
    await first.prompt("one").result()
    second = Conversation(agent(ScriptedLane(says("2"))), first.history)
    await second.prompt("two").result()
    ids = [message.id for message in second.history]
    assert len(set(ids)) == len(ids)
    assert second.history[:-2] == first.history
    fresh = Ids(first.history)
    assert [fresh.new("c"), fresh.new("c")] == ["c1", "c3"]
    assert [Ids().new("m"), Ids().new("m")] == ["m1", "m1"], "ids belong to one conversation"


# --- conversations ----------------------------------------------------------------------------------------


async def test_a_conversation_goes_on_over_several_turns_with_tools_and_services() -> None:
    lane = ScriptedLane(calls(("c", "peek", '{"path": "a"}')), says("one"), says("two"))
    talk = Conversation(agent(lane, look), services={Reader: Reader()})
    await talk.prompt("first").result()
    await talk.prompt("second").result()
    assert [text_of(one) for one in talk.history] == ["first", "", "a by reader", "one", "second", "two"]
    assert lane.requests[2].history == tuple(talk.history[:-1])
    assert is_legal(talk.history) == []


async def test_a_decision_can_be_given() -> None:
    def decide(_call: Call, tool: Tool, _arguments: object) -> Allowed | Denied:
        return Allowed() if tool.name == "zoom" else Denied("not that one")

    lane = ScriptedLane(calls(("a", "look", '{"path": "x"}'), ("b", "zoom", "{}")), says("ok"))
    talk = Conversation(agent(lane, look, zoom), decide=decide)
    await talk.prompt("go").result()
    results = [one.text for one in talk.history if isinstance(one, ToolMessage)]
    assert results == ["denied: not that one", "zoomed"]


@pytest.mark.parametrize("delivery", ["one", "all"])
async def test_steering_is_delivered_one_at_a_time_or_all(delivery: Any) -> None:
    talk: Conversation

    def steer() -> None:
        talk.steer("a")
        talk.steer("b")

    lane = ScriptedLane([steer, TextPiece(" ."), Finished("stop")], says("1"), says("2"))
    talk = Conversation(agent(lane), steering=delivery)
    stream = talk.prompt("go")
    accepted = [text_of(one.message) async for one in stream if isinstance(one, SteeringAccepted)]
    assert accepted == ["a", "b"]
    said = [[text_of(one) for one in asked.history if one.id.startswith("u")] for asked in lane.requests[1:]]
    assert said == ([["go", "a"], ["go", "a", "b"]] if delivery == "one" else [["go", "a", "b"]])


@pytest.mark.parametrize("delivery", ["one", "all"])
async def test_follow_ups_come_after_the_turn_one_at_a_time_or_all(delivery: Any) -> None:
    lane = ScriptedLane(says("1"), says("2"), says("3"))
    talk = Conversation(agent(lane), follow_ups=delivery)
    talk.follow_up("a")
    talk.follow_up("b")
    outcome = await talk.prompt("go").outcome()
    said = [text_of(one) for one in talk.history]
    assert said == (["go", "1", "a", "2", "b", "3"] if delivery == "one" else ["go", "1", "a", "b", "2"])
    assert outcome.outcome == "completed"


async def test_a_cancelled_conversation_is_legal_and_goes_on() -> None:
    @tool(risk="low")
    async def wait(ctx: ToolContext) -> str:
        """Wait."""
        talk.cancel()
        await asyncio.Event().wait()
        return ""

    lane = ScriptedLane(calls(("c", "wait", "{}")), says("fine"))
    talk = Conversation(agent(lane, wait))
    assert (await talk.prompt("go").outcome()).outcome == "cancelled"
    assert text_of(talk.history[-1]) == CANCELLED_TEXT
    assert (await talk.go_on().outcome()).outcome == "completed"
    assert is_legal(talk.history) == []
    with pytest.raises(ValueError, match="the model spoke last"):
        await talk.go_on().outcome()


async def test_a_stream_function_of_ones_own_resolves_its_key_for_each_call() -> None:
    keys = iter(["first", "second"])
    used: list[str] = []

    class Own:
        lane = "own"

        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
            used.append(next(keys))
            yield TextPiece(f"{len(request.history)}")
            yield Finished("stop")

    talk = Conversation(agent(Own()))
    await talk.prompt("a").result()
    await talk.prompt("b").result()
    assert used == ["first", "second"]
    assert [text_of(one) for one in talk.history] == ["a", "1", "b", "3"]


async def test_the_examples_of_the_manual_run(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).resolve().parents[3] / "templates/help/library.md").read_text()
    *blocks, _whole_program = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    code = (
        "async def page():\n" + textwrap.indent("\n".join(blocks), "    ") + "\n    return messages, stream"
    )
    lane = ScriptedLane(
        calls(("c1", "shout", '{"text": "hello"}')), says("HELLO"), says("a number"), says("seen")
    )
    names: dict[str, Any] = {"provider": lane, "picture": "aGk=", "signal": asyncio.Event()}
    exec(code, names)
    messages, stream = await names["page"]()
    assert [type(message).__name__ for message in messages][:3] == [
        "UserMessage",
        "AssistantMessage",
        "ToolMessage",
    ]
    assert messages[2].text == "HELLO"
    assert "TextDelta" in capsys.readouterr().out
    await stream.result()


async def test_prompts_may_be_dicts_with_pictures_and_wrong_ones_say_what_was_expected() -> None:
    conversation = Conversation(agent(ScriptedLane(says("one"), says("two"))))
    picture = {"type": "image", "media_type": "image/png", "data": "aGk="}
    conversation.follow_up({"content": [{"type": "text", "text": "and this?"}, picture]})
    await conversation.prompt({"content": "hi"}).result()
    prompts = [message for message in conversation.history if isinstance(message, UserMessage)]
    assert [text_of(prompt) for prompt in prompts] == ["hi", "and this?"]
    assert prompts[1].parts[1] == Image("image/png", "aGk=")
    assert prompts[1].origin == "follow_up"
    for wrong in ({}, {"content": 7}, {"content": [{"type": "sound"}]}, {"content": ["text"]}):
        with pytest.raises(ValueError, match="expected content as text"):
            conversation.prompt(wrong)


async def test_a_signal_of_ones_own_cancels_a_turn() -> None:
    signal = asyncio.Event()
    signal.set()
    conversation = Conversation(agent(ScriptedLane(says("never"))))
    outcome = await conversation.prompt("hi", signal=signal).outcome()
    assert outcome.outcome == "cancelled"
    assert is_legal(conversation.history) == []


async def test_a_snapshot_keeps_messages_tokens_and_what_waits() -> None:
    first = Conversation(agent(ScriptedLane(says("hello"))))
    await first.prompt("hi").result()
    first.steer("quick")
    data = msgspec.json.encode(first.snapshot())
    second = Conversation(agent(ScriptedLane(says("on"), says("and on"))), [said("other")])
    second.restore(msgspec.json.decode(data, type=ConversationSnapshot))
    assert second.history == first.history
    assert second.snapshot() == first.snapshot()
    spent = second.snapshot().spent
    await second.prompt("more").result()
    assert [text_of(one) for one in second.history][:2] == ["hi", "hello"]
    assert "quick" in [text_of(one) for one in second.history]
    assert second.snapshot().spent.output_tokens >= spent.output_tokens
    assert len({one.id for one in second.history}) == len(second.history)
    spent = second.snapshot().spent
    second.reset()
    assert (second.history, second.snapshot().spent) == ([], spent)


async def test_messages_go_through_dicts_without_loss() -> None:
    conversation = Conversation(
        agent(ScriptedLane(calls(("c1", "look", '{"path": "a"}')), says("done")), look),
        services={Reader: Reader()},
    )
    await conversation.prompt("look").result()
    assert from_dicts(json.loads(json.dumps(to_dicts(conversation.history)))) == conversation.history
    with pytest.raises(ValueError, match=r"message 1: .*role"):
        from_dicts([to_dicts(conversation.history)[0], {"role": "wizard"}])


async def test_transforms_may_be_async() -> None:
    async def only_last(history: Sequence[Message]) -> Sequence[Message]:
        await asyncio.sleep(0)
        return history[-1:]

    lane = ScriptedLane(says("one"), says("two"))
    conversation = Conversation(msgspec.structs.replace(agent(lane), transform_context=only_last))
    await conversation.prompt("first").result()
    await conversation.prompt("second").result()
    assert [len(request.history) for request in lane.requests] == [1, 1]


async def test_blocks_are_told_where_they_begin_and_end() -> None:
    lane = ScriptedLane(calls(("c1", "zoom", "{}")), says("hello there"))
    seen: list[Any] = []
    async for event in with_blocks(start(["hi"], agent(lane, zoom))):
        seen.append(event)
    marks = [
        (type(one).__name__, one.kind, getattr(one, "text", getattr(one, "name", "")))
        for one in seen
        if isinstance(one, BlockStarted | BlockFinished)
    ]
    assert marks[-2:] == [("BlockStarted", "text", ""), ("BlockFinished", "text", "hello there")]
    for begun, ended in zip(marks[::2], marks[1::2], strict=True):
        assert (begun[0], ended[0], begun[1]) == ("BlockStarted", "BlockFinished", ended[1])


async def test_a_whole_reply_is_returned_without_streaming() -> None:
    reply = await complete(agent(ScriptedLane(says("hello"))), [said("hi")])
    assert text_of(reply) == "hello"


async def test_one_reply_can_be_asked_for_alone() -> None:
    events: list[AgentUiEvent] = []
    lane = ScriptedLane(calls(("c", "look", "{}")), [TextPiece("half")])
    message = await stream_assistant_response(agent(lane, look), [said("hi")], events.append)
    assert message.finish == "calls"
    assert not any(isinstance(event, ReplyFinished) for event in events)
    with pytest.raises(ProviderError):
        await stream_assistant_response(agent(lane), [said("hi")], events.append)
    assert lane.closed == 2


# --- tools ------------------------------------------------------------------------------------------------


def test_a_declaration_is_name_docstring_and_annotations() -> None:
    definition = look.definition()
    assert (definition.name, definition.description) == ("look", "Look at a file.")
    assert definition.parameters == {
        "type": "object",
        "properties": {"path": {"type": "string"}, "lines": {"type": "integer", "default": 10}},
        "required": ["path"],
    }
    assert look.access(look.decode('{"path": "a"}')) == Access(reads=("a",))


def test_a_docstring_loses_the_line_ends_it_was_wrapped_with() -> None:
    @tool(risk="low")
    async def function(ctx: ToolContext) -> str:
        """Look at
        `this` and that.

        Kinds:
        - one
        - two
            more
        """
        return ""

    assert function.description == "Look at `this` and that.\n\nKinds:\n- one\n- two\n    more"


def test_name_description_and_source_can_be_given() -> None:
    @tool(name="other", description="Words.", source="plug-in", risk="medium", category="web", cache_s=5)
    async def function(ctx: ToolContext) -> str:
        return ""

    found = (function.name, function.description, function.source, function.risk, function.cache_s)
    assert found == ("other", "Words.", "plug-in", "medium", 5)


def test_a_tool_that_says_nothing_may_change_anything_unless_its_risk_is_low() -> None:
    @tool()
    async def wild(ctx: ToolContext) -> str:
        """Be wild."""
        return ""

    assert (wild.risk, wild.access(None), zoom.access(None)) == ("high", Access(anything=True), Access())
    assert [access.read_only for access in (wild.access(None), zoom.access(None))] == [False, True]


def test_a_declaration_without_words_or_types_is_refused() -> None:
    async def silent(ctx: ToolContext) -> str:
        return ""

    async def untyped(ctx, path) -> str:
        """Words."""
        return ""

    with pytest.raises(TypeError, match="needs a docstring"):
        tool()(silent)
    with pytest.raises(TypeError, match="parameter path needs an annotation"):
        tool()(untyped)


async def test_a_service_that_is_not_there_is_a_tool_error() -> None:
    context = ToolContext(1, "c", lambda _text: None, asyncio.Event(), {})
    with pytest.raises(ToolError, match="this tool needs Reader, which is not available here"):
        await look.run(context, look.decode('{"path": "a"}'))


def test_a_call_is_titled_by_its_first_text() -> None:
    assert call_title("look", look.decode('{"path": "a.txt"}')) == "look a.txt"
    assert call_title("look", look.decode('{"path": "a\\nb"}')) == "look a…"
    assert call_title("look", look.decode('{"path": "' + "x" * 200 + '"}')) == f"look {'x' * 100}…"
    assert call_title("zoom", None) == "zoom"


# --- the registry -----------------------------------------------------------------------------------------


def test_tools_are_listed_by_name_whatever_order_they_came_in() -> None:
    registry = ToolRegistry([zoom, look])
    assert registry.list_all() == (look, zoom)
    assert registry.list_by_category("files") == (look, zoom)
    assert registry.list_by_category("web") == ()
    assert [one.name for one in registry.list_definitions()] == ["look", "zoom"]


def test_what_a_model_is_told_is_the_same_tuple_until_a_tool_comes_or_goes() -> None:
    registry = ToolRegistry([look])
    told = registry.list_definitions()
    assert registry.list_definitions() is told
    registry.register(zoom)
    assert [one.name for one in registry.list_definitions()] == ["look", "zoom"]
    registry.remove("zoom")
    assert registry.list_definitions() == told


def test_a_tool_is_found_by_its_name_and_its_aliases() -> None:
    registry = ToolRegistry([look, zoom])
    assert (registry.get("look"), registry.get("peek")) == (look, look)
    with pytest.raises(ValueError, match="two tools are named 'look'"):
        registry.register(look)


@pytest.mark.parametrize(
    "name", ["constructor", "__class__", "__init__", "", "x" * 10_000, "look\x00", "LOOK"]
)
def test_SEC_099_a_name_nobody_has_is_nobody(name: str) -> None:
    registry = ToolRegistry([look, zoom])
    assert registry.get(name) is None
    said = registry.unknown(name)
    assert said.startswith("there is no tool named ")
    assert said.endswith("Available: look, zoom")
    assert len(said) < 300


def test_a_near_name_is_suggested_by_the_name_it_really_has() -> None:
    assert "Did you mean look?" in ToolRegistry([look, zoom]).unknown("peeek")
