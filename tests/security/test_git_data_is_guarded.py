"""Wherever git's data lies in a workspace, no sandboxed command makes the person's git run programs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from buddy.workspace.sandbox.profile import SandboxProfile, is_reserved
from tests.capabilities import requires
from tests.support.sandbox_machine import LOOKS, SandboxMachine, sandbox_machine

LEVELS = [pytest.param(3, marks=requires("bwrap")), pytest.param(2, marks=requires("landlock"))]
ENVIRONMENT = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null"}

EVIL = """
import os
work, mark = os.getcwd(), os.path.abspath("../outside/ran")
run = f"touch {mark};"
who = "-c user.name=a -c user.email=a@b"
config = f'[core]\\n\\tfsmonitor = "{run}"\\n[alias]\\n\\tst = "!{run}"\\n'

def write(path, text=config):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "a") as file:
        file.write(text)

def shell(command):
    assert os.system(command) == 0, command

def repository(path, data=""):
    # Recorded as a submodule, so that git looks into it. With `data` its data lies there.
    shell(f"git init -q {path} && git -C {path} {who} commit -q --allow-empty -m x")
    head = os.popen(f"git -C {path} rev-parse HEAD").read().strip()
    shell(f"git update-index --add --cacheinfo 160000,{head},{path}")
    if data:
        os.makedirs(os.path.dirname(f"./{data}"), exist_ok=True)
        os.rename(f"{path}/.git", data)
"""

ATTACKS = {
    "nested repository with a monitor": """
repository("sub")
write("sub/.git/config")
""",
    "nested repository moved into place": """
repository("a", "a/g")
write("a/g/config")
os.rename("a/g", "a/.git")
""",
    "nested repository, hooks moved into place": """
repository("a", "a/g")
write("a/g/h/post-checkout", run)
os.path.isdir("a/g/hooks") and os.rename("a/g/hooks", "a/g/old")
os.rename("a/g/h", "a/g/hooks")
os.rename("a/g", "a/.git")
""",
    "pointer to a folder of the workspace": """
repository("sub", "data")
write("data/config")
write("sub/.git", "gitdir: ../data\\n")
""",
    "link to a folder of the workspace": """
repository("sub", "data")
write("data/config")
os.symlink("../data", "sub/.git")
""",
    "module": """
repository("sub", ".git/modules/sub")
write(".git/modules/sub/config")
write("sub/.git", "gitdir: ../.git/modules/sub\\n")
""",
    "module with a name of many parts": """
repository("sub", ".git/modules/a/b/c/d")
write(".git/modules/a/b/c/d/config")
write("sub/.git", "gitdir: ../.git/modules/a/b/c/d\\n")
""",
    "worktree that takes its settings elsewhere": """
shell("git worktree add -q tree && cp -r .git data")
os.remove("data/config")
write("data/config")
open(".git/worktrees/tree/commondir", "w").write("../../../data\\n")
""",
    "nested repository that takes its settings elsewhere": """
repository("sub")
shell("cp -r sub/.git data")
write("data/config")
write("sub/.git/commondir", "../../data\\n")
""",
    "included settings": """
repository("sub")
write("sub/more")
write("sub/.git/config", "[include]\\n\\tpath = ../more\\n")
""",
    "bare repository in a folder": """
shell("git init -q --bare docs")
write("docs/config", f'[core]\\n\\tfsmonitor = "{run}"\\n\\tworktree = {work}\\n\\tbare = false\\n')
""",
    "settings that cannot be read": """
repository("sub")
write("sub/.git/config", "[core\\n")
""",
    "rebase that goes on with a command": """
