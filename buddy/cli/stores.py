"""Where sessions are kept, by the settings."""

from __future__ import annotations

import os
from collections.abc import Callable

from buddy.cli.place import Place
from buddy.config.settings import Settings
from buddy.sessions.identity import load_signer
from buddy.sessions.journal import SaveState
from buddy.sessions.opened import Watch
from buddy.sessions.store import SessionStore

KEEP_ELSEWHERE = "BUDDY_SESSION_DIRECTORY=… (or [session] directory) names a folder that can be written"


def session_store(
    place: Place, settings: Settings, tell: Callable[[str], None], *, root: str = ""
) -> SessionStore:
    """The store of this workspace, or one in `root`. `tell` hears NOT SAVED, and that it is saved again."""

    root = root or os.path.expanduser(settings.session.directory) or place.boundary.root

    def saving(state: SaveState) -> None:
        tell("saved again\n" if state.saved else f"NOT SAVED: {state.reason}; {waits}\n")

    waits = f"what is new waits in memory, and no tool is run: make room for {root}, or let it be written to"
    watch = Watch(saving=saving, warn=lambda text: tell(f"buddy: {text}\n"))
    return SessionStore(root, load_signer(place.where.state), watch=watch)
