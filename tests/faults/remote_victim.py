"""A program that runs a command in a container until it is killed. Run by test_container_tools.

python -m tests.faults.remote_victim PROGRAM CONTAINER FOLDER COMMAND
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile

from buddy.agent.tool import ToolContext
from buddy.workspace.processes.environment import ChildEnvironment
from buddy.workspace.processes.pool import ChildProcesses, ProcessSettings
from buddy.workspace.targets.connection import TargetConnection
from buddy.workspace.targets.container import ContainerDestination
from buddy.workspace.targets.remote_shell import RemoteShell


async def main(program: str, container: str, folder: str, command: str) -> None:
    """Start the command and wait."""
    environment = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
    destination = ContainerDestination("box", container, folder, program=program)
    connection = TargetConnection(destination, lambda: environment, lambda name: name)
    with tempfile.TemporaryDirectory() as output:
        allowed = ChildEnvironment(environment, "victim")
        async with ChildProcesses(allowed, ProcessSettings(output)) as children:
            context = ToolContext(1, "1", lambda _text: None, asyncio.Event(), {})
            started = await RemoteShell(connection, children).start(context, command, "", in_background=False)
            await started.child.wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:5]))
