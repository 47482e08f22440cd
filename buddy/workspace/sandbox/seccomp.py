"""System call filters for sandboxed commands, as classic BPF programs (`man 2 seccomp`).

`refusals` refuses system calls; `attempts` reports the ones that change files or open connections to buddy,
which lets each of them continue (`buddy.workspace.sandbox.audit`).
"""

from __future__ import annotations

import errno
import os
import struct

import msgspec

_LOAD = 0x20  # BPF_LD | BPF_W | BPF_ABS
_EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_AT_LEAST = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_ANY_BIT = 0x45  # BPF_JMP | BPF_JSET | BPF_K
_AND = 0x54  # BPF_ALU | BPF_AND | BPF_K
_RETURN = 0x06  # BPF_RET | BPF_K
_ALLOW = 0x7FFF0000
_NOTIFY = 0x7FC00000
_ERRNO = 0x00050000
_KILL_PROCESS = 0x80000000

_NUMBER, _ARCHITECTURE = 0, 4
_ARGUMENT = (16, 24, 32, 40, 48, 56)  # the low half of each argument, on little-endian machines

_X32 = 0x40000000
"""The bit of the x32 system calls, a second set of numbers on x86-64."""

_NEW_NAMESPACES = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET."""
_CLONE_NEWTIME = 0x80
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_PRIO_USER, _IOPRIO_WHO_USER = 2, 3
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_SOCK_RAW, _SOCK_TYPE_MASK = 3, 0xF
_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


class Architecture(msgspec.Struct, frozen=True):
    """A machine's system call numbers. `audit` is its AUDIT_ARCH value (`linux/audit.h`)."""

    audit: int
    numbers: dict[str, int]


_X86_64 = Architecture(
    0xC000003E,
    {
        "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "move_mount": 429,
        "open_tree": 428, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433,
        "mount_setattr": 442, "setns": 308, "unshare": 272, "clone": 56, "clone3": 435, "bpf": 321,
        "perf_event_open": 298, "userfaultfd": 323, "kexec_load": 246, "kexec_file_load": 320,
        "init_module": 175, "finit_module": 313, "delete_module": 176, "keyctl": 250, "add_key": 248,
        "request_key": 249, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
        "ioctl": 16, "quotactl": 179, "quotactl_fd": 443, "acct": 163, "swapon": 167,
        "swapoff": 168, "reboot": 169, "settimeofday": 164, "clock_settime": 227, "adjtimex": 159,
        "clock_adjtime": 305, "iopl": 172, "ioperm": 173, "modify_ldt": 154,
        "open_by_handle_at": 304, "syslog": 103, "vhangup": 153, "lookup_dcookie": 212, "socket": 41,
        "connect": 42, "sendto": 44, "open": 2, "openat": 257, "openat2": 437, "creat": 85,
        "mkdir": 83, "mkdirat": 258, "rename": 82, "renameat": 264, "renameat2": 316, "link": 86,
        "linkat": 265, "symlink": 88, "symlinkat": 266, "unlink": 87, "unlinkat": 263, "rmdir": 84,
        "truncate": 76, "mknod": 133, "mknodat": 259, "prlimit64": 302, "setpriority": 141, "ioprio_set": 251,
        "sched_setaffinity": 203, "sched_setscheduler": 144, "sched_setparam": 142,
        "sched_setattr": 314, "shmget": 29, "shmat": 30, "shmctl": 31, "semget": 64, "semop": 65,
        "semctl": 66, "semtimedop": 220, "msgget": 68, "msgsnd": 69, "msgrcv": 70, "msgctl": 71,
        "mq_open": 240, "mq_unlink": 241, "chmod": 90, "fchmod": 91, "fchmodat": 268, "fchmodat2": 452,
        "chown": 92, "fchown": 93, "lchown": 94, "fchownat": 260, "utime": 132, "utimes": 235,
        "futimesat": 261, "utimensat": 280, "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190,
        "removexattr": 197, "lremovexattr": 198, "fremovexattr": 199, "setxattrat": 463,
        "removexattrat": 466, "file_setattr": 469,
    },
)  # fmt: skip
_AARCH64 = Architecture(
    0xC00000B7,
    {
        "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51, "move_mount": 429,
        "open_tree": 428, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433,
        "mount_setattr": 442, "setns": 268, "unshare": 97, "clone": 220, "clone3": 435, "bpf": 280,
        "perf_event_open": 241, "userfaultfd": 282, "kexec_load": 104, "kexec_file_load": 294,
        "init_module": 105, "finit_module": 273, "delete_module": 106, "keyctl": 219, "add_key": 217,
        "request_key": 218, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
        "ioctl": 29, "quotactl": 60, "quotactl_fd": 443, "acct": 89, "swapon": 224,
        "swapoff": 225, "reboot": 142, "settimeofday": 170, "clock_settime": 112, "adjtimex": 171,
        "clock_adjtime": 266, "open_by_handle_at": 265, "syslog": 116, "vhangup": 58,
        "lookup_dcookie": 18, "socket": 198, "connect": 203, "sendto": 206, "openat": 56,
        "openat2": 437, "mkdirat": 34, "renameat": 38, "renameat2": 276, "linkat": 37,
        "symlinkat": 36, "unlinkat": 35, "truncate": 45, "mknodat": 33, "prlimit64": 261,
        "setpriority": 140, "ioprio_set": 30, "sched_setaffinity": 122, "sched_setscheduler": 119,
        "sched_setparam": 118, "sched_setattr": 274, "shmget": 194, "shmat": 196, "shmctl": 195,
        "semget": 190, "semop": 193, "semctl": 191, "semtimedop": 192, "msgget": 186, "msgsnd": 189,
        "msgrcv": 188, "msgctl": 187, "mq_open": 180, "mq_unlink": 181,
        "fchmod": 52, "fchmodat": 53, "fchmodat2": 452, "fchown": 55, "fchownat": 54, "utimensat": 88,
        "setxattr": 5, "lsetxattr": 6, "fsetxattr": 7, "removexattr": 14, "lremovexattr": 15,
        "fremovexattr": 16, "setxattrat": 463, "removexattrat": 466, "file_setattr": 469,
    },
)  # fmt: skip
_MACHINES = {"x86_64": _X86_64, "aarch64": _AARCH64}

