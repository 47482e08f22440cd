"""A small workspace for judging shell commands in, and one analyser for all of them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import msgspec

from buddy.safety.paths import Boundary, locate
from buddy.safety.policy.facts import Facts
from buddy.safety.shell.analysis import Analyser
from buddy.safety.shell.context import CommandPlace
from buddy.safety.shell.result import Analysis
from buddy.safety.shell.scripts import script_digests

FILES = {
    "a": "one\ntwo\n",
    "b": "two\nthree\n",
    "f": "x y z\n",
    "f.json": '{"a": [1, 2]}\n',
    "package.json": '{"name": "project"}\n',
    ".env": "TOKEN=secret\n",
    "src/main.py": "print('hello')\n",
    "src/sub/deep.py": "pass\n",
    "build/out.o": "",
    "docs/one two.md": "words\n",
}


class ShellProject(msgspec.Struct, frozen=True):
    """A folder with files beside a home folder, and what judges commands in it."""

    root: Path
    home: Path
    analyser: Analyser

    @property
    def boundary(self) -> Boundary:
        return Boundary(str(self.root), str(self.root), str(self.home))

    @property
    def place(self) -> CommandPlace:
        return CommandPlace(self.boundary)

    def analyse(self, command: str) -> Analysis:
        return self.analyser.analyse(command, self.place)

    def allowed(self, commands: str) -> list[str]:
        """Return the read-only ones of some commands, one per line; `⏎` stands for a line end inside one."""
        return [line for line in lines_of(commands) if self.analyse(line.replace("⏎", "\n")).read_only]

    def reason(self, command: str) -> str:
        return self.analyse(command).reason

    def git(self, *words: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=t", "-c", "user.email=t@t", *words],
            cwd=self.root,
            check=True,
            capture_output=True,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.home), "GIT_CONFIG_NOSYSTEM": "1"},
        )


def shell_facts(project: ShellProject, command: str, cwd: str = "", **more: Any) -> Facts:
    """The facts of a run_shell call as the program makes them."""
    started = locate(project.boundary, cwd or str(project.root))
    boundary = msgspec.structs.replace(project.boundary, cwd=started.real)
    analysis = project.analyser.analyse(command, CommandPlace(boundary))
    return Facts(
        "run_shell",
        "high",
        str(project.root),
        str(project.home),
        anything=True,
        shell=analysis,
        category="shell",
        folder=started,
        scripts=script_digests(analysis, project.boundary),
        **more,
    )


def lines_of(text: str) -> list[str]:
    """The lines of a list of commands, comments and empty ones left out."""
    return [line for line in text.splitlines() if line.strip() and not line.startswith("## ")]


def shell_project(folder: Path) -> ShellProject:
    """A project in an empty folder."""
    root, home = folder.resolve() / "work", folder.resolve() / "home"
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_rsa").write_text("key")
    (folder.resolve() / "other").mkdir()
    return opened_project(folder)


def opened_project(folder: Path) -> ShellProject:
    """The project that is in a folder already."""
    return ShellProject(folder.resolve() / "work", folder.resolve() / "home", Analyser())
