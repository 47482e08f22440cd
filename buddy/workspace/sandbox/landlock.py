"""Level 2: a sandbox profile as Landlock rules (`man 7 landlock`).

Landlock rules only add permissions, and a folder's rule covers everything in it. So a folder that contains
something hidden gets no rule, and each of its other entries gets its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from buddy.workspace.sandbox.profile import SandboxProfile, is_at_or_below

OWN_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx")
_SCRIPT = os.path.join(os.path.dirname(__file__), "landlock_exec.py")


def landlock_argv(rules_fd: int, seccomp_fd: int) -> tuple[str, ...]:
    """Return the words to put before a command. Both descriptors are inherited."""
    return (sys.executable, "-I", "-S", _SCRIPT, str(rules_fd), str(seccomp_fd))


def landlock_rules(profile: SandboxProfile) -> bytes:
    """Return the rules for `landlock_exec`, which adds the command's own terminal. Other devices are not even
    readable: the user's terminals, cameras and keyboards are among them."""
    around = (*_around("/", (*profile.hidden, "/dev")), *profile.reopened)
    readable = (b"r" + os.fsencode(path) for path in around)
    writable = (b"w" + os.fsencode(path) for path in (*profile.writable, profile.scratch, *OWN_DEVICES))
    return b"\0".join((*readable, *writable))


def _around(folder: str, hidden: tuple[str, ...]) -> Iterator[str]:
    """Yield the folder, or its entries if something in it is hidden. Links are left out: a rule for one would
    allow its target, which has its own rule unless it is hidden."""
    if not any(is_at_or_below(path, folder) for path in hidden):
        yield folder
        return
    if folder in hidden:
        return
    try:
        names = os.listdir(folder)
    except OSError:
        return  # not readable anyway
    for name in names:
        path = os.path.join(folder, name)
        if not os.path.islink(path):
            yield from _around(path, hidden)
