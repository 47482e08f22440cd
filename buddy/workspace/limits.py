"""Resource limits of child processes, set without running code between fork and exec.

The soft and hard limits a person configures are set by a `bash` that sets them and then becomes the command
(one more exec, about a millisecond), so that no descendant can be born before them. The two that are always
there cost nothing: the child inherits them from buddy, which has them for the instant of the start.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager

import msgspec

if sys.platform != "win32":
    import resource

RTTIME_FLOOR = 1 << 50
"""Microseconds (35 years) a real-time process may run: a limit nobody reaches, so its value can be a tag."""


class ProcessLimits(msgspec.Struct, frozen=True):
    """Limits of one command and each of its descendants; None leaves the system's. Core dumps are always
    off. `processes` counts all processes of the user."""

    cpu_s: int | None = None
    memory_bytes: int | None = None
    file_bytes: int | None = None
    processes: int | None = None
    open_files: int | None = None


NO_LIMITS = ProcessLimits()


def limited(argv: tuple[str, ...], limits: ProcessLimits, bash: str) -> tuple[str, ...]:
    """The command line that runs `argv` under the limits; `argv` itself when there are none to set."""
    settings = _settings(limits)
    if not settings and sys.platform == "linux":
        return argv
    script = "; ".join(["ulimit -c 0", *settings, 'exec "$@"'])
    return (bash, "--noprofile", "--norc", "-c", script, "buddy-limits", *argv)


def _settings(limits: ProcessLimits) -> list[str]:
    wanted = (
        ("-t", limits.cpu_s, 1),
        ("-v", limits.memory_bytes, 1024),
        ("-f", limits.file_bytes, 1024),
        ("-u", limits.processes, 1),
        ("-n", limits.open_files, 1),
    )
    return [f"ulimit {flag} {max(1, value // unit)}" for flag, value, unit in wanted if value is not None]


@contextmanager
def marked(number: int) -> Generator[None]:
    """While this lasts, a process that is started inherits the tag `number` as a limit and makes no core
    dumps. Limits are handed on to everything it starts, survive `setsid`, double forks and `env -i`, and can
    be read even of a zombie.

    They are set on buddy itself for the instant of the start: setting them on the child afterwards loses the
    race against a shell that forks at once (5 % of starts on a busy machine). Only on the event loop's
    thread. Linux only; elsewhere the environment's tag and the process group have to do.
    """
    if sys.platform != "linux":
        yield
        return
    before = [(kind, resource.getrlimit(kind)) for kind in (resource.RLIMIT_RTTIME, resource.RLIMIT_CORE)]
    try:
        for (kind, (_soft, hard)), value in zip(before, (RTTIME_FLOOR | number, 0), strict=True):
            if value == 0 or hard == resource.RLIM_INFINITY:
                resource.setrlimit(kind, (value, hard))
        yield
    finally:
        for kind, limit in before:
            resource.setrlimit(kind, limit)


def forbid_core_dumps(pid: int) -> None:
    """Take from a process that was just started the right to allow itself core dumps again."""
    if sys.platform != "linux":
        return
    try:
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
    except OSError:
        return  # it already ended, or runs as another user
