"""Which HTTP client reaches a server: the plain one, or httpx where a proxy stands in between."""

from __future__ import annotations

from collections.abc import Mapping

from buddy.agent.provider import ProviderError
from buddy.llm.direct import Endpoint, HttpClient
from buddy.llm.plain_client import PlainClient
from buddy.llm.proxies import proxy_for


def client_for(endpoint: Endpoint, environ: Mapping[str, str]) -> HttpClient:
    """The client for one endpoint, by the proxy settings of this environment. Raises `ProviderError` for a
    proxy that can't be used."""
    proxy = proxy_for(endpoint.base_url, environ)
    if not proxy:
        return PlainClient(endpoint.connect_s)
    # httpx takes 100 ms to import, with its own dependencies.
    from buddy.llm.http_client import httpx_client

    try:
        return httpx_client(endpoint.connect_s, proxy=proxy)
    except (ValueError, ImportError) as error:
        shown = proxy.rpartition("@")[2]
        raise ProviderError(
            "bad_request", f"the proxy {shown} can't be used ({error}); expected http:// or https://host:port"
        ) from error
