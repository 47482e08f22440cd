"""Model servers on this machine: who listens on the usual ports, and which models they have.

Plain asyncio sockets, because this runs at start-up in the background and httpx costs more than the answer.
Every one of these servers answers OpenAI's `GET /v1/models`; whatever answers otherwise is something else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

TIMEOUT_S = 0.5
MAX_BYTES = 1_000_000


class LocalAddress(msgspec.Struct, frozen=True):
    """Where a kind of server listens unless told otherwise. `provider` is its name in the catalogue."""

    provider: str
    port: int
    host: str = "127.0.0.1"

    @property
    def base_url(self) -> str:
        """Its address for the direct lane."""
        return f"http://{self.host}:{self.port}/v1"


USUAL = (
    LocalAddress("ollama", 11434),
    LocalAddress("lm_studio", 1234),
    LocalAddress("llama_cpp", 8080),
    LocalAddress("hosted_vllm", 8000),
)


class LocalServer(msgspec.Struct, frozen=True):
    """A server that answered."""

    provider: str
    base_url: str
    models: tuple[str, ...]


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model] | None
    object: str


async def find_local_servers(
    addresses: Sequence[LocalAddress] = USUAL, *, timeout_s: float = TIMEOUT_S
) -> tuple[LocalServer, ...]:
    """The servers that answer, in the order of the addresses. Never raises for what a server does."""
    found = await asyncio.gather(*(_probe(address, timeout_s) for address in addresses))
    return tuple(server for server in found if server is not None)


async def _probe(address: LocalAddress, timeout_s: float) -> LocalServer | None:
    try:
        async with asyncio.timeout(timeout_s):
            body = await _get(address, "/v1/models")
        listed = msgspec.json.decode(body, type=_Models)
    except (OSError, EOFError, ValueError, asyncio.LimitOverrunError, TimeoutError):
        return None
    if listed.object != "list":
        return None
    return LocalServer(address.provider, address.base_url, tuple(model.id for model in listed.data or ()))


async def _get(address: LocalAddress, path: str) -> bytes:
    """The body of a GET. Raises `OSError`, `EOFError`, or `ValueError` when it is no HTTP success."""
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        request = f"GET {path} HTTP/1.1\r\nhost: {address.host}:{address.port}\r\nconnection: close\r\n\r\n"
        writer.write(request.encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        if " 200" not in head.partition("\r\n")[0]:
            raise ValueError("not found")
        if "transfer-encoding: chunked" in head:
            return await _chunked(reader)
        length = next(
            (int(line[15:]) for line in head.split("\r\n") if line.startswith("content-length:")), None
        )
        if length is not None and length > MAX_BYTES:
            raise ValueError("too long for a list of models")
        return await (reader.read(MAX_BYTES) if length is None else reader.readexactly(length))
    finally:
        # Not waited for: a server that does not close would hold the probe.
        writer.transport.abort()


async def _chunked(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int((await reader.readline()).split(b";")[0], 16):
        if len(body) + size > MAX_BYTES:
            raise ValueError("too long for a list of models")
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    return body
