"""Connections to a host with several addresses: the first that answers, and no socket left behind."""

from __future__ import annotations

import asyncio
import gc
import socket
import warnings
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from buddy.llm.connecting import Address, first_connected, interleaved, is_literal
from tests.stream_server import stream_server


def at(port: int, host: str = "127.0.0.1") -> Address:
    return (socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port))


def refusing() -> Address:
    """A port nobody listens on any more."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return at(taken.getsockname()[1])


@asynccontextmanager
async def listening() -> AsyncGenerator[Address]:
    async def close(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with stream_server(close) as port:
        yield at(port)


def test_addresses_of_both_families_are_tried_in_turns() -> None:
    six = [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", (f"::{end}", 80, 0, 0)) for end in (1, 2, 3)]
    four = [at(80, "192.0.2.1")]
    assert interleaved([*six, *four]) == [six[0], four[0], six[1], six[2]]


@pytest.mark.parametrize(
    ("host", "expected"), [("127.0.0.1", True), ("::1", True), ("localhost", False), ("127.1", False)]
)
def test_only_an_address_needs_no_look_up(host: str, expected: bool) -> None:
    assert is_literal(host) is expected


async def test_an_address_that_refuses_makes_way_for_the_next_at_once() -> None:
    async with listening() as there:
        made = await asyncio.wait_for(first_connected([refusing(), there], 3_600), 60)
        with made:
            assert made.getpeername() == there[4]


async def test_where_no_address_answers_the_first_reason_is_raised() -> None:
    with pytest.raises(ConnectionRefusedError):
        await first_connected([refusing(), refusing()], 0.01)


async def test_no_socket_is_left_however_early_or_late_it_is_cancelled() -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        async with listening() as there:
            ended: set[str] = set()
            tasks = len(asyncio.all_tasks())
            for steps in range(40):
                work = asyncio.ensure_future(first_connected([refusing(), there, there], 0))
                for _ in range(steps):
                    await asyncio.sleep(0)
                work.cancel()
                try:
                    (await work).close()
                    ended.add("connected")
                except asyncio.CancelledError:
                    ended.add("cancelled")
            async with asyncio.timeout(60):
                while len(asyncio.all_tasks()) > tasks:  # attempts that were cancelled end a little later
                    await asyncio.sleep(0)
        gc.collect()
    assert ended == {"connected", "cancelled"}
    assert [str(one.message) for one in seen if issubclass(one.category, ResourceWarning)] == []
