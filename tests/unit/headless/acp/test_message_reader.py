"""Lines of the wire that are skipped, and those that pass."""

from __future__ import annotations

import json

import pytest

from buddy.headless.acp.message_reader import TOO_LONG, MessageReader
from buddy.headless.acp.outflow import Outflow


def reader(data: bytes, *, limit: int = 1_000) -> tuple[MessageReader, list[str]]:
    reports: list[str] = []
    made = MessageReader(reports.append, Outflow(), limit=limit)
    made.feed_data(data)
    made.feed_eof()
    return made, reports


async def test_lines_that_are_no_message_are_skipped_and_reported() -> None:
    lines, reports = reader(b'[]\n{"id": 1, "method": "x"}\n5\n\n{"id": 0, "result": null}\n')
    passed = [await lines.readuntil(b"\n") for _ in range(3)]
    assert passed == [b'{"id": 1, "method": "x"}\n', b"\n", b'{"id": 0, "result": null}\n']
    assert len(reports) == 2


LONG = b"x" * 3_000


@pytest.mark.parametrize(
    ("line", "stands_for_it"),
    [
        (b'{"jsonrpc":"2.0","id":7,"result":{"content":"' + LONG + b'"}}', (7, None)),
        (b'{"jsonrpc":"2.0","result":{"content":"' + LONG + b'"},"id": "a"}', ("a", None)),
        (
            b'{"jsonrpc":"2.0","id":7,"method":"session/prompt","params":{"p":"' + LONG + b'"}}',
            (7, f"_{TOO_LONG}"),
        ),
        (b'{"params":{"p":"' + LONG + b'"}, "method":"x", "id":7 }', (7, f"_{TOO_LONG}")),
    ],
)
async def test_a_line_over_the_limit_becomes_a_failure_of_its_request(
    line: bytes, stands_for_it: tuple[object, str | None]
) -> None:
    lines, reports = reader(line + b'\n{"id": 1, "method": "x"}\n')
    message = json.loads(await lines.readuntil(b"\n"))
    assert (message["id"], message.get("method")) == stands_for_it
    assert ("error" in message) == (stands_for_it[1] is None)
    assert await lines.readuntil(b"\n") == b'{"id": 1, "method": "x"}\n'
    assert len(reports) == 1


@pytest.mark.parametrize(
    "line",
    [
        LONG,
        b'{"method": "session/cancel", "params": {"p": "' + LONG + b'"}}',
        b'{"result": {"content": "' + LONG + b'", "id": 7}}',
    ],
)
async def test_a_line_over_the_limit_that_names_no_request_is_dropped(line: bytes) -> None:
    lines, reports = reader(line + b'\n{"id": 1, "method": "x"}\n')
    assert await lines.readuntil(b"\n") == b'{"id": 1, "method": "x"}\n'
    assert len(reports) == 1
