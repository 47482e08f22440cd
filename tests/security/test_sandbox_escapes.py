"""Every attempt of `escape_attempts`, run at each level that works here, and once without a sandbox."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.capabilities import requires
from tests.support.escape_attempts import ATTEMPTS, Attempt
from tests.support.sandbox_machine import LOOKS, SandboxMachine, sandbox_machine

PR_SET_DUMPABLE = 4


def named(attempt: Attempt) -> str:
    return attempt.name.replace(" ", "-")


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Everything below a folder: modes and contents."""
    found: dict[str, tuple[int, bytes]] = {}
    for top, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(top, name)
            state = os.lstat(path)
            content = os.readlink(path).encode() if os.path.islink(path) else b""
            if os.path.isfile(path) and not os.path.islink(path):
                content = Path(path).read_bytes() + str(state.st_mtime_ns).encode()
            found[path] = (state.st_mode, content)
    return found


def guarded(machine: SandboxMachine) -> dict[str, tuple[int, bytes]]:
    """The paths that no command may change: the outside, the home, and the protected names of the
    workspace."""
    git = machine.work / ".git"
    names = (".vscode", ".claude", ".codex", ".cursor", ".idea", ".gemini", ".zed", ".fleet", ".husky")
    found = {**tree(machine.outside), **tree(machine.home), **tree(git / "hooks")}
    for path in (git / "config", *machine.work.glob(".mcp.json"), *machine.work.glob("*.toml")):
        found[str(path)] = (0, path.read_bytes() if path.exists() else b"gone")
    for top, folders, files in os.walk(machine.work):
        for name in (*folders, *files):
            if name.lower() in (*names, ".envrc"):
                found[f"{top}/{name}"] = (0, b"")
                found |= tree(Path(top, name))
    return found


@contextlib.contextmanager
def terminal() -> Iterator[int]:
    """A terminal of the person, with something typed."""
    ours, theirs = os.openpty()
    try:
        os.write(ours, b"typed\n")
        yield theirs
    finally:
        os.close(ours)
        os.close(theirs)


@contextlib.contextmanager
def shared_memory() -> Iterator[int]:
    """Memory that all processes of this user can attach."""
    libc = ctypes.CDLL(None)
    identity = libc.shmget(0, 4096, 0o600)
    try:
        yield identity
    finally:
        libc.shmctl(identity, 0, None)


@contextlib.contextmanager
def listeners(machine: SandboxMachine) -> Iterator[dict[str, str]]:
    """Servers of the machine, and the words attempts are filled in with."""
    path = str(machine.outside / "socket")
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX) as unix,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as linked,
        socket.socket(socket.AF_UNIX) as relative,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams,
        contextlib.chdir(machine.home),
    ):
        linked.bind(f"{path}.new")  # as a ControlMaster of OpenSSH does
        os.link(f"{path}.new", f"{path}.linked")
        os.unlink(f"{path}.new")
        linked.listen()
        relative.bind("relative")
        relative.listen()
        datagrams.bind(f"{path}.datagrams")
        unix.bind(path)
        unix.listen()
        abstract.bind(f"\0buddy-{os.getpid()}")
        abstract.listen()
        with terminal() as tty, shared_memory() as shared:
            yield {
                "out": str(machine.outside),
                "home": str(machine.home),
                "work": str(machine.work),
                "pid": str(os.getpid()),
                "port": str(tcp.getsockname()[1]),
                "socket": path,
                "linked": f"{path}.linked",
                "relative": str(machine.home / "relative"),
                "datagrams": f"{path}.datagrams",
                "abstract": f"buddy-{os.getpid()}",
                "tty": os.ttyname(tty),
                "tty_fd": str(tty),
                "shared": str(shared),
                "py": f"{sys.executable} -I -S",
            }


def prepare(machine: SandboxMachine) -> None:
    subprocess.run(["git", "init", "-q", str(machine.work)], check=True, env={"PATH": os.environ["PATH"]})


@requires("bwrap")
@pytest.mark.parametrize("attempt", [one for one in ATTEMPTS if 3 in one.levels], ids=named)
async def test_the_attempt_fails_in_bubblewrap(attempt: Attempt) -> None:
    await fails(attempt, 3)


@requires("landlock")
@pytest.mark.parametrize("attempt", [one for one in ATTEMPTS if 2 in one.levels], ids=named)
async def test_the_attempt_fails_under_landlock(attempt: Attempt) -> None:
    await fails(attempt, 2)


async def fails(attempt: Attempt, level: int) -> None:
    async with sandbox_machine(look=LOOKS[level]) as machine:
        assert machine.sandbox.status.level == level
        prepare(machine)
        with listeners(machine) as words:
            before = guarded(machine)
            ran = await machine.run(attempt.command.format(**words), machine.confinement())

            assert "ESCAPED" not in ran.text, ran.text
            assert guarded(machine) == before
            assert not os.path.exists(f"/tmp/seen-by-everybody-{os.getpid()}")
            assert not os.path.exists(f"/dev/shm/buddy-escape-{os.getpid()}")


@pytest.fixture
def dumpable() -> None:
    """Other tests of this process may have closed it to processes of its user."""
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)


CONTROLS = [one for one in ATTEMPTS if one.control and (not one.control_of_root or os.geteuid() == 0)]


@requires("bwrap")
@pytest.mark.parametrize("attempt", CONTROLS, ids=named)
@pytest.mark.usefixtures("dumpable")
async def test_the_attempt_succeeds_without_a_sandbox(attempt: Attempt) -> None:
    async with sandbox_machine() as machine:
        prepare(machine)
        with listeners(machine) as words:
            before = guarded(machine)
            ran = await machine.run(attempt.command.format(**words), None)

            assert "ESCAPED" in ran.text or guarded(machine) != before, ran.text
