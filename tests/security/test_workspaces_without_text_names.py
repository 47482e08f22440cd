"""Workspaces whose path is not UTF-8: commands run in the sandbox, and its guards work."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from buddy.safety.paths import Boundary
from buddy.workspace.processes.environment import ChildEnvironment
from buddy.workspace.processes.launch import shell_argv
from buddy.workspace.processes.pool import ChildProcesses, CommandRequest, ProcessSettings
from buddy.workspace.sandbox.guard import snapshot
from buddy.workspace.sandbox.places import Surveyor
from buddy.workspace.sandbox.profile import Confinement, Kind, SandboxRules
from buddy.workspace.sandbox.sandbox import Sandbox
from buddy.workspace.sandbox.watch import HeldRecord, restore_left
from tests.capabilities import requires
from tests.support.sandbox_machine import LOOKS

NAMES = (b"w\xff\xfe", b"caf\xe9", "ünï".encode(), b"a b\n", b"\xed\xa0\x80")
COMMAND = "cat main.py; echo x > made; echo y > .vscode/settings.json"


@requires("bwrap", "landlock")
@pytest.mark.parametrize("kind", ["workspace", "read-only"])
@pytest.mark.parametrize("level", sorted(LOOKS))
@pytest.mark.parametrize("name", NAMES)
async def test_a_command_runs_and_protected_names_stay(name: bytes, level: int, kind: Kind) -> None:
    top = Path(os.path.realpath(tempfile.mkdtemp(prefix=".buddy-names-test-", dir=os.path.expanduser("~"))))
    work = top / os.fsdecode(name)
    (work / ".vscode").mkdir(parents=True)
    (work / ".vscode/settings.json").write_text("as it was")
    (work / "main.py").write_text("print(1)\n")
    boundary = Boundary(str(work), str(work), str(top / "home"))
    look = LOOKS[level]
    sandbox = Sandbox(SandboxRules, cache=str(top / "cache"), records=str(top / "records"), look=look)
    environment = ChildEnvironment({"PATH": os.environ["PATH"], "HOME": str(top / "home")}, "session")
    try:
        await sandbox.survey(boundary)
        async with ChildProcesses(environment, ProcessSettings(str(top / "spill")), sandbox) as children:
            request = CommandRequest(
                shell_argv(COMMAND), str(work), 1, confinement=Confinement(kind, boundary)
            )
            done = await children.run(request, timeout_s=60, cancelled=asyncio.Event())
        assert done.text.startswith("print(1)")
        assert (work / ".vscode/settings.json").read_text() == "as it was"
        assert (work / "made").exists() is (kind == "workspace")
    finally:
        await sandbox.aclose()
        shutil.rmtree(top)


@pytest.mark.parametrize("name", NAMES)
def test_what_a_killed_buddy_left_is_restored_there(tmp_path: Path, name: bytes) -> None:
    work = tmp_path.resolve() / os.fsdecode(name)
    (work / ".idea").mkdir(parents=True)
    (work / ".idea/x").write_text("as it was")
    boundary = Boundary(str(work), str(work), str(tmp_path), extra=(str(work / ".idea"),))
    before = snapshot(boundary, Surveyor((str(work),), str(tmp_path)).look(), contents=True)
    record = HeldRecord(str(tmp_path / "records"), boundary, before)
    path = tmp_path / "records" / record.name
    shutil.copyfile(path, tmp_path / "records/left")
    record.drop()
    (work / ".idea/x").write_text("changed")
    (told,) = restore_left((str(tmp_path / "records/left"),))
    assert ".idea/x was changed and put back" in told
    assert (work / ".idea/x").read_text() == "as it was"
