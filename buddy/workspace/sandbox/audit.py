"""The record of what sandboxed commands tried to change or reach: from the kernel, not from their output.

Each command is started by a short-lived thread that carries a reporting filter (`seccomp.attempts`): the
command inherits it, and every system call it reports waits until buddy has noted it and let it continue, or
refused it: names that do not exist cannot be protected by a mount. The record and its refusals are not the
barrier: a program can change an argument after it was read, and the barriers (mounts, namespaces, Landlock)
judge by themselves. Internet sockets under Landlock are always refused, by their number. 100,000 noted calls
cost a command about three seconds.

Two things have no other barrier: sockets that got their names after a command began, and, under Landlock, the
metadata of files (modes, owners, times, attributes), for which Landlock has no right. Those calls never
continue: buddy makes the change itself, on the file that it opened and judged (`metadata`), and answers the
call, so that nothing the command changes meanwhile matters.

Linux 5.5 and newer; elsewhere there is no record, and nothing is claimed.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import ipaddress
import os
import select
import socket
import struct
import threading
from collections.abc import Callable
from functools import partial

from buddy.workspace.sandbox.caller import AT_FDCWD, namespace_numbers, read_memory, read_path, resolve_path
from buddy.workspace.sandbox.metadata import CHANGES, change_metadata
from buddy.workspace.sandbox.own_thread import call_in_own_thread
from buddy.workspace.sandbox.seccomp import Architecture

MAX_PATHS = 200
"""Maximum number of different paths and addresses recorded for one command."""

_SECCOMP_SET_MODE_FILTER = 1
_NEW_LISTENER = 1 << 3
_PR_SET_NO_NEW_PRIVS = 38
_SYS_SECCOMP = {"x86_64": 317, "aarch64": 277}
_RECEIVE = 0xC0502100  # SECCOMP_IOCTL_NOTIF_RECV
_SEND = 0xC0182101  # SECCOMP_IOCTL_NOTIF_SEND
_IS_WAITING = 0x40082102  # SECCOMP_IOCTL_NOTIF_ID_VALID
_CONTINUE = 1  # SECCOMP_USER_NOTIF_FLAG_CONTINUE
_REQUEST = struct.Struct("=QIIiIQ6Q")
_ANSWER = struct.Struct("=QqiI")
NETWORK = "the network"
"""Recorded instead of an address when a command was refused any socket."""

_PATHS: dict[str, tuple[tuple[int | None, int], ...]] = {
    "open": ((None, 0),),
    "creat": ((None, 0),),
    "openat": ((0, 1),),
    "mkdir": ((None, 0),),
    "mkdirat": ((0, 1),),
    "rename": ((None, 0), (None, 1)),
    "renameat": ((0, 1), (2, 3)),
    "renameat2": ((0, 1), (2, 3)),
    "link": ((None, 1),),
    "linkat": ((2, 3),),
    "symlink": ((None, 1),),
    "symlinkat": ((1, 2),),
    "unlink": ((None, 0),),
    "unlinkat": ((0, 1),),
    "rmdir": ((None, 0),),
    "truncate": ((None, 0),),
    "mknod": ((None, 0),),
    "mknodat": ((0, 1),),
}
"""For each reported call, the arguments with the changed path: folder descriptor (None: the working folder)
and path."""

_FOLLOWING = frozenset({"open", "openat", "creat", "truncate"})
"""Calls that follow a link at the end of their path."""

_UNGUARDED = frozenset({*CHANGES, "connect"})
"""Calls that no other barrier judges, or not always: what cannot be read is refused."""

_NEEDS = {
    "mkdir": False,
    "mkdirat": False,
    "symlink": False,
    "symlinkat": False,
    "mknod": False,
    "mknodat": False,
    "unlink": True,
    "unlinkat": True,
    "rmdir": True,
    "truncate": True,
}
"""Calls that fail unless the path exists (True) or does not exist (False)."""


class FilterRefusedError(Exception):
    """The system allows no reporting filter here."""


class Attempts:
    """The paths one command tried to change and the addresses it tried to reach, in order of the first
    attempt.

    `refuses` tells which paths it must not change; `is_open` tells where it may use sockets and change modes,
    owners, times and attributes, which no other barrier judges. The thread that reads the reports calls
    `changing` for every attempt to change a path. `launcher` is the program that prepares the command's
    namespaces, "" for none; what it does is not the command's.
    """

    def __init__(
        self,
        refuses: Callable[[str], bool],
        is_open: Callable[[str], bool],
        changing: Callable[[], None],
        launcher: str = "",
    ) -> None:
        self._launcher = launcher
        self._preparing: set[int] = set()
        self.refuses = refuses
        self.is_open = is_open
        self._changing = changing
        self._paths: dict[str, None] = {}
        self._addresses: dict[str, None] = {}

    def is_preparation(self, pid: int) -> bool:
        """Tell whether a report comes from the launcher in the first process of the namespace. That process
        reports before the command exists, and never becomes another program; the command makes no namespace,
        so a launcher that it starts itself is never the first process. There are two when a place vanished
        and the launcher was started again."""
        if not self._launcher:
            return False
        if pid not in self._preparing:
            if os.readlink(f"/proc/{pid}/exe") != self._launcher or not _is_first(pid):
                return False
            self._preparing.add(pid)
        return True

    @property
    def paths(self) -> tuple[str, ...]:
        """Return real absolute paths as the command sees them; for a changed link, the link's own path."""
        return tuple(self._paths)

    @property
    def addresses(self) -> tuple[str, ...]:
        """Return Internet addresses with their port, and Unix sockets by their path."""
        return tuple(self._addresses)

    def add_path(self, path: str) -> None:
        """Note a path."""
        self._changing()
        if len(self._paths) < MAX_PATHS:
            self._paths.setdefault(path)

    def add_address(self, address: str) -> None:
        """Note an address."""
        if len(self._addresses) < MAX_PATHS:
            self._addresses.setdefault(address)


