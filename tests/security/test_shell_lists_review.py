"""A third pair of lists, in a repository as people have them: secrets beside sources, scripts, odd names.

A line is a command, `⏎` a line end inside one, `##` a heading.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.shell_project import ShellProject, shell_project

LISTS = Path(__file__).with_name("commands")
FILES = {
    ".env": "API_KEY=sk-abc\nPASSWORD=x\n",
    ".env.example": "API_KEY=\n",
    "sub/creds": "x\n",
    "certs/server.pem": "k\n",
    "deploy.key": "x\n",
    "config/secrets.yml": "password: x\n",
    "config/app.yml": "a: 1\n",
    "src/app/util.py": "import os\n",
    "tests/test_main.py": "x\n",
    "README.md": "# R\n",
    "pyproject.toml": "[project]\n",
    "tsconfig.json": "{}\n",
    "Makefile": "all:\n",
    "Dockerfile": "FROM x\n",
    "data/x.csv": "x,y\n",
    "data/x.json": "{}\n",
    "build/app.log": "log\n",
    "docs/x;y": "sh\n",
    "globs/-o": "\n",
    "globs/a": "\n",
    ".gitignore": ".env\n",
    ".github/workflows/ci.yml": "on: push\n",
    "scripts/run.sh": "#!/bin/sh\n",
    "node_modules/.bin/jest": "#!/bin/sh\n",
    "-rf": "x\n",
    "--output=x": "x\n",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> ShellProject:
    project = shell_project(tmp_path_factory.mktemp("review"))
    for name, text in FILES.items():
        path = project.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name in ("scripts/run.sh", "node_modules/.bin/jest"):
        (project.root / name).chmod(0o755)
    (project.root / "sub" / "envlink").symlink_to("../.env")
    (project.root / "link").symlink_to("/etc/passwd")
    project.git("init", "-q")
    project.git("add", "-A")
    project.git("commit", "-qm", "one")
    return project


def commands(name: str) -> list[str]:
    lines = (LISTS / name).read_text().split("\n")
    return [line.replace("⏎", "\n") for line in lines if line and not line.startswith("##")]


def test_everything_that_may_do_harm_is_asked_about(project: ShellProject) -> None:
    assert [line for line in commands("asked_about.txt") if project.analyse(line).read_only] == []


def test_everyday_reading_runs_at_once(project: ShellProject) -> None:
    for odd in ("-rf", "--output=x", "link", "deploy.key"):  # `*` would take them up, and that is asked about
        (project.root / odd).unlink()
    lines = commands("run_at_once.txt")
    assert {line: project.reason(line) for line in lines if not project.analyse(line).read_only} == {}