_REFUSED = (
    "mount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "fsopen", "fsconfig",
    "fsmount", "fspick", "mount_setattr", "setns", "bpf", "perf_event_open", "userfaultfd",
    "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "keyctl",
    "add_key", "request_key", "quotactl", "quotactl_fd", "acct", "swapon", "swapoff", "reboot",
    "settimeofday", "clock_settime", "adjtimex", "clock_adjtime", "iopl", "ioperm", "modify_ldt",
    "open_by_handle_at", "syslog", "vhangup", "lookup_dcookie",
)  # fmt: skip
"""No build, test or server needs these; all of them have been used in escapes from sandboxes."""

_MISSING = ("io_uring_setup", "io_uring_enter", "io_uring_register", "clone3", "openat2", "file_setattr")
"""Answered as if the kernel did not have them, so that programs fall back. io_uring bypasses this filter,
clone3 and openat2 hide their flags from it, and file_setattr is another way to `_FILE_SETTINGS`."""

_ON_PROCESSES = ("prlimit64", "sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr")
"""Calls that change another process of the same user when their first argument is not 0. Landlock does not
prevent that; a limit on open files or file size would end the guard of protected names."""

_ON_MANY = {"setpriority": (_PRIO_USER,), "ioprio_set": (_IOPRIO_WHO_USER,)}
"""Calls that take a kind of process and an id, and the kinds that mean all of the user's processes."""

_SHARED = (
    "shmget", "shmat", "shmctl", "semget", "semop", "semctl", "semtimedop", "msgget", "msgsnd", "msgrcv",
    "msgctl", "mq_open", "mq_unlink",
)  # fmt: skip
"""Memory, semaphores and queues shared by all processes of the user, which no rule on files covers."""

