"""The text that a pane's shell reads."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from buddy.workspace.targets.pane_script import command_files, command_scripts, quote_for_fish, typed_line
from tests.capabilities import requires

AWKWARD = "a 'b' \"c\" $HOME `id` \\ \\' ; & | * ~ # %s %n\x07 é"


@requires("tmux")
@pytest.mark.parametrize(
    "shell", [pytest.param(name, marks=requires(name)) for name in ("bash", "zsh", "fish", "dash")]
)
def test_no_name_is_read_as_anything_else(tmp_path: Path, shell: str) -> None:
    program = str(shutil.which(shell))
    folder = tmp_path / AWKWARD
    folder.mkdir()
    (folder / "command").write_text('pwd; printf %s "$NAME"; exit 5\n')
    scripts = command_scripts(
        shell,
        command_files(str(folder)),
        tag="t.1",
        title=AWKWARD + "\nsecond",
        folder=str(folder),
        variables={"NAME": AWKWARD},
    )
    for path, text in scripts.items():
        Path(path).write_text(text)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    done = subprocess.run(
        [program, "-c", typed_line(shell, str(folder / "run"))],
        env=environment,
        capture_output=True,
        check=False,
    )
    lines = done.stdout.decode().split("\n")
    assert lines[0].startswith("buddy: a 'b'")
    begin, _, rest = lines[1].partition("\x07")
    assert begin.startswith("\x1b]7791;t.1;begin;")
    # What a name holds that would cut the line is not at its end.
    assert "".join([rest, *lines[2:]]).startswith(str(folder) + AWKWARD)
    assert b"\x1b]7791;t.1;end;5\x07" in done.stdout
    # What names the tag of the marks was gone before the command ran.
    assert [path.name for path in folder.iterdir()] == ["command"]


def test_a_plain_path_is_typed_as_a_person_would() -> None:
    assert typed_line("bash", "/tmp/buddy-x/run") == " . /tmp/buddy-x/run"
    assert typed_line("fish", "/tmp/buddy-x/run") == " source /tmp/buddy-x/run"
    assert typed_line("fish", "/tmp/it's/run") == " source '/tmp/it\\'s/run'"
    assert quote_for_fish("a\\") == "'a\\\\'"
