"""Which HTTP client reaches a server: the plain one, or httpx where a proxy stands in between."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from urllib.parse import urlsplit

from buddy.llm.direct import Endpoint, HttpClient
from buddy.llm.plain_client import PlainClient

PROXY_NAMES = ("http_proxy", "https_proxy", "all_proxy")


def client_for(endpoint: Endpoint, environ: Mapping[str, str]) -> HttpClient:
    """The client for one endpoint, by the proxy settings of this environment."""
    if not needs_httpx(endpoint.base_url, environ):
        return PlainClient(endpoint.connect_s)
    # httpx takes 100 ms to import, with its own dependencies.
    from buddy.llm.http_client import httpx_client

    return httpx_client(endpoint.connect_s)


def needs_httpx(base_url: str, environ: Mapping[str, str]) -> bool:
    """Whether requests go through a proxy (this machine itself never does), or carry a name and password in
    the URL."""
    try:
        parts = urlsplit(base_url)
        host = parts.hostname or ""
    except ValueError:
        return False
    if parts.username is not None:
        return True
    if host == "localhost" or host.startswith("127.") or host == "::1":
        return False
    if any(value for name, value in environ.items() if name.lower() in PROXY_NAMES):
        return True
    return sys.platform == "darwin" and _system_has_proxy()


def _system_has_proxy() -> bool:
    """macOS keeps proxies outside the environment; only urllib knows how to ask for them."""
    from urllib.request import getproxies  # 25 ms, and only there

    return bool(getproxies())
