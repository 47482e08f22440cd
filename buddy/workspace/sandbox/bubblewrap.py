"""Level 3: a sandbox profile as a command line of bubblewrap (`man 1 bwrap`)."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Sequence

from buddy.workspace.sandbox.profile import SandboxProfile, lies_in_any

SOCKET_FOLDERS = ("/run", "/var/run")
"""Folders with sockets of services and of the user's session; empty inside."""
KEPT_IN_RUN = ("/run/current-system", "/run/opengl-driver", "/run/systemd/resolve")
"""Entries of `/run` that programs need on some systems and that hold no socket leading out."""

_KERNEL_SETTINGS = (
    *("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/acpi", "/proc/scsi"),
    *("/proc/mtrr", "/proc/driver", "/proc/latency_stats", "/proc/timer_list"),
)
_KERNEL_MEMORY = ("/proc/kcore", "/proc/kmsg", "/proc/keys", "/proc/key-users")


_ACCESS_LIST = "system.posix_acl_access"
"""An attribute that may let a user in whom the mode keeps out."""
FILTER_FD = 9
"""The descriptor that a tolerant start reads the filter from."""
_STATUS_FD = 8
_START = """
filter=$1 status=$2
shift 2
for try in 1 2 3; do
  "$@" 9<"$filter" 8>"$status" 7>&2 2>&8
  code=$?
  [ $code = 1 ] || exit $code
  while read -r line || [ -n "$line" ]; do
    case $line in {*exit-code*) exit $code ;; esac
  done <"$status"
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
while read -r line || [ -n "$line" ]; do
  case $line in {*) ;; *) printf '%s\n' "$line" >&2 ;; esac
done <"$status"
exit $code
"""
"""Starts bubblewrap, which fails when a place it should cover has vanished, such as the socket of a service
that ended. It reports an exit code only if the command ran; if not, this script leaves out missing places and
starts it again. Complaints of bubblewrap go into the same file, and are repeated only when it gives up: the
command gets its stderr back by `_UNMUTE`. The script runs outside the sandbox with the `PATH` of the command,
which may lead into the workspace: it uses builtins of the shell and absolute paths only."""


_UNMUTE = ("/bin/sh", "-c", 'exec "$@" 2>&7 7>&-', "sandbox")


def tolerant_argv(argv: Sequence[str], filter_file: str, status_file: str) -> tuple[str, ...]:
    """Return words that start the command line of `bubblewrap_argv` with `FILTER_FD`, even if places vanish
    meanwhile. Bubblewrap's report goes to `status_file`."""
    words = (argv[0], "--json-status-fd", str(_STATUS_FD), *argv[1:])
    return ("/bin/sh", "-c", _START, "sandbox", filter_file, status_file, *words, *_UNMUTE)


def bubblewrap_argv(
    program: str,
    profile: SandboxProfile,
    *,
    cwd: str,
    own_network: bool,
    seccomp_fd: int,
) -> tuple[str, ...]:
    """Return the words to put before a command.

    `own_network` makes an empty network namespace instead of keeping the current one; `seccomp_fd` is an
    inherited descriptor with the filter. `--die-with-parent` is not used: it would end background processes
    with their shell. `Tether` ends commands when buddy is gone.
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
        *("--cap-drop", "ALL"),  # bubblewrap keeps them when root starts it
        *("--hostname", "sandbox"),
        *("--ro-bind", "/", "/"),
        *("--dev", "/dev"),
        *("--proc", "/proc"),
        *_cover_kernel_settings(),
        *_mounts(profile),
        *("--chdir", cwd),
        *("--seccomp", str(seccomp_fd)),
        "--",
    )


def _cover_kernel_settings() -> Iterator[str]:
    """Cover files in `/proc` that root could change: they belong to root in a user namespace too."""
    for path in _KERNEL_SETTINGS:
        yield from ("--ro-bind-try", path, path)
    for path in _KERNEL_MEMORY:
        yield from ("--ro-bind-try", "/dev/null", path) if os.path.exists(path) else ()


def _mounts(profile: SandboxProfile) -> Iterator[str]:
    """Return the mounts in an order in which no later one covers an earlier one."""
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
    yield from _hide(profile)


def _is_closed_to_root(folder: str) -> bool:
    """Tell whether root in a user namespace can't get into a real path. There it is the owner of root's files
    alone, and no capability counts for folders of others: nothing inside can be covered, or reached."""
    groups = {os.getegid(), *os.getgroups()}
    while folder != "/":
        try:
            status = os.lstat(folder)
            if not _may_enter(status, groups) and _ACCESS_LIST not in os.listxattr(folder):
                return True
        except OSError:
            return False
        folder = os.path.dirname(folder)
    return False


def _may_enter(status: os.stat_result, groups: Collection[int]) -> bool:
    if status.st_uid == 0:
        return True
    return bool(status.st_mode & (stat.S_IXGRP if status.st_gid in groups else stat.S_IXOTH))


def _hide(profile: SandboxProfile) -> Iterator[str]:
    """Cover hidden places, and mount the writable and reopened places inside them on top again."""
    empty = (*SOCKET_FOLDERS, "/tmp", "/var/tmp")  # noqa: S108 - places to compare
    mounted = (*profile.shown, *profile.writable)
    hidden = [
        path
        for path in sorted(profile.hidden)
        if lies_in_any(path, mounted) or not lies_in_any(path, empty)  # otherwise it no longer exists
    ]
    if os.geteuid() == 0:
        closed = {
            folder
            for folder in {*map(os.path.dirname, hidden)}
            if _is_closed_to_root(os.path.realpath(folder))
        }
        hidden = [path for path in hidden if os.path.dirname(path) not in closed]
    folders = [path for path in hidden if os.path.isdir(path)]
    opened = (*profile.writable, *profile.reopened)
    # Only a file system of its own has room for further mounts, and it costs four times as much.
    roomy = [
        path for path in folders if not profile.empty or any(lies_in_any(place, (path,)) for place in opened)
    ]
    for path in hidden:
        if path in roomy:
            yield from ("--tmpfs", path)
        else:
            yield from ("--ro-bind", profile.empty if path in folders else "/dev/null", path)
    for path in sorted(profile.writable):
        if path not in hidden and lies_in_any(path, folders):
            yield from ("--bind", path, path)
    for path in sorted(profile.reopened):
        if path not in profile.writable:
            yield from ("--ro-bind", path, path)
    for path in roomy:
        yield from ("--remount-ro", path)
