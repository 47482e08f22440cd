"""A program that goes to a host through the sandbox's proxy, and the server it goes to.

The server listens on 127.0.0.2: an address of this machine that no program leaves the proxy out for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

HOST = "127.0.0.2"
FETCH = """
import base64, os, socket, sys, urllib.parse
proxy = urllib.parse.urlsplit(os.environ["HTTPS_PROXY"])
who = base64.b64encode(f"{proxy.username}:{proxy.password}".encode()).decode()
line = socket.create_connection((proxy.hostname, proxy.port))
line.sendall(f"CONNECT {sys.argv[1]} HTTP/1.1\\r\\nProxy-Authorization: Basic {who}\\r\\n\\r\\n".encode())
answer = line.recv(4096).decode()
print(answer.splitlines()[0], answer.splitlines()[-1])
if " 200 " not in answer:
    sys.exit(1)
line.sendall(b"hello\\n")
print(line.recv(100).decode())
"""


@asynccontextmanager
async def far_server() -> AsyncIterator[str]:
    """A server that answers each connection; its host and port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"answer of the far server\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, HOST, 0)
    async with server:
        yield f"{HOST}:{server.sockets[0].getsockname()[1]}"