_FILE_SETTINGS = (
    *(0x40086602, 0x40046602, 0x401C5820, 0x40087602),  # flags (also in 32 bits), extended flags, version
    *(0x40806685, 0x800C6613),  # verity, encryption
    *(0x5000940E, 0x50009418, 0x50009401, 0x50009417, 0x5000940F, 0x5000943F),  # subvolumes of btrfs
)
"""ioctls that change a file or folder opened for reading only, which Landlock does not see."""

METADATA = (
    "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat", "utime", "utimes",
    "futimesat", "utimensat", "setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr",
    "fremovexattr",
)  # fmt: skip
"""Changes of modes, owners, times and attributes, which Landlock does not control."""

_METADATA_OF_LATE = ("setxattrat", "removexattrat")
"""Further ways to change attributes (Linux 6.13): without them programs use those above."""

_CHANGING = (
    "creat", "mkdir", "mkdirat", "rename", "renameat", "renameat2", "link", "linkat", "symlink",
    "symlinkat", "unlink", "unlinkat", "rmdir", "truncate", "mknod", "mknodat",
)  # fmt: skip


def architecture() -> Architecture | None:
    """Return the numbers of this machine, None without a table."""
    return _MACHINES.get(os.uname().machine)


def refusals(machine: Architecture, *, isolated: bool, reported: bool = False) -> bytes:
    """Assemble the filter that refuses system calls.

    `isolated` commands have their own namespaces, which hide other processes, shared objects and the network.
    For others, only socket pairs remain of the sockets, and a process can change only itself. Tracing and
    signals need no filter: Landlock refuses them unless the target is confined at least as much. With
    `reported`, Internet sockets are left to the filter of `attempts`: the answer of this one would win,
    unreported.
    """
    program = _Program(machine)
    for name in _REFUSED:
        program.refuse(name, errno.EPERM)
    for name in _MISSING:
        program.refuse(name, errno.ENOSYS)
    program.refuse_bits("unshare", 0, _NEW_NAMESPACES | _CLONE_NEWTIME, errno.EPERM)
    program.refuse_bits("clone", 0, _NEW_NAMESPACES, errno.EPERM)
    program.refuse_values("ioctl", 1, (_TIOCSTI, _TIOCLINUX), errno.EPERM)
    internet = (_AF_INET, _AF_INET6) if isolated or reported else ()
    program.limit_sockets((*internet, *((_AF_UNIX, _AF_NETLINK) if isolated else ())))
    if not isolated:
        for name in _ON_PROCESSES:
            program.refuse_unless(name, 0, 0, errno.EPERM)
        for name, kinds in _ON_MANY.items():
            program.refuse_values(name, 0, kinds, errno.EPERM)
            program.refuse_unless(name, 1, 0, errno.EPERM)
        for name in (*_SHARED, *_METADATA_OF_LATE):
            program.refuse(name, errno.ENOSYS)
        program.refuse_values("ioctl", 1, _FILE_SETTINGS, errno.EPERM)
    return program.assemble(_ALLOW)


def attempts(machine: Architecture, *, isolated: bool) -> bytes:
    """Assemble the filter that reports opening for writing, changes of names, and connections; for commands
    that are not `isolated` also changes of metadata and Internet sockets."""
    program = _Program(machine, foreign=_ALLOW)
    for name in _CHANGING:
        program.notify(name)
    program.notify_bits("open", 1, _WRITE_FLAGS)
    program.notify_bits("openat", 2, _WRITE_FLAGS)
    program.notify("connect")
    if not isolated:
        for name in METADATA:
            program.notify(name)
        program.notify_values("socket", 0, (_AF_INET, _AF_INET6))
    return program.assemble(_ALLOW)


