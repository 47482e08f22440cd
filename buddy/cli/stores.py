"""Where sessions are kept, by the settings."""

from __future__ import annotations

import os
from collections.abc import Callable

from buddy.cli.place import Place
from buddy.config.settings import ConfigError, Settings
from buddy.sessions.identity import load_signer
from buddy.sessions.journal import SaveState
from buddy.sessions.opened import Watch
from buddy.sessions.store import SessionStore

STATE_ELSEWHERE = "XDG_STATE_HOME=… names a folder that can be written"
KEEP_ELSEWHERE = "BUDDY_SESSION_DIRECTORY=… (or [session] directory) names a folder that can be written"


def session_store(
    place: Place, settings: Settings, tell: Callable[[str], None], *, root: str = ""
) -> SessionStore:
    """The store of this workspace, or one in `root`. `tell` hears NOT SAVED, and that it is saved again.
    Raises `ConfigError` where the key of the sessions can't be had, which lies apart from them."""

    root = root or os.path.expanduser(settings.session.directory) or place.boundary.root

    def saving(state: SaveState) -> None:
        tell("saved again\n" if state.saved else f"NOT SAVED: {state.reason}; {waits}\n")

    waits = f"what is new waits in memory, and no tool is run: make room for {root}, or let it be written to"
    watch = Watch(saving=saving, warn=lambda text: tell(f"buddy: {text}\n"))
    try:
        signer = load_signer(place.where.state)
    except OSError as error:
        why = f"{error.filename or place.where.state}: {error.strerror}" if error.strerror else str(error)
        raise ConfigError(f"{why}: there is no key for sessions; {STATE_ELSEWHERE}") from error
    return SessionStore(root, signer, workspace=place.boundary.root, watch=watch)
