"""Level 2: a sandbox profile as Landlock rules (`man 7 landlock`).

Landlock rules only add permissions, and a folder's rule covers everything in it. So a folder that contains
something hidden gets no rule, and each of its other entries gets its own.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator

from buddy.workspace.sandbox.landlock_thread import Restriction
from buddy.workspace.sandbox.profile import SandboxProfile

OWN_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx")


def restriction_for(profile: SandboxProfile, program: bytes) -> Restriction:
    """Return the restriction of a command by a profile and a seccomp filter. Devices are not even readable:
    the user's terminals, cameras and keyboards are among them."""
    return Restriction(
        (*_around("/", {*profile.hidden, "/dev"}), *profile.reopened),
        (*profile.writable, profile.scratch, *OWN_DEVICES),
        program,
    )


def _around(top: str, hidden: Collection[str]) -> Iterator[str]:
    """Yield a folder, or its entries if something in it is hidden. Links are left out: a rule for one would
    allow its target, which has its own rule unless it is hidden."""
    above = {parent for path in hidden for parent in _parents(path)}
    if top not in above:
        yield top
        return
    waiting = [top]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                found = [entry.path for entry in entries if not entry.is_symlink()]
        except OSError:
            continue  # not readable anyway
        waiting += [path for path in found if path in above and path not in hidden]
        yield from (path for path in found if path not in above and path not in hidden)


def _parents(path: str) -> Iterator[str]:
    """Yield the folders that an absolute path lies in."""
    while path != "/":
        path = os.path.dirname(path)
        yield path
