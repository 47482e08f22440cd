"""The guard of protected names works where no descriptor is left, and says nothing that is not true."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path

from buddy.safety.paths import Boundary
from buddy.workspace.sandbox.places import Surveyor
from buddy.workspace.sandbox.profile import SandboxRules
from buddy.workspace.sandbox.tether import Tether
from buddy.workspace.sandbox.watch import CommandWatch


@contextlib.contextmanager
def no_descriptors() -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
    held: list[int] = []
    try:
        with contextlib.suppress(OSError):
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


async def test_what_changed_is_put_back_and_nothing_else(tmp_path: Path) -> None:
    work = tmp_path / "work"
    for name in (".vscode/settings.json", ".idea/x"):
        (work / name).parent.mkdir(parents=True)
        (work / name).write_text("as it was")
    root = os.path.realpath(work)
    tether = Tether(str(tmp_path / "records"))
    watch = CommandWatch(SandboxRules, str(tmp_path / "records"), tether)
    surveyor = Surveyor((root,), "/home/nobody")
    surveyor.look()
    command = watch.begin(Boundary(root, root, "/home/nobody"), surveyor, contents=True)
    (work / ".idea/x").write_text("changed")
    try:
        with no_descriptors():
            watch.check(command)
        (told,) = watch.take_repairs()
        assert told.startswith(".idea/x was changed and put back")
        assert (work / ".idea/x").read_text() == "as it was"
        assert (work / ".vscode/settings.json").read_text() == "as it was"
    finally:
        watch.end(command)
        tether.close()
