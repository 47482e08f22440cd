"""Whole files and folders that were moved, or put into the trash, and the way back: nothing is read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from buddy.agent.tool import ToolError
from buddy.safety.sanitise import visible
from buddy.workspace.files import folder_of
from buddy.workspace.swap import rename_to_free
from buddy.workspace.trash import fill_box, leave_box


class RenamedPath(msgspec.Struct, frozen=True):
    """A completed rename: `source` is at `target` now, in the trash if `trashed`."""

    source: str
    target: str
    trashed: bool = False


def rename(source: str, target: str) -> None:
    """Move a file or folder to a free path, folders on the way made. Raises `OSError`, `ToolError`."""
    with folder_of(source) as (old_folder, old), folder_of(target, create=True) as (folder, name):
        rename_to_free(old, old_folder, name, folder)


def take_back(renames: Sequence[RenamedPath]) -> None:
    """Put everything back where it was. Raises `ToolError`; then nothing has changed."""
    _all(tuple(reversed(renames)), back=True)


def apply_again(renames: Sequence[RenamedPath]) -> None:
    """Move everything again. Raises `ToolError`; then nothing has changed."""
    _all(renames, back=False)


def _all(renames: Sequence[RenamedPath], *, back: bool) -> None:
    wanted = [one for one in renames if not _is_so(one, back=back)]
    for one in wanted:
        _check(one, back=back)
    done: list[RenamedPath] = []
    try:
        for one in wanted:
            _one(one, back=back)
            done.append(one)
    except (OSError, ToolError) as error:
        for one in reversed(done):
            with suppress(OSError, ToolError):
                _one(one, back=not back)
        raise ToolError(f"could not move: {error}; nothing was changed") from error


def _is_so(one: RenamedPath, *, back: bool) -> bool:
    """A crash came before the move, or the person has put it back already."""
    here, there = (one.source, one.target) if back else (one.target, one.source)
    return os.path.lexists(here) and not os.path.lexists(there)


def _check(one: RenamedPath, *, back: bool) -> None:
    start, end = (one.target, one.source) if back else (one.source, one.target)
    if not os.path.lexists(start):
        where = "in the trash any more" if one.trashed and back else "there any more"
        raise ToolError(f"{visible(os.path.relpath(start))} is not {where}. Nothing was changed.")
    if os.path.lexists(end):
        raise ToolError(
            f"{visible(os.path.relpath(end))} exists again; move it away first. Nothing was changed."
        )


def _one(one: RenamedPath, *, back: bool) -> None:
    if not one.trashed:
        rename(*((one.target, one.source) if back else (one.source, one.target)))
    elif back:
        leave_box(os.path.dirname(one.target), one.source)
    else:
        fill_box(os.path.dirname(one.target), one.source, 0)
