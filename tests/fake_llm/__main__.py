"""The fake server as a process: `python -m tests.fake_llm --port 0` prints {"port": …, "url": …} and serves
the named scripts until it is ended. GET /_requests shows what it was asked."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal

from tests.fake_llm.builtin import BUILTIN
from tests.fake_llm.server import FakeLLM


async def serve(host: str, port: int) -> None:
    """Run until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with FakeLLM(BUILTIN, host=host, port=port) as server:
        print(json.dumps({"port": server.port, "url": server.url, "scripts": sorted(BUILTIN)}), flush=True)
        await stop.wait()


def main() -> None:
    """Parse the options and serve."""
    parser = argparse.ArgumentParser(prog="python -m tests.fake_llm", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(options.host, options.port))


if __name__ == "__main__":
    main()
