"""The requests of one connection to a server with an address.

A request that fails is answered here, in the protocol's own form and in words: the protocol library ends the
whole connection for an exception, and with it every other call. Imported with the library.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from http import HTTPStatus
from typing import Any, Literal, cast

import anyio
import httpx2
import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.agent.provider import ProviderError
from buddy.extend.mcp.channel import ChannelClosed
from buddy.extend.mcp.http_requests import HttpRequests, TooMuchError, read_all, with_body
from buddy.extend.mcp.records import LoginNeededError, login_words
from buddy.extend.mcp.stored_login import StoredLogin
from buddy.safety.sanitise import one_line

NOTE_S = 5.0
"""A server has so long to take a message it need not answer; the library sends nothing else meanwhile."""
CLOSING_S = 1.0
TOKEN_S = 30.0
MAX_ERROR_BYTES = 1_000_000
MAX_TOKEN_BYTES = 1_000_000
MAX_LISTENS, LISTEN_WINDOW_S = 5, 5.0
"""So many event streams may be opened within that time, whatever pause the server asks for."""
USEFUL_LISTEN_S = 10.0
MAX_PROLOGUE_BYTES = 65_536
MAX_FRUITLESS_LISTENS = 10
"""Event streams that may end at once in a row: a server must not keep the client reconnecting."""
INTERNAL_ERROR = -32603
_SCOPE = pattern(r'\bscope="([\x21\x23-\x5b\x5d-\x7e ]{1,2000})"')
_SESSION_HEADER = "mcp-session-id"
RemoteKind = Literal["http", "sse"]


class SessionTransport(httpx2.AsyncBaseTransport):
    """Sends the library's requests. `lost` hears of what ends the connection; `has_credentials`: the
    definition names credentials of its own; `login` is the saved login, if there is one."""

    def __init__(
        self,
        name: str,
        kind: RemoteKind,
        requests: HttpRequests,
        lost: Callable[[Exception], None],
        *,
        has_credentials: bool,
        login: StoredLogin | None,
    ) -> None:
        self._name = name
        self._kind = kind
        self._requests = requests
        self._lost = lost
        self._has_credentials = has_credentials
        self._login = login
        self._listened_at: deque[float] = deque(maxlen=MAX_LISTENS)
        self._fruitless = 0
        self.broken: dict[str | int, str] = {}
        """Why the answer to a request broke off, by the request's id."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request of the library."""
        match request.method:
            case "GET":
                return await self._listen(request)
            case "POST":
                return await self._post(request)
            case _:  # the end of the session
                try:
                    async with asyncio.timeout(CLOSING_S):
                        return await self._send_last(request)
                except (TimeoutError, ProviderError):
                    return httpx2.Response(200, request=request)

    async def aclose(self) -> None:
        """Close every connection, once a renewal of the login has ended."""
        with anyio.CancelScope(shield=True):  # the library closes an old connection while it is cancelled
            try:
                if self._login is not None:
                    await self._login.finish(TOKEN_S)
            finally:
                await self._requests.aclose()

    # -- messages to the server ----------------------------------------------------------------------------

    async def _post(self, request: httpx2.Request) -> httpx2.Response:
        asked = _asked_id(await request.aread())
        try:
            # A note that is not taken in time may still arrive; an answer takes as long as its call.
            async with asyncio.timeout(None if asked is not None else NOTE_S):
                return await self._answer(request, asked)
        except TimeoutError:
            return httpx2.Response(202, request=request)
        except (ProviderError, TooMuchError) as error:
            is_there = isinstance(error, TooMuchError) or error.kind == "cut" or not error.retryable
            if is_there and self._kind == "http":
                return self._refuse(request, asked, str(error))
            problem: Exception = ChannelClosed(str(error))
        except (ChannelClosed, LoginNeededError) as error:
            problem = error
        self._lost(problem)
        return self._refuse(request, asked, str(problem))

    async def _answer(self, request: httpx2.Request, asked: str | int | None) -> httpx2.Response:
        response = await self._send(request)
        status = response.status_code
        if 300 <= status < 400:
            await response.aclose()
            return with_body(response, b"")  # the library follows within the host, and nowhere else
        if status >= 400:
            body = await read_all(response, MAX_ERROR_BYTES)
            await self._check_access(response)
            if _SESSION_HEADER in request.headers and status == 404:
                raise ChannelClosed("it has ended the session; a new one is begun, so call again")
            if asked is not None and _is_error(_decode(body)):
                return with_body(response, body)
            words = _status_words(response, body)
            if self._kind == "sse":
                raise ChannelClosed(words)
            return self._refuse(request, asked, words)
        if asked is None or self._kind == "sse":
            await response.aclose()
            return httpx2.Response(202, headers=response.headers, request=request)
        match _media_type(response):
            case "text/event-stream":
                return self._stream(response, asked)
            case "application/json":
                body = await read_all(response)
                problem = _message_problem(_decode(body), asked)
                return self._refuse(request, asked, problem) if problem else with_body(response, body)
            case other:
                await response.aclose()
                what = f"with {one_line(other, 60)}" if other else "with nothing"
                return self._refuse(
                    request, asked, f"it answered {what}, not as an MCP server does; is its url right?"
                )

    def _refuse(self, request: httpx2.Request, asked: str | int | None, words: str) -> httpx2.Response:
        """Answer a request that failed. Nobody waits for an answer to anything else."""
        if asked is None or self._kind == "sse":
            return httpx2.Response(202, request=request)
        error = {"code": INTERNAL_ERROR, "message": words}
        return httpx2.Response(200, json={"jsonrpc": "2.0", "id": asked, "error": error}, request=request)

    def _stream(self, response: httpx2.Response, asked: str | int) -> httpx2.Response:
        """Note why an answer that comes as events breaks off."""
        stream = response.stream
        assert isinstance(stream, httpx2.AsyncByteStream)

        def note(words: str) -> None:
            self.broken[asked] = words

        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=_NotedStream(stream, note),
            request=response.request,
        )

    # -- events of the server ------------------------------------------------------------------------------

    async def _listen(self, request: httpx2.Request) -> httpx2.Response:
        """Open an event stream. Only the one that is the whole connection has to open."""
        if self._kind == "sse":
            return await self._open_events(request)
        if self._fruitless >= MAX_FRUITLESS_LISTENS:
            return httpx2.Response(405, request=request)
        self._fruitless += 1
        loop = asyncio.get_running_loop()
        if len(self._listened_at) == MAX_LISTENS:
            await asyncio.sleep(max(0.0, self._listened_at[0] + LISTEN_WINDOW_S - loop.time()))
        self._listened_at.append(loop.time())
        try:
            response = await self._send(request)
            if response.status_code == 404:
                await response.aclose()
                raise ChannelClosed("it has ended the session")
            if response.status_code >= 400:
                await read_all(response, MAX_ERROR_BYTES)
                return httpx2.Response(response.status_code, request=request)
            stream = response.stream
            assert isinstance(stream, httpx2.AsyncByteStream)
            return httpx2.Response(
                response.status_code,
                headers=response.headers,
                stream=_ListeningStream(stream, self._note_use),
                request=request,
            )
        except (ProviderError, TooMuchError, ChannelClosed, LoginNeededError) as error:
            is_known = isinstance(error, ChannelClosed | LoginNeededError)
            self._lost(error if is_known else ChannelClosed(str(error)))
            return httpx2.Response(503, request=request)

    def _note_use(self) -> None:
        """Note that an event stream was of use."""
        self._fruitless = 0

    async def _open_events(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await self._send(request)
            if 300 <= response.status_code < 400:
                await response.aclose()
                where = request.url.join(response.headers.get("location", ""))
                if _origin(where) != _origin(request.url):
                    raise ChannelClosed(f"it redirects to {one_line(where.host, 100)}, which is not followed")
                return with_body(response, b"")
            if response.status_code >= 400:
                body = await read_all(response, MAX_ERROR_BYTES)
                await self._check_access(response)
                raise ChannelClosed(_status_words(response, body))
        except (ProviderError, TooMuchError) as error:
            raise ChannelClosed(str(error)) from error
        kind = _media_type(response)
        if kind != "text/event-stream":
            await response.aclose()
            raise ChannelClosed(f"it answered with {one_line(kind, 60) or 'nothing'} instead of events")
        stream = response.stream
        assert isinstance(stream, httpx2.AsyncByteStream)
        return httpx2.Response(
            200, headers=response.headers, stream=_OldStream(stream, request.url), request=request
        )

    # -- the login -----------------------------------------------------------------------------------------

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        """Send with the saved login, if there is one."""
        if self._login is None:
            return await self._requests.send(request)
        token = await self._login.token(self._renew)
        response = await self._send_with(token, request)
        if response.status_code != 401 or not token:
            return response
        async with AsyncExitStack() as unless_kept:
            unless_kept.push_async_callback(response.aclose)
            other = await self._login.token(self._renew, refused=token)
            if other in ("", token):
                unless_kept.pop_all()
                return response
        return await self._send_with(other, request)

    async def _send_last(self, request: httpx2.Request) -> httpx2.Response:
        """Send the end of the session. No login is renewed for that: there is no time to."""
        if self._login is None:
            return await self._requests.send(request)
        if not (token := self._login.good_token()):
            return httpx2.Response(200, request=request)
        return await self._send_with(token, request)

    async def _send_with(self, token: str, request: httpx2.Request) -> httpx2.Response:
        if token:
            request.headers["authorization"] = f"Bearer {token}"
        return await self._requests.send(request)

    async def _renew(self, request: httpx2.Request) -> httpx2.Response:
        """Send the request for a new token."""
        try:
            async with asyncio.timeout(TOKEN_S):
                response = await self._requests.send(request)
                return with_body(response, await read_all(response, MAX_TOKEN_BYTES))
        except TimeoutError as error:
            host = request.url.host
            raise ChannelClosed(f"the login could not be renewed: {host} does not answer") from error

    async def _check_access(self, response: httpx2.Response) -> None:
        """Raise `LoginNeededError` or `ChannelClosed` for an answer that refuses the person."""
        challenge = response.headers.get("www-authenticate", "")
        if response.status_code == 403 and "insufficient_scope" in challenge:
            if self._login is not None and (scope := _SCOPE().search(challenge)) is not None:
                await self._login.note_wanted(scope[1])
            raise LoginNeededError(f"it wants more rights than the login has; {login_words(self._name)}")
        if response.status_code != 401:
            return
        if self._has_credentials:
            raise ChannelClosed("it refuses the credentials in its headers (HTTP 401)", is_final=True)
        over = "its login is over; " if self._login is not None else ""
        raise LoginNeededError(f"{over}{login_words(self._name)}")


class _NotedStream(httpx2.AsyncByteStream):
    """A stream that tells how it ended, unless nobody read it to its end."""

    def __init__(self, inner: httpx2.AsyncByteStream, note: Callable[[str], None]) -> None:
        self._inner = inner
        self._note = note

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._inner:
                yield chunk
        except (ProviderError, TooMuchError) as error:
            self._note(str(error))
            raise
        self._note("it ended its answer before the result")

    async def aclose(self) -> None:
        """Let go of the connection."""
        await self._inner.aclose()


class _ListeningStream(httpx2.AsyncByteStream):
    """An event stream that tells that it was of use: it brought a message, or stayed."""

    def __init__(self, inner: httpx2.AsyncByteStream, note: Callable[[], None]) -> None:
        self._inner = inner
        self._note = note

    async def __aiter__(self) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        begun, is_of_use = loop.time(), False
        async for chunk in self._inner:
            if not is_of_use and (b"jsonrpc" in chunk or loop.time() - begun > USEFUL_LISTEN_S):
                is_of_use = True
                self._note()
            yield chunk
        if loop.time() - begun > USEFUL_LISTEN_S:
            self._note()

    async def aclose(self) -> None:
        """Let go of the connection."""
        await self._inner.aclose()


class _OldStream(httpx2.AsyncByteStream):
    """The events of an old server. Until it has named the address for messages, only this kind of error ends
    the wait for that; and the address has to be on the same host."""

    def __init__(self, inner: httpx2.AsyncByteStream, url: httpx2.URL) -> None:
        self._inner = inner
        self._url = url
        self._head: bytes | None = b""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._inner:
                if self._head is not None:
                    self._head += chunk
                    self._judge(self._head)
                yield chunk
        except (ProviderError, TooMuchError) as error:
            if self._head is not None:
                raise httpx2.SSEError(str(error)) from error
            raise
        if self._head is not None:
            raise httpx2.SSEError("it ended before it named its address for messages")

    def _judge(self, head: bytes) -> None:
        text = head.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
        for block in text.split("\n\n")[:-1]:
            pairs = [line.partition(":") for line in block.split("\n")]
            fields = {name: value.removeprefix(" ") for name, _, value in pairs}
            if fields.get("event") == "endpoint":
                self._check_endpoint(fields.get("data", ""))
                self._head = None
                return
        if len(head) > MAX_PROLOGUE_BYTES:
            raise httpx2.SSEError("it does not name its address for messages")

    def _check_endpoint(self, data: str) -> None:
        try:
            where = self._url.join(data)
        except httpx2.InvalidURL as error:
            raise httpx2.SSEError("its address for messages is not valid") from error
        if _origin(where) != _origin(self._url):
            raise httpx2.SSEError(f"its address for messages is on another host, {one_line(where.host, 100)}")

    async def aclose(self) -> None:
        """Let go of the connection."""
        await self._inner.aclose()


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _asked_id(content: bytes) -> str | int | None:
    """Return the id of a request, None for a message that is none."""
    message = _decode(content)
    if not isinstance(message, dict):
        return None
    table = cast("dict[str, Any]", message)
    number = table.get("id")
    return number if "method" in table and isinstance(number, str | int) else None


def _decode(body: bytes) -> object:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _is_error(message: object) -> bool:
    if not isinstance(message, dict):
        return False
    table = cast("dict[str, Any]", message)
    error = table.get("error")
    if not isinstance(error, dict) or table.get("jsonrpc") != "2.0":
        return False
    told = cast("dict[str, Any]", error)
    return type(told.get("code")) is int and isinstance(told.get("message"), str)


def _message_problem(message: object, asked: str | int) -> str:
    """Return what keeps an answer from being the one to a request, "" for nothing."""
    if not isinstance(message, dict):
        return "its answer is no message of the protocol"
    table = cast("dict[str, Any]", message)
    is_result = table.get("jsonrpc") == "2.0" and isinstance(table.get("result"), dict)
    if not is_result and not _is_error(table):
        return "its answer is no message of the protocol"
    if table.get("id") != asked and (is_result or table.get("id") is not None):
        return "it answered another request than the one it was sent"
    return ""


def _media_type(response: httpx2.Response) -> str:
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


def _status_words(response: httpx2.Response, body: bytes) -> str:
    status = response.status_code
    try:
        phrase = f" {HTTPStatus(status).phrase}"
    except ValueError:
        phrase = ""
    said = ""
    if _media_type(response) in ("application/json", "text/plain"):
        said = f": {one_line(_said(body), 200)}" if body.strip() else ""
    advice = ""
    if status in (404, 405):
        advice = '; is its url right? An old server wants "type": "sse"'
    return f"it answered HTTP {status}{phrase}{said}{advice}"


def _said(body: bytes) -> str:
    """Return the words of an error, wherever common servers put them."""
    message = _decode(body)
    for _ in range(2):
        if not isinstance(message, dict):
            break
        table = cast("dict[str, Any]", message)
        message = next(
            (table[key] for key in ("error_description", "message", "error", "detail") if table.get(key)), ""
        )
    if isinstance(message, str) and message:
        return message
    text = body[:2_000].decode("utf-8", "replace")
    return text if not isinstance(message, dict) else json.dumps(message)
