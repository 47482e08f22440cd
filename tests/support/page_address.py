"""Requests to the page of a program that runs, by the address it printed."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import urlsplit

DEADLINE_S = 60


class PrintedPage:
    """A page by its address. `socket` is the path of a unix socket, "" for a port."""

    def __init__(self, address: str, *, socket: str = "") -> None:
        self.address = urlsplit(address.strip())
        self.token = self.address.fragment
        self.socket = socket

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request; return the JSON of its answer."""
        stream, writer = await self._connect()
        raw = json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {self.token}"]
        lines += ["Content-Type: application/json", f"Content-Length: {len(raw)}", "Connection: close"]
        writer.write("\r\n".join((*lines, "", "")).encode() + raw)
        async with asyncio.timeout(DEADLINE_S):
            whole = await stream.read()
        writer.close()
        return json.loads(whole.partition(b"\r\n\r\n")[2])

    async def session_with(self, messages: int) -> Any:
        """Return the session once its first task has so many messages."""
        async with asyncio.timeout(DEADLINE_S):
            while len((session := await self.ask("GET", "/session"))["tasks"][0]["messages"]) < messages:
                await asyncio.sleep(0.01)
        return session

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self.socket:
            return await asyncio.open_unix_connection(self.socket)
        return await asyncio.open_connection(self.address.hostname, self.address.port)
