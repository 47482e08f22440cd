"""Data that litellm drops is read from the raw events; data it invents is ignored."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from buddy.agent.messages import Usage
from buddy.agent.provider import CallPiece, Finished, ModelDelta, ProviderError, TextPiece, ThinkingPiece
from buddy.llm.litellm_lane.chunks import ChunkReader, Tap, UsageChunks, usage_of
from buddy.llm.litellm_lane.provider import hang_up, responses_in


def chunk(**delta: Any) -> Any:
    return SimpleNamespace(choices=[SimpleNamespace(delta=SimpleNamespace(**delta))])


def gemini(reason: str | None = None, **more: Any) -> dict[str, Any]:
    return {"candidates": [{"finishReason": reason} if reason else {}], **more}


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([gemini()], None),
        ([gemini(), gemini("STOP"), {"usageMetadata": {}}], Finished("stop")),
        ([gemini("MAX_TOKENS")], Finished("length")),
        ([gemini("PROHIBITED_CONTENT")], Finished("filter")),
        ([{"promptFeedback": {"blockReason": "SAFETY"}}], Finished("filter")),
        ([gemini("A_WORD_OF_TOMORROW")], Finished("stop")),
    ],
)
def test_gemini_finishes_when_it_says_so(events: list[dict[str, Any]], expected: Finished | None) -> None:
    tap = Tap()
    for event in events:
        tap.look(event)
    stream = SimpleNamespace(received_finish_reason="stop", chunks=[])
    assert ChunkReader().ending(stream, tap) == ([expected] if expected else [])


def test_a_call_gemini_gave_up_is_no_reply() -> None:
    tap = Tap()
    tap.look(gemini("MALFORMED_FUNCTION_CALL"))
    with pytest.raises(ProviderError, match="MALFORMED_FUNCTION_CALL"):
        tap.gemini_finish()


def test_a_parser_is_watched_and_still_parses() -> None:
    parser = SimpleNamespace(chunk_parser=lambda chunk: f"parsed {chunk['type']}")
    tap = Tap()
    tap.watch(parser)
    tap.watch(SimpleNamespace())
    assert (
        parser.chunk_parser({"type": "response.refusal.delta", "delta": "No."})
        == "parsed response.refusal.delta"
    )
    assert parser.chunk_parser(chunk={"type": "x"}) == "parsed x"
    assert tap.drain() == [TextPiece("No.")]
    assert tap.drain() == []


@pytest.mark.parametrize(
    "noise", [None, "text", 5, [], {}, {"type": 7}, {"type": "response.output_item.done"}]
)
def test_anything_may_pass_by(noise: Any) -> None:
    tap = Tap()
    tap.look(noise)
    assert (tap.drain(), tap.is_gemini) == ([], False)


def test_whole_arguments_replace_what_never_came_in_pieces() -> None:
    tap = Tap()
    for place, kind in ((0, "reasoning"), (1, "function_call"), (2, "function_call")):
        item = {"type": kind, "arguments": ""}
        tap.look({"type": "response.output_item.added", "output_index": place, "item": item})
    tap.look({"type": "response.reasoning_text.delta", "delta": "Hm."})
    item = {"type": "function_call", "arguments": '{"a": 1}'}
    tap.look({"type": "response.output_item.done", "output_index": 2, "item": item})
    assert ChunkReader().read(chunk(content="So"), tap) == [
        ThinkingPiece("Hm."),
        CallPiece(1, "", "", '{"a": 1}', complete=True),
        TextPiece("So", 1),
    ]


def test_blocks_are_numbered_where_the_content_changes() -> None:
    reader, tap = ChunkReader(), Tap()
    signed = {"type": "thinking", "thinking": "", "signature": "S"}
    redacted = {"type": "redacted_thinking", "data": "D"}
    call = SimpleNamespace(index=0, id="c", function=SimpleNamespace(name="f", arguments="{}"))
    read: list[ModelDelta] = []
    for one in (
        chunk(thinking_blocks=[{"type": "thinking", "thinking": "A"}], reasoning_content="A"),
        chunk(thinking_blocks=[signed]),
        chunk(thinking_blocks=[redacted]),
        chunk(content="one"),
        chunk(content=" two", tool_calls=None),
        chunk(content="", tool_calls=[call]),
        chunk(content="after"),
        chunk(),
        SimpleNamespace(choices=[]),
        SimpleNamespace(),
        SimpleNamespace(choices=[SimpleNamespace(delta=None)]),
    ):
        read += reader.read(one, tap)
    assert read == [
        ThinkingPiece("A", 0),
        ThinkingPiece("", 0, "S"),
        ThinkingPiece("", 1, opaque=redacted),
        TextPiece("one", 3),
        TextPiece(" two", 3),
        CallPiece(0, "c", "f", "{}"),
        TextPiece("after", 5),
    ]


def test_inline_think_tags_are_split_out() -> None:
    reader, tap = ChunkReader(), Tap()
    read = [
        piece for text in ("<thi", "nk>Hm.</think>", "So") for piece in reader.read(chunk(content=text), tap)
    ]
    assert read == [ThinkingPiece("Hm."), TextPiece("So")]


def counts(prompt: int = 0, completion: int = 0, cached: int = 0) -> Any:
    details = SimpleNamespace(cached_tokens=cached, cache_creation_tokens=None)
    return SimpleNamespace(
        usage=SimpleNamespace(
            prompt_tokens=prompt, completion_tokens=completion, prompt_tokens_details=details
        )
    )


def test_usage_is_what_the_provider_stated_last() -> None:
    kept = UsageChunks()
    for one in (counts(100, 1, 20), SimpleNamespace(), SimpleNamespace(usage=None), counts(0, 50)):
        kept.append(one)
    assert len(kept) == 2
    assert usage_of(kept, keeps_reasoning=True) == Usage(100, 50, 20, 0, 0, estimated=False)
    assert usage_of([], keeps_reasoning=True) is None
    assert usage_of([counts(0, 5)], keeps_reasoning=True) is None


class Response:
    __module__ = "httpx"  # only objects of the libraries below are looked into
    status_code = 200
    is_closed = False

    async def aclose(self) -> None:
        self.is_closed = True


async def test_the_response_is_found_in_a_suspended_generator() -> None:
    response = Response()

    async def lines(response: Response) -> Any:
        for number in range(9):
            yield number, response

    async def decoded(source: Any) -> Any:
        async for line in source:
            yield line

    holder = decoded(lines(response))
    await anext(holder)
    assert responses_in(holder) == [response]

    class Stream:
        completion_stream = holder

        async def aclose(self) -> None:
            raise RuntimeError("closing fails too")

    await hang_up(Stream())
    assert response.is_closed
    await holder.aclose()
