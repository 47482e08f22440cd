"""The one list of what a test may need from the machine. Skips go through here; they are counted and printed
at the end."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from buddy.workspace.processes.pids_group import pids_group
from buddy.workspace.sandbox.landlock_thread import abi_version
from buddy.workspace.sandbox.probe import MIN_LANDLOCK_ABI
from tests.support.containers import docker_works, podman_works

SHARED = Path(__file__).resolve().parents[2] / "shared"


def _has_two_disks() -> bool:
    """Return a folder in memory, which is a different file system from that of the tests."""
    shared = Path("/dev/shm")
    return os.access(shared, os.W_OK) and shared.stat().st_dev != Path(tempfile.gettempdir()).stat().st_dev


def _takes_attributes() -> bool:
    """Tell whether files of the tests can have extended attributes."""
    with tempfile.NamedTemporaryFile() as file:
        try:
            os.setxattr(file.name, "user.note", b"")
        except (OSError, AttributeError):  # this disk, or this system, has none
            return False
    return True


def _bwrap_works() -> bool:
    if shutil.which("bwrap") is None:
        return False
    return os.system("bwrap --ro-bind / / true >/dev/null 2>&1") == 0


NOBODY = 64321
"""A user nobody is, whose processes can be counted and limited."""
IN_A_NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
"""In front of a program: what it starts cannot outlive it, whatever it is."""
IN_LIMITS = (
    *("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"),
    *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search", "prlimit", "--nproc=150:150"),
)
"""In front of a program: it runs as that user, with few processes, and reads what its starter may."""


def _limits_processes() -> bool:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        return False
    return (
        subprocess.run([*IN_A_NAMESPACE, *IN_LIMITS, "true"], capture_output=True, check=False).returncode
        == 0
    )


def _mounts() -> bool:
    """Tell whether a small disk in memory can be mounted."""
    if os.geteuid() != 0:
        return False
    with tempfile.TemporaryDirectory() as folder:
        return os.system(f"mount -t tmpfs -o size=64k none {folder} 2>/dev/null && umount {folder}") == 0


def _makes_groups() -> bool:
    """Tell whether this user can make control groups that limit processes (version 1)."""
    group = pids_group()
    try:
        return group.limit(1000) is not None
    finally:
        group.close()


CAPABILITIES: dict[str, Callable[[], bool]] = {
    "shared": lambda: (SHARED / "recorded").is_dir(),
    "linux": lambda: sys.platform == "linux",
    "proc": lambda: os.path.exists("/proc/self/stat"),
    "root": lambda: os.geteuid() == 0,
    "rg": lambda: shutil.which("rg") is not None,
    "make": lambda: shutil.which("make") is not None,
    "openssl": lambda: shutil.which("openssl") is not None,
    "bwrap": _bwrap_works,
    "landlock": lambda: sys.platform == "linux" and abi_version() >= MIN_LANDLOCK_ABI,
    "strace": lambda: shutil.which("strace") is not None,
    "setpriv": lambda: os.geteuid() != 0 or os.system("setpriv --bounding-set=-dac_override true") == 0,
    "unshare": lambda: sys.platform == "linux" and os.system("unshare -rm true 2>/dev/null") == 0,
    "process limits": _limits_processes,
    "process groups": _makes_groups,
    "two disks": _has_two_disks,
    "extended attributes": _takes_attributes,
    "mount": _mounts,
    "sshd": lambda: shutil.which("sshd", path="/usr/sbin:/usr/bin:/usr/local/sbin") is not None,
    "busybox": lambda: shutil.which("busybox") is not None,
    "podman": podman_works,
    "docker": docker_works,
    "tmux": lambda: shutil.which("tmux") is not None,
    "bash": lambda: shutil.which("bash") is not None,
    "zsh": lambda: shutil.which("zsh") is not None,
    "dash": lambda: shutil.which("dash") is not None,
    "fish": lambda: shutil.which("fish") is not None,
}


def requires(*names: str) -> pytest.MarkDecorator:
    """Skip a test where the machine lacks one of these capabilities."""
    missing = [name for name in names if not _has(name)]
    return pytest.mark.skipif(bool(missing), reason=f"capability missing: {', '.join(missing)}")


@cache
def _has(name: str) -> bool:
    return CAPABILITIES[name]()
