"""Sending a reply: its frames at the scripted pace, with the scripted fault."""

from __future__ import annotations

import json
from typing import Any

from tests.fake_llm import wire_anthropic, wire_chat, wire_gemini, wire_responses
from tests.fake_llm.asked import Asked
from tests.fake_llm.connection import ChunkedBody, Connection
from tests.fake_llm.frames import Subject, dumps
from tests.fake_llm.script import (
    BadUtf8,
    CleanEnd,
    Cut,
    Empty,
    ErrorEvent,
    Fault,
    Garbage,
    Html,
    HttpError,
    HugeLine,
    Pings,
    Reply,
    Reset,
    Stall,
)

WIRES: dict[str, Any] = {
    "chat": wire_chat,
    "responses": wire_responses,
    "anthropic": wire_anthropic,
    "gemini": wire_gemini,
}


class Broken(Exception):
    """The script's fault ended this answer: the connection is not used again."""


async def deliver(connection: Connection, asked: Asked, reply: Reply, *, fault: Fault | None) -> None:
    """Answer a request. Raises `Gone` when the client leaves, `Broken` when the fault closed the
    connection."""
    wire = WIRES[asked.api]
    if reply.first_s:
        await connection.pause(reply.first_s)
    match fault:
        case HttpError():
            await connection.respond(fault.status, fault.headers, _error_body(fault))
        case Html():
            await connection.respond(fault.status, {"content-type": "text/html"}, fault.body.encode())
        case Empty():
            await connection.respond(200, {"content-type": "text/event-stream"}, b"")
        case _ if asked.streams:
            await _stream(connection, asked, reply, fault=fault)
        case _:
            body = wire.whole(reply, _subject(asked))
            await connection.respond(200, reply.headers, dumps(body).encode())


async def _stream(connection: Connection, asked: Asked, reply: Reply, *, fault: Fault | None) -> None:
    wire = WIRES[asked.api]
    await connection.start_stream(reply.headers)
    body = ChunkedBody(connection, reply.fragmentation, reply.seed)
    sent, struck = 0, fault is None
    for frame in wire.frames(reply, _subject(asked)):
        due = (
            fault is not None
            and not isinstance(fault, HttpError | Html | Empty)
            and (fault.after < 0 or (frame.kind == "content" and sent >= fault.after) or frame.kind == "tail")
        )
        if due and not struck:
            struck = True
            if not await _strike(connection, body, fault, wire):
                break
        await body.push(frame.data)
        if frame.kind == "content":
            sent += 1
            if reply.delay_s:
                await body.flush()
                await connection.pause(reply.delay_s)
    await body.end()


async def _strike(connection: Connection, body: ChunkedBody, fault: Any, wire: Any) -> bool:
    """Do what the fault says; whether the reply goes on afterwards."""
    await body.flush()
    match fault:
        case Reset():
            await connection.pause(0.02)  # what was sent has to arrive: a reset discards what is on the way
            connection.reset()
            raise Broken
        case Cut():
            connection.close()
            raise Broken
        case CleanEnd():
            return False
        case Stall():
            await connection.pause(fault.seconds)
        case Pings():
            for _ in range(fault.count):
                await body.push(b": keep-alive\n\n")
                await body.flush()
                await connection.pause(fault.every_s)
        case BadUtf8():
            await body.push(b"data: \xff\xfe\xc3\n\n")
        case Garbage():
            await body.push(f"data: {fault.data}\n\n".encode())
        case ErrorEvent():
            await body.push(wire.error_frame(fault.message, fault.type).data)
            return False
        case HugeLine():
            await body.push(b": " + b"x" * fault.size + b"\n\n")
        case _:
            raise TypeError(f"unknown fault {fault!r}")
    return True


def _subject(asked: Asked) -> Subject:
    wants_usage = asked.api != "chat" or bool(
        ((asked.json or {}).get("stream_options") or {}).get("include_usage")
    )
    return Subject(asked.number, asked.model, wants_usage)


def _error_body(fault: HttpError) -> bytes:
    if fault.body is None:
        return json.dumps(
            {"error": {"message": f"scripted error {fault.status}", "type": "scripted_error"}}
        ).encode()
    return fault.body.encode() if isinstance(fault.body, str) else json.dumps(fault.body).encode()
