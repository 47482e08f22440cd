"""The record of what each task staged in the index that all tasks of a working tree share with the person.

What was staged by a shell command, or before the session was resumed, is not in it and counts as the
person's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

NO_MODE = "000000"


class IndexEntry(msgspec.Struct, frozen=True):
    """A version of a file as an index holds it; `NO_MODE`: the file is deleted."""

    mode: str
    blob: str


class StagedFile(msgspec.Struct, frozen=True):
    """A staged file: the version in HEAD and the one in the index."""

    head: IndexEntry
    index: IndexEntry


class _Staged(msgspec.Struct, frozen=True):
    entry: IndexEntry
    order: int


class StagingRecord:
    """The record for all working trees of a session. Only the holder of the `GitLock` may use it."""

    def __init__(self) -> None:
        self._staged: dict[tuple[str, int], dict[str, _Staged]] = {}
        self._order = 0

    def add(self, top: str, task_id: int, entries: Mapping[str, IndexEntry]) -> None:
        """Remember versions that a task staged."""
        self._order += 1
        mine = self._staged.setdefault((top, task_id), {})
        mine.update({path: _Staged(entry, self._order) for path, entry in entries.items()})

    def own(self, top: str, task_id: int, changes: Mapping[str, StagedFile]) -> dict[str, IndexEntry]:
        """Return the versions this task would commit. If the user staged or unstaged a file since, the index
        decides."""
        mine: dict[str, IndexEntry] = {}
        for path, staged in self._staged.get((top, task_id), {}).items():
            now = changes.get(path)
            if now is None:
                continue
            others = {one.entry for _, one in self._of_others(top, task_id, path)}
            mine[path] = staged.entry if now.index in others else now.index
        return mine

    def others(self, top: str, task_id: int, changes: Mapping[str, StagedFile]) -> dict[str, list[int]]:
        """Return files that other tasks staged, with the ids of those tasks."""
        found: dict[str, list[int]] = {}
        for path in changes:
            tasks = [other for other, _ in self._of_others(top, task_id, path)]
            if tasks:
                found[path] = sorted(tasks)
        return found

    def staged_by_others(self, top: str, task_id: int) -> dict[str, int]:
        """Return the files that other tasks staged and nobody committed, each with a task that did."""
        return {
            path: other
            for (tree, other), staged in self._staged.items()
            if tree == top and other != task_id
            for path in staged
        }

    def forget_committed(self, top: str, task_id: int, paths: Iterable[str], *, whole: bool) -> None:
        """Forget what a commit of a task settled: its own versions, and older ones of other tasks, which it
        was built on. `whole`: the commit holds the files as they are now, newer than any record."""
        for path in paths:
            mine = self._staged.get((top, task_id), {}).pop(path, None)
            before = self._order + 1 if whole or mine is None else mine.order
            for other, staged in self._of_others(top, task_id, path):
                if staged.order < before:
                    del self._staged[top, other][path]

    def _of_others(self, top: str, task_id: int, path: str) -> list[tuple[int, _Staged]]:
        return [
            (other, staged[path])
            for (tree, other), staged in self._staged.items()
            if tree == top and other != task_id and path in staged
        ]
