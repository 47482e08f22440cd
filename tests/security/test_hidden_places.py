"""Places with secrets stay hidden wherever the home folder lies, and what is opened inside stays usable."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from buddy.workspace.sandbox.profile import Confinement, SandboxProfile, SandboxRules, is_writable
from tests.capabilities import requires
from tests.support.sandbox_machine import LOOKS, SECRET, SandboxMachine, sandbox_machine

LEVELS = [pytest.param(3, marks=requires("bwrap")), pytest.param(2, marks=requires("landlock"))]
SECRETS = (".ssh/id_rsa", ".aws/credentials", ".netrc", ".config/gh/hosts.yml", ".config/buddy/buddy.toml")


def in_home(machine: SandboxMachine, **changes: object) -> Confinement:
    """A command of a session whose own folders lie in the home folder."""
    own = tuple(str(machine.home / path) for path in (".config/buddy", ".cache/buddy"))
    boundary = msgspec.structs.replace(machine.boundary, own=own, **changes)
    return Confinement("workspace", boundary)


@pytest.mark.parametrize("parent", ["~", "/tmp", "/var/tmp"])
@pytest.mark.parametrize("level", LEVELS)
async def test_ATTACK3_secrets_are_hidden_although_the_home_folder_lies_in_tmp(
    level: int, parent: str
) -> None:
    async with sandbox_machine(look=LOOKS[level], parent=parent) as machine:
        for path in SECRETS:
            ran = await machine.run(f"cat {machine.home / path}", in_home(machine))
            assert SECRET not in ran.text
            assert ran.code == 1
        ran = await machine.run(
            f"cat {machine.home}/.bashrc; ls {machine.home}/.ssh; echo made > new.txt", in_home(machine)
        )
        assert "as it was" in ran.text
        assert level == 2 or "id_rsa" not in ran.text  # Landlock hides no names
        assert (machine.work / "new.txt").read_text() == "made\n"


@pytest.mark.parametrize("level", LEVELS)
async def test_ATTACK3_tools_can_use_their_cache_although_it_lies_in_a_hidden_folder(level: int) -> None:
    async with sandbox_machine(look=LOOKS[level], cache="home/.cache/buddy/sandbox/work") as machine:
        (machine.home / ".cache/buddy").mkdir(parents=True)
        (machine.home / ".cache/buddy/secret").write_text(SECRET)
        command = "echo kept > $UV_CACHE_DIR.txt && cat $UV_CACHE_DIR.txt; cat ~/.cache/buddy/secret"
        ran = await machine.run(command, in_home(machine))
        assert ran.text.startswith("kept\n")
        assert SECRET not in ran.text
        assert (machine.home / ".cache/buddy/sandbox/work/uv.txt").read_text() == "kept\n"
        ran = await machine.run("touch ~/.cache/buddy/new ~/.cache/buddy/sandbox/new", in_home(machine))
        assert ran.code == 1
        assert sorted(path.name for path in (machine.home / ".cache/buddy").iterdir()) == [
            "sandbox",
            "secret",
        ]


@requires("bwrap")
@pytest.mark.parametrize("parent", ["~", "/tmp"])
async def test_ATTACK3_a_further_folder_that_does_not_exist_yet_stops_no_command(parent: str) -> None:
    async with sandbox_machine(parent=parent) as machine:
        missing = Path(machine.top) / "work" / ".buddyx" / "sessions" / "output"
        ran = await machine.run("echo ran", in_home(machine, extra=(str(missing),)))
        assert (ran.text, ran.code) == ("ran\n", 0)


AT_HOME = (
    ".config/git/credentials",
    ".config/containers/auth.json",
    ".claude/.credentials.json",
    ".gemini/oauth_creds.json",
    ".Xauthority",
    ".config/1Password/data",
    ".config/Bitwarden/data.json",
    ".oci/config",
    ".local/share/fish/fish_history",
    ".kaggle/kaggle.json",
)


@pytest.mark.parametrize("level", LEVELS)
async def test_ATTACK3_credentials_of_many_programs_are_hidden_however_they_are_spelt(level: int) -> None:
    async with sandbox_machine(look=LOOKS[level]) as machine:
        for path in (*AT_HOME, ".config/other/file"):
            (machine.home / path).parent.mkdir(parents=True, exist_ok=True)
            (machine.home / path).write_text(f"{SECRET} {path}\n")
        ran = await machine.run(
            f"cd {machine.home} && cat {' '.join(AT_HOME)} .config/other/file", machine.confinement()
        )
        assert ran.text.count(SECRET) == 1
        assert f"{SECRET} .config/other/file" in ran.text


@pytest.mark.parametrize("level", LEVELS)
async def test_ATTACK3_files_that_the_rules_hide_are_hidden(level: int) -> None:
    hidden: list[str] = []
    async with sandbox_machine(lambda: SandboxRules(hidden=tuple(hidden)), look=LOOKS[level]) as machine:
        files = [machine.outside / "key.txt", machine.outside / "config/hosts.yml"]
        if level == 3:  # Landlock hides nothing in a writable folder
            files.append(machine.work / "key.txt")
        for path in files:
            path.parent.mkdir(exist_ok=True)
            path.write_text(SECRET)
        (machine.outside / "link").symlink_to(machine.outside / "key.txt")
        hidden += [
            str(machine.outside / "link"),
            str(machine.outside / "config"),
            *map(str, files),
            "/nowhere/x",
        ]
        ran = await machine.run(
            f"cat {machine.outside}/* {machine.outside}/config/* key.txt main.py", machine.confinement()
        )
        assert SECRET not in ran.text
        assert "as it was" in ran.text
        assert "hello" in ran.text


@pytest.mark.parametrize("level", LEVELS)
async def test_ATTACK3_links_from_the_home_folder_do_not_open_what_is_hidden(level: int) -> None:
    async with sandbox_machine(look=LOOKS[level]) as machine:
        kept = machine.home / "dotfiles"
        kept.mkdir()
        for name in (".aws", ".ssh", ".netrc"):
            (machine.home / name).rename(kept / name)
            (machine.home / name).symlink_to(kept / name)
        (machine.home / "public").symlink_to(machine.outside)
        command = "cat ~/.aws/* ~/.ssh/* ~/.netrc ~/dotfiles/.aws/* ~/dotfiles/.netrc; cat ~/public/file"
        ran = await machine.run(command, machine.confinement())
        assert SECRET not in ran.text
        assert "as it was" in ran.text


def test_ATTACK3_the_innermost_of_hidden_and_writable_places_decides() -> None:
    profile = SandboxProfile(
        kind="workspace",
        shown=(),
        writable=("/home/me/.cache/buddy/sandbox/a", "/project"),
        protected=("/project/.git/config",),
        hidden=("/home/me/.cache/buddy", "/project/secret"),
        scratch="/tmp/x",
        network=False,
    )
    cases = {
        "/home/me/.cache/buddy/sandbox/a": True,
        "/home/me/.cache/buddy/sandbox/a/pip/x": True,
        "/home/me/.cache/buddy/sandbox/ab": False,
        "/home/me/.cache/buddy/sandbox": False,
        "/home/me/.cache/buddy/x": False,
        "/project/file": True,
        "/project/secret/x": False,
        "/project/.git/config": False,
        "/home/me/x": False,
        "/tmp/x": True,
    }
    assert {path: is_writable(profile, path) for path in cases} == cases
