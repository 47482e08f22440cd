"""Undo on another machine: files are taken from one version to another, all of them or none."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from buddy.agent.tool import ToolError
from buddy.safety.paths import Located
from buddy.safety.sanitise import visible
from buddy.workspace.elsewhere import TargetFiles
from buddy.workspace.files.line_diff import merge_bytes
from buddy.workspace.files.store import LoadedFile, Replacement, digest_of
from buddy.workspace.undo.entries import NOTHING, BlobStore, ChangedSinceError, FileVersions, content_of


class _Step(msgspec.Struct, frozen=True):
    """One file: what is there, and what is to be there (None: no file)."""

    located: Located
    file: FileVersions
    now: LoadedFile | None
    wanted: bytes | None


class RemoteSwitch:
    """Changes files of a target from their `before` to their `after`."""

    def __init__(self, files: TargetFiles) -> None:
        self._files = files

    def __call__(
        self, files: Sequence[FileVersions], blobs: BlobStore, merging: bool
    ) -> tuple[FileVersions, ...]:
        """Carry it out; return what really changed. Raises `ToolError`; then nothing has changed."""
        steps = [self._step(file, blobs, merging) for file in files]
        done: list[_Step] = []
        try:
            for step in steps:
                self._carry_out(step)
                done.append(step)
        except ToolError as error:
            for step in reversed(done):
                with suppress(ToolError):
                    self._carry_out(_inverse(step, self._files.load(step.located)))
            raise ToolError(f"could not restore: {error}") from error
        return tuple(_changed(step) for step in steps)

    def _step(self, file: FileVersions, blobs: BlobStore, merging: bool) -> _Step:
        name = f"{self._files.name}:{file.real}"
        located = self._files.locate(file.real)
        if located.real != file.real:
            raise ToolError(f"{visible(name)} leads to another file now; nothing was changed")
        now = self._files.load(located)
        found = NOTHING if now is None else now.digest
        wanted = content_of(blobs, file.after)
        if found not in (file.before, file.after):
            if not merging:
                raise ChangedSinceError(
                    f"{visible(name)} was changed by something else after that edit; taking the edit back "
                    "would lose that. Nothing was changed."
                )
            base = content_of(blobs, file.before)
            merged = None if now is None or base is None or wanted is None else _merge(base, now.data, wanted)
            if merged is None:
                raise ToolError(
                    f"{visible(name)} was changed by something else in the same place. Nothing was changed."
                )
            wanted = merged
        for data in (None if now is None else now.data, wanted):
            if data is not None:
                blobs.store(data)
        return _Step(located, file, now, wanted)

    def _carry_out(self, step: _Step) -> None:
        shown = f"{self._files.name}:{step.located.shown}"
        if step.wanted is None:
            if step.now is not None:
                self._files.remove(step.located.real, shown, step.now)
        elif step.now is None or step.now.data != step.wanted:
            mode = step.now.mode if step.now is not None else step.file.mode_after or step.file.mode or None
            self._files.replace(Replacement(step.located.real, shown, step.wanted, step.now, mode))


def _merge(base: bytes, now: bytes, wanted: bytes) -> bytes | None:
    merged = merge_bytes(base, now, wanted)
    return merged if isinstance(merged, bytes) else None


def _inverse(step: _Step, now: LoadedFile | None) -> _Step:
    return _Step(step.located, step.file, now, None if step.now is None else step.now.data)


def _changed(step: _Step) -> FileVersions:
    before = NOTHING if step.now is None else step.now.digest
    after = NOTHING if step.wanted is None else digest_of(step.wanted)
    return msgspec.structs.replace(step.file, before=before, after=after)