class _Program:
    """The instructions of one filter. Jumps are short: each check is independent and falls through."""

    def __init__(self, machine: Architecture, *, foreign: int = _KILL_PROCESS) -> None:
        self._numbers = machine.numbers
        self._instructions: list[bytes] = []
        self._add(_LOAD, _ARCHITECTURE)
        self._add(_EQUAL, machine.audit, hit=1)
        self._add(_RETURN, foreign)
        self._add(_LOAD, _NUMBER)
        if machine is _X86_64:
            self._add(_AT_LEAST, _X32, miss=1)
            self._add(_RETURN, foreign if foreign == _ALLOW else _ERRNO | errno.ENOSYS)

    def refuse(self, name: str, number: int) -> None:
        """Answer a call with an error number."""
        self._answer(name, _ERRNO | number)

    def notify(self, name: str) -> None:
        """Report a call."""
        self._answer(name, _NOTIFY)

    def refuse_bits(self, name: str, argument: int, bits: int, number: int) -> None:
        """Answer a call with an error number when an argument has any of some bits."""
        self._answer_bits(name, argument, bits, _ERRNO | number)

    def notify_bits(self, name: str, argument: int, bits: int) -> None:
        """Report a call when an argument has any of some bits."""
        self._answer_bits(name, argument, bits, _NOTIFY)

    def refuse_values(self, name: str, argument: int, values: tuple[int, ...], number: int) -> None:
        """Answer a call with an error number when an argument is one of some values."""
        self._answer_values(name, argument, values, _ERRNO | number)

    def notify_values(self, name: str, argument: int, values: tuple[int, ...]) -> None:
        """Report a call when an argument is one of some values."""
        self._answer_values(name, argument, values, _NOTIFY)

    def refuse_unless(self, name: str, argument: int, value: int, number: int) -> None:
        """Answer a call with an error number unless an argument has a value; its low half is compared."""
        checks = [
            self._code(_LOAD, _ARGUMENT[argument]),
            self._code(_EQUAL, value, hit=1),
            self._code(_RETURN, _ERRNO | number),
        ]
        self._when(name, checks)

    def limit_sockets(self, families: tuple[int, ...]) -> None:
        """Allow sockets of some families only, and no raw Internet sockets."""
        internet = [family for family in families if family in (_AF_INET, _AF_INET6)]
        checks = [self._code(_LOAD, _ARGUMENT[0])]
        for family in families:
            if family not in internet:
                checks += [self._code(_EQUAL, family, miss=1), self._code(_RETURN, _ALLOW)]
        for family in internet:
            checks += [
                self._code(_EQUAL, family, miss=5),
                self._code(_LOAD, _ARGUMENT[1]),
                self._code(_AND, _SOCK_TYPE_MASK),
                self._code(_EQUAL, _SOCK_RAW, miss=1),
                self._code(_RETURN, _ERRNO | errno.EPERM),
                self._code(_RETURN, _ALLOW),
            ]
        checks.append(self._code(_RETURN, _ERRNO | errno.EAFNOSUPPORT))
        self._when("socket", checks)

    def assemble(self, otherwise: int) -> bytes:
        """Return the program's bytes: an array of `struct sock_filter`."""
        self._add(_RETURN, otherwise)
        return b"".join(self._instructions)

    def _answer(self, name: str, answer: int) -> None:
        self._when(name, [self._code(_RETURN, answer)])

    def _answer_bits(self, name: str, argument: int, bits: int, answer: int) -> None:
        checks = [
            self._code(_LOAD, _ARGUMENT[argument]),
            self._code(_ANY_BIT, bits, miss=1),
            self._code(_RETURN, answer),
        ]
        self._when(name, checks)

    def _answer_values(self, name: str, argument: int, values: tuple[int, ...], answer: int) -> None:
        checks = [self._code(_LOAD, _ARGUMENT[argument])]
        for value in values:
            checks += [self._code(_EQUAL, value, miss=1), self._code(_RETURN, answer)]
        self._when(name, checks)

    def _when(self, name: str, checks: list[bytes]) -> None:
        """Add checks for a system call, unless the machine lacks it."""
        number = self._numbers.get(name)
        if number is None:
            return
        reload = [self._code(_LOAD, _NUMBER)] if len(checks) > 1 else []
        self._add(_EQUAL, number, miss=len(checks) + len(reload))
        self._instructions += [*checks, *reload]

    def _add(self, code: int, value: int, *, hit: int = 0, miss: int = 0) -> None:
        self._instructions.append(self._code(code, value, hit=hit, miss=miss))

    @staticmethod
    def _code(code: int, value: int, *, hit: int = 0, miss: int = 0) -> bytes:
        return struct.pack("=HBBI", code, hit, miss, value)
