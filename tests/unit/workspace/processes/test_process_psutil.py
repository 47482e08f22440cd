"""Processes as psutil tells of them, beside what the system says in `/proc`."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Generator
from pathlib import Path

import psutil
import pytest

from buddy.workspace.processes import process_psutil, process_tree
from buddy.workspace.processes.environment import TAG_VARIABLE
from buddy.workspace.processes.process_info import ProcessInfo
from buddy.workspace.processes.process_tree import Tag, members, new_tag
from tests.capabilities import requires

SCRIPT = """
setsid bash -c 'sleep 60 & echo $! >> pids; echo $$ >> pids; wait' &
sleep 60 & echo $! >> pids
echo $$ >> pids
echo ready > ready
wait
"""


def until(claim: Callable[[], bool]) -> None:
    while not claim():  # the test's own time limit ends it
        time.sleep(0.01)


@pytest.fixture
def tagged(tmp_path: Path) -> Generator[tuple[subprocess.Popen[bytes], Tag, list[int]]]:
    """A shell with a child, and a grandchild in a session of its own; all carry a tag in the environment."""
    tag = new_tag()
    shell = subprocess.Popen(
        ["bash", "-c", SCRIPT],
        cwd=tmp_path,
        env={**os.environ, TAG_VARIABLE: tag.text},
        start_new_session=True,
    )
    pids = tmp_path / "pids"
    until(lambda: (tmp_path / "ready").exists() and len(pids.read_text().split()) == 4)
    found = sorted(map(int, pids.read_text().split()))
    # Between fork and exec a process has no environment.
    until(lambda: sorted(psutil.Process(pid).name() for pid in found) == ["bash", "bash", "sleep", "sleep"])
    try:
        yield shell, tag, found
    finally:
        for pid in found:
            os.kill(pid, 9)
        shell.wait()


def plain(process: ProcessInfo | None) -> tuple[int, int, int, int, bool] | None:
    """Return the fields both ways must agree on; they count time differently."""
    if process is None:
        return None
    return process.pid, process.parent, process.group, process.session, process.alive


def test_RU_D4_the_tree_of_a_command_is_known(
    tagged: tuple[subprocess.Popen[bytes], Tag, list[int]],
) -> None:
    shell, tag, pids = tagged
    leader = process_psutil.read_process(shell.pid)
    assert leader is not None
    assert sorted(members(tag, leader, process_psutil.all_processes)) == pids
    # Without the tag the leader's group and descent lead to the same.
    other = Tag("other", 1)
    assert sorted(members(other, leader, process_psutil.all_processes)) == pids
    # Without the leader the tag does.
    assert sorted(members(tag, None, process_psutil.all_processes)) == pids
    assert members(other, None, process_psutil.all_processes) == {}


@requires("proc")
def test_RU_D4_psutil_and_proc_agree(tagged: tuple[subprocess.Popen[bytes], Tag, list[int]]) -> None:
    shell, tag, pids = tagged
    for pid in (*pids, os.getpid(), os.getppid()):
        assert plain(process_psutil.read_process(pid)) == plain(process_tree.read_process(pid))
        assert process_psutil.variables_of(pid) == process_tree.variables_of(pid)
    assert process_psutil.variables_of(shell.pid)[TAG_VARIABLE] == tag.text
    assert shell.pid in process_psutil.own_children()
    assert set(process_psutil.own_children()) == set(process_tree.own_children())


def test_RU_D4_zombies_are_dead_and_stopped_processes_are_told() -> None:
    child = subprocess.Popen(["sleep", "60"])
    first = process_psutil.read_process(child.pid)
    child.send_signal(19)
    until(lambda: (now := process_psutil.read_process(child.pid)) is not None and now.state == "T")
    child.kill()
    until(lambda: (now := process_psutil.read_process(child.pid)) is not None and not now.alive)
    now = process_psutil.read_process(child.pid)
    assert first is not None
    assert now is not None
    assert (now.started, now.parent) == (first.started, os.getpid())
    child.wait()
    assert process_psutil.read_process(child.pid) is None
    assert process_psutil.variables_of(child.pid) == {}
