"""Commands that once ran or read something although analysis took them for reading: in the read-only profile
each of them fails, whatever the analysis says."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.capabilities import requires
from tests.support.sandbox_machine import SECRET, SandboxMachine, sandbox_machine

OWNS = {
    "RU-C1 test": r"printf '%s\n' 'f.txt -a -v x[$(id>OWNED)]' | while read -r n; do [ -e $n ]; done",
    "RU-C1 printf": r"n='%n x[$(id>OWNED)]'; printf -- $n",
    "RU-H1": "git -C sub status",
    "RU-H2": r"find libs -maxdepth 1 -type d -exec git -C {} status --short \;",
    "RU-H4": "env -i PATH=/usr/bin:/bin git diff",
    "RU-H5": "./evil/bin/rustc --version",
    "RU-H9": "make test",
    "hook": "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x",
    "write": "touch OWNED; echo x > main.py; rm -rf sub; mkdir OWNED",
    "move": "mv main.py OWNED",
}
READS = {
    "RU-C2": "cat {home}/.[s]sh/*",
    "RU-C2 link": "cd l/.. && cat home/.ssh/id_rsa; cat l/home/.ssh/id_rsa",
    "RU-H7": "wc --files0-from={home}/.ssh/id_rsa",
    "RU-H8 process": "tr '\\0' '\\n' < /proc/{pid}/environ; cat /proc/[0-9]*/environ | tr '\\0' '\\n'",
    "RU-H8 folder": "grep -rs secret-of-this {home}",
    "RU-M5": "cat .env; grep -r TOKEN .; awk 1 .env",
    "credentials": "cat {home}/.netrc {home}/.aws/credentials {home}/.config/gh/hosts.yml",
    "link to a secret": "cat key; diff main.py key; sort key",
}
REACHES = {
    "proxy": "curl -sS https://example.org/ && echo REACHED",
    "another command's server": "curl -sS http://127.0.0.1:3128/ && echo REACHED",
    "name": "getent hosts example.org && echo REACHED",
}


def prepare(machine: SandboxMachine) -> None:
    """A repository whose configuration and hooks run programs, with links out of it."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(machine.home)}

    def git(*words: str) -> None:
        subprocess.run(["git", *words], cwd=machine.work, check=True, env=environment, capture_output=True)

    git("init", "-q")
    for key, value in (
        ("filter.x.clean", "touch OWNED; cat"),
        ("diff.external", "touch OWNED; true"),
        ("core.fsmonitor", "touch OWNED; false"),
    ):
        git("config", key, value)
    (machine.work / ".gitattributes").write_text("* filter=x\n")
    (machine.work / "Makefile").write_text("test:\n\ttouch OWNED\n")
    (machine.work / "sub" / ".git").mkdir()
    (machine.work / "libs").mkdir()
    hook = machine.work / ".git" / "hooks" / "pre-commit"
    rustc = machine.work / "evil" / "bin" / "rustc"
    rustc.parent.mkdir(parents=True)
    for program in (hook, rustc):
        program.write_text("#!/bin/sh\ntouch OWNED\n")
        program.chmod(0o755)
    (machine.work / "l").symlink_to(machine.top)
    (machine.work / "key").symlink_to(machine.home / ".ssh" / "id_rsa")


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


@requires("bwrap")
@pytest.mark.parametrize("command", OWNS.values(), ids=OWNS.keys())
async def test_it_changes_nothing(command: str) -> None:
    async with sandbox_machine() as machine:
        prepare(machine)
        before = contents(machine.top)
        await machine.run(command, machine.confinement("read-only"))
        assert contents(machine.top) == before
        assert not (machine.work / "OWNED").exists()


@requires("bwrap")
@pytest.mark.parametrize("command", READS.values(), ids=READS.keys())
async def test_it_reads_no_secret(command: str) -> None:
    async with sandbox_machine() as machine:
        prepare(machine)
        ran = await machine.run(
            command.format(home=machine.home, pid=os.getpid()), machine.confinement("read-only")
        )
        assert SECRET not in ran.text
        assert "BUDDY_JOB" not in ran.text.replace("BUDDY_JOB=" + session_tag(ran.text), "")


def session_tag(text: str) -> str:
    """The command's own tag in its own environment, "" where it is not shown."""
    return text.partition("BUDDY_JOB=")[2].partition("\n")[0]


@requires("bwrap")
@pytest.mark.parametrize("command", REACHES.values(), ids=REACHES.keys())
async def test_it_reaches_nobody(command: str) -> None:
    async with sandbox_machine() as machine:
        ran = await machine.run(command, machine.confinement("read-only"))
        assert "REACHED" not in ran.text
