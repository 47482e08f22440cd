"""A history with pictures, for a model that takes none."""

from __future__ import annotations

from buddy.agent.messages import Image, Text, ToolMessage, UserMessage
from buddy.agent.provider import ModelRequest
from buddy.llm.without_pictures import LEFT_OUT, WithoutPictures
from tests.support.laws import ScriptedLane

PICTURE = Image("image/png", "aGVsbG8=")


async def sent(provider: WithoutPictures, request: ModelRequest) -> None:
    stream = provider.stream(request)
    async for _ in stream:
        pass
    await stream.aclose()


async def test_sentences_stand_for_pictures_and_stay_the_same_records() -> None:
    lane = ScriptedLane()
    lane.replies.extend([["one"], ["two"]])
    provider = WithoutPictures(lane)
    asked = UserMessage("u", (Text("what is this?"), PICTURE), "prompt")
    plain = UserMessage("v", (Text("and this?"),), "prompt")
    result = ToolMessage("t", "c", "read_file", "a.png", "ok", (PICTURE,))
    request = ModelRequest("m", "", (asked, result, plain), ())
    for _ in range(2):
        await sent(provider, request)
    first, second = (one.history for one in lane.requests)
    assert first == (
        UserMessage("u", (Text("what is this?"), Text(LEFT_OUT)), "prompt"),
        ToolMessage("t", "c", "read_file", f"a.png\n{LEFT_OUT}", "ok"),
        plain,
    )
    assert all(one is other for one, other in zip(first, second, strict=True))
    assert asked.parts[1] is PICTURE  # the conversation itself keeps it: the next model may see


async def test_a_history_without_pictures_goes_through_as_it_is() -> None:
    lane = ScriptedLane()
    lane.replies.append(["one"])
    request = ModelRequest("m", "", (UserMessage("v", (Text("hi"),), "prompt"),), ())
    await sent(WithoutPictures(lane), request)
    assert lane.requests[0] is request
