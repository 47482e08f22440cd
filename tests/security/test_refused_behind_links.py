"""Protected names are refused at once, by whatever links and folders a command comes to them."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.capabilities import requires
from tests.security.test_git_data_is_guarded import prepare
from tests.support.sandbox_machine import LOOKS, sandbox_machine

LEVELS = [pytest.param(3, marks=requires("bwrap")), pytest.param(2, marks=requires("landlock"))]

WAYS = {
    "working folder of the process": ("mkdir /proc/self/cwd/.zed", ".zed"),
    "working folder of the thread": ("mkdir /proc/thread-self/cwd/.zed", ".zed"),
    "working folder of the shell": ("mkdir /proc/$$/cwd/.zed", ".zed"),
    "root of the process": ("mkdir /proc/self/root$PWD/.zed", ".zed"),
    "task of the process": ("mkdir /proc/$$/task/$$/cwd/.zed", ".zed"),
    "descriptor": ("exec 9<. && mkdir /proc/self/fd/9/.zed", ".zed"),
    "descriptor of a device folder": ("exec 9<. && mkdir /dev/fd/9/.zed", ".zed"),
    "file in the working folder": ("echo x > /proc/self/cwd/.envrc", ".envrc"),
    "link to the folder above": ("ln -s . here; mkdir here/.zed", ".zed"),
    "absolute link": ("ln -s $PWD here; mkdir here/.zed", ".zed"),
    "link to a link": ("ln -s . a; ln -s a/a/a b; mkdir b/.zed", ".zed"),
    "link and back": ("mkdir -p x/y; ln -s x/y l; mkdir l/../../.zed", ".zed"),
    "link to git's data": (
        "ln -s .git g; mkdir -p g/hooks; echo x > g/hooks/pre-push",
        ".git/hooks/pre-push",
    ),
    "link that leads git elsewhere": ("ln -s .git g; echo .. > g/commondir", ".git/commondir"),
    "link to a file that is not there": ("ln -s .envrc file; echo x > file", ".envrc"),
    "move behind a link": ("ln -s . here; mkdir z; mv -T z here/.zed", ".zed"),
    "link made behind a link": ("ln -s . here; ln -s sub here/.zed", ".zed"),
    "hard link behind a link": ("ln -s . here; ln main.py here/.envrc", ".envrc"),
    "change of working folder": ("ln -s . here; cd here && mkdir .zed", ".zed"),
    "many slashes and dots": ("ln -s . here; mkdir .//here/./here/..//work/.zed/", ".zed"),
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("way", WAYS)
async def test_a_protected_name_is_refused_by_every_way_to_it(level: int, way: str) -> None:
    command, name = WAYS[way]
    async with sandbox_machine(look=LOOKS[level]) as machine:
        prepare(machine)
        shutil.rmtree(machine.work / ".git/hooks", ignore_errors=True)
        ran = await machine.run(f"{command}; ls -A; ls -A .git/hooks", machine.confinement())

        assert str(machine.work / name) in ran.blocked.paths, (ran.text, ran.blocked)
        assert not os.path.lexists(machine.work / name)
        assert machine.sandbox.take_repairs() == ()


@pytest.mark.parametrize("level", LEVELS)
async def test_links_to_what_may_be_changed_are_followed(level: int) -> None:
    async with sandbox_machine(look=LOOKS[level]) as machine:
        prepare(machine)
        ran = await machine.run(
            "ln -s sub link; ln -s round round; mkdir link/new; echo x > link/new/file; echo x > link/file; "
            "echo y > /dev/stdout; echo z > /dev/stderr; echo x > /proc/self/cwd/plain; cat round",
            machine.confinement(),
        )

        assert ran.blocked.paths == ()
        for name in ("sub/new/file", "sub/file", "plain"):
            assert (machine.work / name).read_text() == "x\n", ran.text
