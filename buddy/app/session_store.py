"""The session store of a workspace, built from the settings, and the cleaning up at the end of a session."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable

from buddy.app.launch import STATE_ELSEWHERE, LaunchContext
from buddy.config.settings import ConfigError, SessionSettings, Settings
from buddy.sessions.errors import FolderError
from buddy.sessions.identity import load_signer
from buddy.sessions.journal import SaveState
from buddy.sessions.session import Watch
from buddy.sessions.store import SessionStore
from buddy.workspace.undo.trash import Trash

DAY_S = 24 * 3600.0
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


def open_trash(launch: LaunchContext, store: SessionStore) -> Trash:
    """Return the trash of deleted files of this workspace."""
    return Trash(os.path.join(launch.boundary.root, ".buddyx", "trash"), store.trash_seal)


async def forget_old(store: SessionStore, limits: SessionSettings, current: str) -> None:
    """Delete sessions that are too old or too many, when this one ends. Failures are ignored."""
    with contextlib.suppress(OSError, FolderError):
        await asyncio.to_thread(
            store.forget_old,
            max_age_s=limits.keep_days * DAY_S,
            max_count=limits.keep_count,
            current=current,
        )


async def empty_trash(trash: Trash, store: SessionStore, limits: SessionSettings, current: str) -> None:
    """Empty the trash of deletions that are too old or exceed its size, when a session ends. What was deleted
    since the sessions in use began stays."""
    with contextlib.suppress(OSError, FolderError):
        await asyncio.to_thread(
            trash.empty,
            max_age_s=limits.trash_days * DAY_S,
            max_bytes=limits.trash_mb * 1_000_000,
            before=lambda: store.in_use_since(current),
            now=time.time(),
        )
