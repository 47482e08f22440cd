"""A streaming reply on the disk: only what grew, at most a second behind, superseded by the whole."""

from __future__ import annotations

import asyncio
import random

from buddy.agent.messages import AssistantMessage, AssistantPart, Call, ServerItem, Text, Thinking, text_of
from buddy.sessions.partial import PartialWriter, apply_growth, growth_between
from buddy.sessions.records import PartGrowth, PartialGrown
from tests.support.session_files import replied


def test_only_what_is_new_is_written():
    old = (Thinking("hm", ""), Text("Hello"))
    new = (Thinking("hm", "sig"), Text("Hello world"), Call("c1", "grep", '{"a'))
    growth = growth_between(old, new)
    assert growth == (
        PartGrowth(0, 2, Thinking("", "sig")),
        PartGrowth(1, 5, Text(" world")),
        PartGrowth(2, 0, Call("c1", "grep", '{"a')),
    )
    assert apply_growth(old, growth) == new
    assert growth_between(new, new) == ()


def test_a_part_that_was_rewritten_is_written_whole():
    assert growth_between((Text("Helo"),), (Text("Hello"),)) == (PartGrowth(0, 0, Text("Hello")),)
    assert growth_between((Text("x"),), (ServerItem({"a": 1}),)) == (PartGrowth(0, 0, ServerItem({"a": 1})),)


def test_any_growth_comes_back_as_it_was():
    source = random.Random(1)

    def step(parts: tuple[AssistantPart, ...]) -> tuple[AssistantPart, ...]:
        kind = source.randrange(4)
        last = parts[-1] if parts else None
        if kind == 0 or last is None:
            return (*parts, source.choice([Text("a"), Thinking("t", ""), Call("c", "n", "")]))
        match last:
            case Text():
                return (*parts[:-1], Text(last.text + source.choice(["x", "\ud800", "\u2028é"])))
            case Thinking():
                return (*parts[:-1], Thinking(last.text + "y", "s" * source.randrange(2)))
            case Call():
                return (*parts[:-1], Call(last.id, last.name, last.arguments + '{"'))
            case ServerItem():
                return parts

    for _ in range(500):
        parts: tuple[AssistantPart, ...] = ()
        known: tuple[AssistantPart, ...] = ()
        kept: tuple[AssistantPart, ...] = ()
        for _ in range(source.randrange(20)):
            parts = step(parts)
            if source.random() < 0.4:
                kept = apply_growth(kept, growth_between(known, parts))
                known = parts
                assert kept == parts


async def test_many_updates_make_few_lines_and_the_last_one_is_among_them():
    lines: list[PartialGrown] = []
    partial = PartialWriter(lines.append, interval_s=0.05)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    text = ""
    for number in range(200):
        text += f"{number} "
        partial.update(replied("a1", text, finish="cut"))
        await asyncio.sleep(0.001)
    async with asyncio.timeout(60):
        while sum(len(part.part.text) for line in lines for part in line.growth) < len(text):
            await asyncio.sleep(0.001)
    intervals = (loop.time() - begun) / 0.05
    parts: tuple[AssistantPart, ...] = ()
    for line in lines:
        parts = apply_growth(parts, line.growth)
    assert parts == (Text(text),)
    assert len(lines) <= intervals + 2
    assert sum(len(part.part.text) for line in lines for part in line.growth) == len(text)


async def test_the_first_piece_is_written_at_once_and_nothing_after_the_end():
    lines: list[PartialGrown] = []
    partial = PartialWriter(lines.append, interval_s=30)
    partial.update(replied("a1", "Hel", finish="cut"))
    await asyncio.sleep(0.01)
    assert len(lines) == 1
    partial.update(replied("a1", "Hello", finish="cut"))
    partial.stop()
    partial.flush()
    await asyncio.sleep(0.01)
    assert len(lines) == 1


async def test_leaving_writes_what_is_not_written_yet():
    lines: list[PartialGrown] = []
    partial = PartialWriter(lines.append, interval_s=30)
    partial.update(replied("a1", "Hel", finish="cut"))
    await asyncio.sleep(0.01)
    partial.update(replied("a1", "Hello", finish="cut"))
    partial.flush()
    assert lines[-1].growth == (PartGrowth(0, 3, Text("lo")),)


async def test_a_reply_is_cleaned_when_it_is_written_not_whenever_it_comes():
    lines: list[PartialGrown] = []
    cleaned: list[str] = []

    def clean(reply: AssistantMessage) -> AssistantMessage:
        cleaned.append(text_of(reply))
        return replied(reply.id, text_of(reply).replace("hunter2", "***"), finish="cut")

    partial = PartialWriter(lines.append, clean=clean, interval_s=30)
    for text in ("It", "It is", "It is hunter2"):
        partial.update(replied("a1", text, finish="cut"))
    await asyncio.sleep(0.01)
    assert cleaned == ["It is hunter2"]
    assert [line.growth for line in lines] == [(PartGrowth(0, 0, Text("It is ***")),)]


async def test_another_reply_starts_from_nothing():
    lines: list[PartialGrown] = []
    partial = PartialWriter(lines.append, interval_s=0)
    partial.update(replied("a1", "Hello", finish="cut"))
    await asyncio.sleep(0.01)
    partial.update(replied("a2", "Hello", finish="cut"))
    await asyncio.sleep(0.01)
    assert [line.growth for line in lines] == [(PartGrowth(0, 0, Text("Hello")),)] * 2
