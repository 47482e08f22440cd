"""Sandbox profiles: the files, sockets and hosts one kind of command may use. Pure data."""

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
"""Hooks, and files that git itself makes in a linked worktree's folder alone: they lead to other settings."""

_PACKAGES = frozenset({"node_modules", "site-packages", "dist-packages"})
"""Folders that package managers fill."""

Kind = Literal["workspace", "read-only"]
"""`workspace`: may change the workspace. `read-only`: may change nothing and reach nobody."""


class SandboxProfile(msgspec.Struct, frozen=True):
    """The view of the machine one command gets. All paths are real and absolute, and exist.

    Everything not named here can be read and not written. `shown` are folders that stay visible although
    `/tmp` is private. `writable` folders and files can be changed, except for what is `protected` in them.
    `hidden` folders and files look empty. `scratch` is the host folder behind `/tmp` and `/var/tmp`.
    `files`: those of `writable` that are single files. `network`: the namespace with the proxy in it, or no
    network at all.
    """

    kind: Kind
    shown: tuple[str, ...]
    writable: tuple[str, ...]
    protected: tuple[str, ...]
    hidden: tuple[str, ...]
    scratch: str
    network: bool
    files: tuple[str, ...] = ()


def is_writable(profile: SandboxProfile, path: str) -> bool:
    """Tell whether the profile lets a command change an absolute, normalised path."""
    if any(is_at_or_below(path, place) for place in profile.protected):
        return False
    hidden = _deepest(path, profile.hidden)
    opened = _deepest(path, profile.writable)
    if not opened and _deepest(path, profile.shown):
        return False  # it lies on top of the command's own /tmp
    scratch = ("/tmp", "/var/tmp", "/dev/shm", "/dev", "/proc")  # noqa: S108 - inside, these are the command's own
    return max(opened, _deepest(path, scratch)) > hidden


def is_open(profile: SandboxProfile, path: str) -> bool:
    """The same where `/tmp` is the person's: a path in the workspace, in a place that was opened, or in the
    scratch folder itself."""
    return any(is_at_or_below(path, place) for place in (*profile.writable, profile.scratch))


def _deepest(path: str, places: Iterable[str]) -> int:
    """The length of the deepest place a path is or lies in; 0 where it lies in none."""
    return max((len(place) for place in places if is_at_or_below(path, place)), default=0)


def is_reserved(profile: SandboxProfile, path: str) -> bool:
    """Tell whether a path in a writable place has a name that commands must not create or change."""
    if path in profile.writable and path not in profile.files:
        return True  # a workspace or a repository's own folder can't be moved away from under its protection
    for place in profile.writable:
        if is_at_or_below(path, place) and _has_protected_name(path[len(place) :].lower()):
            return True
    return any(is_at_or_below(path, place) for place in profile.protected)


def _has_protected_name(tail: str) -> bool:
    parts = [part for part in tail.split("/") if part]
    if (any(map(is_protected_name, parts)) or lies_in(parts, PROTECTED_IN)) and not is_in_package(tail):
        return True
    # A repository that is made inside has its own folder, with sample hooks: `git init` and `git clone` work.
    return bool(_GIT_SETTING().search(tail))


def is_protected_name(name: str) -> bool:
    """Tell whether commands must not create an entry with this name (in lower case) in a workspace."""
    return (name in PROTECTED_ANYWHERE and name != ".git") or name.endswith(PROJECT_ENDINGS)


def is_in_package(path: str) -> bool:
    """Tell whether a path lies in an installed package. Packages ship their authors' editor settings, which
    no program takes for those of the project."""
    return not _PACKAGES.isdisjoint(path.lower().split("/")[:-1])


def is_at_or_below(path: str, place: str) -> bool:
    """Tell whether a path is a place or lies in it, by whole components."""
    return path == place or path.startswith(place.rstrip("/") + "/")


class Confinement(msgspec.Struct, frozen=True):
    """The confinement of one command. `hosts` and `writable` are open for this command alone,
    and of what is `writable` all but `closed`."""

    kind: Kind
    boundary: Boundary
    hosts: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()


class Opened(msgspec.Struct, frozen=True):
    """A place as it is opened for one command: `writable` are the place and the repositories in it (each on
    its own, so that none can be moved away from under its protection), `closed` stays as it is. `complete`:
    all of the place was looked through."""

    writable: tuple[str, ...]
    closed: tuple[str, ...] = ()
    complete: bool = True


class SandboxRules(msgspec.Struct, frozen=True):
    """The openings the person made. `writable`: places besides the workspace; `hosts`: names the proxy lets
    through; `networks`: private networks those names may lead to, in CIDR notation. `hidden`: the person's
    files with credentials at unusual places. `permitted`: protected
    paths that calls were allowed to change; `left`: how many calls were allowed to run outside so far."""

    is_off: bool = False
    writable: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    permitted: tuple[str, ...] = ()
    left: int = 0
