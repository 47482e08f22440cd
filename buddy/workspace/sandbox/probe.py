"""The best sandbox level that works on this machine, found by a real trial."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Generator
from functools import partial

import msgspec

from buddy.workspace.processes.launch import trusted_program
from buddy.workspace.processes.pids_group import is_bounded
from buddy.workspace.sandbox.bubblewrap import bubblewrap_argv
from buddy.workspace.sandbox.landlock import restriction_for
from buddy.workspace.sandbox.landlock_thread import Restriction, abi_version, restrict_thread
from buddy.workspace.sandbox.own_thread import call_in_own_thread
from buddy.workspace.sandbox.profile import SandboxProfile
from buddy.workspace.sandbox.seatbelt import PROGRAM as SEATBELT
from buddy.workspace.sandbox.seatbelt import seatbelt_argv
from buddy.workspace.sandbox.seccomp import Architecture, architecture, refusals
from buddy.workspace.sandbox.status import SandboxStatus
from buddy.workspace.temporary import TemporaryFolder

TRIAL_WITHIN_S = 5.0
MIN_LANDLOCK_ABI = 3
"""Older versions allow emptying files outside the writable folders (LANDLOCK_ACCESS_FS_TRUNCATE)."""
SIGNALS_SINCE_ABI = 6
"""From this version on, commands can send signals to confined processes only (LANDLOCK_SCOPE_SIGNAL)."""
_REPORTED_CHARS = 200
_TRIAL = """
exec 3<&0 </dev/null
(read -r end <&3; kill -s KILL 0) >&- 2>&- &
trap 'kill -s KILL $!' EXIT
echo > "$1/open" || exit 11
( echo > "$2" ) 2>/dev/null && { rm -f "$2"; exit 12; }
exit 0
"""
"""Ends with its input, that is with buddy or when its time is over: it can hang where the home folder lies on
another machine. `--die-with-parent` of bubblewrap has no effect together with `--disable-userns`: the kernel
forgets the signal when the second user namespace is made."""


class ProbeResult(msgspec.Struct, frozen=True):
    """A level and the programs it uses, "" for missing ones."""

    status: SandboxStatus
    bubblewrap: str = ""
    nsenter: str = ""
    machine: Architecture | None = None


def probe() -> ProbeResult:
    """Try the levels, best first. Blocks for some ten milliseconds; call it in a thread."""
    found = _probe_level()
    if sys.platform != "linux" or is_bounded():
        return found
    return msgspec.structs.replace(
        found, status=msgspec.structs.replace(found.status, processes_unbounded=True)
    )


def _probe_level() -> ProbeResult:
    if sys.platform == "darwin":
        return _probe_seatbelt()
    machine = architecture()
    if sys.platform != "linux" or machine is None:
        return ProbeResult(SandboxStatus(0, f"there is none for {sys.platform} on {os.uname().machine}"))
    program = trusted_program("bwrap")
    refused = _bubblewrap_refused(program, machine) if program else "bubblewrap is not installed"
    nsenter = trusted_program("nsenter") or ""
    if program and not refused:
        return ProbeResult(SandboxStatus(3), program, nsenter, machine)
    failed = _landlock_refused(machine)
    if not failed:
        scoped = abi_version() >= SIGNALS_SINCE_ABI
        return ProbeResult(SandboxStatus(2, refused, signals_reach_out=not scoped), machine=machine)
    return ProbeResult(SandboxStatus(0, f"{refused}; {failed}"), machine=machine)


def _probe_seatbelt() -> ProbeResult:
    if not os.path.exists(SEATBELT):
        return ProbeResult(SandboxStatus(0, f"{SEATBELT} is not there"))
    with _trial_profile() as profile:
        refused = _try((*seatbelt_argv(profile), *_trial(profile)), profile.scratch)
    return ProbeResult(SandboxStatus(0, f"sandbox-exec: {refused}") if refused else SandboxStatus(1))


def _bubblewrap_refused(program: str, machine: Architecture) -> str:
    """Return why bubblewrap cannot be used, "" when a trial worked."""
    found = os.stat(program)
    if found.st_uid != 0 or found.st_mode & 0o022:
        if found.st_uid == _unknown_user():
            return f"bubblewrap does not work here: the owner of {program} has no id in this user namespace"
        return f"{program} does not belong to root alone"
    with _trial_profile() as profile, _bytes(refusals(machine, isolated=True)) as seccomp:
        argv = bubblewrap_argv(
            program,
            profile,
            cwd=profile.scratch,
            own_network=True,
            seccomp_fd=seccomp,
        )
        refused = _try((*argv, *_trial(profile)), profile.scratch, seccomp)
    if not refused:
        return ""
    inside = " (this is a container: it needs user namespaces)" if _in_container() else ""
    return f"bubblewrap does not work here: {refused}{inside}"


def _unknown_user() -> int:
    """Return the id that stands for users without one in this user namespace, as root in an ordinary user's
    container."""
    try:
        with open("/proc/sys/kernel/overflowuid", encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return -1


def _landlock_refused(machine: Architecture) -> str:
    abi = abi_version()
    if abi < MIN_LANDLOCK_ABI:
        return "the kernel has no Landlock" if not abi else f"the kernel's Landlock is too old (ABI {abi})"
    with _trial_profile() as profile:
        restriction = restriction_for(profile, refusals(machine, isolated=False))
        refused = call_in_own_thread(partial(_try_restricted, restriction, profile), "sandbox-trial")
    return refused and f"Landlock does not work here: {refused}"


def _try_restricted(restriction: Restriction, profile: SandboxProfile) -> str:
    try:
        restrict_thread(restriction)
    except OSError as error:
        return str(error)
    return _try(_trial(profile), profile.scratch)


@contextlib.contextmanager
def _trial_profile() -> Generator[SandboxProfile]:
    with TemporaryFolder("trial") as real:
        os.mkdir(os.path.join(real, "closed"))
        yield SandboxProfile(
            "workspace", (), (real,), (os.path.join(real, "closed"),), (), real, network=False
        )


def _trial(profile: SandboxProfile) -> tuple[str, ...]:
    """Return a command that succeeds only if writing inside works and writing outside fails."""
    outside = os.path.join(os.path.expanduser("~"), f".buddy-trial-{os.getpid()}")
    return ("/bin/sh", "-c", _TRIAL, "trial", profile.scratch, outside)


def _try(argv: tuple[str, ...], cwd: str, *descriptors: int) -> str:
    """Run a trial; return the problem, "" when it succeeded."""
    reading, writing = os.pipe()
    try:
        done = subprocess.run(
            argv,
            cwd=cwd,
            env={"PATH": "/usr/bin:/bin"},
            pass_fds=descriptors,
            stdin=reading,
            capture_output=True,
            timeout=TRIAL_WITHIN_S,
            check=False,
            start_new_session=True,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    finally:
        os.close(reading)
        os.close(writing)
    if done.returncode == 0:
        return ""
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return (said[-1] if said else f"the trial ended with {done.returncode}")[:_REPORTED_CHARS]


@contextlib.contextmanager
def _bytes(content: bytes) -> Generator[int]:
    """Yield a descriptor from which the bytes can be read once."""
    descriptor = os.memfd_create("sandbox", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


def _in_container() -> bool:
    return os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv")
