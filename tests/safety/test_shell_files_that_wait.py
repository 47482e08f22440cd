"""A command that reads a pipe or a device waits for somebody who never comes: it is asked about."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from buddy.safety.paths import Boundary
from buddy.safety.policy_command import judge_command
from buddy.safety.shell.analysis import Analyser


@pytest.mark.parametrize(
    "command",
    [
        "cat README.md",
        "head -1 ./README.md",
        "wc ./*",
        "sort < README.md",
        "grep x link",
        "cd sub && cat ../README.md",
    ],
)
def test_SEC_063_a_pipe_is_not_read_unasked(tmp_path: Path, command: str) -> None:
    root = tmp_path.resolve()
    os.mkfifo(root / "README.md")
    (root / "link").symlink_to("README.md")
    (root / "sub").mkdir()
    verdict = judge_command(command, Boundary(str(root), str(root), str(root)), Analyser())
    assert verdict.decision == "ask"
    assert "a pipe or a device, which may never end" in verdict.why


def test_ordinary_files_folders_and_missing_ones_are_read(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    (root / "README.md").write_text("x")
    for command in ("cat README.md", "grep -r x .", "cat missing", "ls > /dev/null", "head -c 4 /dev/zero"):
        verdict = judge_command(command, Boundary(str(root), str(root), str(root)), Analyser())
        assert verdict.decision == "allow", (command, verdict.why)
