"""Protected names in folders that were opened besides the workspace: protected as those of the workspace."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from buddy.safety.paths import Boundary
from buddy.tasks.sandboxing import open_allowed_places
from buddy.workspace.sandbox.places import with_places
from buddy.workspace.sandbox.profile import Confinement, SandboxRules
from tests.capabilities import requires
from tests.security.test_git_data_is_guarded import prepare
from tests.security.test_racing_names import OVERWRITE, RACE, race
from tests.support.sandbox_machine import LOOKS, SandboxMachine, sandbox_machine

LEVELS = [pytest.param(3, marks=requires("bwrap")), pytest.param(2, marks=requires("landlock"))]
WAYS = ("--add-dir", "a yes", "a rule")

PLANTS: Mapping[str, tuple[str, str]] = {
    "editor settings": (race("mkdir", "{place}/.zedx", "{place}/.zed"), ".zed"),
    "agent settings, deep down": (race("mkdir", "{place}/sub/.codexx", "{place}/sub/.codex"), "sub/.codex"),
    "shell settings": (race("open", "{place}/.envrcx", "{place}/.envrc"), ".envrc"),
    "repository": (
        "git init -q {place}/new && git -C {place}/new config core.fsmonitor 'true;'",
        "new/.git/config",
    ),
}


async def opened(machine: SandboxMachine, way: str, place: Path) -> Confinement:
    """The confinement of a command for which a place is open."""
    if way == "a yes":
        return await open_allowed_places(machine.confinement(), (str(place),), machine.sandbox.status)
    if way == "--add-dir":
        boundary = msgspec.structs.replace(machine.boundary, extra=(str(place),))
        return Confinement("workspace", boundary)
    return machine.confinement()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("plant", PLANTS)
async def test_what_is_planted_in_an_opened_folder_is_put_back(level: int, way: str, plant: str) -> None:
    command, planted = PLANTS[plant]
    written: list[str] = []
    async with sandbox_machine(lambda: SandboxRules(writable=tuple(written)), look=LOOKS[level]) as machine:
        prepare(machine)
        (machine.work / "race.py").write_text(RACE)
        place = machine.home / "other"
        (place / "sub").mkdir(parents=True)
        if way == "a rule":
            written.append(str(place))
        ran = await machine.run(command.format(place=place), await opened(machine, way, place), limit_s=120)
        told = machine.sandbox.take_repairs()

        assert ran.code == 0, ran.text
        assert not os.path.lexists(place / planted)
        (kept,) = (place / ".buddyx/quarantine").iterdir()
        assert told == (f"{place / planted} was created; it is now {kept}",)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("way", ["--add-dir", "a rule"])
@pytest.mark.parametrize("name", [".vscode/settings.json", "sub/.git/config"])
async def test_what_was_in_an_opened_folder_keeps_its_content(level: int, way: str, name: str) -> None:
    written: list[str] = []
    async with sandbox_machine(lambda: SandboxRules(writable=tuple(written)), look=LOOKS[level]) as machine:
        prepare(machine)
        place = machine.home / "other"
        (place / name).parent.mkdir(parents=True)
        (place / name).write_text("[core]\n")
        (machine.work / "overwrite.py").write_text(OVERWRITE.replace("+ 40", "+ 2" if level == 3 else "+ 40"))
        if way == "a rule":
            written.append(str(place))
        await machine.run(
            f"cd {place} && python3 -I {machine.work}/overwrite.py {name}", await opened(machine, way, place)
        )

        assert (place / name).read_text() == "[core]\n"


UNASKED = (".hg/hgrc", "sub/.jj/repo/config.toml", ".bazelrc", ".yarn/releases", ".mvn", ".vs", ".sl/config")


@requires("bwrap")
@pytest.mark.parametrize("name", UNASKED)
async def test_files_that_start_programs_unasked_are_not_made_in_the_sandbox(name: str) -> None:
    async with sandbox_machine() as machine:
        ran = await machine.run(
            f"mkdir -p {os.path.dirname(name) or '.'}; echo x > {name}", machine.confinement()
        )
        assert (ran.code, os.path.lexists(machine.work / name)) == (1, False)
        assert ran.blocked.paths == (str(machine.work / name),)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", UNASKED)
async def test_files_that_start_programs_unasked_are_put_back(level: int, name: str) -> None:
    async with sandbox_machine(look=LOOKS[level]) as machine:
        prepare(machine)
        (machine.work / "race.py").write_text(RACE)
        folder = machine.work / os.path.dirname(name)
        folder.mkdir(parents=True, exist_ok=True)
        ran = await machine.run(race("open", f"{name}x", name), machine.confinement(), limit_s=120)

        assert "RACED" in ran.text  # otherwise this tests nothing
        assert not os.path.lexists(machine.work / name)
        assert len(machine.sandbox.take_repairs()) == 1


@requires("bwrap")
@pytest.mark.parametrize("name", [".hg/hgrc", ".jj/repo/config.toml", ".bazelrc"])
async def test_one_that_exists_is_read_only(name: str) -> None:
    async with sandbox_machine() as machine:
        (machine.work / name).parent.mkdir(parents=True, exist_ok=True)
        (machine.work / name).write_text("as it was")
        folder = os.path.dirname(name)
        command = f"echo x > {name}; mv {folder or name} away; touch {folder or '.'}/beside; true"
        await machine.run(command, machine.confinement())

        assert (machine.work / name).read_text() == "as it was"
        assert (machine.work / folder / "beside").exists()


@requires("bwrap")
async def test_files_of_build_servers_are_written_in_the_sandbox() -> None:
    async with sandbox_machine() as machine:
        command = "mkdir -p .github/workflows && echo x > .github/workflows/ci.yml && echo x > .gitlab-ci.yml"
        ran = await machine.run(command, machine.confinement())
        assert (ran.code, machine.sandbox.take_repairs()) == (0, ()), ran.text


def test_a_programs_own_folders_and_the_home_folder_are_not_walked(tmp_path: Path) -> None:
    home = os.path.realpath(tmp_path)
    for name in ("work", ".cache/pip", "other/.git", "other/deep"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "notes").write_text("x")
    boundary = Boundary(f"{home}/work", f"{home}/work", home)
    names = (".cache/pip", "other/deep", "other", "other/.git", "notes", "gone", "work", "")
    found = with_places(boundary, [os.path.join(home, name) for name in names])
    assert found.extra == (f"{home}/other",)
