"""A machine in small for trying to break out of the sandbox: a workspace, a home with secrets, an outside."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from buddy.agent.tool import Blocked
from buddy.safety.paths import Boundary
from buddy.safety.url_guard import Resolver, system_resolver
from buddy.workspace.processes.environment import ChildEnvironment
from buddy.workspace.processes.launch import shell_argv
from buddy.workspace.processes.output import OutputBounds
from buddy.workspace.processes.pool import ChildProcesses, CommandRequest, FinishedCommand, ProcessSettings
from buddy.workspace.sandbox.probe import ProbeResult, probe
from buddy.workspace.sandbox.profile import Confinement, Kind
from buddy.workspace.sandbox.sandbox import Sandbox, SandboxRules
from buddy.workspace.sandbox.seccomp import architecture
from buddy.workspace.sandbox.status import SandboxStatus

SECRET = "the-secret-of-this-machine"
UNTOUCHED = "as it was\n"


def landlock_only() -> ProbeResult:
    """A machine without bubblewrap."""
    return ProbeResult(SandboxStatus(2, "for this test"), machine=architecture())


WITHOUT_NAMESPACES = ("bwrap", "--unshare-user", "--disable-userns", "--dev-bind", "/", "/", "--")
"""In front of a program: bubblewrap does not work for it, as in many containers."""
LOOKS: Mapping[int, Callable[[], ProbeResult]] = {2: landlock_only, 3: probe}


class Ran(msgspec.Struct, frozen=True):
    """A command that ended: its output, its exit code, what the sandbox refused it."""

    text: str
    code: int | None
    blocked: Blocked


class SandboxMachine(msgspec.Struct, frozen=True):
    """Folders beside each other, none of them in `/tmp`, which is private inside."""

    top: Path
    work: Path
    home: Path
    outside: Path
    sandbox: Sandbox
    children: ChildProcesses

    @property
    def boundary(self) -> Boundary:
        return Boundary(str(self.work), str(self.work), str(self.home))

    def confinement(
        self, kind: Kind = "workspace", hosts: tuple[str, ...] = (), writable: tuple[str, ...] = ()
    ) -> Confinement:
        return Confinement(kind, self.boundary, hosts, writable)

    async def run(self, command: str, confinement: Confinement | None, *, limit_s: float = 60) -> Ran:
        await self.sandbox.survey(self.boundary)
        request = CommandRequest(shell_argv(command), str(self.work), 1, confinement=confinement)
        child = self.children.start(request)
        exit_ = await self.children.attend(child, timeout_s=limit_s, cancelled=asyncio.Event())
        assert exit_ is not None, f"it did not end: {command}"
        await child.end("test")
        return Ran(child.log.text(), exit_.code, child.blocked_accesses)

    async def finished(self, command: str, confinement: Confinement | None) -> FinishedCommand:
        request = CommandRequest(shell_argv(command), str(self.work), 1, confinement=confinement)
        return await self.children.run(request, timeout_s=60, cancelled=asyncio.Event())


def lay_out(top: Path) -> tuple[Path, Path, Path]:
    """Make the folders of a machine: workspace, home, outside."""
    work, home, outside = top / "work", top / "home", top / "outside"
    files = {
        work / "main.py": "print('hello')\n",
        work / ".env": f"TOKEN={SECRET}\n",
        work / ".vscode" / "settings.json": UNTOUCHED,
        work / "sub" / ".claude" / "settings.json": UNTOUCHED,
        home / ".ssh" / "id_rsa": SECRET,
        home / ".aws" / "credentials": SECRET,
        home / ".netrc": SECRET,
        home / ".config" / "gh" / "hosts.yml": SECRET,
        home / ".config" / "buddy" / "buddy.toml": SECRET,
        home / ".bashrc": UNTOUCHED,
        outside / "file": UNTOUCHED,
        outside / "folder" / "file": UNTOUCHED,
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return work, home, outside


@asynccontextmanager
async def sandbox_machine(
    rules: Callable[[], SandboxRules] = SandboxRules,
    *,
    look: Callable[[], ProbeResult] = probe,
    resolver: Resolver = system_resolver,
    parent: str = "~",
    cache: str = "cache",
) -> AsyncIterator[SandboxMachine]:
    """Make a machine below `parent`, by default the home of whoever runs the tests; it is gone afterwards."""
    parent = os.path.expanduser(parent)
    top = Path(os.path.realpath(tempfile.mkdtemp(prefix=".buddy-sandbox-test-", dir=parent)))
    try:
        work, home, outside = lay_out(top)
        sandbox = Sandbox(
            rules, cache=str(top / cache), records=str(top / "records"), look=look, resolver=resolver
        )
        variables = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}
        settings = ProcessSettings(str(top / "spill"), bounds=OutputBounds())
        try:
            await sandbox.ready()
            async with ChildProcesses(ChildEnvironment(variables, "session"), settings, sandbox) as children:
                yield SandboxMachine(top, work, home, outside, sandbox, children)
        finally:
            await sandbox.aclose()
    finally:
        shutil.rmtree(top)
