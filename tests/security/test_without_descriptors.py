"""The guard of protected names works where no descriptor is left, and says nothing that is not true."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from buddy.safety.paths import Boundary
from buddy.workspace.sandbox.places import Surveyor
from buddy.workspace.sandbox.profile import SandboxRules
from buddy.workspace.sandbox.tether import Tether
from buddy.workspace.sandbox.watch import CommandWatch


@contextlib.contextmanager
def no_descriptors() -> Iterator[None]:
    """Use up all descriptors. The limit lies above every open one: a descriptor that is closed can be had
    again only below the limit, and earlier tests of this process may have left many open."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 16, limits[1]))
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


@pytest.fixture
def many_open() -> Iterator[None]:
    """Leave hundreds of descriptors open, as a long session does."""
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(400)]
    yield
    for descriptor in held:
        os.close(descriptor)


async def test_with_many_descriptors_open_the_same(tmp_path: Path, many_open: None) -> None:
    await test_what_changed_is_put_back_and_nothing_else(tmp_path)


async def test_what_changed_deep_down_is_put_back_with_few_descriptors(tmp_path: Path) -> None:
    await changes(tmp_path, ".idea/" + "/".join("abcdefgh" * 8) + "/x")


async def test_what_changed_is_put_back_and_nothing_else(tmp_path: Path) -> None:
    await changes(tmp_path, ".idea/x")


async def changes(tmp_path: Path, changed: str) -> None:
    work = tmp_path / "work"
    for name in (".vscode/settings.json", changed):
        (work / name).parent.mkdir(parents=True)
        (work / name).write_text("as it was")
    root = os.path.realpath(work)
    tether = Tether(str(tmp_path / "records"))
    watch = CommandWatch(SandboxRules, str(tmp_path / "records"), tether)
    surveyor = Surveyor((root,), "/home/nobody")
    surveyor.look()
    command = watch.begin(Boundary(root, root, "/home/nobody"), surveyor, contents=True)
    (work / changed).write_text("changed")
    try:
        with no_descriptors():
            watch.check(command)
        (told,) = watch.take_repairs()
        assert told.startswith(f"{changed} was changed and put back")
        assert (work / changed).read_text() == "as it was"
        assert (work / ".vscode/settings.json").read_text() == "as it was"
    finally:
        watch.end(command)
        tether.close()
