"""Nothing a sandboxed command makes leads the person's git to data in places that are not guarded."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from buddy.workspace.sandbox.git_data import MAX_FOLDERS, git_data
from tests.capabilities import requires
from tests.security.test_git_data_is_guarded import ENVIRONMENT, prepare
from tests.support.sandbox_machine import LOOKS, sandbox_machine

LEVELS = [pytest.param(3, marks=requires("bwrap")), pytest.param(2, marks=requires("landlock"))]

MAKE = """
import os, shutil, subprocess
cache = os.path.dirname(os.environ["PIP_CACHE_DIR"])
data, mark = cache + "/eg", os.path.abspath("../outside/ran")
run = f'touch {mark}; false'
settings = f'[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = "{run}"\\n'

def git(*words):
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True)

def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, 0o755)

if not os.path.exists(data):
    git("init", "-q", data)
    os.rename(data + "/.git", data + "/g")
    os.path.isdir(data + "/g/hooks") and shutil.rmtree(data + "/g/hooks")
    write(data + "/g/hooks/post-checkout", f"#!/bin/sh\\n{run}\\n")
    data += "/g"
    write(data + "/config", settings)
else:
    data += "/g"
"""

STEPS = {
    "pointer at the top": ['write("./.git", f"gitdir: {data}\\n")'],
    "pointer in a folder": ['write("sub/.git", f"gitdir: {data}\\n")'],
    "relative pointer": ['write("sub/.git", "gitdir: " + os.path.relpath(data, "sub") + "\\n")'],
    "link at the top": ['os.symlink(data, ".git")'],
    "link in a folder": ['os.symlink(data, "sub/.git")'],
    "link to a link": ['os.symlink(data, "l"); os.symlink("../l", "sub/.git")'],
    "pointer to a link": ['os.symlink(data, "l"); write("sub/.git", "gitdir: ../l\\n")'],
    "pointer through a link and back": [
        'os.makedirs(cache + "/eg/y"); os.symlink(cache + "/eg/y", "l"); '
        'write("sub/.git", "gitdir: ../l/../g\\n")'
    ],
    "link to a pointer": ['write(cache + "/p", f"gitdir: {data}\\n"); os.symlink(cache + "/p", "sub/.git")'],
    "settings of a worktree's data": [
        'write("g/HEAD", "ref: refs/heads/x\\n"); write("g/commondir", data); '
        'write("sub/.git", "gitdir: ../g\\n")'
    ],
    "settings behind a link": [
        'git("init", "-q", "sub"); os.remove("sub/.git/config"); '
        'os.symlink(data + "/config", "sub/.git/config")'
    ],
    "hooks behind a link": [
        'git("init", "-q", "sub"); shutil.rmtree("sub/.git/hooks", True); '
        'os.symlink(data + "/hooks", "sub/.git/hooks")'
    ],
    "hooks in the cache": [
        'git("init", "-q", "sub"); git("-C", "sub", "config", "core.hooksPath", data + "/hooks")'
    ],
    "a value with a NUL": [
        'git("init", "-q", "."); write(".git/config", settings + "[alias]\\n\\tx = \\"!a/b\\0c\\"\\n")'
    ],
    "included settings": [
        'git("init", "-q", "sub"); git("-C", "sub", "config", "include.path", data + "/config")'
    ],
    "working tree of data in the cache": [
        'git("init", "-q", "sub"); git("-C", "sub", "config", "core.worktree", cache)'
    ],
    "data that looks like a worktree's": [
        'shutil.copytree(data, "worktrees/x"); write("sub/.git", "gitdir: ../worktrees/x\\n")'
    ],
    "link that is led elsewhere later": [
        'git("init", "-q", "in"); os.symlink("in/.git", "l"); write("sub/.git", "gitdir: ../l\\n")',
        'os.remove("l"); os.symlink(data, "l")',
    ],
    "second name of a pointer, changed later": [
        'git("init", "-q", "in"); write("sub/.git", "gitdir: ../in/.git\\n"); os.link("sub/.git", "x")',
        'write("x", f"gitdir: {data}\\n")',
    ],
    "second name of settings, changed later": [
        'git("init", "-q", "sub"); os.link("sub/.git/config", "x")',
        'write("x", settings)',
    ],
    "pointer to what comes later": [
        'shutil.move(cache + "/eg", cache + "/later"); write("sub/.git", f"gitdir: {data}\\n")',
        "pass",
    ],
}


def use_git(work: Path) -> None:
    for folder in (work, work / "sub"):
        for command in (("status",), ("checkout", "-q", "-b", "new")):
            subprocess.run(["git", *command], cwd=folder, check=False, env=ENVIRONMENT, capture_output=True)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", STEPS)
async def test_git_is_led_to_no_place_that_commands_may_change(level: int, kind: str) -> None:
    async with sandbox_machine(look=LOOKS[level]) as machine:
        steps = STEPS[kind]
        if "at the top" not in kind:
            prepare(machine)
        told: tuple[str, ...] = ()
        texts: list[str] = []
        for number, step in enumerate(steps):
            (machine.work / f"step{number}.py").write_text(f"{MAKE}\n{step}\n")
            ran = await machine.run(f"python3 -I step{number}.py && echo DONE", machine.confinement())
            told += machine.sandbox.take_repairs()
            texts.append(ran.text)
        use_git(machine.work)

        assert not (machine.outside / "ran").exists(), (texts, told)
        assert told or "DONE" not in texts[-1], texts


@requires("bwrap")
@pytest.mark.parametrize(
    "command",
    [
        "git init -q --separate-git-dir data new && git -C new status",
        "mkdir d && echo 'gitdir: ../.git' > d/.git",
        "git worktree add -q tree && git -C tree worktree add -q ../other",
        "git clone -q . worktrees/x && git -C worktrees/x status",
        "git init -q new && ln -s new/.git l && mkdir d && ln -s ../l d/.git",
    ],
)
async def test_what_leads_to_guarded_places_is_left(command: str) -> None:
    async with sandbox_machine() as machine:
        prepare(machine)
        ran = await machine.run(command, machine.confinement())
        assert (ran.code, machine.sandbox.take_repairs()) == (0, ()), ran.text


@requires("bwrap")
async def test_new_repositories_that_are_too_many_to_look_at_are_moved_away() -> None:
    async with sandbox_machine() as machine:
        await machine.run(f"seq 0 {MAX_FOLDERS} | sed 's,$,/.git,' | xargs mkdir -p", machine.confinement())
        (told,) = machine.sandbox.take_repairs()
        assert told.endswith("-.git")
        assert "/.git was created; it is now .buddyx/quarantine/" in told
        assert len(list(machine.work.glob("*/.git"))) == MAX_FOLDERS


@requires("bwrap")
async def test_a_pointer_of_the_person_that_leads_outside_is_left() -> None:
    async with sandbox_machine() as machine:
        (machine.outside / "data").mkdir()
        (machine.work / "sub/.git").write_text(f"gitdir: {machine.outside}/data\n")
        await machine.run("touch file", machine.confinement())
        assert machine.sandbox.take_repairs() == ()
        assert (machine.work / "sub/.git").exists()


def test_repositories_that_are_too_many_are_named(tmp_path: Path) -> None:
    top = os.path.realpath(tmp_path)
    paths = [f"{top}/r{number}/.git" for number in range(5)]
    for path in paths:
        os.makedirs(path)
    found = git_data(paths, (top,), most=3)
    assert found.folders == tuple(paths[:3])
    assert set(found.rest) == set(paths[3:])
