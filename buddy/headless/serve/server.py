"""The server of the page: its listening socket, its token, and uvicorn without a program of its own."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import logging
import os
import secrets
import socket
import stat
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

import msgspec
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from buddy.app.session import Session
from buddy.headless.serve.event_log import EventLog
from buddy.headless.serve.event_stream import MAX_READERS, PageEvents, PageLimits
from buddy.headless.serve.feed import SessionFeed
from buddy.headless.serve.guard import ADMIT
from buddy.headless.serve.requests import SessionRequests
from buddy.headless.serve.routes import build_app

_log = logging.getLogger(__name__)

MAX_STRANGERS = MAX_READERS + 50
"""Connections that have not shown the token. Each needs a moment before it can, and all readers may come at
the same one."""
MAX_CONNECTIONS = MAX_STRANGERS + MAX_READERS + 50
"""All connections: those beyond `MAX_STRANGERS` are kept for readers and for requests beside them."""
MAX_HEADER_BYTES = 32_000
CLOSE_WITHIN_S = 2
HOST = "127.0.0.1"


class AddressError(Exception):
    """The port or the socket can't be used; one sentence for the user."""


class PageAddress(msgspec.Struct, frozen=True):
    """The place the page is at. `url` carries the token behind `#`, which a browser sends to nobody; `socket`
    is the path of a unix socket, "" for a port."""

    url: str
    token: str
    socket: str = ""

    def text(self) -> str:
        """Return the address for the person."""
        if not self.socket:
            return self.url
        return (
            f"the unix socket {self.socket}, for example through `ssh -L 8000:{self.socket} HOST`: {self.url}"
        )


class _Strangers:
    """Connections that have shown no token, oldest first. Beyond `most` the oldest gives way: any user of the
    machine can connect, and must not use up the places of those with the token."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._transports: dict[asyncio.Transport, None] = {}

    def add(self, transport: asyncio.Transport) -> None:
        """Count a new connection; end the oldest where there are too many."""
        self._transports[transport] = None
        if len(self._transports) > self._most:
            oldest = next(iter(self._transports))
            self.remove(oldest)
            oldest.abort()

    def remove(self, transport: asyncio.Transport) -> None:
        """Count a connection no longer: it has shown the token, or is closed."""
        self._transports.pop(transport, None)


def _connections(first_request_s: float) -> type[H11Protocol]:
    """Return connections that the application can cut, and that end when no request comes."""
    strangers = _Strangers(MAX_STRANGERS)

    class Connection(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            strangers.add(transport)
            admit = functools.partial(strangers.remove, transport)
            self.app_state = {**self.app_state, "transport": transport, ADMIT: admit}
            self._first = self.loop.call_later(first_request_s, self._end_silent)

        def _end_silent(self) -> None:
            if not self.scope:  # until the first request there is none
                self.transport.abort()

        def connection_lost(self, exc: Exception | None) -> None:
            self._first.cancel()
            strangers.remove(self.transport)
            super().connection_lost(exc)

    return Connection


class _Server(Server):
    """uvicorn's server in somebody else's program: signals are not its business."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def listen_on_port(port: int) -> socket.socket:
    """Return a listening socket of this machine alone; 0 is a free port. Raises `AddressError`."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            why = f"port {port} is in use: choose another one, or leave it out for a free one"
        else:
            why = f"port {port} can't be used: {error.strerror}"
        raise AddressError(why) from error
    return listener


def listen_on_socket(path: str) -> socket.socket:
    """Return a listening unix socket that only this user can open. A socket nobody listens on is replaced.
    Raises `AddressError`."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_dead_socket(path)
        previous = os.umask(0o177)  # between bind and chmod others could connect
        try:
            listener.bind(path)
        finally:
            os.umask(previous)
        listener.listen(128)
    except OSError as error:
        listener.close()
        # "AF_UNIX path too long" comes without a number.
        raise AddressError(f"{path}: {error.strerror or error}; expected a path for a new socket") from error
    except AddressError:
        listener.close()
        raise
    return listener


def _remove_dead_socket(path: str) -> None:
    try:
        is_socket = stat.S_ISSOCK(os.lstat(path).st_mode)
    except FileNotFoundError:
        return
    if not is_socket:
        raise AddressError(f"{path} exists and is no socket: choose another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
    raise AddressError(f"{path} is in use by another program: choose another path")


@contextlib.asynccontextmanager
async def serve_page(
    session: Session,
    listener: socket.socket,
    warn: Callable[[str], None],
    *,
    limits: PageLimits | None = None,
    log: EventLog | None = None,
) -> AsyncGenerator[PageAddress]:
    """Serve a session until the block is left. `warn` takes sentences for the user."""
    log, limits = log or EventLog(), limits or PageLimits()
    feed = SessionFeed(session, log)
    token = secrets.token_urlsafe(32)
    stream = PageEvents(log, warn, limits)
    app = build_app(SessionRequests(session), feed.snapshot, stream, token=token, body_s=limits.body_s)
    server = _Server(_config(app, _connections(limits.first_request_s)))
    feeding = asyncio.create_task(feed.run())
    feeding.add_done_callback(lambda task: _report_crash(task, warn))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    path = listener.getsockname() if listener.family == socket.AF_UNIX else ""
    try:
        port = 8000 if path else listener.getsockname()[1]
        yield PageAddress(f"http://{HOST}:{port}/#{token}", token, path)
    finally:
        feeding.cancel()
        await asyncio.wait({feeding})
        server.should_exit = True
        await asyncio.wait({serving})
        listener.close()
        if path:
            with contextlib.suppress(OSError):
                os.unlink(path)


def _report_crash(feeding: asyncio.Task[None], warn: Callable[[str], None]) -> None:
    error = None if feeding.cancelled() else feeding.exception()
    if error is not None:
        _log.error("the feed of the page failed", exc_info=error)
        warn(f"the page gets no more events: {type(error).__name__} (this is a bug; the log has more)")


def _config(app: Any, connections: type[H11Protocol]) -> Config:
    return Config(
        app,
        http=connections,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MAX_CONNECTIONS,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        timeout_graceful_shutdown=CLOSE_WITHIN_S,
    )
