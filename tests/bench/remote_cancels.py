"""Cancel many commands on a target, and count what survives: an sshd of this machine, podman, docker, or the
stand-in for it; with `pty` each on a terminal.

python -m tests.bench.remote_cancels COUNT [ssh|podman|docker|stand-in] [pty]
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from buddy.agent.tool import ToolContext
from buddy.workspace.processes.environment import ChildEnvironment
from buddy.workspace.processes.launch import TerminalSize
from buddy.workspace.processes.pool import ChildProcesses, ProcessSettings
from buddy.workspace.targets.connection import TargetConnection
from buddy.workspace.targets.remote_shell import RemoteShell
from tests.support.containers import connection_to, real_container
from tests.support.processes import processes_with
from tests.support.ssh_server import ssh_server

COMMANDS = (
    "sleep {mark}; true",
    "sleep {mark} & sleep {mark} & wait",
    "setsid sleep {mark} & (setsid sh -c 'sleep {mark}; true' &) ; sleep {mark}",
    "(trap '' TERM HUP; sleep {mark}; sleep {mark}); sleep {mark}",
    "nohup sleep {mark} >/dev/null 2>&1 & disown; sleep {mark}",
    "while :; do (sleep {mark} &) ; sleep 0.05; done",
    "set -m; sleep {mark} & sleep {mark}",
)
"""Plain ones, some that leave their session, ignore signals, or go on starting others."""


class Outcome(msgspec.Struct, frozen=True):
    """One cancel: seconds until it was done, and processes that were left."""

    seconds: float
    survivors: int


async def _cancel_one(
    shell: RemoteShell, children: ChildProcesses, number: int, delay_s: float, *, on_terminal: bool
) -> Outcome:
    mark = f"9{number:05d}.25"
    cancelled = asyncio.Event()
    context = ToolContext(1, str(number), lambda _text: None, cancelled, {})
    command = COMMANDS[number % len(COMMANDS)].format(mark=mark)
    if on_terminal:
        started = await shell.start_terminal(context, command, "", TerminalSize())
    else:
        started = await shell.start(context, command, "", in_background=False)
    running = asyncio.ensure_future(children.attend(started.child, timeout_s=None, cancelled=cancelled))
    await asyncio.sleep(delay_s)
    begin = time.monotonic()
    cancelled.set()
    await asyncio.wait({running})
    return Outcome(time.monotonic() - begin, len(await asyncio.to_thread(processes_with, mark)))


@contextmanager
def _connection(kind: str, home: Path) -> Generator[TargetConnection]:
    match kind:
        case "podman" | "docker" | "stand-in":
            with real_container(kind, home) as container:
                yield connection_to(container)
        case _:
            with ssh_server(home) as server:
                yield server.connection()


async def measure(count: int, kind: str, *, on_terminal: bool) -> list[Outcome]:
    """Cancel commands one after another, each after a random time."""
    chance = random.Random(7)
    ours = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    with ours as folder, _connection(kind, Path(folder) / "machine") as connection:
        environment = ChildEnvironment({"PATH": "/usr/bin:/bin", "HOME": folder}, "bench")
        try:
            async with ChildProcesses(environment, ProcessSettings(f"{folder}/output")) as children:
                shell = RemoteShell(connection, children)
                return [
                    await _cancel_one(
                        shell, children, number, chance.uniform(0, 0.6), on_terminal=on_terminal
                    )
                    for number in range(count)
                ]
        finally:
            await asyncio.to_thread(connection.close)


def main(arguments: list[str]) -> int:
    """Print the figures; the exit code is 1 when anything survived."""
    count, kind, how = (*arguments, *("200", "ssh", "")[len(arguments) :])
    outcomes = asyncio.run(measure(int(count), kind, on_terminal=how == "pty"))
    seconds = sorted(outcome.seconds for outcome in outcomes)
    survivors = sum(outcome.survivors for outcome in outcomes)
    middle, last = seconds[len(seconds) // 2], seconds[int(len(seconds) * 0.99)]
    sys.stdout.write(
        f"{len(outcomes)} cancels, {survivors} survivors; median {middle:.2f} s, p99 {last:.2f} s\n"
    )
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
