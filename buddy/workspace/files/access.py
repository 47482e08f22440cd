"""Loading and replacing files where they are: on this disk, in an editor, on another machine.

Tools take one of them per call (`tools/files/change.file_access`), so that the same engine edits all."""

from __future__ import annotations

import stat
from typing import Protocol

from buddy.agent.tool import ToolError
from buddy.safety.paths import Located
from buddy.workspace.files.atomic_replace import DISK, Disk
from buddy.workspace.files.store import (
    MAX_EDIT_BYTES,
    LoadedFile,
    Replacement,
    Stamp,
    explain_errors,
    load,
    remove,
    replace,
    status_of,
)


class FileAccess(Protocol):
    """Files by their real path. Every method blocks, and raises `ToolError` or `OSError`."""

    def load(self, located: Located, *, max_bytes: int = ...) -> LoadedFile | None:
        """Return a file's bytes, None when there is no such file."""
        ...

    def replace(self, new: Replacement) -> Stamp:
        """Replace or create a file, whole or not at all."""
        ...

    def remove(self, real: str, shown: str, was: LoadedFile, *, temporary: str = "") -> None:
        """Delete a file that still is what it was. `temporary`: its name while it goes."""
        ...


class DiskFiles:
    """The files of this machine."""

    def __init__(self, disk: Disk = DISK) -> None:
        self._disk = disk

    def load(self, located: Located, *, max_bytes: int = MAX_EDIT_BYTES) -> LoadedFile | None:
        """Return a file to change; None when there is none. Raises `ToolError` for folders and anything
        irregular."""
        if located.given.rstrip().endswith("/"):
            raise ToolError(f"{located.shown} is given as a folder, with a slash at its end; expected a file")
        status = status_of(located.real)
        if status is not None and stat.S_ISDIR(status.st_mode):
            raise ToolError(f"{located.shown} is a folder; expected a file")
        with explain_errors(f"read {located.shown}"):
            return load(located.real, located.shown, max_bytes=max_bytes)

    def replace(self, new: Replacement) -> Stamp:
        """Replace or create a file, whole or not at all."""
        return replace(new, self._disk)

    def remove(self, real: str, shown: str, was: LoadedFile, *, temporary: str = "") -> None:
        """Delete a file that still is what it was."""
        remove(real, shown, was, self._disk, temporary=temporary)
