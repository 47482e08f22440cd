"""Openings of the sandbox: those of the user's rules, those a blocked command needs, and announced writes
outside."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.agent.tool import Blocked
from buddy.safety.paths import Boundary, Located, is_beneath
from buddy.safety.policy.rules import Rule
from buddy.safety.protected import (
    PROTECTED_AT_HOME,
    SECRET_AT_HOME,
    ProtectedPlaces,
    protected_reason,
    secret_reason,
)
from buddy.safety.sanitise import visible
from buddy.safety.url_guard import canonical_host

SANDBOX = "sandbox"
"""The `tool` of rules that open something instead of allowing a call."""


class Openings(msgspec.Struct, frozen=True):
    """`hosts` as the sandbox's proxy reads them, `places` as absolute paths."""

    hosts: tuple[str, ...] = ()
    places: tuple[str, ...] = ()


def openings(rules: Iterable[Rule], *, roots: tuple[str, ...], home: str) -> Openings:
    """Collect what rules open in a project. `roots`: its folder, and the main tree of a worktree."""
    fitting = [
        rule
        for rule in rules
        if rule.tool == SANDBOX and rule.decision == "allow" and (not rule.project or rule.project in roots)
    ]
    places = (_absolute(rule.path, home) for rule in fitting if rule.path)
    return Openings(
        tuple(dict.fromkeys(rule.host for rule in fitting if rule.host)), tuple(dict.fromkeys(places))
    )


def opening_rules(found: Openings, project: str) -> tuple[Rule, ...]:
    """Make the rules that would open the same again in one project."""
    return (
        *(Rule(SANDBOX, "allow", "saved", host=host, project=project) for host in found.hosts),
        *(Rule(SANDBOX, "allow", "saved", path=place, project=project) for place in found.places),
    )


def _absolute(path: str, home: str) -> str:
    return os.path.normpath(home + path[1:] if path == "~" or path.startswith("~/") else path)


MOST_NAMED = 3
MOST_OPENED = 6
"""A longer list is not read before it is approved; then buddy asks to run outside instead."""
_INCIDENTAL = pattern(
    r"(?x) .*/__pycache__(?:/.*)? | .*\.pyc(?:\.\d+)? | .*_history | .*/\.(?:lesshst|viminfo|wget-hsts) "
    r"| /dev/.* | /proc/.* | .*/\.cache/(?:fontconfig|mesa[^/]*|matplotlib)(?:/.*)? | .*/\.cache"
)
"""Writes that programs attempt but do not need."""
_COMPLAINT = pattern(r"Read-only file system|Permission denied|Operation not permitted|EROFS|EACCES")
_TWO_DEEP = frozenset({".cache", ".config"})
_THREE_DEEP = frozenset({".local"})


class OpeningRequest(msgspec.Struct, frozen=True):
    """A question for the user after a blocked command: `openings` would let it run inside, `outside`: only
    leaving the sandbox would. `reason` names what was blocked."""

    openings: Openings
    outside: bool
    reason: str


def relevant_blocks(blocked: Blocked, ok: bool, output: str) -> Blocked:
    """Drop the blocked accesses a command did not need. A failed command needed all of them. For a successful
    one (a pipe or `|| true` may hide a failure) refused hosts count, and refused writes that its output
    names; everything else was only a probe."""
    if not ok:
        return blocked
    complaints = [line for line in output.splitlines() if _COMPLAINT().search(line)]
    paths = (path for path in blocked.paths if any(os.path.basename(path) in line for line in complaints))
    return Blocked(tuple(paths), blocked.hosts, failures=blocked.failures)


def opening_request(blocked: Blocked, boundary: Boundary) -> OpeningRequest | None:
    """Return the request for what a blocked command needs; None when it needs nothing."""
    paths = tuple(path for path in blocked.paths if not _INCIDENTAL().fullmatch(path))
    hosts = tuple(host for host in blocked.hosts if canonical_host(host.partition(":")[0]))
    if not paths and not hosts and not blocked.addresses:
        return None
    places = {path: _place(path, boundary) for path in paths}
    found = tuple(dict.fromkeys(places.values()))
    named = dict.fromkeys(
        (
            *(f"the host {visible(host)}" for host in hosts),
            *(f"writing to {_display(place or path, boundary)}" for path, place in places.items()),
            *(f"a connection to {visible(address)}" for address in blocked.addresses if not (hosts or paths)),
        )
    )
    outside = "" in found or not 0 < len(found) + len(hosts) <= MOST_OPENED
    return OpeningRequest(
        Openings() if outside else Openings(hosts, found), outside, _join_names(tuple(named))
    )


