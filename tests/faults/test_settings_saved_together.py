"""Ten programs save rules at once: the file stays valid and none is lost."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

from tests.support.program import ROOT

SAVER = """
import sys
from buddy.cli.arguments import Options
from buddy.app.launch import find_launch, read_settings
from buddy.app.policy import RuleFiles
from buddy.safety.policy.rules import Rule

launch = find_launch(Options(), {"HOME": sys.argv[1]})
files = RuleFiles(launch, read_settings(launch, Options()))
for number in range(int(sys.argv[3])):
    files.save((Rule("shell", "allow", "user", argv=((f"tool-{sys.argv[2]}-{number}",),)),))
"""
PROGRAMS, TIMES = 10, 20


def test_REL_016_rules_saved_by_ten_programs_are_all_there(tmp_path: Path) -> None:
    running = [
        subprocess.Popen(
            [sys.executable, "-c", SAVER, str(tmp_path), str(number), str(TIMES)],
            cwd=tmp_path,
            env={"PYTHONPATH": str(ROOT), "HOME": str(tmp_path)},
            stderr=subprocess.PIPE,
        )
        for number in range(PROGRAMS)
    ]
    for one in running:
        _out, err = one.communicate(timeout=100)
        assert (one.returncode, err) == (0, b"")
    folder = tmp_path / ".config" / "buddy"
    saved = tomllib.loads((folder / "settings.toml").read_text())
    wanted = {f"tool-{program}-{number}" for program in range(PROGRAMS) for number in range(TIMES)}
    assert {rule["argv"][0] for rule in saved["rule"]} == wanted
    assert len(saved["rule"]) == PROGRAMS * TIMES
    assert (folder / "settings.toml").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in folder.iterdir()) == ["settings.toml", "settings.toml.lock"]
