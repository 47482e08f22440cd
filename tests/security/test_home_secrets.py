"""Files with secret names in the home folder, outside of the workspace, look empty to sandboxed commands."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from buddy.workspace.sandbox.home_secrets import MAX_FILES, HomeSecrets
from buddy.workspace.sandbox.profile import Kind, SandboxRules
from tests.capabilities import requires
from tests.support.sandbox_machine import LOOKS, SECRET, sandbox_machine

LEVELS = [pytest.param(3, marks=requires("bwrap")), pytest.param(2, marks=requires("landlock"))]
HIDDEN = [
    *("server.key", ".env", "other/.env", "other/.env.local", "code/client/project/.env", "id_ed25519.old"),
    *("other/secrets.yaml", "other/prod.env", "notes/passwords.txt", "code/x/terraform.tfvars", "a b/.env"),
    *("Other/SERVER.KEY", "notes/client_secret_1.json", "store.kdbx", "other/credentials"),
]
PLAIN = [
    *("other/.env.example", "other/main.py", "conda/ssl/cacert.pem", "conda/ssl/cert.pem", "key.pub"),
    *("other/node_modules/x/test.pem", "notes/environment", "other/keys.py"),
]


def fill(home: Path) -> None:
    for name in (*HIDDEN, *PLAIN):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(SECRET)


@pytest.mark.parametrize("kind", ["workspace", "read-only"])
@pytest.mark.parametrize("level", LEVELS)
async def test_no_command_reads_a_secret_of_another_project(level: int, kind: Kind) -> None:
    async with sandbox_machine(look=LOOKS[level]) as machine:
        fill(machine.home)
        names = " ".join(f"'{machine.home / name}'" for name in HIDDEN)
        ran = await machine.run(f"cat {names}; grep -r the-secret {names}", machine.confinement(kind))
        assert SECRET not in ran.text
        for name in PLAIN:
            assert (
                SECRET in (await machine.run(f"cat '{machine.home / name}'", machine.confinement(kind))).text
            ), name


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("place", ["other", "other/.env"])
async def test_what_the_person_opened_is_not_hidden(level: int, place: str) -> None:
    opened: list[str] = []
    async with sandbox_machine(lambda: SandboxRules(writable=tuple(opened)), look=LOOKS[level]) as machine:
        fill(machine.home)
        opened.append(str(machine.home / place))
        ran = await machine.run("cat ../home/other/.env; cat ../home/server.key", machine.confinement())
        assert ran.text.count(SECRET) == 1


@pytest.mark.parametrize("level", LEVELS)
async def test_a_program_of_the_workspace_reads_its_own_settings(level: int) -> None:
    async with sandbox_machine(look=LOOKS[level]) as machine:
        assert SECRET in (await machine.run("cat .env", machine.confinement())).text
        assert SECRET not in (await machine.run("cat .env", machine.confinement("read-only"))).text


async def test_a_walk_is_bounded_and_files_near_the_top_come_first(tmp_path: Path) -> None:
    for number in range(MAX_FILES + 20):
        (tmp_path / f"a/b/{number}").mkdir(parents=True)
        (tmp_path / f"a/b/{number}/.env").touch()
    (tmp_path / "z").mkdir()
    (tmp_path / "z/x.key").touch()
    secrets = HomeSecrets(os.path.realpath(tmp_path))
    await secrets.renew()
    found = secrets.outside(())
    assert len(found) == MAX_FILES
    assert found[0].endswith("/z/x.key")

    few = HomeSecrets(os.path.realpath(tmp_path), most=10)
    await few.renew()
    assert len(few.outside(())) < 20
