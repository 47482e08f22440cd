"""The machines that tests of targets work on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.capabilities import requires
from tests.support.machines import Machine, running_machine


@pytest.fixture(
    params=[
        pytest.param("ssh", marks=requires("sshd")),
        "stand-in",
        pytest.param("busybox", marks=requires("busybox")),
        pytest.param("podman", marks=requires("podman")),
        pytest.param("docker", marks=requires("docker")),
    ]
)
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machine]:
    """Return a running machine of each kind that this one has."""
    with running_machine(request.param, tmp_path / "machine") as running:
        yield running
