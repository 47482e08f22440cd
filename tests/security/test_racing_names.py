"""Programs that get past the record of attempts: what they do to protected names is put back, and told."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from buddy.agent.tool import NOTHING_BLOCKED
from buddy.safety.paths import Boundary
from buddy.workspace.sandbox.guard import Guard, snapshot
from buddy.workspace.sandbox.places import Surveyor
from tests.capabilities import requires
from tests.support.sandbox_machine import LOOKS, UNTOUCHED, SandboxMachine, sandbox_machine

LEVELS = [pytest.param(3, marks=requires("bwrap")), pytest.param(2, marks=requires("landlock"))]

PYTHON = os.path.realpath(sys.executable)
"""Not the virtual environment's: that one may lie below `/tmp`, which is empty inside."""

RACE = """
import ctypes, os, sys, threading, time
end = time.monotonic() + 40
harmless, wanted = sys.argv[2].encode(), sys.argv[3].encode()
libc = ctypes.CDLL(None)
size = max(len(harmless), len(wanted)) + 1
path = ctypes.create_string_buffer(harmless, size)
over = threading.Event()

def swap():
    while not over.is_set():
        ctypes.memmove(path, wanted + b"\\0", len(wanted) + 1)
        ctypes.memmove(path, harmless + b"\\0", len(harmless) + 1)

threading.Thread(target=swap, daemon=True).start()
while time.monotonic() < end:
    if sys.argv[1] == "mkdir":
        libc.mkdir(path, 0o755)
        os.path.isdir(harmless) and os.rmdir(harmless)
    elif sys.argv[1] == "open":
        fd = libc.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        fd >= 0 and (os.write(fd, b"evil"), os.close(fd))
    elif sys.argv[1] == "symlink":
        libc.symlink(b"sub", path)
        os.path.islink(harmless) and os.unlink(harmless)
    else:
        os.path.isdir("stage") or os.mkdir("stage")
        libc.rename(b"stage", path)
        os.path.isdir(harmless) and os.rename(harmless, "stage")
    if os.path.lexists(wanted):
        print("RACED")
        break
over.set()
"""
"""Changes the name between the moment it is read by the record and the moment the kernel reads it again."""

CASES = {
    "folder at the top": ("mkdir", ".codexx", ".codex"),
    "folder deep down": ("mkdir", "sub/.zedx", "sub/.zed"),
    "file at the top": ("open", ".mcp.jsonx", ".mcp.json"),
    "file in another case": ("open", ".ENVRCx", ".ENVRC"),
    "settings of buddy": ("open", "buddy.tomlx", "buddy.toml"),
    "link": ("symlink", ".ideax", ".idea"),
    "folder by moving": ("rename", ".geminix", ".gemini"),
    "hook": ("open", ".git/hooksx", ".git/commondir"),
}


def prepare(machine: SandboxMachine) -> None:
    subprocess.run(["git", "init", "-q", str(machine.work)], check=True, env={"PATH": os.environ["PATH"]})
    (machine.work / "race.py").write_text(RACE)


def race(how: str, harmless: str, wanted: str) -> str:
    return f"{PYTHON} -I race.py {how} {harmless} {wanted}"


def quarantined(machine: SandboxMachine) -> list[Path]:
    return sorted((machine.work / ".buddyx" / "quarantine").glob("*"))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("case", CASES)
async def test_a_name_that_was_created_by_racing_is_moved_away_and_told(level: int, case: str) -> None:
    how, harmless, wanted = CASES[case]
    async with sandbox_machine(look=LOOKS[level]) as machine:
        prepare(machine)
        ran = await machine.run(race(how, harmless, wanted), machine.confinement(), limit_s=120)
        told = machine.sandbox.take_repairs()

        assert "RACED" in ran.text  # otherwise this tests nothing
        assert not os.path.lexists(machine.work / wanted)
        (kept,) = quarantined(machine)
        assert kept.name.endswith("-" + os.path.basename(wanted))
        assert told == (f"{wanted} was created; it is now .buddyx/quarantine/{kept.name}",)
        assert machine.sandbox.take_repairs() == ()


CHANGES = {
    "settings of the editor": ".vscode/settings.json",
    "settings of an agent, deep down": "sub/.claude/settings.json",
    "settings of git": ".git/config",
}


