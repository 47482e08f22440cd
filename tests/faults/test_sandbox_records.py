"""A record of a sandboxed command that cannot be written costs the command, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import os, resource, sys
from buddy.safety.paths import Boundary
from buddy.workspace.sandbox.guard import snapshot
from buddy.workspace.sandbox.places import Surveyor
from buddy.workspace.sandbox.watch import HeldRecord

root, records = sys.argv[1:]
boundary = Boundary(root, root, root)
before = snapshot(boundary, Surveyor((root,), root).look(), contents=True)
HeldRecord(records, boundary, before).drop()
opened = len(os.listdir("/proc/self/fd"))
limits = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
refused = 0
for _ in range(20):
    try:
        HeldRecord(records, boundary, before)
    except OSError:
        refused += 1
resource.setrlimit(resource.RLIMIT_FSIZE, limits)
print(refused, len(os.listdir("/proc/self/fd")) - opened, os.listdir(records))
"""


def test_a_record_that_cannot_be_written_leaves_no_descriptor_and_no_file(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    folders = (os.path.realpath(tmp_path / "work"), os.path.realpath(tmp_path / "records"))
    done = subprocess.run(
        (sys.executable, "-c", PROGRAM, *folders), capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("20 0 []\n", 0), done.stderr
