"""Commands as people type them: without a sandbox, almost none that only reads may be asked about."""

from __future__ import annotations

from pathlib import Path

import pytest

from buddy.safety.shell.result import Level
from tests.support.shell_project import ShellProject, shell_project

COMMANDS = (Path(__file__).parent / "everyday_commands.txt").read_text().splitlines()
AT_MOST_ASKED = 0.05
FILES = {
    **dict.fromkeys(("a.txt", "b.txt", "config.ini", "server.log", "data.csv", "README.md"), "one\ntwo\n"),
    **dict.fromkeys(("src/app.py", "tests/test_app.py"), "import os\n\ndef main():\n    pass\n"),
    **dict.fromkeys(("dist.tar.gz", "dist.zip", "server.log.gz", "build", "docs/a.md"), ""),
    "package.json": "{}\n",
}
ASKED: dict[str, Level] = {
    "less README.md": "ask",  # a pager runs what LESSOPEN says, and editors
    "env | grep PATH": "ask",  # shows every variable
    "history | tail": "ask",
    "man ls | head": "ask",
    "lsof -i :8080": "ask",
    "docker ps": "ask",  # its engine is out of reach where what only reads runs
    "docker images": "ask",
    "echo $PATH": "wide",
    'for f in src/*.py; do wc -l "$f"; done': "wide",
    "find . -name '*.py' | xargs wc -l": "wide",
}
"""All of them that are asked about, with their level."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> ShellProject:
    made = shell_project(tmp_path_factory.mktemp("project"))
    for path in sorted(made.root.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    for name, text in FILES.items():
        (made.root / name).parent.mkdir(exist_ok=True)
        (made.root / name).write_text(text)
    made.git("init", "-q", "-b", "main", ".")
    made.git("add", ".")
    made.git("commit", "-qm", "begin")
    return made


def test_at_most_five_in_a_hundred_everyday_commands_are_asked_about(project: ShellProject) -> None:
    levels = {command: project.analyse(command).level for command in COMMANDS}
    asked = {command: level for command, level in levels.items() if level != "core"}

    assert len(COMMANDS) >= 200
    assert len(asked) <= AT_MOST_ASKED * len(COMMANDS), asked


def test_what_is_asked_about_is_known(project: ShellProject) -> None:
    levels = {command: project.analyse(command).level for command in COMMANDS}

    assert {command: level for command, level in levels.items() if level != "core"} == ASKED
