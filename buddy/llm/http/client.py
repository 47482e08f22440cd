"""The HTTP client of every lane that is not litellm's, of probes and of web searches; the proxy for an
address, and the certificates that servers are judged by.

The engine is httpcore2. Its import takes 70 ms, so it is imported by the first request, in a thread: the
prompt echoes keys meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import ssl
import sys
from collections.abc import Callable, Mapping
from typing import Protocol
from urllib.parse import urlsplit

from buddy.llm.direct.lane import Answer, Endpoint
from buddy.llm.http.limits import Target, check_headers, target_of


def proxy_for(base_url: str, environ: Mapping[str, str]) -> str:
    """Return the proxy for requests to this address, "" for none. This machine is never reached through
    one."""
    try:
        parts = urlsplit(base_url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        return ""
    if is_this_machine(host):
        return ""
    settings = {
        name.lower(): value for name, value in environ.items() if name.lower().endswith("_proxy") and value
    }
    if not settings and sys.platform == "darwin":
        settings = _system_settings()
    proxy = settings.get(f"{parts.scheme}_proxy") or settings.get("all_proxy") or ""
    if not proxy or _is_exempt(host, port, settings.get("no_proxy", "")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def is_this_machine(host: str) -> bool:
    """Tell whether a host is this machine by its name or address alone."""
    if host.lower().removesuffix(".") == "localhost":
        return True
    try:
        if ":" in host:
            return socket.inet_pton(socket.AF_INET6, host) == socket.inet_pton(socket.AF_INET6, "::1")
        # The system reads 127.1 as an address too; 127.0.0.999 is a name that anybody's server may resolve.
        return bool(re.fullmatch(r"127(\.[0-9]+){1,3}", host)) and bool(socket.inet_aton(host))
    except OSError:
        return False


def _is_exempt(host: str, port: int | None, no_proxy: str) -> bool:
    """Tell whether `no_proxy` names this host, a domain above it, or everything."""
    for entry in no_proxy.lower().split(","):
        name = entry.strip().removeprefix("*").removeprefix(".")
        if entry.strip() == "*":
            return True
        if name and (f"{host}:{port}" == name or host == name or host.endswith("." + name)):
            return True
    return False


def _system_settings() -> dict[str, str]:
    """macOS keeps proxies outside the environment; only urllib knows how to ask for them."""
    from urllib.request import getproxies  # 25 ms, and only there

    return {f"{scheme}_proxy": url for scheme, url in getproxies().items()}


def trusting_the_system(environ: Mapping[str, str] = os.environ) -> ssl.SSLContext:
    """Return a TLS context with the system's certificates (SSL_CERT_FILE and SSL_CERT_DIR count), certifi's
    where the system has none, and those of REQUESTS_CA_BUNDLE, which many companies set."""
    context = ssl.create_default_context()
    bundle = environ.get("REQUESTS_CA_BUNDLE", "")
    if bundle and not environ.get("SSL_CERT_FILE") and os.path.exists(bundle):
        in_folder = os.path.isdir(bundle)
        context.load_verify_locations(
            cafile=None if in_folder else bundle, capath=bundle if in_folder else None
        )
    paths = ssl.get_default_verify_paths()
    if not paths.cafile and not (paths.capath and os.listdir(paths.capath)):
        import certifi  # only where it is needed: 15 ms

        context.load_verify_locations(certifi.where())
    return context


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
