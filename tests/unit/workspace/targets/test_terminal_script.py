"""The scripts of a terminal on the other side, run by the shell of this machine."""

from __future__ import annotations

import subprocess
from pathlib import Path

from buddy.workspace.targets.supervisor import read_report
from buddy.workspace.targets.terminal_script import watch_script

TAG = "0123456789abcdef"


def test_the_watcher_of_a_terminal_that_never_began_ends(tmp_path: Path) -> None:
    """It once looked for the terminal's process for ever."""
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "stat").write_text("1 (sh) S 0 1 1\n")
    script = watch_script(TAG, proc=str(tmp_path))
    done = subprocess.run(["/bin/sh", "-c", script], input=b"", capture_output=True, timeout=60)
    report = read_report(done.stdout.decode(), TAG)
    assert done.returncode == 0
    assert report.get("clean") is not None
