"""A TCP connection to one of several addresses of a host: one after the other, the next one as soon as one
fails or takes long, and the first that connects is taken (RFC 8305, "happy eyeballs").

asyncio has this too, but loses the socket when it is cancelled in the moment a connection is there.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Sequence
from itertools import chain, zip_longest
from typing import Any

from buddy.agent.cleanup import on_failure

Address = tuple[int, int, int, str, tuple[Any, ...]]
"""As `getaddrinfo` gives it: family, type, protocol, canonical name, where."""
Attempt = asyncio.Task[socket.socket]


def is_literal(host: str) -> bool:
    """Whether the host is an address itself: there is nothing to look up and nothing to choose."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError):  # that is how it says no
            socket.inet_pton(family, host.partition("%")[0])
            return True
    return False


def interleaved(addresses: Sequence[Address]) -> list[Address]:
    """The families in turns, in the order the system prefers them."""
    families = dict.fromkeys(address[0] for address in addresses)
    columns = [[one for one in addresses if one[0] == family] for family in families]
    return [one for one in chain.from_iterable(zip_longest(*columns)) if one is not None]


async def first_connected(addresses: Sequence[Address], delay_s: float) -> socket.socket:
    """The socket that connected first. `delay_s`: how long one address may take before the next is tried
    beside it. Raises the first address's `OSError` when none connects; however it ends, no other socket stays
    open."""
    attempts: list[Attempt] = []
    won: Attempt | None = None
    try:
        for address in addresses:
            attempts.append(asyncio.ensure_future(_connected(address)))
            won = await _first(attempts, delay_s)
            if won is not None:
                break
        won = won or await _first(attempts, None)
        return (won or attempts[0]).result()
    finally:
        for attempt in attempts:
            if attempt is not won:
                attempt.cancel()
                attempt.add_done_callback(_let_go)


async def _first(attempts: Sequence[Attempt], limit_s: float | None) -> Attempt | None:
    """The attempt that connected; None when all have failed, or this time is over."""
    deadline = None if limit_s is None else asyncio.get_running_loop().time() + limit_s
    while True:
        for attempt in attempts:
            if attempt.done() and attempt.exception() is None:
                return attempt
        waiting = [attempt for attempt in attempts if not attempt.done()]
        left = None if deadline is None else deadline - asyncio.get_running_loop().time()
        if not waiting or (left is not None and left <= 0):
            return None
        await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)


async def _connected(address: Address) -> socket.socket:
    family, kind, protocol, _name, where = address
    made = socket.socket(family, kind, protocol)
    with on_failure(made.close):
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, where)
    return made


def _let_go(attempt: Attempt) -> None:
    """Close what connected all the same."""
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().close()
