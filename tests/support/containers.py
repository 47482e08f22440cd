"""Running containers of the tests: a stand-in that works everywhere, and podman where it runs. The folder
`work` is the same on both sides."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Protocol

from buddy.config.settings import TargetSettings
from buddy.workspace.targets.connection import TargetConnection
from buddy.workspace.targets.container import ContainerDestination

_WAITING = ("sleep", "100000")
PROGRAM = Path(__file__).with_name("container_program.py")
NAME = f"box-{os.getpid()}"
"""Different for each process: a real daemon has one name for all of them."""
DEADLINE_S = 60


class Container(Protocol):
    """A container of a test. `folder` is the target's folder as this machine sees it; `program` runs it."""

    folder: Path
    inside: str
    program: Path

    def start(self) -> None:
        """Start it, again after a stop."""
        ...

    def stop(self) -> None:
        """Kill everything in it."""
        ...

    def remove(self) -> None:
        """Stop it and take it away."""
        ...


def settings_of(container: Container, **changes: object) -> TargetSettings:
    """Return the settings of a target in a container."""
    fields: dict[str, object] = {
        "container": NAME,
        "folder": container.inside,
        "program": str(container.program),
        **changes,
    }
    return TargetSettings(kind="container", **fields)  # type: ignore[arg-type]


def connection_to(container: Container, **changes: str) -> TargetConnection:
    """Return a connection to a container, not yet open."""
    fields = {"folder": container.inside, "program": str(container.program), **changes}
    environment = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
    destination = ContainerDestination("box", NAME, **fields)
    return TargetConnection(destination, lambda: environment, shutil.which)


