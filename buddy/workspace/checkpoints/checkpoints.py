"""Checkpoints around calls that may change files: what the tree was, what a call made of it, whose that is.

A call that says which files it writes keeps them itself before it does (`UndoLog`). Of the others the working
tree is looked at before and after, and what became different goes into the same log, so that one undo covers
edits and commands. What nobody's call did (the person's own edits, between calls) never gets there. What a
person saves while a command runs can't be told apart from what the command did: an effect knows how long its
call took, and whoever takes it back may leave files out.

Files that git ignores are not covered, nor files whose names say that they hold secrets.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec

from buddy.agent.tool import ToolError
from buddy.safety.protected import ProtectedPlaces
from buddy.safety.seal import Seal, random_seal
from buddy.workspace.checkpoints.private_git import CheckpointError, WaitingTreeError, private_git
from buddy.workspace.checkpoints.snapshots import Bounds, CheckpointStore, Difference, State
from buddy.workspace.files.locks import in_thread
from buddy.workspace.undo.entries import FileVersions
from buddy.workspace.undo.log import Effect, UndoLog
from buddy.workspace.undo.moves import FolderVersions

MAX_EFFECT_FILES = 2_000
MAX_EFFECT_BYTES = 64_000_000
"""Of one call: more is not kept for undo. The states themselves are."""


class Mark(msgspec.Struct, frozen=True):
    """A call that has begun: the tree before it, what the undo log had, and when, by a clock that only goes
    on."""

    task_id: int
    call_id: str
    tool: str
    before: State
    position: int
    at: float


class Taken(msgspec.Struct, frozen=True):
    """Result of a call: the trees before and after it, the undo entry of its effects (0: none), and notes for
    the user."""

    before: str
    after: str
    entry_id: int
    paths: tuple[str, ...]
    notes: tuple[str, ...]


class Checkpoints:
    """The states of a session. Nothing is made before the first call that needs it. `seal` is the session's:
    states of an earlier run are used when they were sealed with it."""

    def __init__(
        self,
        folder: str,
        root: str,
        log: UndoLog,
        variables: Mapping[str, str],
        bounds: Bounds | None = None,
        *,
        seal: Seal | None = None,
    ) -> None:
        self._seal = seal or random_seal()
        self._folder = folder
        self._root = root
        self._log = log
        self._variables = dict(variables)
        self._bounds = bounds or Bounds()
        self._store: CheckpointStore | None = None
        self._guard = threading.Lock()
        self._running: dict[str, Mark] = {}
        self._told: set[str] = set()
        self.off = ""

    async def begin(self, task_id: int, call_id: str, tool: str) -> Mark | str:
        """Look at the tree before a call; instead of a mark, why there is none (said once, "" after that)."""
        if self.off:
            return ""
        try:
            mark = await in_thread(lambda: self._begin(task_id, call_id, tool))
        except CheckpointError as error:
            return self._give_up(error)
        self._running[call_id] = mark
        return mark

    async def end(self, mark: Mark) -> Taken | str:
        """Look again after it, and keep what is different."""
        others = tuple(one for one in self._running.values() if one.call_id != mark.call_id)
        self._running.pop(mark.call_id, None)
        try:
            return await in_thread(lambda: self._end(mark, others))
        except CheckpointError as error:
            return self._give_up(error)
        except (OSError, ToolError) as error:
            return f"what {mark.tool} changed can't be taken back: {error}"

    def entry_of(self, call_id: str) -> int:
        """Return the entry of a call that keeps what it replaces itself, 0 for none."""
        return self._log.entry_of(call_id)

    def _give_up(self, error: CheckpointError) -> str:
        if isinstance(error, WaitingTreeError):  # over as soon as the pipe is gone
            fresh = error.path not in self._told
            self._told.add(error.path)
            return f"{error}. /undo does not cover this command." if fresh else ""
        already, self.off = self.off, str(error)
        return "" if already else f"{error}. /undo covers edits, not what commands change."

    def _begin(self, task_id: int, call_id: str, tool: str) -> Mark:
        with self._guard:
            return Mark(
                task_id, call_id, tool, self._open_store().take(), self._log.position(), time.monotonic()
            )

    def _end(self, mark: Mark, others: Sequence[Mark]) -> Taken:
        with self._guard:
            store = self._open_store()
            after = store.take()
            # What only one of the states could take looks made or removed there.
            unknown = {*mark.before.left_out, *after.left_out}
            both = store.differences(mark.before, after)
            found = [one for one in both if one.path not in unknown]
            notes = self._notes(after)
            folders = self._folder_effects(mark, after)
            if len(found) + len(folders) > MAX_EFFECT_FILES:
                notes.append(f"{mark.tool} changed {len(found):,} files: too many for /undo")
                return Taken(mark.before.tree, after.tree, 0, (), tuple(notes))
            effects = self._effects(store, found, mark)
        if not effects and not folders:
            return Taken(mark.before.tree, after.tree, 0, (), tuple(notes))
        if sum(len(effect.before or b"") + len(effect.after or b"") for effect in effects) > MAX_EFFECT_BYTES:
            notes.append(f"{mark.tool} changed more than {MAX_EFFECT_BYTES:,} bytes: too much for /undo")
            return Taken(mark.before.tree, after.tree, 0, (), tuple(notes))
        if others:
            names = ", ".join(sorted({f"{one.tool} of task {one.task_id}" for one in others}))
            notes.append(f"{mark.tool} ran at the same time as {names}: changes of both may be mixed")
        seconds = time.monotonic() - mark.at
        entry = self._log.record(mark.task_id, mark.call_id, mark.tool, effects, folders, seconds=seconds)
        paths = tuple(os.path.relpath(path, self._root) for path in entry.paths)
        return Taken(mark.before.tree, after.tree, entry.id, paths, tuple(notes))

    def _notes(self, state: State) -> list[str]:
        fresh = [path for path in state.left_out if path not in self._told]
        self._told.update(fresh)
        if not fresh:
            return []
        names = ", ".join(fresh[:3]) + (f" and {len(fresh) - 3} more" if len(fresh) > 3 else "")
        why = "too large, unreadable, secret, or a repository of its own"
        return [f"not covered by /undo ({why}): {names}"]

    def _open_store(self) -> CheckpointStore:
        if self._store is None:
            self._store = CheckpointStore(
                private_git(self._folder, self._root, self._variables, self._seal),
                ProtectedPlaces(self._variables.get("HOME", "")),
                self._bounds,
            )
        return self._store

    def _effects(self, store: CheckpointStore, found: Sequence[Difference], mark: Mark) -> list[Effect]:
        """Return the changes that are not in the undo log yet; edits made meanwhile by other tasks, or by
        this call itself, already are."""
        logged = {file.real: file for file in self._log.since(mark.position)}
        names = [one.content for change in found for one in (change.before, change.after) if one is not None]
        contents = store.contents(names)
        effects: list[Effect] = []
        moved = self._log.moved_since(mark.position)
        for change in found:
            real = os.path.join(self._root, change.path)
            if _is_beneath(real, moved):
                continue
            effect = _effect(real, change, contents)
            known = logged.get(real)
            if effect is not None and known is not None:
                effect = self._beyond(effect, known)
            if effect is not None:
                effects.append(effect)
        return effects

    def _folder_effects(self, mark: Mark, after: State) -> list[FolderVersions]:
        """Return folders that came, went or have other permissions, and not by a call that said so."""
        moved = self._log.moved_since(mark.position)
        logged = self._log.folders_since(mark.position)
        found: list[FolderVersions] = []
        for path, (was, now) in sorted(mark.before.outside.other_folders(after.outside).items()):
            real = os.path.join(self._root, path)
            if real not in logged and not _is_beneath(real, moved):
                found.append(FolderVersions(real, was, now))
        return found

    def _beyond(self, effect: Effect, known: FileVersions) -> Effect | None:
        """Return the part of an effect that follows the last logged edit of its file; None when there is
        none."""
        with suppress(ToolError):
            edited = self._log.content(known.after)
            if edited == effect.after:
                return None
            return Effect(effect.real, edited, effect.after, effect.mode, effect.mode_after)
        return None


def _effect(real: str, change: Difference, contents: Mapping[str, bytes]) -> Effect | None:
    """Return the effect of a call, None when a content is missing: then nothing can be guaranteed."""
    wanted = [one.content for one in (change.before, change.after) if one is not None]
    if any(name not in contents for name in wanted):
        return None
    before, after = (None if one is None else contents[one.content] for one in (change.before, change.after))
    modes = (0 if one is None else one.mode for one in (change.before, change.after))
    return Effect(real, before, after, *modes)


def _is_beneath(real: str, paths: Sequence[str]) -> bool:
    return any(real == path or real.startswith(path + "/") for path in paths)
