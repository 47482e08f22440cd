"""Whenever buddy is killed, nothing of its sandbox survives it, and a later start removes its folders."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from buddy.workspace.processes.process_tree import adopt_orphans
from tests.capabilities import requires
from tests.faults.sandbox_victim import descendants, kill_rounds, until_gone

TRIAL = """
import os, sys
from buddy.workspace.sandbox.probe import probe
os.mkfifo(os.path.join(os.environ["HOME"], f".buddy-trial-{os.getpid()}"))  # opening it waits for a reader
print("ready", flush=True)
probe()
"""


@requires("bwrap", "linux")
@pytest.mark.parametrize("level", [2, 3])
def test_nothing_survives_a_kill_at_a_random_instant(level: int) -> None:
    assert kill_rounds(15, seed=level, level=level) == ([], [])


@requires("bwrap", "linux")
def test_a_trial_that_hangs_ends_with_buddy() -> None:
    adopt_orphans(wanted=True)
    # Not in /tmp, which is private inside.
    home = tempfile.TemporaryDirectory(prefix=".buddy-trial-test-", dir=os.path.expanduser("~"))
    try:
        argv = (sys.executable, "-c", TRIAL)
        environment = {**os.environ, "HOME": home.name}
        with subprocess.Popen(argv, stdout=subprocess.PIPE, env=environment) as buddy:
            assert buddy.stdout is not None
            assert buddy.stdout.readline() == b"ready\n"
            while b"trial\0" not in b"".join(map(_command_line, descendants(buddy.pid))):
                assert buddy.poll() is None
            buddy.kill()
        assert until_gone() == []
    finally:
        home.cleanup()
        adopt_orphans(wanted=False)


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
