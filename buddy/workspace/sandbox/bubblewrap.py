"""Level 3: a sandbox profile as a command line of bubblewrap (`man 1 bwrap`)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

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


FILTER_FD = 9
"""The descriptor from which a tolerant start reads the filter."""
_STATUS_FD = 8
_START = """
filter=$1 status=$2
shift 2
for try in 1 2 3; do
  "$@" 9<"$filter" 8>"$status"
  code=$?
  [ $code = 1 ] || exit $code
  grep -q exit-code "$status" && exit $code
  mounts=yes left=$#
  while [ $left -gt 0 ]; do
    gone=0
    case $mounts$1 in
      yes--) mounts= ;;
      yes--bind | yes--ro-bind) [ -e "$3" ] || gone=3 ;;
      yes--tmpfs | yes--remount-ro) [ -e "$2" ] || gone=2 ;;
    esac
    if [ $gone -gt 0 ]; then
      shift $gone
    else
      set -- "$@" "$1"
      shift
      gone=1
    fi
    left=$((left - gone))
  done
done
exit $code
"""
"""Starts bubblewrap, which gives up when a place that it is to cover is gone by then, as a socket whose
service ended. It reports an exit code only where the command itself ran; where it did not, what is gone is
left out and it starts again."""


def tolerant_argv(argv: Sequence[str], filter_file: str, status_file: str) -> tuple[str, ...]:
    """Return words that start what `bubblewrap_argv` gave with `FILTER_FD`, whatever vanishes meanwhile.
    Bubblewrap's report goes to `status_file`."""
    words = (argv[0], "--json-status-fd", str(_STATUS_FD), *argv[1:])
    return ("/bin/sh", "-c", _START, "sandbox", filter_file, status_file, *words)


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
