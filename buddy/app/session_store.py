"""The session store of a workspace, built from the settings."""

from __future__ import annotations

import os
from collections.abc import Callable

from buddy.app.launch import STATE_ELSEWHERE, LaunchContext
from buddy.config.settings import ConfigError, Settings
from buddy.sessions.identity import load_signer
from buddy.sessions.journal import SaveState
from buddy.sessions.session import Watch
from buddy.sessions.store import SessionStore

KEEP_ELSEWHERE = "set BUDDY_SESSION_DIRECTORY (or [session] directory) to a folder you can write to"


def open_store(
    launch: LaunchContext, settings: Settings, tell: Callable[[str], None], *, root: str = ""
) -> SessionStore:
    """Return the store of this workspace, or one in `root`. `tell` receives NOT SAVED and "saved again".
    Raises `ConfigError` when the key that signs sessions, which is stored apart from them, can't be read or
    made."""

    root = root or os.path.expanduser(settings.session.directory) or launch.boundary.root

    def saving(state: SaveState) -> None:
        tell("saved again\n" if state.saved else f"NOT SAVED: {state.reason}; {waits}\n")

    waits = f"new messages are held in memory and tools are paused: free space on {root}, or make it writable"
    watch = Watch(saving=saving, warn=lambda text: tell(f"buddy: {text}\n"))
    try:
        signer = load_signer(launch.where.state)
    except OSError as error:
        why = f"{error.filename or launch.where.state}: {error.strerror}" if error.strerror else str(error)
        raise ConfigError(
            f"{why}: the key that signs sessions can't be made there; {STATE_ELSEWHERE}"
        ) from error
    return SessionStore(root, signer, workspace=launch.boundary.root, watch=watch)