@requires("landlock")
@pytest.mark.parametrize("wanted", CHANGES.values(), ids=CHANGES.keys())
async def test_what_landlock_lets_a_race_change_gets_its_content_back(wanted: str) -> None:
    async with sandbox_machine(look=LOOKS[2]) as machine:
        prepare(machine)
        path = machine.work / wanted
        before = path.read_bytes()
        command = f"{PYTHON} -I overwrite.py {wanted}"
        (machine.work / "overwrite.py").write_text(OVERWRITE)
        ran = await machine.run(command, machine.confinement(), limit_s=120)
        told = machine.sandbox.take_repairs()

        assert "RACED" in ran.text, ran.text
        assert path.read_bytes() == before
        (kept,) = quarantined(machine)
        assert kept.read_bytes() == b"evil"
        assert told == (
            f"{wanted} was changed and put back; the changed one is now .buddyx/quarantine/{kept.name}",
        )


OVERWRITE = """
import ctypes, os, sys, threading, time
end = time.monotonic() + 40
wanted = sys.argv[1].encode()
harmless = os.path.dirname(wanted) + b"/../" * (wanted.count(b"/")) + b"harmless-file"
libc = ctypes.CDLL(None)
path = ctypes.create_string_buffer(harmless, max(len(harmless), len(wanted)) + 1)
over = threading.Event()
open("harmless-file", "w").close()

def swap():
    while not over.is_set():
        ctypes.memmove(path, wanted + b"\\0", len(wanted) + 1)
        ctypes.memmove(path, harmless + b"\\0", len(harmless) + 1)

threading.Thread(target=swap, daemon=True).start()
while time.monotonic() < end:
    fd = libc.open(path, os.O_WRONLY | os.O_TRUNC)
    if fd >= 0:
        os.write(fd, b"evil")
        os.close(fd)
    if open(wanted, "rb").read() == b"evil":
        print("RACED")
        break
over.set()
"""


@requires("bwrap")
async def test_a_hook_of_a_new_repository_and_settings_in_a_package_are_left() -> None:
    async with sandbox_machine() as machine:
        prepare(machine)
        command = (
            "git init -q inner && mkdir -p node_modules/p/.vscode && echo x > node_modules/p/.vscode/a "
            "&& mkdir -p v/lib/site-packages/q && echo x > v/lib/site-packages/q/.npmrc"
        )
        ran = await machine.run(command, machine.confinement())

        assert (ran.code, ran.blocked, machine.sandbox.take_repairs()) == (0, NOTHING_BLOCKED, ()), ran.text
        assert (machine.work / "inner/.git/config").exists()
        assert (machine.work / "node_modules/p/.vscode/a").exists()


def test_what_the_person_allowed_meanwhile_stays(tmp_path: Path) -> None:
    guard, surveyor, boundary = guarded(tmp_path)
    (tmp_path / "work/.vscode").mkdir()
    (tmp_path / "work/.mcp.json").write_text("{}")
    after = snapshot(boundary, surveyor.look(), contents=False)

    allowed = (f"{boundary.root}/.vscode/tasks.json", f"{boundary.root}/.vscode")
    told = guard.restore(guard.find_changes(after, allowed), after, touch=True)

    assert [one.partition(" ")[0] for one in told] == [".mcp.json"]
    assert (tmp_path / "work/.vscode").exists()


def test_beside_a_command_outside_it_is_only_told(tmp_path: Path) -> None:
    guard, surveyor, boundary = guarded(tmp_path)
    (tmp_path / "work/.envrc").write_text("x")
    after = snapshot(boundary, surveyor.look(), contents=False)

    (told,) = guard.restore(guard.find_changes(after, ()), after, touch=False)
    assert told.endswith("while something ran outside of the sandbox, so it was left")
    assert (tmp_path / "work/.envrc").exists()


def test_a_link_on_the_way_is_not_followed(tmp_path: Path) -> None:
    guard, surveyor, boundary = guarded(tmp_path)
    (tmp_path / "work/deep").mkdir()
    (tmp_path / "work/deep/.zed").mkdir()
    after = snapshot(boundary, surveyor.look(), contents=False)
    (tmp_path / "work/deep").rename(tmp_path / "work/elsewhere")
    (tmp_path / "victim/.zed").mkdir(parents=True)
    (tmp_path / "work/deep").symlink_to(tmp_path / "victim")

    (told,) = guard.restore(guard.find_changes(after, ()), after, touch=True)

    assert told.startswith("deep/.zed was created, and could not be put back: ")
    assert (tmp_path / "victim/.zed").exists()


