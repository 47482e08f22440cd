"""The recorded edit cases, where they are at hand; the project's own tests stand without them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.capabilities import SHARED, requires

ROOT = Path(__file__).resolve().parents[3]


@requires("shared")
@pytest.mark.slow
def test_recorded_edits_are_made_or_refused_as_they_must_be(tmp_path: Path) -> None:
    verdicts = tmp_path / "verdicts.json"
    runner = [
        sys.executable,
        str(SHARED / "recorded/run_edits.py"),
        "--adapter",
        "tests.bench.recorded_edits",
    ]
    done = subprocess.run(
        [*runner, "--json", str(verdicts)], cwd=ROOT, env=dict(os.environ), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(verdicts.read_text())
    core = [row["verdict"] for row in rows if row["tier"] == "core"]
    tolerant = [row["verdict"] for row in rows if row["tier"] == "tolerant"]
    assert set(core) <= {"pass", "skip"}
    assert tolerant.count("pass") >= 0.38 * len(tolerant)
    made, all_edits = map(int, re.findall(r"real edit sessions: (\d+)/(\d+)", done.stdout)[0])
    assert made == all_edits
    shown = int(re.findall(r"(\d+)  not found: shows the real text", done.stdout)[0])
    bare = int(re.findall(r"(\d+)  not found: bare", done.stdout)[0])
    assert shown >= 0.8 * (shown + bare)