class Recorder:
    """Records the reports of commands that begin under a reporting filter. One thread reads all of them.

    Make it in a thread without a filter: the reading thread would inherit that, and wait for itself."""

    def __init__(self, machine: Architecture, program: bytes) -> None:
        self._names = {number: name for name, number in machine.numbers.items()}
        self._program = program
        self._listeners: dict[int, Attempts] = {}
        self._poll = select.epoll()
        self._bell, self._bell_end = os.pipe()
        self._poll.register(self._bell, select.EPOLLIN)
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, name="sandbox-audit", daemon=True)
        self._reader.start()

    def record_thread(self, attempts: Attempts) -> None:
        """Install the filter in the calling thread, for good: what it starts from now on is recorded. Raises
        `FilterRefusedError`."""
        listener = _install(self._program)
        with self._lock:
            self._listeners[listener] = attempts
            self._poll.register(listener, select.EPOLLIN)

    def close(self) -> None:
        """End the reading thread. No command may be running."""
        os.close(self._bell_end)
        self._reader.join()
        os.close(self._bell)
        self._poll.close()
        for listener in self._listeners:  # of a command whose end the reading thread did not come to see
            os.close(listener)
        self._listeners.clear()

    def _read(self) -> None:
        while True:
            for listener, events in self._poll.poll():
                if listener == self._bell:
                    return
                if events & select.EPOLLIN:
                    self._note(listener)
                else:  # no process has the filter any more
                    self._forget(listener)

    def _forget(self, listener: int) -> None:
        with self._lock:
            self._poll.unregister(listener)
            del self._listeners[listener]
            os.close(listener)

    def _note(self, listener: int) -> None:
        request = bytearray(_REQUEST.size)
        try:
            fcntl.ioctl(listener, _RECEIVE, request, True)
        except OSError:
            return  # the caller was killed meanwhile
        identity, pid, _flags, number, _machine, _pointer, *arguments = _REQUEST.unpack(request)
        name = self._names.get(number, "")
        answer = _ANSWER.pack(identity, 0, 0, _CONTINUE)
        try:
            attempts = self._listeners[listener]
            if name in CHANGES:
                waits = partial(_is_waiting, listener, identity)
                answer = _ANSWER.pack(identity, 0, -_change(attempts, pid, name, arguments, waits), 0)
            elif not attempts.is_preparation(pid):  # most reports of a short command, at 0.1 ms each
                refusal = self._add(attempts, pid, name, arguments)
                if refusal:
                    answer = _ANSWER.pack(identity, 0, -refusal, 0)
        except (OSError, ValueError, OverflowError):
            # It is gone, or its memory cannot be read: the call continues unrecorded if there is a barrier.
            if name in _UNGUARDED:
                answer = _ANSWER.pack(identity, 0, -errno.EPERM, 0)
        finally:
            with contextlib.suppress(OSError):  # gone
                fcntl.ioctl(listener, _SEND, bytearray(answer), True)

    @staticmethod
    def _add(attempts: Attempts, pid: int, name: str, arguments: list[int]) -> int:
        """Note a call; return the error number it is refused with, 0 to let it continue."""
        if name == "socket":
            attempts.add_address(NETWORK)
            return errno.EAFNOSUPPORT
        if name == "connect":
            return _record_connection(attempts, pid, arguments)
        refused = False
        for folder, path in _PATHS.get(name, ()):
            text = read_path(pid, arguments[path])
            if text:
                base = arguments[folder] & 0xFFFFFFFF if folder is not None else AT_FDCWD
                absolute = resolve_path(pid, base, text, follow=name in _FOLLOWING)
                if name in _NEEDS and os.path.lexists(f"/proc/{pid}/root{absolute}") is not _NEEDS[name]:
                    continue  # the call fails anyway, sandbox or not
                attempts.add_path(absolute)
                refused = refused or attempts.refuses(absolute)
        return errno.EROFS if refused else 0