LED_AWAY = {
    "folder on the way": ("sub", "../victim"),
    "folder further up": ("sub/deep", "../../victim"),
    "the protected folder itself": ("sub/deep/.zed", "../../../victim"),
    "link to a folder inside": ("sub", "other"),
    "link that leads nowhere": ("sub", "../nowhere"),
    "link to itself": ("sub", "sub"),
}


@pytest.mark.parametrize("swapped", LED_AWAY)
def test_what_is_put_back_follows_no_link(tmp_path: Path, swapped: str) -> None:
    guard, surveyor, boundary = guarded(tmp_path, "sub/deep/.zed/tasks.json")
    name, target = LED_AWAY[swapped]
    (tmp_path / "victim").mkdir()
    (tmp_path / "work/other").mkdir()
    shutil.rmtree(tmp_path / "work" / name)
    (tmp_path / "work" / name).symlink_to(target)
    after = snapshot(boundary, surveyor.look(), contents=True)

    told = " ".join(guard.restore(guard.find_changes(after, ()), after, touch=True))

    assert not list((tmp_path / "victim").iterdir())
    assert not list((tmp_path / "work/other").iterdir())
    assert not (tmp_path / "nowhere").exists()
    assert "put back" in told
    kept = [path for path in (tmp_path / "work").rglob("tasks.json") if path.is_file()]
    assert [path.read_text() for path in kept] == [UNTOUCHED]  # nothing is lost


def test_what_could_not_be_put_back_is_kept_once(tmp_path: Path) -> None:
    guard, surveyor, boundary = guarded(tmp_path, "sub/.zed/tasks.json")
    shutil.rmtree(tmp_path / "work/sub")
    (tmp_path / "work/sub").write_text("in the way")
    for _ in range(3):
        after = snapshot(boundary, surveyor.look(), contents=True)
        guard.restore(guard.find_changes(after, ()), after, touch=True)
    assert len(list((tmp_path / "work/.buddyx/quarantine").iterdir())) == 1


@pytest.mark.parametrize("mode", [0o500, 0o755, 0o700])
def test_folders_come_back_with_their_modes_and_all_that_was_in_them(tmp_path: Path, mode: int) -> None:
    guard, surveyor, boundary = guarded(tmp_path, "sub/.zed/tasks.json", mode)
    (tmp_path / "work/sub/.zed").chmod(0o700)
    shutil.rmtree(tmp_path / "work/sub")
    after = snapshot(boundary, surveyor.look(), contents=True)

    guard.restore(guard.find_changes(after, ()), after, touch=True)

    assert (tmp_path / "work/sub/.zed/tasks.json").read_text() == UNTOUCHED
    assert (tmp_path / "work/sub/.zed").stat().st_mode & 0o777 == mode


def guarded(tmp_path: Path, file: str = "", mode: int = 0o755) -> tuple[Guard, Surveyor, Boundary]:
    """A guard of a workspace; with a file in it, of its contents too."""
    root = os.path.realpath(tmp_path / "work")
    os.mkdir(root)
    if file:
        path = tmp_path / "work" / file
        path.parent.mkdir(parents=True)
        path.write_text(UNTOUCHED)
        path.parent.chmod(mode)
    boundary = Boundary(root, root, str(tmp_path))
    surveyor = Surveyor((root,), str(tmp_path))
    return Guard(boundary, snapshot(boundary, surveyor.look(), contents=bool(file))), surveyor, boundary


def test_the_second_walk_sees_what_changed_in_a_folder_it_knows(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"f{number}/deep").mkdir(parents=True)
    surveyor = Surveyor((str(tmp_path),), "/home/nobody")
    assert surveyor.look().protected == ()
    for number in (3, 7):
        (tmp_path / f"f{number}/deep/.cursor").mkdir()
    assert surveyor.look().protected == tuple(f"{tmp_path}/f{number}/deep/.cursor" for number in (3, 7))
    (tmp_path / "f3/deep/.cursor").rmdir()
    assert surveyor.look().protected == (f"{tmp_path}/f7/deep/.cursor",)