class StandInContainer:
    """A container of the stand-in. `shell` is its /bin/sh; `path` finds its programs."""

    def __init__(self, home: Path, *, shell: str = "/bin/sh", path: str = "") -> None:
        self.folder = home / "work"
        self.folder.mkdir(parents=True)
        self.inside = str(self.folder)
        # Short: the path of a socket has 104 characters at most.
        self._private = tempfile.mkdtemp(prefix="stand-in-")
        self._socket = f"{self._private}/s"
        self.program = home / "docker"
        self.program.write_text(
            f"#!/bin/sh\nSTAND_IN_SOCKET='{self._socket}' exec '{sys.executable}' -S -E '{PROGRAM}' \"$@\"\n"
        )
        self.program.chmod(0o755)
        environment = {"PATH": path or os.environ["PATH"], "HOME": str(home)}
        self._daemon = subprocess.Popen(
            [sys.executable, "-S", "-E", PROGRAM, "serve", self._socket, shell],
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        assert self._daemon.stdout is not None
        assert self._daemon.stdout.readline() == b"ready\n"

    def start(self) -> None:
        """Start it, again after a stop."""
        self.change("running")

    def stop(self) -> None:
        """Kill everything in it."""
        self.change("exited")

    def remove(self) -> None:
        """Stop it and take it away."""
        self.change("none")

    def change(self, state: str) -> None:
        """Put it into a state: running, exited, paused or none."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(DEADLINE_S)
            connection.connect(self._socket)
            connection.sendall(json.dumps({"name": NAME, "state": state}).encode() + b"\n")
            assert connection.recv(16) == b"done\n"

    def close(self) -> None:
        """End it and its daemon."""
        with suppress(OSError):
            self.remove()
        self.kill_daemon()
        shutil.rmtree(self._private, ignore_errors=True)

    def kill_daemon(self) -> None:
        """End the daemon alone."""
        self._daemon.kill()
        self._daemon.wait()
        if self._daemon.stdout is not None:
            self._daemon.stdout.close()


def make_busybox_folder(folder: Path) -> Path:
    """Make a folder with the programs of busybox, and nothing else."""
    busybox = shutil.which("busybox")
    assert busybox is not None
    folder.mkdir(parents=True)
    names = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    shutil.copy(busybox, folder / "busybox")
    for name in names:
        with suppress(FileExistsError):
            (folder / name).symlink_to("busybox")
    return folder


def make_root(tree: Path) -> Path:
    """Make the root of a container with busybox alone, and a user bob."""
    make_busybox_folder(tree / "bin")
    for name in ("etc", "tmp", "root", "proc", "sys", "dev", "work", "home/bob"):
        (tree / name).mkdir(parents=True)
    (tree / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\nbob:x:1000:1000::/home/bob:/bin/sh\n")
    (tree / "etc/group").write_text("root:x:0:\nbob:x:1000:\n")
    os.chown(tree / "home/bob", 1000, 1000)
    return tree


class PodmanContainer:
    """A container of podman from a tree with busybox alone."""

    def __init__(self, home: Path) -> None:
        self.folder, self.inside = home / "work", "/work"
        self._tree = make_root(home / "tree")
        self.folder.mkdir()
        self.program = home / "podman"
        # Some machines have a second tree of cgroups beside the first, which podman's runtime refuses.
        hide = "umount /sys/fs/cgroup/unified 2>/dev/null"
        self._private = tempfile.mkdtemp(prefix="podman-")  # short: podman takes no long one
        store = f"--root {self._private}/store --runroot {self._private}/run --storage-driver=vfs"
        store += " --cgroup-manager=cgroupfs"
        self.program.write_text(
            f'#!/bin/sh\nexec unshare -m sh -c \'{hide}; exec "$@"\' sh podman {store} "$@"\n'
        )
        self.program.chmod(0o755)

    def start(self) -> None:
        """Start it, again after a stop."""
        if self._run("start", NAME, check=False) != 0:
            limits = ("--ulimit=nofile=1024:1024", "--ulimit=nproc=1000:1000")
            options = (*limits, "--cgroups=disabled", "--network=host", f"--volume={self.folder}:/work")
            self._run("run", "--detach", f"--name={NAME}", *options, "--rootfs", str(self._tree), *_WAITING)

    def stop(self) -> None:
        """Kill everything in it."""
        self._run("kill", "--signal=KILL", NAME)

    def remove(self) -> None:
        """Stop it and take it away."""
        self._run("rm", "--force", "--time=0", "--ignore", NAME)

    def close(self) -> None:
        """Remove it."""
        try:
            self.remove()
        finally:
            shutil.rmtree(self._private, ignore_errors=True)  # podman may still clean up, too

    def _run(self, *arguments: str, check: bool = True) -> int:
        return run_program(self.program, arguments, check=check)


class DockerContainer:
    """A container of a docker daemon that runs, from an image with busybox alone."""

    def __init__(self, home: Path) -> None:
        self.folder, self.inside = home / "work", "/work"
        self.folder.mkdir(parents=True)
        self._image = f"buddy-test-{os.getpid()}"
        self.program = home / "docker"
        docker = shutil.which("docker") or "docker"
        host = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
        self.program.write_text(f"#!/bin/sh\nDOCKER_HOST='{host}' HOME='{home}' exec '{docker}' \"$@\"\n")
        self.program.chmod(0o755)
        tree = make_root(home / "tree")
        with tempfile.TemporaryFile() as packed:
            subprocess.run(["tar", "-C", tree, "-c", "."], stdout=packed, check=True)
            packed.seek(0)
            subprocess.run(
                [self.program, "import", "-", self._image],
                stdin=packed,
                stdout=subprocess.DEVNULL,
                check=True,
            )

    def start(self) -> None:
        """Start it, again after a stop."""
        if self._run("start", NAME, check=False) != 0:
            options = ("--network=none", f"--volume={self.folder}:/work")
            self._run("run", "--detach", f"--name={NAME}", *options, self._image, *_WAITING)

    def stop(self) -> None:
        """Kill everything in it."""
        self._run("kill", NAME)

    def remove(self) -> None:
        """Stop it and take it away."""
        self._run("rm", "--force", NAME, check=False)

    def close(self) -> None:
        """Remove it and its image."""
        self.remove()
        self._run("rmi", "--force", self._image, check=False)

    def _run(self, *arguments: str, check: bool = True) -> int:
        return run_program(self.program, arguments, check=check)


def run_program(program: Path, arguments: tuple[str, ...], *, check: bool) -> int:
    """Run a program for containers; return its exit code."""
    done = subprocess.run(
        [program, *arguments], capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert not check or done.returncode == 0, done.stderr
    return done.returncode


@contextmanager
def stand_in(home: Path, *, busybox: bool = False) -> Generator[StandInContainer]:
    """Run a stand-in for a test, with the programs of this machine or with those of busybox alone."""
    if busybox:
        folder = make_busybox_folder(home / "busybox")
        container = StandInContainer(home, shell=str(folder / "sh"), path=str(folder))
    else:
        container = StandInContainer(home)
    try:
        container.start()
        yield container
    finally:
        container.close()


@contextmanager
def podman(home: Path) -> Generator[PodmanContainer]:
    """Run a container of podman for a test."""
    container = PodmanContainer(home)
    try:
        container.start()
        yield container
    finally:
        container.close()


@contextmanager
def docker(home: Path) -> Generator[DockerContainer]:
    """Run a container of docker for a test."""
    container = DockerContainer(home)
    try:
        container.start()
        yield container
    finally:
        container.close()


@cache
def docker_works() -> bool:
    """Tell whether a docker daemon answers, and works with containers that were made here."""
    program = shutil.which("docker")
    if program is None or os.geteuid() != 0 or shutil.which("busybox") is None:
        return False
    asked = subprocess.run([program, "version"], capture_output=True, timeout=DEADLINE_S, check=False)
    return asked.returncode == 0


@contextmanager
def real_container(kind: str, home: Path) -> Generator[Container]:
    """Run a container of a kind: stand-in, busybox (a stand-in with its programs), podman or docker."""
    match kind:
        case "podman":
            with podman(home) as running:
                yield running
        case "docker":
            with docker(home) as running_too:
                yield running_too
        case _:
            with stand_in(home, busybox=kind == "busybox") as pretended:
                yield pretended


@cache
def podman_works() -> bool:
    """Tell whether podman starts containers here."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("podman", "busybox", "unshare"))):
        return False
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        try:
            with podman(Path(folder) / "machine"):
                return True
        except (AssertionError, OSError, subprocess.SubprocessError):
            return False
