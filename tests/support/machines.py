"""Machines of a test, one of each kind of target that is another machine."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from buddy.config.settings import TargetSettings
from tests.support.containers import NAME, real_container, settings_of
from tests.support.ssh_server import ssh_server


class Machine(msgspec.Struct):
    """A machine of a test: its target, its folder as both sides see it, and what takes its connection."""

    settings: TargetSettings
    folder: Path
    inside: str
    lose: Callable[[], None]
    victim: tuple[str, ...]


@contextmanager
def running_machine(kind: str, home: Path) -> Generator[Machine]:
    """Run a machine for a test: "ssh", or a kind of container."""
    if kind == "ssh":
        with ssh_server(home) as server:
            folder = str(server.folder)
            settings = TargetSettings(host="machine", folder=folder, config=str(server.config))
            victim = ("ssh", str(server.config), folder)
            yield Machine(settings, server.folder, folder, server.kill, victim)
    else:
        with real_container(kind, home) as container:
            victim = (str(container.program), NAME, container.inside)
            yield Machine(settings_of(container), container.folder, container.inside, container.stop, victim)
