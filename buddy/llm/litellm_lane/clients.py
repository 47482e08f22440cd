"""The HTTP clients of litellm, given buddy's own transport. Imported behind litellm, which imports httpx."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

import httpx

from buddy.llm.http.proxy import trusting_the_system
from buddy.llm.litellm_lane.transport import EngineTransport


def take_over(litellm: Any, handlers: Any, environment: Mapping[str, str]) -> EngineTransport:
    """Make every HTTP client of litellm use one bounded transport, and return that.

    Left alone, litellm follows redirects to any host, with the key and the conversation, and takes answers of
    any size. Its clients for synchronous calls (tokens of clouds) keep their transport, and follow nothing.
    """
    transport = EngineTransport(environment, lambda: _tls(environment))

    def client(**options: Any) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=transport, follow_redirects=False, trust_env=False, **options)

    def create_client(
        _handler: Any, timeout: Any = None, event_hooks: Any = None, *_args: Any, **_kwargs: Any
    ) -> httpx.AsyncClient:
        limit = handlers._DEFAULT_TIMEOUT if timeout is None else timeout  # noqa: SLF001 - as litellm does
        return client(timeout=limit, event_hooks=event_hooks, headers=handlers.get_default_headers())

    create_default_client = handlers.HTTPHandler.create_client

    def create_sync_client(handler: Any) -> httpx.Client:
        made: httpx.Client = create_default_client(handler)
        made.follow_redirects = False
        return made

    handlers.AsyncHTTPHandler.create_client = create_client
    handlers.HTTPHandler.create_client = create_sync_client
    # The OpenAI SDK takes these where it would make clients of its own: OpenAI, Azure and all that are alike.
    litellm.aclient_session = client(timeout=None)
    litellm.client_session = httpx.Client(follow_redirects=False)
    return transport


def _tls(environment: Mapping[str, str]) -> ssl.SSLContext:
    """Return the system's certificates, and the person's own where litellm's variable names one."""
    context = trusting_the_system()
    if own := environment.get("SSL_CERTIFICATE"):
        context.load_cert_chain(own)
    return context
