"""Changes in a worktree since it was made: states of it in a private repository beside it, byte for byte as
on disk, whatever conversions git is configured for. Everything here blocks; call it in a thread."""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from buddy.agent.tool import ToolError
from buddy.safety.protected import ProtectedPlaces
from buddy.safety.seal import Seal
from buddy.workspace.checkpoint_git import CheckpointError, private_git
from buddy.workspace.checkpoint_outside import Outside
from buddy.workspace.checkpoint_store import LINK_MODE, CheckpointStore, State, Version
from buddy.workspace.worktrees import Kept, Worktree, keep, kept_of


class FileChanged(msgspec.Struct, frozen=True):
    """A file that is different, path relative to the top; contents are None where there is no file. `modes`
    are its permissions before and after, 0 where there is none."""

    path: str
    before: bytes | None
    after: bytes | None
    modes: tuple[int, int]

    @property
    def is_link(self) -> bool:
        """Tell whether a symbolic link is or was there."""
        return LINK_MODE in self.modes


class WorktreeChanges(msgspec.Struct, frozen=True):
    """All that is different. `state` names what the worktree is now; `left_out` are files that no state
    takes: too large, unreadable or secret by their name."""

    files: tuple[FileChanged, ...]
    state: str
    left_out: tuple[str, ...]


class WorktreeStates:
    """The states of worktrees. `variables` is the person's environment (for what they ignore everywhere). A
    private repository that does not carry `seal` is thrown away: somebody else put it there."""

    def __init__(self, variables: Mapping[str, str], seal: Seal) -> None:
        self._variables = dict(variables)
        self._seal = seal

    def begin(self, tree: Worktree) -> None:
        """Keep what a worktree is when it is new. One that is too large for that is merged with git alone.
        Raises `OSError`."""
        kept = kept_of(tree)
        if kept is None:
            return
        try:
            state = self._store(tree).take().tree
        except CheckpointError:
            return
        keep(tree, msgspec.structs.replace(kept, state=state))

    def changes(self, tree: Worktree) -> WorktreeChanges:
        """Return the changes since the worktree was made. Raises `ToolError`."""
        kept = kept_of(tree)
        if kept is None or not kept.state:
            raise ToolError(
                f"what {tree.shown} was when it was made is not known; commit there, and git merge "
                f"{tree.branch} takes its commits"
            )
        try:
            return self._changes(tree, kept)
        except CheckpointError as error:
            raise ToolError(str(error)) from error

    def _changes(self, tree: Worktree, kept: Kept) -> WorktreeChanges:
        store = self._store(tree)
        now = store.take()
        found = store.differences(State(kept.state, (), Outside({}, {})), now)
        versions = [one for change in found for one in (change.before, change.after) if one is not None]
        contents = store.contents([one.content for one in versions])
        files = tuple(
            FileChanged(
                change.path,
                _content(contents, change.before, change.path),
                _content(contents, change.after, change.path),
                (_mode(change.before), _mode(change.after)),
            )
            for change in found
        )
        return WorktreeChanges(files, now.tree, now.left_out)

    def _store(self, tree: Worktree) -> CheckpointStore:
        git = private_git(os.path.join(tree.kept, "states"), tree.path, self._variables, self._seal)
        return CheckpointStore(git, ProtectedPlaces(self._variables.get("HOME", "")))


def _content(contents: Mapping[str, bytes], version: Version | None, path: str) -> bytes | None:
    if version is None:
        return None
    if version.content not in contents:
        raise ToolError(f"what {path} was can't be read any more")
    return contents[version.content]


def _mode(version: Version | None) -> int:
    return 0 if version is None else version.mode
