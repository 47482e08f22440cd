"""However much lies in a workspace, nothing that is protected becomes writable for it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from buddy.safety.paths import Boundary
from buddy.workspace.sandbox.git_data import GitData
from buddy.workspace.sandbox.guard import Guard, Snapshot
from buddy.workspace.sandbox.places import MAX_PROTECTED, Surveyor, WorkspaceSurvey, profile_for
from buddy.workspace.sandbox.profile import SandboxProfile, is_writable
from tests.capabilities import requires
from tests.security.test_git_data_is_guarded import git, prepare
from tests.support.sandbox_machine import LOOKS, sandbox_machine

LEVELS = [pytest.param(3, marks=requires("bwrap")), pytest.param(2, marks=requires("landlock"))]
FLOODS = {
    "secret names": "for i in $(seq 600); do echo x > .env.$i; done",
    "secret names in a folder": "mkdir many; for i in $(seq 600); do echo x > many/$i.pem; done",
    "protected names in packages": "seq 600 | sed 's,.*,node_modules/&/.vscode,' | xargs mkdir -p",
    "repositories": "seq 600 | sed 's,.*,r/&/.git,' | xargs mkdir -p",
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("flood", FLOODS)
async def test_many_names_open_no_protected_one(level: int, flood: str) -> None:
    async with sandbox_machine(look=LOOKS[level]) as machine:
        prepare(machine)
        nested = machine.work / "nested"
        nested.mkdir()
        git(nested, "init", "-q")
        before = (nested / ".git/config").read_bytes()
        await machine.run(FLOODS[flood], machine.confinement())
        ran = await machine.run(
            "echo x >> nested/.git/config; echo x >> .vscode/settings.json; mkdir -p new/.zed; "
            "echo x >> sub/.claude/settings.json; echo x > nested/.git/hooks/pre-push; "
            "git -C nested -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && echo COMMITTED",
            machine.confinement(),
        )

        assert (nested / ".git/config").read_bytes() == before
        for name in (".vscode/settings.json", "sub/.claude/settings.json"):
            assert (machine.work / name).read_text() == "as it was\n"
        assert not (machine.work / "new/.zed").exists()
        assert not (nested / ".git/hooks/pre-push").exists()
        assert "COMMITTED" in ran.text, ran.text


def profile(root: Path, survey: WorkspaceSurvey, *writable: str) -> SandboxProfile:
    boundary = Boundary(str(root), str(root), "/home/nobody")
    return profile_for(
        "workspace", boundary, survey, writable=writable, hidden=(), scratch="/scratch", network=False
    )


def test_folders_that_were_not_looked_into_cannot_be_changed(tmp_path: Path) -> None:
    root = Path(os.path.realpath(tmp_path))
    for number in range(9):
        (root / f"{number}/deep/.zed").mkdir(parents=True)
    survey = Surveyor((str(root),), "/home/nobody", most=12).look()
    assert not survey.complete
    found = profile(root, survey)
    seen = [number for number in range(9) if is_writable(found, f"{root}/{number}/deep/file")]
    assert 0 < len(seen) < 9
    for number in range(9):
        assert not is_writable(found, f"{root}/{number}/deep/.zed/file")
    assert is_writable(found, f"{root}/file")
    unseen = survey.unseen[0]
    assert is_writable(profile(root, survey, unseen), f"{unseen}/file")  # a person opened it


def test_places_that_are_too_many_are_protected_by_their_folder(tmp_path: Path) -> None:
    root = Path(os.path.realpath(tmp_path))
    many = [root / f"a/many/{number}.code-workspace" for number in range(MAX_PROTECTED)]
    few = [root / "b/.zed", root / "b/.cursor"]
    for path in (*many, *few):
        path.mkdir(parents=True)
    found = profile(root, WorkspaceSurvey(tuple(map(str, (*many, *few)))))
    assert len(found.protected) <= MAX_PROTECTED
    assert [
        is_writable(found, f"{root}/{name}/x") for name in ("a/many/7.code-workspace", "b/.zed", "b")
    ] == [
        False,
        False,
        True,
    ]


def test_a_workspace_that_became_too_big_is_told() -> None:
    boundary = Boundary("/project", "/project", "/home/nobody")
    before = Snapshot(frozenset(), GitData(()), {})
    after = Snapshot(frozenset(), GitData(()), {}, complete=False)
    assert Guard(boundary, before).restore((), after, touch=True) == (
        "the workspace has become too big to be looked through for protected names; commands cannot change "
        "the folders that were not seen",
    )
