"""A place that is opened for one command: what is protected in it stays closed."""

from __future__ import annotations

from pathlib import Path

from buddy.tasks.sandboxing import open_allowed_places
from buddy.workspace.sandbox.places import search_place
from buddy.workspace.sandbox.profile import OpenedPlace, SandboxProfile, is_reserved
from buddy.workspace.sandbox.status import SandboxStatus
from tests.capabilities import requires
from tests.support.sandbox_machine import sandbox_machine

CLOSED = (".env", ".git/config", ".git/hooks/post-commit", "sub/.vscode/tasks.json", "sub/deep/key.pem")


def filled(folder: Path) -> Path:
    for name in (*CLOSED, ".git/HEAD", ".git/objects/x", ".git/refs/x", "sub/file"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("as it was\n")
    (folder / ".git/config").write_text("[core]\n")
    return folder


@requires("bwrap")
async def test_WALK_S4_protected_names_and_secrets_in_an_opened_folder_stay_closed() -> None:
    async with sandbox_machine() as machine:
        place = filled(machine.home / "other")
        before = {name: (place / name).read_text() for name in CLOSED}
        confinement = await open_allowed_places(machine.confinement(), (str(place),), SandboxStatus(3))
        names = " ".join(str(place / name) for name in (*CLOSED, "sub/file", "new"))
        ran = await machine.run(f"for one in {names}; do echo changed >> $one; done; true", confinement)
        assert {name: (place / name).read_text() for name in CLOSED} == before
        assert (place / "sub/file").read_text() == "as it was\nchanged\n"
        assert (place / "new").read_text() == "changed\n"
        assert "Read-only file system" in ran.text
        moved = f"mv {place}/sub/.vscode {place}/away; mv {place}/.git {place}/away2; mkdir {place}/.codex"
        assert (await machine.run(moved, confinement)).code != 0
        assert (place / "sub/.vscode").is_dir()
        assert (place / ".git/config").read_text() == "[core]\n"
        assert not (place / ".codex").exists()
        again = await machine.run(f"touch {place}/later", machine.confinement())
        assert (again.code, (place / "later").exists()) == (1, False)


@requires("bwrap")
async def test_WALK_S4_a_single_file_is_opened_without_its_folder() -> None:
    async with sandbox_machine() as machine:
        notes = machine.home / "notes.txt"
        notes.write_text("one\n")
        confinement = await open_allowed_places(machine.confinement(), (str(notes),), SandboxStatus(3))
        ran = await machine.run(f"echo two >> {notes} && touch {machine.home}/beside", confinement)
        assert notes.read_text() == "one\ntwo\n"
        assert (ran.code, ran.blocked.paths) == (1, (f"{machine.home}/beside",))


async def test_WALK_S4_neighbour_a_place_that_became_a_link_stays_closed() -> None:
    async with sandbox_machine() as machine:
        (machine.home / "swapped").symlink_to(machine.home / ".ssh")
        confinement = await open_allowed_places(
            machine.confinement(), (str(machine.home / "swapped"),), SandboxStatus(3)
        )
        assert confinement == machine.confinement()


async def test_WALK_S4_neighbour_landlock_opens_no_folder_with_something_protected() -> None:
    async with sandbox_machine() as machine:
        place, plain = filled(machine.home / "other"), machine.home / "plain"
        plain.mkdir()
        confinement = await open_allowed_places(
            machine.confinement(), (str(place), str(plain)), SandboxStatus(2)
        )
        assert confinement.writable == (str(plain),)


def test_WALK_S4_neighbour_a_folder_too_big_to_look_through_is_not_opened(tmp_path: Path) -> None:
    for name in "abcd":
        (tmp_path / name).mkdir()
    (tmp_path / "file").touch()
    assert search_place(str(tmp_path), "/home/nobody").complete
    assert not search_place(str(tmp_path), "/home/nobody", 4).complete
    assert search_place(str(tmp_path / "file"), "/home/nobody") == OpenedPlace((str(tmp_path / "file"),))


def test_WALK_S4_only_folders_are_kept_from_being_replaced() -> None:
    profile = SandboxProfile(
        "workspace", (), ("/project", "/home/me/notes"), (), (), "/s", False, ("/home/me/notes",)
    )
    assert [is_reserved(profile, path) for path in ("/project", "/home/me/notes", "/project/.codex")] == [
        True,
        False,
        True,
    ]
