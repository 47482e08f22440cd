"""Resource limits of child processes, set without running code between fork and exec.

The soft and hard limits a person configures are set by a `bash` that sets them and then becomes the command
(one more exec, about a millisecond), so that no descendant can be born before them. Those that are always
there cost nothing: the child inherits them from buddy, which has them for the instant of the start. A memory
limit that buddy itself has no room in is set by that `bash` too.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress

import msgspec

if sys.platform != "win32":
    import resource

RTTIME_FLOOR = 1 << 50
"""Microseconds (35 years) a real-time process may run: a limit nobody reaches, so its value can be a tag."""


RESERVED_PROCESSES = 64
"""Processes and threads of the user that no command may take: a git and an rg with a thread for each
processor, an editor, and buddy's own threads."""


READERS_SHARE = 4
"""A command that runs without a question may use a quarter of the memory."""
_LEAST_FOR_READERS = 1_000_000_000
_ROOM_BYTES = 256_000_000
"""Memory that buddy may still take while it has the memory limit of a command that is started."""
_CONTAINER_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_PROCESS_LIMITS = (
    *("/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"),
    *("/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max"),
)
_OOM_SCORE = 500


class ProcessLimits(msgspec.Struct, frozen=True):
    """Limits of one command and each of its descendants; None leaves the system's. Core dumps are always
    off. `processes` counts all processes of the user.

    `memory_bytes` bounds address space, which node, java and go reserve in hundreds of gigabytes.
    `data_bytes` bounds writable private memory: those run, and a program that fills memory still stops."""

    cpu_s: int | None = None
    memory_bytes: int | None = None
    file_bytes: int | None = None
    processes: int | None = None
    open_files: int | None = None
    data_bytes: int | None = None


NO_LIMITS = ProcessLimits()


class _Sign(msgspec.Struct, frozen=True):
    """Evidence that a limit was reached: its signal and the shell's exit code for it, or words in a program's
    output."""

    field: str
    setting: str
    unit: int
    what: str
    words: tuple[str, ...]
    signal: str = ""
    code: int = 0


_LOOKED_AT_CHARS = 4_000
_OUT_OF_MEMORY = (
    *("annot allocate memory", "MemoryError", "bad_alloc", "ut of memory", "memory exhausted"),
    "memory allocation of",
)
_SIGNS = (
    _Sign("cpu_s", "shell_cpu_s", 1, "s of processor time", ("CPU time limit exceeded",), "SIGXCPU", 152),
    _Sign(
        "memory_bytes",
        "shell_memory_mb",
        1_000_000,
        "MB of memory",
        _OUT_OF_MEMORY,
    ),
    _Sign(
        "file_bytes",
        "shell_file_mb",
        1_000_000,
        "MB in a file",
        ("File too large", "ile size limit exceeded"),
        "SIGXFSZ",
        153,
    ),
    _Sign(
        "processes",
        "shell_processes",
        1,
        "processes",
        ("Resource temporarily unavailable", "can't start new thread", "annot fork"),
    ),
    _Sign("open_files", "shell_open_files", 1, "open files", ("Too many open files",)),
)


def with_limits(argv: tuple[str, ...], limits: ProcessLimits, bash: str) -> tuple[str, ...]:
    """Return the command line that runs `argv` under the limits; `argv` itself when there are none to set.

    Leave `data_bytes` out of the limits where the child inherits it."""
    settings = _settings(limits)
    if not settings and sys.platform == "linux":
        return argv
    script = "; ".join(["ulimit -c 0", *settings, 'exec "$@"'])
    return (bash, "--noprofile", "--norc", "-c", script, "buddy-limits", *argv)


def _settings(limits: ProcessLimits) -> list[str]:
    wanted = (
        ("v", limits.memory_bytes, 1024, resource.RLIMIT_AS),
        ("f", limits.file_bytes, 1024, resource.RLIMIT_FSIZE),
        ("u", limits.processes, 1, resource.RLIMIT_NPROC),
        ("n", limits.open_files, 1, resource.RLIMIT_NOFILE),
        ("d", limits.data_bytes, 1024, resource.RLIMIT_DATA),
    )
    found = [
        f"ulimit -{flag} {max(1, _at_most(value, kind) // unit)}"
        for flag, value, unit, kind in wanted
        if value is not None
    ]
    if limits.cpu_s is None:
        return found
    # A second between the two: at the soft one a process is told by a signal that says why, at the hard one
    # it is killed.
    seconds = max(1, limits.cpu_s)
    hard = _at_most(seconds + 1, resource.RLIMIT_CPU)
    return [f"ulimit -t {hard}", f"ulimit -S -t {min(seconds, hard)}", *found]


def _at_most(value: int, kind: int) -> int:
    """Nobody may raise what the system allows; that is then the limit."""
    hard = resource.getrlimit(kind)[1]
    return value if hard == resource.RLIM_INFINITY else min(value, hard)