def _is_waiting(listener: int, identity: int) -> bool:
    """Tell whether the caller still waits: otherwise its number may be another process's by now."""
    try:
        fcntl.ioctl(listener, _IS_WAITING, struct.pack("=Q", identity))
    except OSError:
        return False
    return True


def _change(
    attempts: Attempts, pid: int, name: str, arguments: list[int], is_waiting: Callable[[], bool]
) -> int:
    """Make a change of metadata for a command; return the error number, 0 when it is made."""

    def may_change(place: str) -> bool:
        attempts.add_path(place)
        return is_waiting() and attempts.is_open(place) and not attempts.refuses(place)

    try:
        change_metadata(pid, name, arguments, may_change)
    except OSError as error:
        return error.errno or errno.EPERM
    return 0


def _record_connection(attempts: Attempts, pid: int, arguments: list[int]) -> int:
    """Record a connection. A read-only file system does not prevent connecting to a socket in it."""
    data = read_memory(pid, arguments[1], min(arguments[2], 128))
    address = _address(data)
    if not address:
        return 0
    attempts.add_address(address)
    is_path = int.from_bytes(data[:2], "little") == socket.AF_UNIX and address[0] != "@"
    return (
        errno.EACCES
        if is_path and not attempts.is_open(resolve_path(pid, AT_FDCWD, address, follow=True))
        else 0
    )


class _FilterProgram(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def is_filter_allowed(program: bytes) -> bool:
    """Try a reporting filter in a thread that ends at once; return whether the system allows it."""
    try:
        os.close(call_in_own_thread(partial(_install, program), "sandbox-trial"))
    except FilterRefusedError:
        return False
    return True


def _install(program: bytes) -> int:
    """Install a reporting filter for the calling thread; return the descriptor of its reports."""
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(program, len(program))
    holder = _FilterProgram(len(program) // 8, ctypes.addressof(buffer))
    # No new privileges: required for filters without CAP_SYS_ADMIN. It affects this thread only.
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise FilterRefusedError(os.strerror(ctypes.get_errno()))
    number = _SYS_SECCOMP[os.uname().machine]
    listener = libc.syscall(number, _SECCOMP_SET_MODE_FILTER, _NEW_LISTENER, ctypes.byref(holder))
    if listener < 0:
        raise FilterRefusedError(os.strerror(ctypes.get_errno()))
    os.set_inheritable(listener, False)
    return int(listener)


def _is_first(pid: int) -> bool:
    """Tell whether a process is the first one of a namespace inside buddy's."""
    numbers = namespace_numbers(pid)["NStgid"]
    return len(numbers) > 1 and numbers[-1] == "1"


def _address(data: bytes) -> str:
    """Describe a socket address; "" for families that lead nowhere."""
    family = int.from_bytes(data[:2], "little")
    port = int.from_bytes(data[2:4], "big")
    if family == 2 and len(data) >= 8:
        return f"{ipaddress.IPv4Address(data[4:8])}:{port}"
    if family == 10 and len(data) >= 24:
        return f"[{ipaddress.IPv6Address(data[8:24])}]:{port}"
    if family == 1 and len(data) > 2:
        return os.fsdecode(data[2:].split(b"\0", 1)[0]) or "@" + os.fsdecode(data[3:].rstrip(b"\0"))
    return ""
