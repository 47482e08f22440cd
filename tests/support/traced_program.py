"""The program under watch: what it executes and whom it connects to, by strace; a web address nobody may ask.

async with trapped(tmp_path) as trap:
    traced = await run_traced(program, "exec", "hi")
    assert traced.executed <= {"git"} and traced.connected == {port}
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.hostile_repositories.repositories import Trap
from tests.support.program import Program, Ran, finished

_EXECUTED = re.compile(r'execve\("([^"]+)".*= 0$')
_CONNECTED = re.compile(r"connect\(.*sin6?_port=htons\((\d+)\)")
_LOCAL = re.compile(r'connect\(.*sun_path="([^"]+)"')


@dataclass(frozen=True)
class Traced:
    """A run, the programs it started (paths, without the interpreter it is), the ports it connected to and
    the sockets in the file system."""

    ran: Ran
    executed: tuple[str, ...]
    ports: frozenset[int]
    sockets: frozenset[str]


async def run_traced(program: Program, *arguments: str, stdin: bytes | None = None) -> Traced:
    """The program to its end, under strace."""
    log = program.folder / f"trace-{'-'.join(re.sub('[^a-z]', '', word) for word in arguments)[:60]}"
    process = await asyncio.create_subprocess_exec(
        *["strace", "-f", "-qq", "-s", "4096", "-e", "trace=execve,connect", "-o", str(log)],
        *[sys.executable, "-m", "buddy", *arguments],
        cwd=program.repo,
        env=program.variables(),
        stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    ran = await finished(process, stdin)
    lines = log.read_text(errors="replace").splitlines()
    executed = [found[1] for line in lines if (found := _EXECUTED.search(line))]
    return Traced(
        ran,
        tuple(executed[1:]),
        frozenset(int(found[1]) for line in lines if (found := _CONNECTED.search(line))),
        frozenset(found[1] for line in lines if (found := _LOCAL.search(line))),
    )


@dataclass
class Alarmed:
    """A trap, and what fell into it."""

    trap: Trap
    calls: list[bytes] = field(default_factory=list)

    def silent(self) -> bool:
        """Tell whether nothing was run and no address was contacted."""
        return not self.calls and list(self.trap.alarm.iterdir()) == []


@asynccontextmanager
async def trapped(folder: Path) -> AsyncIterator[Alarmed]:
    """A trap whose address is answered, so that a request to it is seen."""
    alarm = folder / "alarm"
    alarm.mkdir()
    calls: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        calls.append(await reader.read(65536))
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        port = server.sockets[0].getsockname()[1]
        yield Alarmed(Trap(alarm, f"http://127.0.0.1:{port}"), calls)
    finally:
        server.close()
