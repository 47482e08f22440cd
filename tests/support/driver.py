"""A program that drives `buddy` as the Agent SDKs do: lines on stdin, lines on stdout, each way requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.support.program import DEADLINE_S, Program, running

SDK = (
    *("--output-format", "stream-json", "--verbose", "--system-prompt", ""),
    *("--input-format", "stream-json"),
)
"""The options claude-agent-sdk 0.2.187 always sends."""
ASKS = ("--permission-prompt-tool", "stdio")
"""The option for a program that answers requests for approval."""

Object = dict[str, Any]


def request(number: int, subtype: str, **fields: Any) -> Object:
    """A control request of the program."""
    return {
        "type": "control_request",
        "request_id": f"req_{number}",
        "request": {"subtype": subtype, **fields},
    }


def said(text: Any, **fields: Any) -> Object:
    """A user message."""
    message = {"role": "user", "content": text}
    return {"type": "user", "session_id": "", "message": message, "parent_tool_use_id": None, **fields}


class Driver:
    """One run of the program, with everything it wrote in `seen`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.seen: list[Object] = []

    def send(self, *objects: Object) -> None:
        """Write objects, one a line."""
        self.send_bytes(b"".join(json.dumps(one).encode() + b"\n" for one in objects))

    def send_bytes(self, data: bytes) -> None:
        """Write bytes as they are."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)

    def answer(self, asked: Object, **response: Any) -> None:
        """Answer a control request with success."""
        self.send(
            {
                "type": "control_response",
                "response": {"subtype": "success", "request_id": asked["request_id"], "response": response},
            }
        )

    def refuse(self, asked: Object, error: str) -> None:
        """Answer a control request with an error."""
        response = {"subtype": "error", "request_id": asked["request_id"], "error": error}
        self.send({"type": "control_response", "response": response})

    async def until(self, wanted: Callable[[Object], bool]) -> Object:
        """Read until an object is wanted, and return that."""
        assert self.process.stdout is not None
        async with asyncio.timeout(DEADLINE_S):
            while line := await self.process.stdout.readline():
                self.seen.append(json.loads(line))
                if wanted(self.seen[-1]):
                    return self.seen[-1]
        raise AssertionError(f"it ended before: {[one.get('type') for one in self.seen]}")

    async def asked(self, subtype: str) -> Object:
        """Return the next control request of this kind."""
        return await self.until(
            lambda one: one["type"] == "control_request" and one["request"]["subtype"] == subtype
        )

    async def response(self, number: int) -> Object:
        """Return the answer to one of the program's requests."""
        found = await self.until(
            lambda one: one["type"] == "control_response" and one["response"]["request_id"] == f"req_{number}"
        )
        return found["response"]

    async def result(self) -> Object:
        """Return the next result."""
        return await self.until(lambda one: one["type"] == "result")

    async def end(self) -> int:
        """Close stdin and return the exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return await self.finish()

    async def finish(self) -> int:
        """Read to the end and return the exit code."""
        assert self.process.stdout is not None
        async with asyncio.timeout(DEADLINE_S):
            for line in (await self.process.stdout.read()).splitlines():
                self.seen.append(json.loads(line))
            return await self.process.wait()


@asynccontextmanager
async def driving(program: Program, *words: str, **options: Any) -> AsyncIterator[Driver]:
    """The program, driven with the options of the SDK and these."""
    async with running(program, *SDK, *words, stdin=-1, limit=64_000_000, **options) as process:
        yield Driver(process)
