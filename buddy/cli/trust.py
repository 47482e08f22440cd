"""Trust in the folder buddy was started in: asked of the store, remembered there, with what it was about."""

from __future__ import annotations

import os
import tempfile
import time

from buddy.cli.place import Place
from buddy.config import Directories
from buddy.safety.trust import TrustStore, folder_of

MAX_THING_CHARS = 1_000_000


def trust_of(where: Directories, root: str) -> tuple[bool, str]:
    """Whether the person trusts this folder, and a sentence where what was trusted has changed since."""
    store = trust_store(where)
    folder = folder_of(root)
    standing = store.standing(folder)
    if not standing.trusted:
        return False, standing.reason if "cannot be used" in standing.reason else ""
    changes = store.changes(folder, trusted_things(root))
    if not changes:
        return True, ""
    names = ", ".join(change.name for change in changes)
    return False, f"{names} changed since you trusted this folder; /trust shows how, and trusts it again"


def trust_store(where: Directories) -> TrustStore:
    """Where the person's answers are kept: outside of every repository."""
    path = os.path.join(where.state, "trust.json")
    return TrustStore(path, home=where.home, temporary=tempfile.gettempdir())


def trusted_things(root: str) -> dict[str, str]:
    """What trusting a folder is about: the files of the project that can change what buddy does, by name."""
    found: dict[str, str] = {}
    for name in ("buddy.toml", ".mcp.json"):
        try:
            with open(os.path.join(root, name), encoding="utf-8", errors="replace") as file:
                found[name] = file.read(MAX_THING_CHARS)
        except OSError:
            continue
    return found


def remember_trust(place: Place, *, trusted: bool) -> str:
    """Trust this folder from now on, or no longer; what to tell the person."""
    store = trust_store(place.where)
    folder = folder_of(place.boundary.root)
    things = trusted_things(place.boundary.root)
    changes = store.changes(folder, things) if trusted else ()
    problem = store.remember(folder, things, trusted=trusted, now=time.time())
    if problem:
        return f"not remembered: {problem}"
    if not trusted:
        return f"{folder.root} is no longer trusted; its configuration is ignored from the next session on"
    shown = "".join(f"\n{change.name} ({change.kind})\n{change.diff}" for change in changes)
    return f"{folder.root} is trusted; its configuration holds from the next session on (/new){shown}"
