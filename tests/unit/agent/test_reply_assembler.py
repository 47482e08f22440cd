"""A reply is put together from pieces, whatever order, cutting and oddities they come with."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buddy.agent.events import TextDelta, ThinkingDelta, ToolCallDelta
from buddy.agent.messages import (
    NO_USAGE,
    AssistantMessage,
    Call,
    ServerItem,
    Text,
    Thinking,
    Usage,
    text_of,
    thinking_of,
)
from buddy.agent.provider import (
    Alive,
    CallPiece,
    Finished,
    ModelDelta,
    OpaquePiece,
    ProviderError,
    ServerPiece,
    TextPiece,
    ThinkingPiece,
    UsagePiece,
)
from buddy.agent.reply_assembler import ReplyAssembler

USAGE = Usage(10, 5, 2, 0, 1, estimated=False)
CALLS = Finished("calls")


def assembled(*deltas: ModelDelta) -> AssistantMessage:
    assembler = ReplyAssembler("r1", "model-1", "chat")
    for delta in deltas:
        assembler.feed(delta)
    return assembler.finish()


def calls(*deltas: ModelDelta) -> list[tuple[str, str, str]]:
    parts = assembled(*deltas, CALLS).parts
    return [(part.id, part.name, part.arguments) for part in parts if isinstance(part, Call)]


def test_text_thinking_and_a_call_become_one_message_and_an_event_each():
    assembler = ReplyAssembler("r1", "model-1", "chat")
    events = [
        assembler.feed(delta)
        for delta in (
            Alive(),
            ThinkingPiece("hm"),
            TextPiece("Hello "),
            TextPiece("you"),
            CallPiece(0, "c1", "read_file", ""),
            CallPiece(0, "", "", '{"path":'),
            CallPiece(0, "", "", '"a"}'),
            UsagePiece(USAGE),
            CALLS,
        )
    ]
    assert events == [
        None,
        ThinkingDelta("r1", 0, "hm"),
        TextDelta("r1", 1, "Hello "),
        TextDelta("r1", 1, "you"),
        ToolCallDelta("r1", "c1", "read_file", ""),
        ToolCallDelta("r1", "c1", "read_file", '{"path":'),
        ToolCallDelta("r1", "c1", "read_file", '"a"}'),
        None,
        None,
    ]
    assert assembler.finish() == AssistantMessage(
        id="r1",
        parts=(Thinking("hm", ""), Text("Hello you"), Call("c1", "read_file", '{"path":"a"}')),
        model="model-1",
        lane="chat",
        finish="calls",
        usage=USAGE,
    )


def test_the_block_of_an_event_is_the_index_of_its_part():
    assembler = ReplyAssembler("r1", "m", "anthropic")
    events = [
        assembler.feed(TextPiece("a", 0)),
        assembler.feed(CallPiece(1, "c", "f", "{}")),
        assembler.feed(TextPiece("b", 2)),
        assembler.feed(ThinkingPiece("t", 3)),
    ]
    message = assembler.partial()
    blocks = [event.block for event in events if isinstance(event, TextDelta | ThinkingDelta)]
    assert [message.parts[block] for block in blocks] == [Text("a"), Text("b"), Thinking("t", "")]


def test_a_stream_without_an_end_is_cut_and_says_what_had_arrived():
    assembler = ReplyAssembler("r1", "m", "chat")
    assembler.feed(TextPiece("h"))
    with pytest.raises(ProviderError, match=r"dropped.*1 character and 0 tool calls"):
        assembler.finish()
    assembler.feed(TextPiece("alf an ans"))
    with pytest.raises(ProviderError, match=r"dropped.*11 characters and 0 tool calls") as caught:
        assembler.finish()
    assert caught.value.kind == "cut"
    partial = assembler.partial()
    assert (partial.finish, text_of(partial), partial.usage) == ("cut", "half an ans", NO_USAGE)


def test_an_end_without_a_reason_counts_only_when_every_call_is_whole():
    whole = assembled(CallPiece(0, "c", "f", '{"a":1}'), Finished("unstated"))
    assert whole.finish == "calls"
    with pytest.raises(ProviderError, match="inside a tool call"):
        assembled(CallPiece(0, "c", "f", '{"a":'), Finished("unstated"))
    assert assembled(TextPiece("hi"), Finished("unstated")).finish == "stop"


def test_a_stated_reason_counts_even_when_arguments_are_broken_the_model_is_told():
    assert calls(CallPiece(0, "c", "f", '{"a":')) == [("c", "f", '{"a":')]


@pytest.mark.parametrize(
    ("reason", "with_call", "finish"),
    [
        ("stop", False, "stop"),
        ("stop", True, "calls"),
        ("calls", True, "calls"),
        ("calls", False, "stop"),
        ("length", True, "length"),
        ("filter", False, "filter"),
        ("unstated", True, "calls"),
    ],
)
def test_REL_031_the_reason_and_the_calls_together_say_how_a_reply_ended(reason, with_call, finish):
    pieces = [CallPiece(0, "c", "f", "{}")] if with_call else [TextPiece("x")]
    assert assembled(*pieces, Finished(reason)).finish == finish


def test_the_first_reason_stands():
    assert assembled(TextPiece("x"), Finished("length"), Finished("stop")).finish == "length"
    assert assembled(TextPiece("x"), Finished("unstated"), Finished("length")).finish == "length"


def test_text_after_the_finish_still_belongs_to_the_reply():
    assert text_of(assembled(TextPiece("a"), Finished("stop"), TextPiece("b"))) == "ab"


# --- calls ------------------------------------------------------------------------------------------------


def test_another_id_in_the_same_slot_is_another_call():
    assert calls(CallPiece(0, "a", "f", "{}"), CallPiece(0, "b", "g", '{"x":1}')) == [
        ("a", "f", "{}"),
        ("b", "g", '{"x":1}'),
    ]


def test_the_same_id_again_is_the_same_call():
    assert calls(CallPiece(0, "0", "f", ""), CallPiece(0, "0", "f", "{}")) == [("0", "f", "{}")]


def test_parallel_calls_may_alternate():
    assert calls(
        CallPiece(0, "a", "f", ""),
        CallPiece(1, "b", "g", ""),
        CallPiece(0, "", "", '{"x":'),
        CallPiece(1, "", "", "{"),
        CallPiece(0, "", "", "1}"),
        CallPiece(1, "", "", "}"),
    ) == [("a", "f", '{"x":1}'), ("b", "g", "{}")]


def test_without_an_index_the_id_tells_or_else_the_name():
    assert calls(
        CallPiece(None, "a", "f", '{"x":'),
        CallPiece(None, "b", "g", ""),
        CallPiece(None, "a", "", "1}"),
        CallPiece(None, "", "", ""),
    ) == [("a", "f", '{"x":1}'), ("b", "g", "{}")]
    assert calls(CallPiece(None, "", "f", '{"x":'), CallPiece(None, "", "", "1}")) == [
        ("r1-1", "f", '{"x":1}')
    ]
    assert calls(
        CallPiece(None, "", "f", "{}", complete=True), CallPiece(None, "", "f", "{}", complete=True)
    ) == [
        ("r1-1", "f", "{}"),
        ("r1-2", "f", "{}"),
    ]


def test_whole_calls_without_ids_in_one_slot_are_several_calls():
    assert calls(
        CallPiece(0, "", "f", '{"x":1}'), CallPiece(0, "", "f", '{"x":2}'), CallPiece(0, "", "g", "{}")
    ) == [("r1-1", "f", '{"x":1}'), ("r1-2", "f", '{"x":2}'), ("r1-3", "g", "{}")]


def test_a_name_that_comes_with_every_piece_or_in_pieces_is_one_name():
    assert calls(
        CallPiece(0, "c", "f", ""),
        CallPiece(0, "", "f", '{"a"'),
        CallPiece(0, "", "f", ":1}"),
        CallPiece(0, "", "f", ""),
    ) == [("c", "f", '{"a":1}')]
    assert calls(
        CallPiece(0, "c", "read_", ""), CallPiece(0, "", "file", ""), CallPiece(0, "", "", "{}")
    ) == [("c", "read_file", "{}")]


def test_REL_030_ids_that_are_missing_or_taken_are_made_up_and_unique():
    ids = itertools.count(1)
    assembler = ReplyAssembler("r1", "m", "chat", lambda: f"new{next(ids)}")
    for index, call_id in enumerate(["", "x", "x", "new1", ""]):
        assembler.feed(CallPiece(index, call_id, "f", "{}"))
    assembler.feed(CALLS)
    found = [part.id for part in assembler.finish().parts if isinstance(part, Call)]
    assert found == ["new1", "x", "new2", "new3", "new4"]


def test_an_id_another_reply_has_had_is_made_up_anew():
    ids = itertools.count(1)
    taken = {"call_0"}
    found: list[str] = []
    for number in (1, 2):
        assembler = ReplyAssembler(f"r{number}", "m", "chat", lambda: f"new{next(ids)}", taken)
        assembler.feed(CallPiece(0, "call_0", "f", "{}"))
        assembler.feed(CallPiece(1, "call_1", "f", "{}"))
        assembler.feed(CALLS)
        found += [part.id for part in assembler.finish().parts if isinstance(part, Call)]
    assert found == ["new1", "call_1", "new2", "new3"]


def test_an_id_that_comes_late_does_not_change_the_one_that_was_shown():
    assert calls(
        CallPiece(0, "", "f", ""), CallPiece(0, "late", "", '{"a":1}'), CallPiece(0, "late", "", "")
    ) == [("r1-1", "f", '{"a":1}')]


@pytest.mark.parametrize("nothing", ["", "null", '""', "  \n"])
def test_no_arguments_are_an_empty_object(nothing):
    assert calls(CallPiece(0, "c", "f", nothing)) == [("c", "f", "{}")]


@pytest.mark.parametrize("text", ['{ "b": 1.0,\n"a":"\\u00e9" }', "[1]", '{"a": 1} trailing', '"{}"'])
def test_REL_029_arguments_stay_exactly_as_the_model_wrote_them(text):
    assert calls(CallPiece(0, "c", "f", text[:3]), CallPiece(0, "", "", text[3:])) == [("c", "f", text)]


def test_a_whole_piece_replaces_the_fragments_before_it():
    assembler = ReplyAssembler("r1", "m", "litellm")
    assert assembler.feed(CallPiece(0, "c", "f", '{"a":')) == ToolCallDelta("r1", "c", "f", '{"a":')
    assert assembler.feed(CallPiece(0, "c", "f", '{"a":1}', complete=True)) == ToolCallDelta(
        "r1", "c", "f", "1}"
    )
    assert assembler.feed(CallPiece(0, "c", "f", '{"a":1}', complete=True)) is None
    assembler.feed(CALLS)
    assert assembler.finish().parts == (Call("c", "f", '{"a":1}'),)


def test_fields_the_provider_wants_back_stay_with_their_call_and_message():
    message = assembled(
        CallPiece(0, "c", "f", "{}", {"extra_content": {"google": {"thought_signature": "s"}}}),
        OpaquePiece({"reasoning_details": [1]}),
        OpaquePiece({"other": 2}),
        CALLS,
    )
    assert message.parts == (Call("c", "f", "{}", {"extra_content": {"google": {"thought_signature": "s"}}}),)
    assert message.opaque == {"reasoning_details": [1], "other": 2}


def test_items_the_provider_ran_are_kept_in_their_place():
    message = assembled(
        TextPiece("a", 0), ServerPiece({"type": "search"}), TextPiece("b", 2), Finished("stop")
    )
    assert message.parts == (Text("a"), ServerItem({"type": "search"}), Text("b"))


def test_the_last_usage_that_says_something_counts():
    late = Usage(20, 9, 0, 0, 0, estimated=False)
    message = assembled(UsagePiece(USAGE), UsagePiece(late), UsagePiece(NO_USAGE), Finished("stop"))
    assert message.usage == late


# --- thinking ---------------------------------------------------------------------------------------------


def test_a_signature_completes_its_block_and_what_follows_is_another():
    message = assembled(
        ThinkingPiece("one", 0), ThinkingPiece("", 0, "sig1"), ThinkingPiece("two", 0), Finished("stop")
    )
    assert message.parts == (Thinking("one", "sig1"), Thinking("two", ""))


def test_a_signature_piece_that_repeats_the_text_replaces_it():
    assembler = ReplyAssembler("r1", "m", "litellm")
    shown = [
        assembler.feed(ThinkingPiece("let me ", 0)),
        assembler.feed(ThinkingPiece("see", 0)),
        assembler.feed(ThinkingPiece("let me see", 0, "sig")),
        assembler.feed(ThinkingPiece("let me see", 0, "sig")),
    ]
    assert shown == [ThinkingDelta("r1", 0, "let me "), ThinkingDelta("r1", 0, "see"), None, None]
    assert assembler.partial().parts == (Thinking("let me see", "sig"),)


def test_blocks_that_are_told_apart_keep_their_own_signatures():
    message = assembled(
        ThinkingPiece("a", 0),
        ThinkingPiece("b", 1),
        ThinkingPiece("", 0, "sa"),
        ThinkingPiece("", 1, "sb"),
        ThinkingPiece("", 2, opaque={"type": "redacted_thinking", "data": "x"}),
        Finished("stop"),
    )
    assert message.parts == (
        Thinking("a", "sa"),
        Thinking("b", "sb"),
        Thinking("", "", {"type": "redacted_thinking", "data": "x"}),
    )


# --- properties -------------------------------------------------------------------------------------------

words = st.text('ab{}" \n<>é', max_size=4)
deltas = st.one_of(
    st.builds(TextPiece, words, st.integers(0, 2)),
    st.builds(ThinkingPiece, words, st.integers(0, 2), st.sampled_from(["", "", "sig"])),
    st.builds(
        CallPiece,
        st.sampled_from([None, 0, 0, 1]),
        st.sampled_from(["", "", "a", "b"]),
        st.sampled_from(["", "", "f", "g"]),
        st.sampled_from(["", "{}", '{"a":', "1}"]),
        complete=st.booleans(),
    ),
    st.builds(ServerPiece, st.just({"type": "x"})),
    st.builds(Finished, st.sampled_from(["stop", "calls", "length", "filter", "unstated"])),
    st.just(Alive()),
)


@given(st.lists(deltas, max_size=30))
def test_whatever_comes_deltas_concatenate_to_the_message_and_ids_are_unique(stream):
    assembler = ReplyAssembler("r1", "m", "chat")
    events = [event for delta in stream if (event := assembler.feed(delta)) is not None]
    message = assembler.partial()
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == text_of(message)
    assert "".join(e.text for e in events if isinstance(e, ThinkingDelta)) == thinking_of(message)
    for index, part in enumerate(message.parts):
        own = "".join(e.text for e in events if isinstance(e, TextDelta | ThinkingDelta) and e.block == index)
        assert own == (part.text if isinstance(part, Text | Thinking) else "")
    ids = [part.id for part in message.parts if isinstance(part, Call)]
    assert len(ids) == len(set(ids))
    assert all(part.arguments for part in message.parts if isinstance(part, Call))


@given(
    st.text(min_size=1, max_size=40),
    st.text(min_size=1, max_size=40),
    st.lists(st.integers(1, 5), min_size=1, max_size=40),
)
def test_any_fragmentation_gives_the_same_reply(text, arguments, sizes):
    def cut(whole: str) -> list[str]:
        lengths = itertools.cycle(sizes)
        out, at = [], 0
        while at < len(whole):
            size = next(lengths)
            out.append(whole[at : at + size])
            at += size
        return out

    pieces: list[ModelDelta] = [TextPiece(piece) for piece in cut(text)]
    fragments = cut(arguments)
    pieces.append(CallPiece(0, "c", "f", fragments[0]))
    pieces += [CallPiece(0, "", "", fragment) for fragment in fragments[1:]]
    whole = assembled(TextPiece(text), CallPiece(0, "c", "f", arguments), CALLS)
    assert assembled(*pieces, CALLS) == whole
