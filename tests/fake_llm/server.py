"""A model provider on the loopback interface: real HTTP, scripted replies, every request kept.

async with FakeLLM([reply("Hello")]) as server:
    ...  # OpenAI base url: server.url + "/v1"; Anthropic and Gemini: server.url
    await server.ended(1)
    assert server.requests[0].json == {...}
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from tests.fake_llm.asked import Asked, api_of, decode
from tests.fake_llm.connection import Connection, Gone
from tests.fake_llm.delivery import Broken, deliver
from tests.fake_llm.frames import dumps
from tests.fake_llm.pictures import PictureAnswer, deliver_picture
from tests.fake_llm.script import Fault, Replies, Reply, Script, failure, reply


class FakeLLM:
    """The server. `script`: see `script.Script`; `models`: what GET …/models lists, with `context`;
    `pictures`: the answers of the image API, of which the last one repeats."""

    def __init__(
        self,
        script: Script,
        *,
        models: Sequence[str] = ("fake-model",),
        context: int = 0,
        pictures: Sequence[PictureAnswer] = (),
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self.script = script
        self.models = tuple(models)
        self.context = context
        self.requests: list[Asked] = []
        self.listings: list[Asked] = []
        self.pictures = tuple(pictures)
        self.orders: list[Asked] = []
        self._host, self._port = host, port
        self._listening: socket.socket | None = None
        self._accepting: set[asyncio.Task[object]] = set()
        self._connections: set[Connection] = set()
        self._strikes: Counter[tuple[str, int]] = Counter()
        self._taken = 0
        self._changed = asyncio.Condition()

    async def __aenter__(self) -> Self:
        self._listening = socket.create_server((self._host, self._port), backlog=1024)
        self._listening.setblocking(False)
        self._port = self._listening.getsockname()[1]
        asyncio.get_running_loop().add_reader(self._listening, self._accept, self._listening)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._listening is not None:
            asyncio.get_running_loop().remove_reader(self._listening)
            self._listening.close()
        await asyncio.gather(*self._accepting)
        tasks = [connection.task for connection in self._connections if connection.task]
        for connection in self._connections:
            if connection.transport is not None:
                connection.transport.abort()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in self._connections:
            await connection.lost.wait()

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._port

    @property
    def connections(self) -> frozenset[Connection]:
        """All there were so far."""
        return frozenset(self._connections)

    @property
    def url(self) -> str:
        """Its address without a path."""
        return f"http://{self._host}:{self._port}"

    async def arrived(self, count: int, *, deadline_s: float = 50) -> list[Asked]:
        """The first `count` requests, once they are there."""
        return await self._wait(lambda: len(self.requests) >= count, count, deadline_s)

    async def ended(self, count: int, *, deadline_s: float = 50) -> list[Asked]:
        """The first `count` requests, once each of them is completed, aborted or broken."""
        return await self._wait(
            lambda: (
                len(self.requests) >= count and all(one.outcome != "pending" for one in self.requests[:count])
            ),
            count,
            deadline_s,
        )

    async def ordered(self, count: int, *, deadline_s: float = 50) -> list[Asked]:
        """The first `count` requests for pictures, once they are there."""
        await self._wait(lambda: len(self.orders) >= count, count, deadline_s)
        return self.orders[:count]

    async def order_ended(self, number: int, *, deadline_s: float = 50) -> Asked:
        """Request `number` for pictures, once it is completed, aborted or broken."""
        await self._wait(
            lambda: len(self.orders) >= number and self.orders[number - 1].outcome != "pending",
            number,
            deadline_s,
        )
        return self.orders[number - 1]

    async def _wait(self, ready: object, count: int, deadline_s: float) -> list[Asked]:
        assert callable(ready)
        async with asyncio.timeout(deadline_s), self._changed:
            await self._changed.wait_for(ready)
        return self.requests[:count]

    # --- connections ---

    def _accept(self, listening: socket.socket) -> None:
        """Take what has come. Not by asyncio's own server: one that is closed while it takes somebody leaves
        the socket to the garbage collector."""
        try:
            raw, _ = listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        loop = asyncio.get_running_loop()
        accepting = loop.create_task(loop.connect_accepted_socket(self._connect, raw))
        self._accepting.add(accepting)
        accepting.add_done_callback(self._accepting.discard)

    def _connect(self) -> Connection:
        connection = Connection(self._serve)
        self._connections.add(connection)
        return connection

    async def _serve(self, connection: Connection) -> None:
        method, target, headers = await connection.read_head()
        raw = await connection.read_body(headers)
        url = urlsplit(target)
        if url.path == "/_requests":
            await connection.respond(200, {}, dumps([one.summary() for one in self.requests]).encode())
            return
        number = len(self.requests) + 1
        asked = Asked(number, method, url.path, url.query, headers, raw, time.monotonic(), json=decode(raw))
        await self._keep(asked)
        try:
            await self._answer(connection, asked)
            asked.outcome = "completed"
        except Gone:
            asked.outcome = "aborted"
            raise
        except Broken:
            asked.outcome = "broken"
            raise Gone from None
        finally:
            if asked.outcome == "pending":
                asked.outcome = "broken"
            asked.ended_at = time.monotonic()
            await self._tell()

    async def _keep(self, asked: Asked) -> None:
        about_models = asked.method == "GET" or asked.path == "/api/show"
        if api_of(asked.path) == "images":
            self.orders.append(asked)
        else:
            (self.listings if about_models else self.requests).append(asked)
        await self._tell()

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _answer(self, connection: Connection, asked: Asked) -> None:
        match api_of(asked.path):
            case "models":
                size = {"max_model_len": self.context} if self.context else {}
                data = [{"id": one, "object": "model", "owned_by": "fake", **size} for one in self.models]
                await connection.respond(200, {}, dumps({"object": "list", "data": data}).encode())
            case "images" if self.pictures:
                await deliver_picture(
                    connection, self.pictures[min(len(self.orders), len(self.pictures)) - 1]
                )
            case "other" | "images":
                await connection.respond(
                    404, {}, dumps({"error": {"message": f"no such path {asked.path}"}}).encode()
                )
            case _:
                answer, fault = self._choose(asked)
                await deliver(connection, asked, answer, fault=fault)

    # --- scripts ---

    def _choose(self, asked: Asked) -> tuple[Reply, Fault | None]:
        name, index = "", self._taken
        replies: Replies
        if isinstance(self.script, Mapping):
            name, index = asked.marker
            replies = self.script.get(name) or (_echo if not name else _unknown(name, self.script))
        else:
            replies = self.script
            self._taken += 1
        if callable(replies):
            index = 0
            answer = replies(asked)
        elif index < len(replies):
            answer = replies[index]
        else:
            answer = _echo(asked) if isinstance(self.script, Mapping) else _exhausted(len(replies))
        return answer, self._fault(answer, (name, index))

    def _fault(self, answer: Reply, place: tuple[str, int]) -> Fault | None:
        self._strikes[place] += 1
        return None if answer.times and self._strikes[place] > answer.times else answer.fault


def _echo(asked: Asked) -> Reply:
    return reply(f"You said: {asked.last_user_text}")


def _unknown(name: str, scripts: Mapping[str, Replies]) -> list[Reply]:
    return [reply(f"There is no script named {name}. There are: {', '.join(sorted(scripts))}.")] * 50


def _exhausted(count: int) -> Reply:
    return failure(
        400, {"error": {"message": f"the script has only {count} replies", "type": "script_exhausted"}}
    )
