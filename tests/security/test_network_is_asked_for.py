"""Under Landlock a command gets no Internet socket, and what it tried is told."""

from __future__ import annotations

import sys

import pytest

from tests.capabilities import requires
from tests.support.sandbox_machine import LOOKS, sandbox_machine

SOCKET = f"{sys.executable} -I -S -c 'import socket; socket.socket({{}})'"


@requires("landlock")
@pytest.mark.parametrize("arguments", ["2, 1", "2, 2", "10, 1", "10, 2", "2, 1 | socket.SOCK_NONBLOCK"])
async def test_a_refused_internet_socket_is_on_record(arguments: str) -> None:
    async with sandbox_machine(look=LOOKS[2]) as machine:
        ran = await machine.run(SOCKET.format(arguments), machine.confinement())
        assert "Address family not supported" in ran.text
        assert ran.blocked.addresses == ("the network",)


@requires("landlock")
@pytest.mark.parametrize("arguments", ["1, 1", "16, 3", "17, 3", "40, 1"])
async def test_other_sockets_are_refused_as_before(arguments: str) -> None:
    async with sandbox_machine(look=LOOKS[2]) as machine:
        ran = await machine.run(SOCKET.format(arguments), machine.confinement())
        assert "Address family not supported" in ran.text
        assert not ran.blocked


@requires("landlock")
async def test_modes_and_times_can_be_changed_where_writing_is_allowed() -> None:
    async with sandbox_machine(look=LOOKS[2]) as machine:
        ran = await machine.run(
            "echo x > a && chmod 700 a && touch -d 2001-01-01 a && cp -a a b && ln -s ../outside/file l "
            "&& cp -a l m && mkdir d && chmod 700 d && tar -cf t.tar a d m && mkdir u && tar -xf t.tar -C u "
            "&& echo x > $TMPDIR/f && chmod 600 $TMPDIR/f && stat -c '%a %Y' u/a",
            machine.confinement(),
        )
        assert (ran.text, ran.code) == ("700 978307200\n", 0)
        assert not ran.blocked
