"""Level 2 of the sandbox: become a command under Landlock and seccomp.

Run as a script, `python -I -S landlock_exec.py RULES FILTER PROGRAM WORD…`: `RULES` and `FILTER` are
inherited descriptors. Rules are NUL-separated with `r` or `w` before each path; the filter is a BPF program.
Imports as little as possible, because every command pays for it.
"""

import ctypes
import os
import struct
import sys

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_RULE_PATH_BENEATH = 1
_READ = 1 << 0 | 1 << 2 | 1 << 3  # execute, read file, read folder
_LIST = 1 << 3
_FILE_ONLY = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15  # rights allowed in a rule for a file
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _PR_CAPBSET_DROP, _PR_SET_SECUREBITS = 38, 22, 24, 28
_NOROOT_LOCKED = 0b11
_LAST_CAPABILITY = 63

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Restrict this process, then become the command. Exits with 125 on failure."""
    rules, program = int(sys.argv[1]), int(sys.argv[2])
    command = sys.argv[3:]
    try:
        if os.geteuid() == 0:
            _drop_capabilities()
        _must(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
        _restrict_files(_content(rules).split(b"\0"))
        _filter_calls(_content(program))
        os.execvp(command[0], command)  # noqa: S606 - becoming the command is what this is for
    except OSError as error:
        sys.stderr.write(f"the sandbox could not be entered: {error}\n")
        sys.exit(125)


def fs_rights(abi: int) -> int:
    """Return all file rights that a Landlock ABI knows."""
    return (1 << (16 if abi >= 5 else 15 if abi >= 3 else 14 if abi >= 2 else 13)) - 1


def abi_version() -> int:
    """Return the kernel's Landlock ABI, 0 without Landlock."""
    return max(0, _libc.syscall(_CREATE_RULESET, None, 0, 1))


def _restrict_files(rules: list[bytes]) -> None:
    abi = abi_version()
    handled = fs_rights(abi)
    attributes = struct.pack("=QQQ", handled, 0b11 if abi >= 4 else 0, 0b11 if abi >= 6 else 0)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    ruleset = _must(_libc.syscall(_CREATE_RULESET, attributes, size, 0), "landlock_create_ruleset")
    _allow(ruleset, b"/", _LIST)
    if os.isatty(0):  # a terminal of the command's own
        _allow(ruleset, os.fsencode(os.ttyname(0)), handled)
    for rule in rules:
        if rule:
            _allow(ruleset, rule[1:], handled if rule[:1] == b"w" else handled & _READ)
    _must(_libc.syscall(_RESTRICT_SELF, ruleset, 0), "landlock_restrict_self")
    os.close(ruleset)


def _allow(ruleset: int, path: bytes, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # deleted since the rules were made
    if not os.path.isdir(path):
        rights &= _FILE_ONLY
    rule = struct.pack("=Qi", rights, descriptor)
    _must(_libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0), "landlock_add_rule")
    os.close(descriptor)


def _filter_calls(program: bytes) -> None:
    buffer = ctypes.create_string_buffer(program, len(program))
    holder = struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer))
    _must(_libc.prctl(_PR_SET_SECCOMP, 2, holder, 0, 0), "seccomp")


def _drop_capabilities() -> None:
    """Keep root from regaining capabilities: without them it is an ordinary user."""
    _libc.prctl(_PR_SET_SECUREBITS, _NOROOT_LOCKED, 0, 0, 0)
    for capability in range(_LAST_CAPABILITY + 1):
        _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    header = struct.pack("=Ii", 0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
    _must(_libc.capset(header, bytes(24)), "capset")


def _content(descriptor: int) -> bytes:
    with open(descriptor, "rb") as file:
        return file.read()


def _must(result: int, name: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return int(result)


if __name__ == "__main__":
    main()
