"""The HTTP client of every lane that is not litellm's, of probes and of web searches.

The engine is httpcore2. Its import takes 70 ms, so it is imported by the first request, in a thread: the
prompt echoes keys meanwhile.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from typing import Protocol

from buddy.llm.direct.lane import Answer, Endpoint
from buddy.llm.http.limits import Target, check_headers, target_of
from buddy.llm.http.proxy import proxy_for, trusting_the_system


class Sender(Protocol):
    """The engine, before it is imported."""

    async def send(
        self,
        method: str,
        target: Target,
        headers: Mapping[str, str],
        content: bytes | None,
        *,
        may_repeat: bool = True,
    ) -> Answer:
        """Send and wait for the headers of the answer. `may_repeat`: it does no harm if the request arrives
        twice. Raises `ProviderError`."""
        ...

    async def aclose(self) -> None:
        """Close the connections that are not in use, and those in use with their answers."""
        ...


def client_for(endpoint: Endpoint, environ: Mapping[str, str]) -> EngineClient:
    """Return the client for one endpoint, by the proxy settings of this environment."""
    return EngineClient(endpoint.connect_s, proxy=proxy_for(endpoint.base_url, environ))


async def load_engine() -> None:
    """Import the engine, without keeping the event loop from its work."""
    await asyncio.to_thread(_engine_class)


def _engine_class() -> Callable[..., Sender]:
    from buddy.llm.http.engine import Engine  # 70 ms, called in a thread

    return Engine


class EngineClient:
    """Sends requests and keeps connections between them; through `proxy`, a URL, unless that is "".

    `connect_s` limits each step of reaching a server; answers are limited by the watchdog. `tls` makes the
    TLS context when the first connection needs one; `setting` is the name of the setting with the address.
    """

    def __init__(
        self,
        connect_s: float,
        *,
        proxy: str = "",
        tls: Callable[[], ssl.SSLContext] = trusting_the_system,
        setting: str = "base_url",
    ) -> None:
        self._setting = setting
        self._connect_s = connect_s
        self._proxy = proxy
        self._tls = tls
        self._engines: dict[bool, Sender] = {}
        self._making = asyncio.Lock()

    async def post(self, url: str, headers: Mapping[str, str], content: bytes) -> Answer:
        """Send and wait for the headers of the answer. Raises `ProviderError`."""
        return await self.send("POST", url, headers, content)

    async def get(self, url: str, headers: Mapping[str, str]) -> Answer:
        """The same for a GET."""
        return await self.send("GET", url, headers, None)

    async def aclose(self) -> None:
        """Close every connection that is not in use, and those in use as soon as their answer is let go."""
        for engine in self._engines.values():
            await engine.aclose()

    async def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes | None,
        *,
        may_repeat: bool = True,
    ) -> Answer:
        """Send with any method. `may_repeat`: it does no harm if the request arrives twice."""
        target = target_of(url)
        check_headers(headers)
        engine = await self._engine(with_tls=target.is_tls or self._proxy.startswith("https:"))
        return await engine.send(method, target, headers, content, may_repeat=may_repeat)

    async def _engine(self, *, with_tls: bool) -> Sender:
        """Return the engine that has a TLS context, or the one that needs none: reading certificates takes 20
        ms."""
        async with self._making:
            if with_tls not in self._engines:
                self._engines[with_tls] = await asyncio.to_thread(self._make_engine, with_tls)
        return self._engines[with_tls]

    def _make_engine(self, with_tls: bool) -> Sender:
        tls = self._tls() if with_tls else None
        return _engine_class()(self._connect_s, proxy=self._proxy, tls=tls, setting=self._setting)
