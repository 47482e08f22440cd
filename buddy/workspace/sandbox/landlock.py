"""Level 2: a sandbox profile as Landlock rules (`man 7 landlock`).

Landlock only adds permissions from the top down: a folder cannot be readable without what lies in it. So a
folder with something hidden in it is left out, and each of its other entries is allowed by itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from buddy.workspace.sandbox.profile import SandboxProfile, is_at_or_below

OWN_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx")
_SCRIPT = os.path.join(os.path.dirname(__file__), "landlock_exec.py")


def landlock_argv(rules_fd: int, seccomp_fd: int) -> tuple[str, ...]:
    """Return the words before the command's own. Both descriptors are inherited."""
    return (sys.executable, "-I", "-S", _SCRIPT, str(rules_fd), str(seccomp_fd))


def landlock_rules(profile: SandboxProfile) -> bytes:
    """Return the rules as `landlock_exec` reads them, which adds the command's own terminal. Other devices
    are not even readable: terminals of the person, cameras and keyboards are among them."""
    readable = (b"r" + os.fsencode(path) for path in _around("/", (*profile.hidden, "/dev")))
    writable = (b"w" + os.fsencode(path) for path in (*profile.writable, profile.scratch, *OWN_DEVICES))
    return b"\0".join((*readable, *writable))


def _around(folder: str, hidden: tuple[str, ...]) -> Iterator[str]:
    """The folder itself, or its entries where something in it is hidden. Links are left out: a rule for one
    would allow what it leads to, and that has a rule of its own unless it is hidden."""
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
