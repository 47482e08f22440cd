"""The addresses of the page: its three files, the session, the events, and the requests of `requests`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Literal

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from buddy.agent.display import Diff
from buddy.agent.json_codec import encode
from buddy.extend.system_prompt import read_template
from buddy.headless.serve.guard import MAX_BODY_BYTES, PageGuard
from buddy.headless.serve.openapi import Operation, openapi_document
from buddy.headless.serve.requests import (
    Accepted,
    Answered,
    AnswerRequest,
    Cancelled,
    CancelRequest,
    PromptRequest,
    ReplyRequest,
    RequestRefused,
    SessionRequests,
    SteerRequest,
)
from buddy.headless.serve.snapshot import SessionSnapshot

FILES = {
    "/": ("page/page.html", "text/html"),
    "/page.js": ("page/page.js", "text/javascript"),
    "/page.css": ("page/page.css", "text/css"),
}
"""The page's own files. They hold nothing of the session, so they need no token."""

Endpoint = Callable[[Request], Awaitable[Response]]
Method = Literal["get", "post"]


def build_app(
    requests: SessionRequests,
    snapshot: Callable[[], SessionSnapshot],
    events: Any,
    *,
    token: str,
    body_s: float,
) -> PageGuard:
    """Return the application behind its guard. `events` is the ASGI endpoint of the stream."""
    rows: list[tuple[Operation, Any]] = [
        (
            Operation("get", "/session", "The session: tasks, conversations, open requests", SessionSnapshot),
            partial(_snapshot, snapshot),
        ),
        (Operation("get", "/events", "Server-sent events; Last-Event-ID continues without a gap"), events),
        (
            Operation("get", "/diff", "Changes of the session, or of one task", Diff, query="task_id"),
            partial(_diff, requests),
        ),
        *(
            (Operation("post", path, summary, answer, body), partial(_post, body, operation, body_s))
            for path, summary, body, answer, operation in _posts(requests)
        ),
    ]
    routes: list[BaseRoute] = [
        Route(row.path, endpoint, methods=[row.method.upper()]) for row, endpoint in rows
    ]
    routes += [Route(path, partial(_file, *file), methods=["GET"]) for path, file in FILES.items()]
    operations = [row for row, _endpoint in rows]
    routes.append(Route("/openapi.json", partial(_document, operations), methods=["GET"]))
    app = Starlette(
        routes=routes,
        exception_handlers={RequestRefused: _refused, HTTPException: _http_error},  # pyright: ignore[reportArgumentType] - each gets its own
    )
    app.router.redirect_slashes = False
    return PageGuard(app, token=token, public=frozenset(FILES))


def _posts(requests: SessionRequests) -> Sequence[tuple[str, str, type, type, Any]]:
    return (
        ("/prompt", "Start a turn, queue a text, or start a task", PromptRequest, Accepted, requests.prompt),
        ("/steer", "Send words to the running turn", SteerRequest, Accepted, requests.steer),
        ("/cancel", "Cancel the running turn", CancelRequest, Cancelled, requests.cancel),
        ("/answer", "Answer a request for approval", AnswerRequest, Answered, requests.answer),
        ("/reply", "Answer a question of the model", ReplyRequest, Answered, requests.reply),
    )


async def _file(name: str, kind: str, _request: Request) -> Response:
    return Response(await read_template(name), media_type=f"{kind}; charset=utf-8")


async def _document(operations: Sequence[Operation], _request: Request) -> Response:
    return Response(msgspec.json.encode(openapi_document(operations)), media_type="application/json")


async def _snapshot(snapshot: Callable[[], SessionSnapshot], _request: Request) -> Response:
    return _json(snapshot())


async def _diff(requests: SessionRequests, request: Request) -> Response:
    text = request.query_params.get("task_id")
    if text is not None and not (text.isascii() and text.isdigit() and len(text) < 10):
        raise RequestRefused(400, f"task_id: expected a number, found {text[:40]!r}")
    return _json(await requests.diff(int(text) if text is not None else None))


async def _post(
    kind: type[msgspec.Struct],
    operation: Callable[[Any], Awaitable[msgspec.Struct]],
    body_s: float,
    request: Request,
) -> Response:
    try:
        async with asyncio.timeout(body_s):
            body = await _read_body(request)
    except TimeoutError:
        raise RequestRefused(408, f"the body did not arrive within {body_s:g} s") from None
    try:
        decoded = msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestRefused(400, f"the body is not what this address takes: {error}") from error
    return _json(await operation(decoded))


async def _read_body(request: Request) -> bytes:
    """Return the body. Raises `RequestRefused` for one that is larger than its header may say."""
    body = bytearray()
    try:
        async for piece in request.stream():
            body += piece
            if len(body) > MAX_BODY_BYTES:
                raise RequestRefused(413, f"expected a body of at most {MAX_BODY_BYTES:,} bytes")
    except ClientDisconnect as error:
        raise RequestRefused(400, "the body ended too early") from error
    return bytes(body)


async def _refused(_request: Request, error: RequestRefused) -> Response:
    return _error(error.status, str(error), error.status in (408, 413))


async def _http_error(_request: Request, error: HTTPException) -> Response:
    return _error(error.status_code, error.detail, False, error.headers)


def _error(status: int, text: str, closes: bool, headers: Any = None) -> Response:
    content = msgspec.json.encode({"error": text.encode("utf-8", "replace").decode()})
    response = Response(content, status, media_type="application/json", headers=headers)
    if closes:  # the rest of the body is still on its way
        response.headers["connection"] = "close"
    return response


def _json(answer: msgspec.Struct) -> Response:
    return Response(encode(answer), media_type="application/json")
