"""The costs of the direct lanes: start to first piece, CPU per streamed chunk, time per turn. Run by hand.

    python tests/bench/direct_lane.py            # everything, in fresh processes
    python tests/bench/direct_lane.py imports    # what a lane imports, slowest last

Figures on a machine that does other things differ by a factor of two; compare the rows with each other.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

STREAM = """
import sys, time
started = time.perf_counter()
import asyncio
from buddy.agent.messages import Text, UserMessage
from buddy.agent.provider import ModelRequest
from buddy.agent.reply_assembler import ReplyAssembler
from buddy.llm.direct.lane import Endpoint
from buddy.llm.http.client import client_for
from buddy.llm.direct.openai import OpenAIChat
from buddy.llm.stall_watchdog import WatchedProvider, WatchLimits

async def main():
    lane = OpenAIChat(Endpoint(sys.argv[1], lambda: "sk-x"), lambda it: client_for(it, {}))
    provider = WatchedProvider(lane, WatchLimits(100, 100, 100, 1000))
    request = ModelRequest("m", "s", (UserMessage("u", (Text("hi"),), "prompt"),), ())
    first = 0.0
    for _ in range(3):
        assembler, pieces, cpu = ReplyAssembler("r", "m", "chat"), 0, time.process_time()
        async for delta in provider.stream(request):
            first = first or time.perf_counter()
            assembler.feed(delta)
            pieces += 1
        cpu = time.process_time() - cpu
        assembler.finish()
        print(f"  {pieces} pieces: {cpu * 1e3:.0f} ms CPU, {cpu / pieces * 1e6:.1f} us each")
    print(f"  first import to first piece: {(first - started) * 1e3:.0f} ms")
    await lane.aclose()

asyncio.run(main())
"""


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """20,000 chunks as fast as they are taken, for every request."""
    data = b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":" tok"},"logprobs":null,"finish_reason":null}]}\n\n'  # noqa: E501
    last = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            size = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            await reader.readexactly(size)
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            )
            for number in range(20_000):
                writer.write(b"%x\r\n%s\r\n" % (len(data), data))
                if number % 50 == 0:
                    await writer.drain()
            writer.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(last), last))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def streams() -> None:
    """A client in a process of its own against a server in this one."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=2**26)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    started = time.perf_counter()
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", STREAM, url, cwd=ROOT)
    await process.wait()
    print(f"  whole process: {time.perf_counter() - started:.2f} s")
    server.close()


def turns() -> None:
    """The body of a request whose history grew by one tool turn."""
    from buddy.agent.messages import NO_USAGE, AssistantMessage, Call, Message, Text, ToolMessage, UserMessage
    from buddy.agent.provider import ModelRequest, ToolDefinition
    from buddy.llm.direct.anthropic import AnthropicWire
    from buddy.llm.direct.openai import ChatWire
    from buddy.llm.quirks import AnthropicQuirks, ChatQuirks

    tools = tuple(ToolDefinition(f"tool_{n}", "text " * 50, {"type": "object"}) for n in range(30))
    for name, wire in (
        ("chat", ChatWire(ChatQuirks(), "m")),
        ("anthropic", AnthropicWire(AnthropicQuirks(), "m")),
    ):
        history: list[Message] = [UserMessage("u", (Text("go"),), "prompt")]
        for turn in range(1, 401):
            call = Call(f"c{turn}", "read_file", '{"path":"a.py"}')
            history.append(AssistantMessage(f"a{turn}", (Text("So."), call), "m", name, "calls", NO_USAGE))
            history.append(ToolMessage(f"t{turn}", call.id, "read_file", "line of text\n" * 150, "ok"))
            request = ModelRequest("m", "system " * 500, tuple(history), tools)
            started = time.perf_counter()
            body = wire.body(request)
            took = time.perf_counter() - started
            if turn in (1, 30, 200, 400):
                print(f"{name}, turn {turn}: {took * 1e3:.2f} ms for {len(body) / 1e3:.0f} kB")


def imports() -> None:
    """Measure the time from process start to the first request."""
    lane = "buddy.llm.direct.openai, buddy.llm.http.client"
    code = f"import {lane}, buddy.llm.stall_watchdog, buddy.llm.rate_limiter"
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    rows = sorted(done.stderr.splitlines()[1:], key=lambda row: int(row.split("|")[1]))
    print("\n".join(rows[-25:]))


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    if "imports" in sys.argv:
        imports()
    else:
        asyncio.run(streams())
        turns()
