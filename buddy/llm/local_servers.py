"""Model servers: those on this machine, the models of a configured one, and how much context each has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from buddy.agent.formatting import whole_number
from buddy.agent.json_codec import items, loads, mapping, string
from buddy.agent.provider import ProviderError
from buddy.llm.catalog import ServerModel
from buddy.llm.direct.lane import Answer, HttpClient
from buddy.llm.errors import classify
from buddy.llm.http.client import EngineClient, load_engine

TIMEOUT_S = 0.5
MAX_BYTES = 1_000_000


class LocalAddress(msgspec.Struct, frozen=True):
    """Default address of a kind of local server. `provider` is its name in the catalogue."""

    provider: str
    port: int
    host: str = "127.0.0.1"

    @property
    def base_url(self) -> str:
        """Return its address for the direct lane."""
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
    """Return the servers that answer, in the order of the addresses. Never raises for what a server does."""
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
    """Return the body of a successful answer. Raises `ProviderError`, or `ValueError` when it is none."""
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


MAX_LISTING_BYTES = 4_000_000
WITHIN_S = 5.0
CONTEXT_KEYS = (
    "max_input_tokens",
    "max_model_len",
    "n_ctx",
    "loaded_context_length",
    "context_length",
    "context_window",
    "max_context_length",
    "max_context_window",
)
"""Most precise first: what a request may hold, then what the model could."""


async def list_models(
    client: HttpClient, base_url: str, headers: Mapping[str, str], host: str, *, within_s: float = WITHIN_S
) -> tuple[ServerModel, ...]:
    """Return the models a server lists. Raises `ProviderError`: no server there, wrong key, no list."""
    async with _time_limit(host, within_s):
        listed = await _get_listing(client, models_url(base_url), headers, host)
        return models_in(listed)


async def context_of(
    client: HttpClient, base_url: str, headers: Mapping[str, str], host: str, model: str
) -> int:
    """Return the context size of one model of the server in tokens, 0 where it does not say. Raises
    `ProviderError`."""
    async with _time_limit(host, WITHIN_S):
        listed = models_in(await _get_listing(client, models_url(base_url), headers, host))
        known = next((one.context for one in listed if one.name == model), 0)
        if known:
            return known
        root = base_url.rstrip("/").removesuffix("/v1")
        for path in ("/model/info", "/props", "/api/v0/models"):
            answer = await _get_or_nothing(client, root + path, headers, host)
            known = next((one.context for one in models_in(answer) if one.name == model), 0)
            known = known or _context(mapping(mapping(answer).get("default_generation_settings")))
            if known:
                return known
        shown = await _post_or_nothing(client, f"{root}/api/show", headers, host, {"model": model})
        return _ollama_context(mapping(shown))


def models_in(answer: Any) -> tuple[ServerModel, ...]:
    """Return the models of a list: OpenAI's, LiteLLM's `/model/info`, LM Studio's."""
    listed = mapping(answer)
    rows = [mapping(row) for row in items(listed.get("data") or listed.get("models"))]
    found: dict[str, ServerModel] = {}
    for row in rows:
        name = string(row.get("id") or row.get("model_name") or row.get("name"))
        if "model_name" in row:
            name = string(row["model_name"])
        if name:
            found[name] = ServerModel(name, _context(row))
    return tuple(found.values())


def models_url(base_url: str) -> str:
    """Return the URL of a server's model list."""
    base = base_url.rstrip("/").removesuffix("/chat/completions").removesuffix("/messages")
    return base + "/models"


def _context(row: Mapping[str, Any]) -> int:
    holders = (
        mapping(row.get("model_info")),
        mapping(row.get("meta")),
        mapping(row.get("top_provider")),
        row,
    )
    for key in CONTEXT_KEYS:
        for holder in holders:
            value = holder.get(key)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
    return 0


def _ollama_context(shown: Mapping[str, Any]) -> int:
    """`num_ctx` of the model's own file, else what the model was made for."""
    for line in string(shown.get("parameters")).splitlines():
        name, _, value = line.strip().partition(" ")
        if name == "num_ctx" and (tokens := whole_number(value.strip())) is not None:
            return tokens
    info = mapping(shown.get("model_info"))
    return next(
        (value for key, value in info.items() if key.endswith(".context_length") and isinstance(value, int)),
        0,
    )


@asynccontextmanager
async def _time_limit(host: str, within_s: float) -> AsyncGenerator[None]:
    """Limit the time; the end of it is a `ProviderError`."""
    try:
        async with asyncio.timeout(within_s):
            yield
    except TimeoutError as error:
        raise ProviderError("server", f"{host} did not list its models within {within_s:g} s") from error


async def _get_listing(client: HttpClient, url: str, headers: Mapping[str, str], host: str) -> Any:
    return await _read(await client.get(url, headers), host)


async def _get_or_nothing(client: HttpClient, url: str, headers: Mapping[str, str], host: str) -> Any:
    """Request an answer that only some servers have."""
    try:
        return await _get_listing(client, url, headers, host)
    except ProviderError:
        return None


async def _post_or_nothing(
    client: HttpClient, url: str, headers: Mapping[str, str], host: str, body: Mapping[str, Any]
) -> Any:
    try:
        typed = {**headers, "content-type": "application/json"}
        return await _read(await client.post(url, typed, msgspec.json.encode(body)), host)
    except ProviderError:
        return None


async def _read(answer: Answer, host: str) -> Any:
    try:
        content = b""
        async for chunk in answer.body():
            content += chunk
            if len(content) > MAX_LISTING_BYTES:
                raise ProviderError("server", f"{host} lists more than {MAX_LISTING_BYTES:,} bytes of models")
        if answer.status >= 300:
            raise classify(answer.status, answer.headers, content, host)
        return loads(content)
    except ValueError as error:
        raise ProviderError("server", f"{host} lists no models: its answer is no JSON") from error
    finally:
        await answer.aclose()
