"""The HTTP client over httpx: for requests that go through a proxy. Imported when the first one is sent.

`import httpx` also imports its command line (click, rich, pygments) when those are installed, as they are
here: 75 of 184 ms. A placeholder in `sys.modules` keeps that out; nothing of it is ever used.
"""

from __future__ import annotations

import ssl
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from types import ModuleType

_command_line = ModuleType("httpx._main")
vars(_command_line)["main"] = lambda: None  # what httpx looks for
sys.modules.setdefault("httpx._main", _command_line)

import httpx  # noqa: E402 - after the placeholder

from buddy.llm.connection_errors import broken_answer, unreachable, unusable_answer  # noqa: E402 - as above
from buddy.llm.http1 import HttpError  # noqa: E402 - as above
from buddy.llm.httpx_transport import BoundedTransport  # noqa: E402 - as above
from buddy.llm.plain_client import check_headers, target_of, trusting_the_system  # noqa: E402 - as above


class HttpxAnswer:
    """An answer of httpx as the lanes want it."""

    def __init__(self, response: httpx.Response, host: str) -> None:
        self._response = response
        self._host = host
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self._body = self._read()

    def body(self) -> AsyncIterator[bytes]:
        """The one iterator over the body."""
        return self._body

    async def aclose(self) -> None:
        """Close it; httpx keeps the connection when the body was read to its end."""
        await self._body.aclose()
        await self._response.aclose()

    async def _read(self) -> AsyncGenerator[bytes, None]:
        try:
            async for chunk in self._response.aiter_bytes():
                yield chunk
        except HttpError as error:
            raise unusable_answer(error, self._host) from error
        except httpx.HTTPError as error:
            raise broken_answer(error, self._host) from error


class HttpxClient:
    """Posts through one `httpx.AsyncClient`. `proxy` is the proxy's host, for error sentences."""

    def __init__(self, client: httpx.AsyncClient, proxy: str = "") -> None:
        self._client = client
        self._proxy = proxy

    async def post(self, url: str, headers: Mapping[str, str], content: bytes) -> HttpxAnswer:
        """Send and wait for the headers of the answer."""
        return await self._send("POST", url, headers, content)

    async def get(self, url: str, headers: Mapping[str, str]) -> HttpxAnswer:
        """The same for a GET."""
        return await self._send("GET", url, headers, b"")

    async def _send(self, method: str, url: str, headers: Mapping[str, str], content: bytes) -> HttpxAnswer:
        target = target_of(url)
        check_headers(headers)
        try:
            request = self._client.build_request(method, url, headers=headers, content=content)
            return HttpxAnswer(await self._client.send(request, stream=True), target.host)
        except HttpError as error:
            raise unusable_answer(error, target.host) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise unreachable(error, target.host, address=target.address, proxy=self._proxy) from error

    async def aclose(self) -> None:
        """Close every connection."""
        await self._client.aclose()


def httpx_client(connect_s: float, *, proxy: str = "", tls: ssl.SSLContext | None = None) -> HttpxClient:
    """A client that goes through this proxy ("" for none; the environment is not asked). Reading is not
    limited here: that is the watchdog's task."""
    client = httpx.AsyncClient(
        timeout=httpx.Timeout(None, connect=connect_s),
        transport=BoundedTransport(
            tls=tls or trusting_the_system(), proxy=httpx.Proxy(proxy, ssl_context=tls) if proxy else None
        ),
        trust_env=False,
    )
    return HttpxClient(client, proxy=httpx.URL(proxy).host if proxy else "")