def _place(path: str, boundary: Boundary) -> str:
    """Return the folder to open for a path: one of the home folder's own; "" where none should be opened."""
    home = boundary.home
    if not path.startswith(home + "/"):
        return ""
    parts = path[len(home) + 1 :].split("/")
    depth = 3 if parts[0] in _THREE_DEEP else 2 if parts[0] in _TWO_DEEP else 1
    place = "/".join((home, *parts[:depth]))
    if len(parts) <= depth and not os.path.isdir(place):
        return ""  # a file of its own at the top of the home folder: more than a cache
    known = ProtectedPlaces(home, boundary.own, boundary.trees)
    if any(is_beneath(root, place) for root in boundary.trees):
        return ""
    return "" if protected_reason(place, known) or secret_reason(place, known) else place


def _display(path: str, boundary: Boundary) -> str:
    if is_beneath(path, boundary.root):
        return visible(os.path.relpath(path, boundary.root))
    home = boundary.home
    return visible("~" + path[len(home) :] if is_beneath(path, home) else path)


def _join_names(named: tuple[str, ...]) -> str:
    more = len(named) - MOST_NAMED
    shown = (*named[:MOST_NAMED], *((f"{more} more",) if more > 0 else ()))
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


MOST_PLACES = 3
"""An approval opens at most this many places, because a longer list is not read."""
_TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108 - places to compare

_HOMES = ("/home", "/Users")


class OutsideWrites(msgspec.Struct, frozen=True):
    """`places` are what the person's yes opens, existing folders or files; `reason` says so in the request.
    `note` tells the model what is only in the sandbox's own /tmp. "" and () where there is nothing to say."""

    places: tuple[str, ...] = ()
    reason: str = ""
    note: str = ""


NO_WRITES = OutsideWrites()


def outside_writes(writes: Sequence[Located], boundary: Boundary, *, own_tmp: bool) -> OutsideWrites:
    """Judge the writes outside the workspace that a command announces. `own_tmp`: the sandbox has its own
    /tmp."""
    opened: dict[str, list[str]] = {}
    hidden: dict[str, str] = {}
    for write in writes:
        place = "" if write.inside else place_to_open(write, boundary)
        if place:
            opened.setdefault(place, []).append(_display_path(write.real, boundary))
        elif not write.inside and own_tmp and _is_private(write, boundary):
            hidden[write.real] = _display_path(write.real, boundary)
    if len(opened) > MOST_PLACES:
        opened = {}
    parts: list[str] = []
    if opened:
        names = dict.fromkeys(name for named in opened.values() for name in named)
        places = " and ".join(_display_path(place, boundary) for place in opened)
        parts.append(f"your yes opens {places} to this command, which writes {' and '.join(names)}")
    listed = " and ".join(list(hidden.values())[:MOST_PLACES])
    if hidden:
        parts.append(f"{listed} is in the sandbox's own /tmp, not in yours")
    note = (
        f"{listed} is in the sandbox's own /tmp; outside of the sandbox it does not exist" if hidden else ""
    )
    return OutsideWrites(tuple(opened), "; ".join(parts), note)


def place_to_open(written: Located, boundary: Boundary) -> str:
    """Return the folder that must be open for a write: the nearest one that exists; or the file itself where
    that folder stays closed; "" where neither may be opened."""
    if written.protected or written.secret:
        return ""
    folder = written.real
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    if _is_openable(folder, boundary):
        return folder
    return written.real if _is_own_file(written.real) and folder != written.real else ""


def _is_openable(folder: str, boundary: Boundary) -> bool:
    """Tell whether a folder may be opened: a plain one, below the top of the machine and of the home folder,
    with none of the places in it that stay closed whatever is approved."""
    home = boundary.home
    delicate = (
        *_TEMPORARY,
        *boundary.own,
        *boundary.trees,
        home,
        *(home + name for name, _ in (*PROTECTED_AT_HOME, *SECRET_AT_HOME)),
    )
    if folder.count("/") < 2 or any(is_beneath(place, folder.lower()) for place in map(str.lower, delicate)):
        return False
    if any(folder.startswith(f"{top}/buddy-") for top in _TEMPORARY):  # where buddy keeps the sandbox's own
        return False
    if not is_beneath(folder, home) and ("/." in folder or os.path.dirname(folder) in _HOMES):
        return (
            False  # settings, or all that is somebody's: known names are looked for in one home folder only
        )
    known = ProtectedPlaces(home, boundary.own, boundary.trees)
    return not protected_reason(folder, known) and not secret_reason(folder, known)


def _is_own_file(path: str) -> bool:
    """Tell whether it is a plain file with one name: another name of it may be a protected one."""
    try:
        state = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISREG(state.st_mode) and state.st_nlink == 1


def _is_private(written: Located, boundary: Boundary) -> bool:
    """Tell whether the sandbox has a place of its own there; a home folder in /tmp stays visible."""
    return any(is_beneath(written.real, top) for top in _TEMPORARY) and not is_beneath(
        written.real, boundary.home
    )


def _display_path(place: str, boundary: Boundary) -> str:
    home = boundary.home
    return visible("~" + place[len(home) :] if is_beneath(place, home) else place)
