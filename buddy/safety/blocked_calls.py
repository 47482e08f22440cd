"""Openings of the sandbox that a blocked command would need. Pure, except for checks that folders exist."""

from __future__ import annotations

import os

import msgspec

from buddy.agent.pattern import pattern
from buddy.agent.tool import Blocked
from buddy.safety.openings import Openings
from buddy.safety.paths import Boundary, is_beneath
from buddy.safety.protected import ProtectedPlaces, protected_reason, secret_reason
from buddy.safety.sanitise import visible
from buddy.safety.url_guard import canonical_host

MOST_NAMED = 3
MOST_OPENED = 6
"""More than this is no list that anybody reads before saying yes: running outside is the honest question."""
_INCIDENTAL = pattern(
    r"(?x) .*/__pycache__(?:/.*)? | .*\.pyc(?:\.\d+)? | .*_history | .*/\.(?:lesshst|viminfo|wget-hsts) "
    r"| /dev/.* | /proc/.* | .*/\.cache/(?:fontconfig|mesa[^/]*|matplotlib)(?:/.*)? | .*/\.cache"
)
"""Writes that programs try and do not need."""
_COMPLAINT = pattern(r"Read-only file system|Permission denied|Operation not permitted|EROFS|EACCES")
_TWO_DEEP = frozenset({".cache", ".config"})
_THREE_DEEP = frozenset({".local"})


class OpeningRequest(msgspec.Struct, frozen=True):
    """A question for the user after a blocked command: `openings` would let it run inside, `outside`: only
    leaving the sandbox would. `reason` names what was blocked."""

    openings: Openings
    outside: bool
    reason: str


def mattering(blocked: Blocked, ok: bool, output: str) -> Blocked:
    """Leave out what a command plainly did without. One that failed needed all of it. Of one that ended well
    (a pipe or `|| true` hides a failure) a refused host counts, and a refused write that the output complains
    about by name; what a program tried in silence, and connections beside the proxy, it only probed."""
    if not ok:
        return blocked
    complaints = [line for line in output.splitlines() if _COMPLAINT().search(line)]
    paths = (path for path in blocked.paths if any(os.path.basename(path) in line for line in complaints))
    return Blocked(tuple(paths), blocked.hosts, failures=blocked.failures)


def opening_request(blocked: Blocked, boundary: Boundary) -> OpeningRequest | None:
    """Work out what a blocked command needs; None where nothing of it matters."""
    paths = tuple(path for path in blocked.paths if not _INCIDENTAL().fullmatch(path))
    hosts = tuple(host for host in blocked.hosts if canonical_host(host.partition(":")[0]))
    if not paths and not hosts and not blocked.addresses:
        return None
    places = {path: _place(path, boundary) for path in paths}
    found = tuple(dict.fromkeys(places.values()))
    named = dict.fromkeys(
        (
            *(f"the host {visible(host)}" for host in hosts),
            *(f"writing to {_shown(place or path, boundary)}" for path, place in places.items()),
            *(f"a connection to {visible(address)}" for address in blocked.addresses if not (hosts or paths)),
        )
    )
    outside = "" in found or not 0 < len(found) + len(hosts) <= MOST_OPENED
    return OpeningRequest(Openings() if outside else Openings(hosts, found), outside, _listed(tuple(named)))


def _place(path: str, boundary: Boundary) -> str:
    """The folder to open for a path: one of the home folder's own; "" where none should be opened."""
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


def _shown(path: str, boundary: Boundary) -> str:
    if is_beneath(path, boundary.root):
        return visible(os.path.relpath(path, boundary.root))
    home = boundary.home
    return visible("~" + path[len(home) :] if is_beneath(path, home) else path)


def _listed(named: tuple[str, ...]) -> str:
    more = len(named) - MOST_NAMED
    shown = (*named[:MOST_NAMED], *((f"{more} more",) if more > 0 else ()))
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
