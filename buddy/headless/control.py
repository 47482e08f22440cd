"""Requests of buddy to the program that drives it, and their answers, in the words of Claude's protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from buddy.headless.input_lines import InputError


class ProgramGoneError(Exception):
    """The program closed its side; nobody answers any more."""


class RequestRefusedError(Exception):
    """The program answered a request with an error, or with something that is no answer."""


class ControlChannel:
    """The open requests by id. `write` writes one object; `new_id` makes an id."""

    def __init__(self, write: Callable[[dict[str, Any]], None], new_id: Callable[[], str]) -> None:
        self._write = write
        self._new_id = new_id
        self._open: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._is_closed = False

    async def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its answer. Cancelling this withdraws the request. Raises
        `ProgramGoneError` and `RequestRefusedError`."""
        if self._is_closed:
            raise ProgramGoneError("the program closed its input")
        request_id = self._new_id()
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._open[request_id] = answer
        self._write({"type": "control_request", "request_id": request_id, "request": request})
        try:
            return await answer
        except asyncio.CancelledError:
            self._write({"type": "control_cancel_request", "request_id": request_id})
            raise
        finally:
            self._open.pop(request_id, None)

    def take_answer(self, response: dict[str, Any]) -> None:
        """Take the answer to an open request; the first one counts. Raises `InputError`."""
        request_id = response.get("request_id")
        answer = self._open.pop(request_id, None) if isinstance(request_id, str) else None
        if answer is None or answer.done():
            raise InputError(f"no request {str(request_id)[:60]!r} is open")
        if response.get("subtype") == "error":
            answer.set_exception(RequestRefusedError(str(response.get("error") or "no reason")[:2_000]))
        elif isinstance(given := response.get("response", {}), dict):
            answer.set_result(cast("dict[str, Any]", given))
        else:
            answer.set_exception(RequestRefusedError("expected an object as response"))

    def close(self) -> None:
        """Answer what is open and what will be asked with `ProgramGoneError`."""
        self._is_closed = True
        for answer in self._open.values():
            if not answer.done():
                answer.set_exception(ProgramGoneError("the program closed its input"))
        self._open.clear()
