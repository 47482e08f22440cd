"""The scripted provider: a small language, played piece by piece, the same way every time."""

from __future__ import annotations

import pytest

from buddy.agent.messages import Call, Text, Thinking, Usage
from buddy.agent.provider import Finished, ModelDelta, ModelRequest, ProviderError, TextPiece
from buddy.agent.reply_assembler import ReplyAssembler
from buddy.llm.scripted import (
    Cut,
    Fail,
    Finish,
    Pace,
    Pause,
    Say,
    ScriptedCall,
    ScriptedProvider,
    ScriptError,
    Spent,
    Think,
    parse_script,
)

REQUEST = ModelRequest("script", "", (), ())

SCRIPT = """\
# what the demo does
think: The file has to be read first.
say: I look at it:

    ```python
    def f():
        return 1
    ```
pause: 0.5
call: read_file {"path": "app.py"}

reply:
say: It is fine.
usage: 1200 34
finish: length
reply:
error: rate_limit try again after 2.5 s
reply:
say: half a sen
cut:
"""


class Naps:
    def __init__(self) -> None:
        self.taken: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)


async def play(provider: ScriptedProvider) -> list[ModelDelta]:
    return [delta async for delta in provider.stream(REQUEST)]


def assembled(deltas: list[ModelDelta]) -> tuple[object, ...]:
    reply = ReplyAssembler("r", "script", "scripted")
    for delta in deltas:
        reply.feed(delta)
    message = reply.finish()
    return message.parts, message.finish, message.usage


def test_a_script_reads_as_replies_of_steps() -> None:
    assert parse_script(SCRIPT) == (
        (
            Think("The file has to be read first."),
            Say("I look at it:\n```python\ndef f():\n    return 1\n```"),
            Pause(0.5),
            ScriptedCall("read_file", '{"path": "app.py"}'),
        ),
        (Say("It is fine."), Spent(1200, 34), Finish("length")),
        (Fail("rate_limit", "try again after 2.5 s", 2.5),),
        (Say("half a sen"), Cut()),
    )


@pytest.mark.parametrize(
    "script",
    ["no colon here", "dance: wildly", "pause: soon", "usage: 12", "finish: maybe", "error: strange x"],
)
def test_a_bad_line_says_where_it_stands_and_what_belongs_there(script: str) -> None:
    with pytest.raises(ScriptError, match=r"line 2: expected .*, found"):
        parse_script(f"say: hello\n{script}")


async def test_replies_are_played_in_order() -> None:
    naps = Naps()
    provider = ScriptedProvider(parse_script(SCRIPT), sleep=naps)
    first = assembled(await play(provider))
    second = assembled(await play(provider))
    assert first == (
        (
            Thinking("The file has to be read first.", ""),
            Text("I look at it:\n```python\ndef f():\n    return 1\n```"),
            Call("call-1-1", "read_file", '{"path": "app.py"}'),
        ),
        "calls",
        Usage(0, 0, 0, 0, 0, estimated=True),
    )
    assert second == ((Text("It is fine."),), "length", Usage(1200, 34, 0, 0, 0, estimated=False))
    assert naps.taken == [0.5]
    with pytest.raises(ProviderError) as failed:
        await play(provider)
    assert (failed.value.kind, failed.value.retry_after_s) == ("rate_limit", 2.5)
    assert not any(isinstance(delta, Finished) for delta in await play(provider))
    with pytest.raises(ProviderError, match="the script has only 4 replies"):
        await play(provider)
    assert provider.requests == [REQUEST] * 5


async def test_text_arrives_at_the_pace_asked_for() -> None:
    naps = Naps()
    provider = ScriptedProvider([(Say("abcdefg"),)], sleep=naps, pace=Pace(characters=3, seconds=0.1))
    assert await play(provider) == [TextPiece("abc"), TextPiece("def"), TextPiece("g"), Finished("stop")]
    assert naps.taken == [0.1] * 3


async def test_a_function_may_choose_and_the_rest_may_repeat() -> None:
    chosen = ScriptedProvider(lambda request: (Say(request.model),), sleep=Naps())
    assert await play(chosen) == [TextPiece("script"), Finished("stop")]
    repeated = ScriptedProvider([], sleep=Naps(), rest=(Say("again"),))
    assert await play(repeated) == await play(repeated)


async def test_a_closed_stream_is_over() -> None:
    provider = ScriptedProvider([(Say("one two three"),)], sleep=Naps(), pace=Pace(characters=1))
    stream = provider.stream(REQUEST)
    assert await anext(stream) == TextPiece("o")
    assert provider.open_streams == 1
    await stream.aclose()
    assert provider.open_streams == 0
