"""Level 2 of the sandbox: Landlock and seccomp for one thread, which a command that it starts inherits.

Both apply to threads, so no interpreter has to be started between buddy and each command (14 ms). The price:
the thread belongs to buddy and is confined exactly like the command, so Landlock lets the command send it
signals, and a signal for one thread can end the whole process. So the command waits behind `gate_argv` until
the thread is gone.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import struct
from collections.abc import Generator

import msgspec

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_RULE_PATH_BENEATH = 1
_READ = 1 << 0 | 1 << 2 | 1 << 3  # execute, read file, read folder
_LIST = 1 << 3
_FILE_ONLY = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15  # rights allowed in a rule for a file
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _PR_CAPBSET_DROP, _PR_SET_SECUREBITS = 38, 22, 24, 28
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_NOROOT_LOCKED = 0b11
_LAST_CAPABILITY = 63
_CAPABILITIES = struct.Struct("=6I")  # effective, permitted, inheritable: for capabilities 0-31, then 32-63
_CAPABILITY_HEADER = struct.pack("=Ii", 0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this thread

_GATE = 'while [ -e "$1" ]; do /bin/sleep 0.002; done; shift; exec "$@"'


class Restriction(msgspec.Struct, frozen=True):
    """The confinement of one command: places it may read, places it may write, and the seccomp filter."""

    readable: tuple[str, ...]
    writable: tuple[str, ...]
    program: bytes


def gate_argv(gate: str) -> tuple[str, ...]:
    """Return the words to put before a command that starts once the file `gate` is gone. The shell runs
    builtins and a program by its path: it has the variables of the command. A file rather than a pipe, whose
    end another command could hold or read."""
    return ("/bin/sh", "-c", _GATE, "sandbox", gate)


def restrict_thread(restriction: Restriction, terminal: str = "") -> None:
    """Confine the calling thread and what it starts from now on, for good; `terminal` is the command's own.
    Raises `OSError`."""
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() == 0:
        _leave_capabilities_behind(libc)
    _must(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    _restrict_files(libc, restriction, terminal)
    _filter_calls(libc, restriction.program)


def fs_rights(abi: int) -> int:
    """Return all file rights that a Landlock ABI knows."""
    return (1 << (16 if abi >= 5 else 15 if abi >= 3 else 14 if abi >= 2 else 13)) - 1


def abi_version() -> int:
    """Return the kernel's Landlock ABI, 0 without Landlock."""
    return max(0, ctypes.CDLL(None).syscall(_CREATE_RULESET, None, 0, 1))


@contextlib.contextmanager
def without_capabilities() -> Generator[None]:
    """Act like an ordinary user in the calling thread meanwhile, even if that user is root. Raises
    `OSError`."""
    if os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(_CAPABILITIES.size)
    _must(libc.capget(_CAPABILITY_HEADER, buffer), "capget")
    words = _CAPABILITIES.unpack(buffer.raw)
    without = _CAPABILITIES.pack(0, *words[1:3], 0, *words[4:])
    _must(libc.capset(_CAPABILITY_HEADER, without), "capset")
    try:
        yield
    finally:
        _must(libc.capset(_CAPABILITY_HEADER, buffer.raw), "capset")


def _restrict_files(libc: ctypes.CDLL, restriction: Restriction, terminal: str) -> None:
    abi = abi_version()
    handled = fs_rights(abi)
    attributes = struct.pack("=QQQ", handled, 0b11 if abi >= 4 else 0, 0b11 if abi >= 6 else 0)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    ruleset = _must(libc.syscall(_CREATE_RULESET, attributes, size, 0), "landlock_create_ruleset")
    try:
        _allow(libc, ruleset, "/", _LIST)
        for path in restriction.readable:
            _allow(libc, ruleset, path, handled & _READ)
        for path in (*restriction.writable, *((terminal,) if terminal else ())):
            _allow(libc, ruleset, path, handled)
        _must(libc.syscall(_RESTRICT_SELF, ruleset, 0), "landlock_restrict_self")
    finally:
        os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # deleted since the rules were made
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _FILE_ONLY
        rule = struct.pack("=Qi", rights, descriptor)
        _must(libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0), "landlock_add_rule")
    finally:
        os.close(descriptor)


def _filter_calls(libc: ctypes.CDLL, program: bytes) -> None:
    buffer = ctypes.create_string_buffer(program, len(program))
    holder = struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer))
    _must(libc.prctl(_PR_SET_SECCOMP, 2, holder, 0, 0), "seccomp")


def _leave_capabilities_behind(libc: ctypes.CDLL) -> None:
    """Start programs without capabilities from now on, root's too, which cannot regain any. The thread itself
    keeps them until it ends: it takes back the limits that buddy has while it starts a command."""
    _must(libc.prctl(_PR_SET_SECUREBITS, _NOROOT_LOCKED, 0, 0, 0), "securebits")
    for capability in range(_LAST_CAPABILITY + 1):
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)  # fails for those the kernel does not know
    libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    buffer = ctypes.create_string_buffer(_CAPABILITIES.size)
    _must(libc.capget(_CAPABILITY_HEADER, buffer), "capget")
    words = _CAPABILITIES.unpack(buffer.raw)
    held = _CAPABILITIES.pack(*words[:2], 0, *words[3:5], 0)
    _must(libc.capset(_CAPABILITY_HEADER, held), "capset")


def _must(result: int, name: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return int(result)
