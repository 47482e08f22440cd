"""The person's answer about the folder buddy was started in, remembered with what it was about."""

from __future__ import annotations

import time

from buddy.cli.place import Place
from buddy.cli.trust_standing import trust_store
from buddy.safety.sanitise import clean, visible
from buddy.safety.trust import folder_of
from buddy.safety.trust_things import trusted_things


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
    shown = "".join(f"\n{visible(change.name)} ({change.kind})\n{clean(change.diff)}" for change in changes)
    return f"{folder.root} is trusted; its configuration holds from the next session on (/new){shown}"
