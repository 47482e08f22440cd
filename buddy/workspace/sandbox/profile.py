"""Sandbox profiles: the files, sockets and hosts a command may use. Pure data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.safety.paths import Boundary
from buddy.safety.protected import PROJECT_ENDINGS, PROTECTED_ANYWHERE, PROTECTED_IN, lies_in

_GIT_SETTING = pattern(
    r"/\.git/(?:modules/(?!.*/worktrees/).*/)?(?:hooks/(?![^/]*\.sample$)|(?:commondir|gitdir|config\.worktree)$)"
)
"""Hooks, and files that only git itself makes in a linked worktree's folder: they lead to other settings."""

_PACKAGES = frozenset({"node_modules", "site-packages", "dist-packages"})
"""Folders that package managers fill."""

Kind = Literal["workspace", "read-only"]
"""`workspace` may change the workspace; `read-only` may change nothing and reach no host."""


class SandboxProfile(msgspec.Struct, frozen=True):
    """One command's view of the machine. All paths are real, absolute and exist.

    Everything not named here is readable and not writable. `shown` are folders that stay visible although
    `/tmp` is private. `writable` files and folders can be changed, except for the `protected` paths in them.
    `hidden` ones look empty, except for the `reopened` folders in them. `scratch` is the host folder behind
    `/tmp` and `/var/tmp`. `files` are the single files among `writable`. `network` means the namespace with
    the proxy, else there is no network at all. `empty` is an empty host folder to show instead of hidden
    ones, "" for none.
    """

    kind: Kind
    shown: tuple[str, ...]
    writable: tuple[str, ...]
    protected: tuple[str, ...]
    hidden: tuple[str, ...]
    scratch: str
    network: bool
    files: tuple[str, ...] = ()
    reopened: tuple[str, ...] = ()
    empty: str = ""


def is_writable(profile: SandboxProfile, path: str) -> bool:
    """Tell whether the profile lets a command change an absolute, normalised path."""
    if lies_in_any(path, profile.protected):
        return False
    hidden = _deepest(path, profile.hidden)
    opened = _deepest(path, profile.writable)
    if not opened and _deepest(path, profile.shown):
        return False  # it is mounted over the command's private /tmp
    scratch = ("/tmp", "/var/tmp", "/dev/shm", "/dev", "/proc")  # noqa: S108 - inside, these are the command's own
    return max(opened, _deepest(path, scratch)) > hidden


def is_open(profile: SandboxProfile, path: str) -> bool:
    """Tell the same where `/tmp` is the user's: a path in the workspace, in an opened place or in the scratch
    folder."""
    return lies_in_any(path, (*profile.writable, profile.scratch))


def _deepest(path: str, places: Iterable[str]) -> int:
    """Return the length of the deepest place that is or contains a path, 0 without one."""
    return max((len(place) for place in places if is_at_or_below(path, place)), default=0)


def is_reserved(profile: SandboxProfile, path: str) -> bool:
    """Tell whether a path in a writable place has a name that commands must not create or change."""
    if path in profile.writable and path not in profile.files:
        return True  # moving a workspace or git folder away would lift its protection
    for place in profile.writable:
        if is_at_or_below(path, place) and _has_protected_name(path[len(place) :].lower()):
            return True
    return lies_in_any(path, profile.protected)


def _has_protected_name(tail: str) -> bool:
    parts = [part for part in tail.split("/") if part]
    if (any(map(is_protected_name, parts)) or lies_in(parts, PROTECTED_IN)) and not is_in_package(tail):
        return True
    # A new repository has its own folder with sample hooks: `git init` and `git clone` must work.
    return bool(_GIT_SETTING().search(tail))


def is_protected_name(name: str) -> bool:
    """Tell whether commands must not create an entry with this name (in lower case) in a workspace."""
    return (name in PROTECTED_ANYWHERE and name != ".git") or name.endswith(PROJECT_ENDINGS)


def is_in_package(path: str) -> bool:
    """Tell whether a path is in an installed package. Packages contain their authors' editor settings, which
    no program reads as the project's."""
    return not _PACKAGES.isdisjoint(path.lower().split("/")[:-1])


def is_at_or_below(path: str, place: str) -> bool:
    """Tell whether a path is a place or inside it, by whole components."""
    return path == place or path.startswith(place.rstrip("/") + "/")


def lies_in_any(path: str, places: Iterable[str]) -> bool:
    """Tell whether a path is one of these places or inside one."""
    return any(is_at_or_below(path, place) for place in places)


class Confinement(msgspec.Struct, frozen=True):
    """The confinement of one command. `hosts` and `writable` are open for this command only, except for the
    `closed` paths in them."""

    kind: Kind
    boundary: Boundary
    hosts: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()


class OpenedPlace(msgspec.Struct, frozen=True):
    """A place as opened for one command: `writable` are the place and the repositories in it (each listed, so
    that none can be moved away), `closed` stays protected; `complete` means that all of it was searched."""

    writable: tuple[str, ...]
    closed: tuple[str, ...] = ()
    complete: bool = True


class SandboxRules(msgspec.Struct, frozen=True):
    """The user's openings. `writable` are places besides the workspace; `hosts` are names the proxy allows;
    `networks` are private networks (CIDR) those names may lead to; `hidden` are the user's credential files
    at unusual places; `permitted` are protected paths that calls were allowed to change; `left` counts the
    calls allowed outside the sandbox."""

    is_off: bool = False
    writable: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    permitted: tuple[str, ...] = ()
    unconfined_calls: int = 0
