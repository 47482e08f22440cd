"""Lines of a program: how many bytes are read ahead, and in which order they come."""

from __future__ import annotations

import asyncio

import pytest

from buddy.headless.input_lines import LINE_OVERHEAD_BYTES, LineQueue, LineSplitter


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
