"""Writes outside of the workspace that a confined command names: what a yes to it opens, and what ends up in
the sandbox's own /tmp. Pure, but for looking whether folders exist."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

import msgspec

from buddy.safety.paths import Boundary, Located, is_beneath
from buddy.safety.protected import ProtectedPlaces, protected_reason, secret_reason
from buddy.safety.protected_names import PROTECTED_AT_HOME, SECRET_AT_HOME
from buddy.safety.sanitise import visible

MOST_PLACES = 3
"""A yes opens no more places than this: a longer list is not read."""
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
    """Judge what a command says it writes. `own_tmp`: the sandbox has a /tmp of its own."""
    opened: dict[str, list[str]] = {}
    hidden: dict[str, str] = {}
    for one in writes:
        place = "" if one.inside else place_to_open(one, boundary)
        if place:
            opened.setdefault(place, []).append(_shown(one.real, boundary))
        elif not one.inside and own_tmp and _is_private(one, boundary):
            hidden[one.real] = _shown(one.real, boundary)
    if len(opened) > MOST_PLACES:
        opened = {}
    parts: list[str] = []
    if opened:
        names = dict.fromkeys(name for named in opened.values() for name in named)
        places = " and ".join(_shown(place, boundary) for place in opened)
        parts.append(f"your yes opens {places} to this command, which writes {' and '.join(names)}")
    listed = " and ".join(list(hidden.values())[:MOST_PLACES])
    if hidden:
        parts.append(f"{listed} is in the sandbox's own /tmp, not in yours")
    note = (
        f"{listed} is in the sandbox's own /tmp; outside of the sandbox it does not exist" if hidden else ""
    )
    return OutsideWrites(tuple(opened), "; ".join(parts), note)


def place_to_open(written: Located, boundary: Boundary) -> str:
    """The folder that must be open for a write: the nearest one that exists; or the file itself where that
    folder stays closed; "" where neither may be opened."""
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


def _shown(place: str, boundary: Boundary) -> str:
    home = boundary.home
    return visible("~" + place[len(home) :] if is_beneath(place, home) else place)