def limit_reached(limits: ProcessLimits, code: int | None, signal: str, text: str) -> str:
    """Name the limit of the settings that a failed command seems to have reached, "" for none: recognised by
    how it ended, and by messages at the end of its output."""
    if code == 0 or limits == NO_LIMITS:
        return ""
    end = text[-_LOOKED_AT_CHARS:]
    found: list[str] = []
    for sign in _SIGNS:
        value: int | None = getattr(limits, sign.field)
        ended = bool(sign.signal) and (signal == sign.signal or code == sign.code)
        if value is not None and (ended or any(word in end for word in sign.words)):
            found.append(f"{value // sign.unit:,} {sign.what} ([tools] {sign.setting})")
    if limits.data_bytes is not None and any(words in end for words in _OUT_OF_MEMORY):
        return (
            f"a command that runs without a question may use {limits.data_bytes // 1_000_000:,} MB of memory "
            "([tools] shell_memory_mb sets another bound)"
        )
    return f"the settings allow {', '.join(found)}" if found else ""


def total_memory(
    meminfo: str = "/proc/meminfo", containers: tuple[str, ...] = _CONTAINER_LIMITS
) -> int | None:
    """Return the bytes of memory of the machine, or of the container with less; None where Linux does not
    tell."""
    try:
        with open(meminfo, encoding="ascii") as file:
            total = int(file.readline().split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        return None
    for path in containers:
        try:
            with open(path, encoding="ascii") as file:
                total = min(total, int(file.read()))
        except (OSError, ValueError):  # no container, or "max"
            continue
    return total


def memory_for_readers(total: int | None) -> int | None:
    """Compute how much memory a process of a command that runs without a question may use."""
    return None if total is None else max(_LEAST_FOR_READERS, total // READERS_SHARE)


def machine_processes(paths: tuple[str, ...] = _PROCESS_LIMITS) -> int | None:
    """Return the most processes and threads that the machine or its container has ids for; None where Linux
    does not tell."""
    found: list[int] = []
    for path in paths:
        with suppress(OSError, ValueError), open(path, encoding="ascii") as file:  # no container, or "max"
            found.append(int(file.read()))
    return min(found, default=None)


def shared_processes(machine: int | None = None) -> int | None:
    """Compute how many processes the user may have for a command to start one more; None without a limit.
    `machine`: how many there can be.

    What lies above it stays for buddy's own programs: a fork bomb stops there, and git still starts. Where
    the system allows few processes, a quarter is kept free. The system ignores this limit for root, for whom
    there is `PidsGroup`.
    """
    soft = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    known = [] if soft == resource.RLIM_INFINITY else [soft]
    if machine is not None:
        known.append(machine * 3 // 4)  # other users' processes are among them
    if not known:
        return None
    most = min(known)
    return max(1, most - min(RESERVED_PROCESSES, most // 4))


@contextmanager
def tag_children(number: int, processes: int | None = None, data_bytes: int | None = None) -> Generator[None]:
    """While this lasts, started processes inherit the tag `number` as a limit and make no core dumps.

    Limits are inherited by everything they start, survive `setsid`, double forks and `env -i`, and can be
    read even from a zombie.
    """
    if sys.platform != "linux":
        yield
        return
    wanted = {resource.RLIMIT_RTTIME: RTTIME_FLOOR | number, resource.RLIMIT_CORE: 0}
    if processes is not None:
        wanted[resource.RLIMIT_NPROC] = processes
    if data_bytes is not None:
        wanted[resource.RLIMIT_DATA] = data_bytes
    before = [(kind, resource.getrlimit(kind)) for kind in wanted]
    try:
        for kind, (_soft, hard) in before:
            if hard == resource.RLIM_INFINITY or wanted[kind] <= hard:
                resource.setrlimit(kind, (wanted[kind], hard))
        yield
    finally:
        for kind, limit in before:
            resource.setrlimit(kind, limit)


def leaves_room(data_bytes: int) -> bool:
    """Return True if buddy can have this limit of writable private memory itself while a command is started.

    Above it, all threads of buddy would be refused memory, and end without a word."""
    try:
        with open("/proc/self/statm", "rb", buffering=0) as file:
            own = int(file.read().split()[5]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):  # a system without /proc
        return False
    return own + _ROOM_BYTES <= data_bytes


def fix_limits(pid: int, data_bytes: int | None = None) -> None:
    """Take from a process that was just started the right to raise its limits again."""
    if sys.platform != "linux":
        return
    try:
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
        if data_bytes is not None:
            resource.prlimit(pid, resource.RLIMIT_DATA, (data_bytes, data_bytes))
    except OSError:
        return  # it already ended, or runs as another user


@contextmanager
def end_children_first() -> Generator[None]:
    """While this lasts, started processes and their descendants are ended before buddy and the user's
    programs when memory runs out: a limit per process does not bound many of them. Some 50 microseconds."""
    try:
        file = open("/proc/self/oom_score_adj", "r+b", buffering=0)  # noqa: SIM115 - closed below
    except OSError:  # another system, or one without /proc
        yield
        return
    with file:
        before = file.read()
        try:
            if int(before) < _OOM_SCORE:
                file.write(b"%d" % _OOM_SCORE)
            yield
        finally:
            with suppress(OSError):  # the system lets everybody go back to the score they began with
                file.write(before)