write(".git/rebase-merge/git-rebase-todo", f"exec {run}\\n")
""",
}


def git(folder: Path, *words: str, check: bool = True) -> None:
    subprocess.run(["git", *words], cwd=folder, check=check, env=ENVIRONMENT, capture_output=True)


def prepare(machine: SandboxMachine) -> None:
    git(machine.work, "init", "-q")
    git(machine.work, "config", "user.name", "a")
    git(machine.work, "config", "user.email", "a@b")
    git(machine.work, "commit", "-q", "--allow-empty", "-m", "x")


def use_git(work: Path) -> None:
    """Run the git commands of a user and of a prompt that shows the branch."""
    for folder in (work, work / "sub", work / "a", work / "tree", work / "docs"):
        if folder.is_dir():
            for command in (("status",), ("diff",), ("checkout", "-q", "-b", "new")):
                subprocess.run(
                    ["git", *command], cwd=folder, check=False, env=ENVIRONMENT, capture_output=True
                )


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("attack", ATTACKS)
async def test_ATTACK3_git_runs_nothing_that_a_command_planted(level: int, attack: str) -> None:
    async with sandbox_machine(look=LOOKS[level]) as machine:
        prepare(machine)
        (machine.work / "evil.py").write_text(f"{EVIL}\n{ATTACKS[attack]}\n")
        ran = await machine.run("python3 -I evil.py && echo DONE", machine.confinement())
        told = machine.sandbox.take_repairs()
        use_git(machine.work)

        assert not (machine.outside / "ran").exists(), (ran.text, told)
        assert told or "DONE" not in ran.text, ran.text


@requires("bwrap")
@pytest.mark.parametrize(
    "command",
    [
        "git init -q new && git -C new status",
        "git clone -q . copy",
        "git clone -q --shared . copy && git -C copy checkout -q -b x",
        "git clone -q --bare . bare.git",
        "git worktree add -q tree && git -C tree commit -q --allow-empty -m y",
        "git -c protocol.file.allow=always submodule --quiet add ./.git module && git commit -qm module",
        "git clone -q . copy && cd copy && git remote add up https://example.com/x.git && git config a.b c",
        "git clone -q --no-local --filter=blob:none . copy",
        "git commit -q --allow-empty -m y && git rebase -q HEAD~1",
    ],
)
async def test_ATTACK3_new_repositories_of_the_usual_kind_are_left(command: str) -> None:
    async with sandbox_machine() as machine:
        prepare(machine)
        ran = await machine.run(command, machine.confinement())
        assert (ran.code, machine.sandbox.take_repairs()) == (0, ()), ran.text


@requires("bwrap")
@pytest.mark.parametrize("kind", ["file", "link"])
async def test_ATTACK3_a_repository_whose_data_lies_beside_it_is_protected(kind: str) -> None:
    async with sandbox_machine() as machine:
        prepare(machine)
        os.rename(machine.work / ".git", machine.work / "data")
        if kind == "link":
            (machine.work / ".git").symlink_to("data")
        else:
            (machine.work / ".git").write_text("gitdir: ./data\n")
        before = (machine.work / "data/config").read_bytes()
        ran = await machine.run(
            "git commit -q --allow-empty -m y; echo code $?; mv data other; echo .. > data/commondir; "
            "echo '[alias] x = !true' >> data/config; echo x > data/hooks/pre-commit",
            machine.confinement(),
        )

        assert (machine.work / "data/config").read_bytes() == before
        assert not (machine.work / "data/hooks/pre-commit").exists()
        assert not (machine.work / "data/commondir").exists()
        assert "code 0" in ran.text


@requires("bwrap")
async def test_ATTACK3_the_data_of_an_existing_worktree_is_protected() -> None:
    async with sandbox_machine() as machine:
        prepare(machine)
        git(machine.work, "worktree", "add", "-q", "tree")
        data = machine.work / ".git/worktrees/tree"
        before = (data / "commondir").read_bytes()
        ran = await machine.run(
            f"cd {data}; echo ../../../x > commondir; echo '[a]' > config.worktree; mv commondir c; "
            "cd ../../../tree && git commit -q --allow-empty -m y; echo code $?",
            machine.confinement(),
        )
        assert (data / "commondir").read_bytes() == before
        assert not (data / "config.worktree").exists()
        assert "code 0" in ran.text


@pytest.mark.parametrize(
    ("path", "reserved"),
    [
        (".git/commondir", True),
        (".git/gitdir", True),
        (".git/config.worktree", True),
        (".GIT/CommonDir", True),
        ("sub/.git/commondir", True),
        (".git/modules/a/b/commondir", True),
        (".git/modules/a/hooks/pre-commit", True),
        (".git/worktrees/tree/commondir", False),
        (".git/modules/a/worktrees/tree/gitdir", False),
        (".git/commondir/x", False),
        (".git/commondirs", False),
        (".git/refs/heads/commondir", False),
        ("commondir", False),
        ("src/gitdir", False),
        (".git/HEAD", False),
    ],
)
def test_ATTACK3_a_file_that_leads_git_to_other_settings_is_refused_at_once(
    path: str, reserved: bool
) -> None:
    profile = SandboxProfile("workspace", (), ("/project",), (), (), "/scratch", network=False)
    assert is_reserved(profile, f"/project/{path}") is reserved
