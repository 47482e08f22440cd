"""Model servers on this machine: who listens on the usual ports, and which models they have.

Every one of these servers answers OpenAI's `GET /v1/models`; whatever answers otherwise is something else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from buddy.agent.provider import ProviderError
from buddy.llm.http_client import EngineClient, load_engine

TIMEOUT_S = 0.5
MAX_BYTES = 1_000_000


class LocalAddress(msgspec.Struct, frozen=True):
    """Default address of a kind of local server. `provider` is its name in the catalogue."""

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
    are_open = await asyncio.gather(*(_is_open(address, timeout_s) for address in addresses))
    if not any(are_open):
        return ()
    await load_engine()
    listening = [address for address, is_open in zip(addresses, are_open, strict=True) if is_open]
    servers = await asyncio.gather(*(_probe(address, timeout_s) for address in listening))
    return tuple(server for server in servers if server is not None)


async def _is_open(address: LocalAddress, timeout_s: float) -> bool:
    """Connect and leave: where nobody listens, the HTTP engine need not be imported."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_s):
            transport, _ = await loop.create_connection(asyncio.Protocol, address.host, address.port)
    except OSError:
        return False
    transport.abort()
    return True


async def _probe(address: LocalAddress, timeout_s: float) -> LocalServer | None:
    try:
        async with asyncio.timeout(timeout_s):
            body = await _get(f"{address.base_url}/models", timeout_s)
        listed = msgspec.json.decode(body, type=_Models)
    except (ProviderError, ValueError, TimeoutError):
        return None
    if listed.object != "list":
        return None
    return LocalServer(address.provider, address.base_url, tuple(model.id for model in listed.data or ()))


async def _get(url: str, timeout_s: float) -> bytes:
    """The body of a successful answer. Raises `ProviderError`, or `ValueError` when it is none."""
    client = EngineClient(timeout_s)
    try:
        answer = await client.get(url, {})
        body = b""
        try:
            if answer.status != 200:
                raise ValueError("not found")
            async for chunk in answer.body():
                body += chunk
                if len(body) > MAX_BYTES:
                    raise ValueError("too long for a list of models")
        finally:
            await answer.aclose()
        return body
    finally:
        await client.aclose()
