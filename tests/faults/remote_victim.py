"""A program that runs a command in a container, or over ssh, until it is killed. Run by the tests of targets.

python -m tests.faults.remote_victim PROGRAM CONTAINER FOLDER COMMAND [terminal]
python -m tests.faults.remote_victim ssh CONFIG FOLDER COMMAND [terminal]
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile

from buddy.agent.tool import ToolContext
from buddy.workspace.processes.environment import ChildEnvironment
from buddy.workspace.processes.launch import TerminalSize
from buddy.workspace.processes.pool import ChildProcesses, ProcessSettings
from buddy.workspace.targets.connection import TargetConnection
from buddy.workspace.targets.container import ContainerDestination
from buddy.workspace.targets.destination import SshDestination
from buddy.workspace.targets.remote_shell import RemoteShell
from buddy.workspace.targets.transport import Destination


def destination_of(program: str, place: str, folder: str) -> Destination:
    """Return a container, or the machine of a client configuration."""
    if program == "ssh":
        return SshDestination("box", "machine", folder, config=place)
    return ContainerDestination("box", place, folder, program=program)


async def main(program: str, place: str, folder: str, command: str, how: str = "") -> None:
    """Start the command and wait."""
    environment = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
    destination = destination_of(program, place, folder)
    connection = TargetConnection(destination, lambda: environment, shutil.which)
    with tempfile.TemporaryDirectory() as output:
        allowed = ChildEnvironment(environment, "victim")
        async with ChildProcesses(allowed, ProcessSettings(output)) as children:
            context = ToolContext(1, "1", lambda _text: None, asyncio.Event(), {})
            shell = RemoteShell(connection, children)
            if how == "terminal":
                started = await shell.start_terminal(context, command, "", TerminalSize())
            else:
                started = await shell.start(context, command, "", in_background=False)
            await started.child.wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:6]))
