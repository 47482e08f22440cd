"""Lines of a program: how many bytes are read ahead, and in which order they come."""

from __future__ import annotations

import asyncio
import base64

import pytest

from buddy.headless.input_lines import (
    LINE_OVERHEAD_BYTES,
    InputError,
    LineQueue,
    LineSplitter,
    message_content,
)
from tests.fake_llm.pictures import png


async def filled(queue: LineQueue, *lines: bytes) -> tuple[list[bytes], asyncio.Task[None]]:
    """Put lines until one has to wait; return those that were taken, and the one that waits."""
    taken: list[bytes] = []

    async def put() -> None:
        for line in lines:
            await queue.put(line)
            taken.append(line)

    putting = asyncio.create_task(put())
    for _ in range(3 * len(lines)):  # more turns of the loop than the lines need
        await asyncio.sleep(0)
    return taken, putting


@pytest.mark.parametrize(
    ("size", "expected"), [(0, 10), (LINE_OVERHEAD_BYTES, 5), (900, 1), (901, 1), (50_000, 1)]
)
async def test_a_queue_holds_bytes_and_not_lines(size: int, expected: int) -> None:
    queue = LineQueue(limit=1_000)
    lines = [b"%d" % number + b"x" * (size - 1) if size else b"" for number in range(10)]
    taken, putting = await filled(queue, *lines, b"waits" * 200)
    assert len(taken) == expected
    assert not putting.done()
    assert [await queue.get() for _ in range(11)] == [*lines, b"waits" * 200]
    await putting


async def test_an_end_waits_behind_a_full_queue_and_still_comes() -> None:
    queue = LineQueue(limit=10)
    await queue.put(b"x" * 100)
    ending = asyncio.create_task(queue.put(EOFError()))
    assert await queue.get() == b"x" * 100
    assert isinstance(await queue.get(), EOFError)
    await ending


async def test_a_reader_that_was_cancelled_loses_no_line() -> None:
    queue = LineQueue()
    reading = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.wait({reading})
    await queue.put(b"one")
    assert await queue.get() == b"one"


@pytest.mark.parametrize("step", [1, 2, 3, 7, 100])
def test_a_line_that_is_too_long_is_none_however_it_arrives(step: int) -> None:
    data = b"one\n" + b"x" * 11 + b"\ntwo\n\n" + b"y" * 10 + b"\n" + b"z" * 12
    splitter = LineSplitter(limit=10)
    lines = [line for at in range(0, len(data), step) for line in splitter.feed(data[at : at + step])]
    assert [*lines, *splitter.finish()] == [b"one", None, b"two", b"", b"y" * 10, None]


def encoded(kind: str, media_type: str, data: bytes) -> dict[str, object]:
    text = base64.b64encode(data).decode()
    return {"type": kind, "source": {"type": "base64", "media_type": media_type, "data": text}}


def test_a_document_of_text_is_part_of_the_message() -> None:
    source = {"type": "text", "media_type": "text/plain", "data": "one\ntwo"}
    content = [{"type": "document", "title": "a.txt", "source": source}, {"type": "text", "text": "look"}]
    text, images = message_content({"content": [*content, encoded("image", "image/png", png())]})
    assert text == "[a.txt]\none\ntwo\n\nlook"
    assert [image.media_type for image in images] == ["image/png"]


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (
            encoded("document", "application/pdf", b"%PDF-1.7"),
            "a PDF can't be sent; put it into the workspace",
        ),
        (
            encoded("image", "image/png", b"%PDF-1.7"),
            "an image block holds no PNG, JPEG, GIF or WebP but a PDF",
        ),
        (
            {"type": "video"},
            "expected text blocks, base64 image blocks or document blocks of text, found 'video'",
        ),
    ],
)
def test_what_no_model_could_be_sent_is_refused_before_a_turn_begins(
    block: dict[str, object], expected: str
) -> None:
    with pytest.raises(InputError) as refused:
        message_content({"content": [{"type": "text", "text": "look"}, block]})
    assert expected in str(refused.value)
