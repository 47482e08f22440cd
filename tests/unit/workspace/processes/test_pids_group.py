"""Root's commands can start only so many processes, which `RLIMIT_NPROC` alone does not achieve."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from buddy.workspace.processes.limits import machine_processes, shared_processes
from buddy.workspace.processes.pids_group import PidsGroup, has_limit_above, is_bounded, own_folder
from buddy.workspace.processes.process_tree import read_process
from tests.capabilities import requires
from tests.support.sandbox_machine import LOOKS, sandbox_machine

BOMB = """
import os, signal, time
children = []
try:
    for _ in range(400):
        child = os.fork()
        if child == 0:
            time.sleep(100)
            os._exit(0)
        children.append(child)
except OSError:
    pass
print(len(children))
for child in children:
    os.kill(child, signal.SIGKILL)
"""
ALLOWED = 160


@pytest.fixture
def few_processes() -> Iterator[None]:
    """As root the limit binds nobody by itself; it is what commands are to be held to."""
    before = resource.getrlimit(resource.RLIMIT_NPROC)
    resource.setrlimit(resource.RLIMIT_NPROC, (ALLOWED * 4 // 3, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NPROC, before)


@requires("process groups", "bwrap", "landlock")
@pytest.mark.parametrize("level", [3, 2])
@pytest.mark.parametrize("is_confined", [True, False])
@pytest.mark.usefixtures("few_processes")
async def test_a_fork_bomb_of_root_stops_and_leaves_room_for_git(level: int, is_confined: bool) -> None:
    before = own_groups()
    async with sandbox_machine(look=LOOKS[level]) as machine:
        (machine.work / "bomb.py").write_text(BOMB)
        done = await machine.run("python3 bomb.py", machine.confinement() if is_confined else None)
        assert 50 < int(done.text) < ALLOWED
        (group,) = own_groups() - before
        assert str(os.getpid()) not in (group / "tasks").read_text().split()
    assert own_groups() == before


def own_groups() -> set[Path]:
    """Return the groups of this process, those of commands that earlier tests left running among them."""
    me = read_process(os.getpid())
    assert me is not None
    return set(Path(own_folder()).glob(f"buddy-{me.pid}-{me.started}-*"))


@requires("process groups")
def test_the_end_of_a_session_leaves_the_groups_of_others() -> None:
    before = own_groups()
    first, second = PidsGroup(own_folder()), PidsGroup(own_folder())
    assert first.limit(10) is first
    assert second.limit(20) is second
    first.close()
    (left,) = own_groups() - before
    assert (left / "pids.max").read_text() == "20\n"
    with second.hold_children():
        command = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    assert (left / "tasks").read_text() == f"{command.pid}\n"
    second.close()
    assert left.exists()
    third = PidsGroup(own_folder())
    assert third.limit(30) is third
    third.close()
    command.communicate()
    left.rmdir()
    assert own_groups() == before


@requires("process groups")
def test_the_group_of_a_killed_session_inside_goes_with_the_outer_one() -> None:
    before = own_groups()
    outer = PidsGroup(own_folder())
    assert outer.limit(10) is outer
    (folder,) = own_groups() - before
    (folder / "buddy-4194306-1-1").mkdir()
    outer.close()
    assert own_groups() == before


@requires("process groups")
def test_groups_of_processes_that_are_gone_are_removed() -> None:
    parent = own_folder()
    left = Path(parent, "buddy-4194305-1-1")
    other = Path(parent, "buddy-other")
    for folder in (left, left / "buddy-4194306-1-2", other):
        folder.mkdir()
    try:
        group = PidsGroup(parent)
        assert group.limit(10) is group
        assert (left.exists(), other.exists()) == (False, True)
        group.close()
    finally:
        other.rmdir()


@requires("process groups")
def test_a_group_that_somebody_removed_costs_only_the_limit() -> None:
    before = own_groups()
    group = PidsGroup(own_folder())
    assert group.limit(10) is group
    (folder,) = own_groups() - before
    folder.rmdir()
    with group.hold_children():
        assert subprocess.run("true", check=False).returncode == 0
    group.close()


def test_without_groups_there_is_no_limit(tmp_path: Path) -> None:
    assert PidsGroup("").limit(10) is None
    assert PidsGroup(str(tmp_path / "missing")).limit(10) is None
    assert PidsGroup(str(tmp_path)).limit(10) is None
    assert list(tmp_path.iterdir()) == []


V1 = "33 30 0:29 {root} /sys/fs/cgroup/pids rw,nosuid - cgroup cgroup rw,pids\n"
V2 = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"


@pytest.mark.parametrize(
    ("groups", "mounts", "folder"),
    [
        ("8:pids:/\n0::/\n", V1.format(root="/"), "/sys/fs/cgroup/pids"),
        ("8:pids:/a/b\n", V1.format(root="/"), "/sys/fs/cgroup/pids/a/b"),
        ("8:cpu,pids:/docker/1/x\n", V1.format(root="/docker/1"), "/sys/fs/cgroup/pids/x"),
        ("8:pids:/docker/1\n", V1.format(root="/docker/1"), "/sys/fs/cgroup/pids"),
        ("8:pids:/docker/12\n", V1.format(root="/docker/1"), ""),
        ("8:pids:/with blank\n", V1.format(root="/with\\040blank"), "/sys/fs/cgroup/pids"),
        ("0::/user.slice\n", V2, ""),
        ("", "", ""),
        ("8:pids:/\n", "", ""),
    ],
)
def test_the_own_group_is_found_where_it_is_mounted(
    tmp_path: Path, groups: str, mounts: str, folder: str
) -> None:
    (tmp_path / "groups").write_text(groups)
    (tmp_path / "mounts").write_text(mounts)
    assert own_folder(str(tmp_path / "groups"), str(tmp_path / "mounts")) == folder


def test_a_system_without_proc_has_no_group(tmp_path: Path) -> None:
    assert own_folder(str(tmp_path / "none"), str(tmp_path / "none")) == ""


def test_the_ids_of_the_machine_bound_the_processes_of_everybody(tmp_path: Path) -> None:
    (tmp_path / "pid_max").write_text("32768\n")
    (tmp_path / "pids.max").write_text("max\n")
    paths = tuple(str(tmp_path / name) for name in ("pid_max", "pids.max", "missing"))
    assert machine_processes(paths) == 32768
    assert machine_processes(paths[1:]) is None
    soft = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    assert soft == resource.RLIM_INFINITY or soft > 400
    assert shared_processes(400) == 400 * 3 // 4 - 64
    assert shared_processes(100) == 75 - 18
    assert shared_processes(1) == 1


@requires("process groups")
def test_root_is_bounded_where_groups_can_be_made() -> None:
    before = own_groups()
    assert is_bounded()
    assert own_groups() == before


@pytest.mark.parametrize(
    ("groups", "limits", "bounded"),
    [
        ("0::/user.slice/user-0.slice\n", {"user.slice": "max", "user.slice/user-0.slice": "10813"}, True),
        ("0::/user.slice/user-0.slice\n", {"user.slice": "500"}, True),
        ("0::/user.slice/user-0.slice\n", {"user.slice": "max", "other.slice": "5"}, False),
        ("0::/\n", {".": "512"}, True),
        ("0::/\n", {}, False),
        ("8:pids:/x\n", {"x": "5"}, False),
        ("", {}, False),
    ],
)
def test_limits_of_groups_above_are_found(
    tmp_path: Path, groups: str, limits: dict[str, str], bounded: bool
) -> None:
    (tmp_path / "groups").write_text(groups)
    for place, limit in limits.items():
        (tmp_path / "cgroup" / place).mkdir(parents=True, exist_ok=True)
        (tmp_path / "cgroup" / place / "pids.max").write_text(f"{limit}\n")
    assert has_limit_above(str(tmp_path / "groups"), str(tmp_path / "cgroup")) is bounded
