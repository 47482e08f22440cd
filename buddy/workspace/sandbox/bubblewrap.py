"""Level 3: a sandbox profile as a command line of bubblewrap (`man 1 bwrap`)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from buddy.workspace.sandbox.profile import SandboxProfile, is_at_or_below

SOCKET_FOLDERS = ("/run", "/var/run")
"""Where sockets of services and of the person's session lie; empty inside."""
KEPT_IN_RUN = ("/run/current-system", "/run/opengl-driver", "/run/systemd/resolve")
"""What programs need of `/run` on some systems, and what holds no socket that leads out."""

_KERNEL_SETTINGS = (
    *("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/acpi", "/proc/scsi"),
    *("/proc/mtrr", "/proc/driver", "/proc/latency_stats", "/proc/timer_list"),
)
_KERNEL_MEMORY = ("/proc/kcore", "/proc/kmsg", "/proc/keys", "/proc/key-users")


def bubblewrap_argv(
    program: str,
    profile: SandboxProfile,
    *,
    cwd: str,
    own_network: bool,
    seccomp_fd: int,
) -> tuple[str, ...]:
    """Return the words before the command's own.

    `own_network`: make a network namespace with nothing in it, instead of keeping the one this starts in.
    `seccomp_fd`: an inherited descriptor of the filter's bytes.

    There is no `--die-with-parent`: it would end what a command leaves running as soon as its shell is gone.
    `Tether` ends commands when buddy is gone.
    """
    return (
        program,
        "--unshare-user",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
        *(("--unshare-net",) if own_network else ()),
        "--disable-userns",
        *("--cap-drop", "ALL"),  # kept by default where root starts it
        *("--hostname", "sandbox"),
        *("--ro-bind", "/", "/"),
        *("--dev", "/dev"),
        *("--proc", "/proc"),
        *_settings_of_the_kernel(),
        *_mounts(profile),
        *("--chdir", cwd),
        *("--seccomp", str(seccomp_fd)),
        "--",
    )


def _settings_of_the_kernel() -> Iterator[str]:
    """Cover what root could change through `/proc`: its files belong to root also in a user namespace."""
    for path in _KERNEL_SETTINGS:
        yield from ("--ro-bind-try", path, path)
    for path in _KERNEL_MEMORY:
        yield from ("--ro-bind-try", "/dev/null", path) if os.path.exists(path) else ()


def _mounts(profile: SandboxProfile) -> Iterator[str]:
    """The mounts in an order in which no later one covers an earlier one."""
    for folder in SOCKET_FOLDERS:
        if os.path.isdir(folder) and not os.path.islink(folder):
            yield from ("--tmpfs", folder)
    for path in KEPT_IN_RUN:
        yield from ("--ro-bind-try", path, path)
    for folder in ("/tmp", "/var/tmp"):  # noqa: S108 - the command's own, from `scratch`
        if os.path.isdir(folder) and not os.path.islink(folder):
            yield from ("--bind", profile.scratch, folder)
    for path in sorted(profile.shown):
        yield from ("--ro-bind", path, path)
    for path in sorted(profile.writable):
        yield from ("--bind", path, path)
    for path in sorted(profile.protected):
        yield from ("--ro-bind", path, path)
    yield from _hidden(profile)


def _hidden(profile: SandboxProfile) -> Iterator[str]:
    """Cover what is hidden, and put back on top the writable places that lie in it."""
    empty = (*SOCKET_FOLDERS, "/tmp", "/var/tmp")  # noqa: S108 - places to compare
    mounted = (*profile.shown, *profile.writable)
    hidden = [
        path
        for path in sorted(profile.hidden)
        if _lies_in(path, mounted) or not _lies_in(path, empty)  # else it is not there any more
    ]
    folders = [path for path in hidden if os.path.isdir(path)]
    for path in hidden:
        yield from ("--tmpfs", path) if path in folders else ("--ro-bind", "/dev/null", path)
    for path in sorted(profile.writable):
        if path not in hidden and _lies_in(path, folders):
            yield from ("--bind", path, path)
    for path in folders:
        yield from ("--remount-ro", path)


def _lies_in(path: str, places: Iterable[str]) -> bool:
    return any(is_at_or_below(path, place) for place in places)
