"""Lines of the wire that are skipped, and those that pass."""

from __future__ import annotations

import asyncio

import pytest

from buddy.headless.acp.message_reader import MessageReader


def reader(data: bytes, *, limit: int = 1_000) -> tuple[MessageReader, list[str]]:
    reports: list[str] = []
    made = MessageReader(reports.append, limit=limit)
    made.feed_data(data)
    made.feed_eof()
    return made, reports


async def test_lines_that_are_no_message_are_skipped_and_reported() -> None:
    lines, reports = reader(b'[]\n{"id": 1, "method": "x"}\n5\n\n{"id": 0, "result": null}\n')
    passed = [await lines.readuntil(b"\n") for _ in range(3)]
    assert passed == [b'{"id": 1, "method": "x"}\n', b"\n", b'{"id": 0, "result": null}\n']
    assert len(reports) == 2


async def test_the_rest_of_a_line_over_the_limit_is_not_judged() -> None:
    lines, reports = reader(b'{"method": "' + b"x" * 30 + b'"}\n', limit=20)
    with pytest.raises(asyncio.LimitOverrunError) as raised:
        await lines.readuntil(b"\n")
    await lines.readexactly(raised.value.consumed)
    assert (await lines.readuntil(b"\n"))[-1:] == b"\n"
    assert reports == []
