"""The files of another machine: the same records as local ones, so that the same engine edits them.

A file is replaced by a rename, so it is the old or the new one at every instant, also when the connection is
lost. Blocks; used in threads."""

from __future__ import annotations

import errno
import posixpath
import stat
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress

from buddy.agent.tool import ToolError
from buddy.safety.paths import Located, is_beneath
from buddy.safety.protected import ProtectedPlaces, protected_reason, secret_reason
from buddy.safety.sanitise import visible
from buddy.workspace.elsewhere import RemoteStatus
from buddy.workspace.files.store import (
    ACTS_AS_OWNER,
    MAX_EDIT_BYTES,
    LoadedFile,
    Replacement,
    Stamp,
    refuse_irregular,
    temporary_name,
)
from buddy.workspace.targets.connection import TargetConnection
from buddy.workspace.targets.file_channels import FileChannels
from buddy.workspace.targets.transport import Cancellation, FileClient, HostFacts, TargetError

_KERNEL_ROOTS = ("/proc/", "/sys/", "/dev/")
MAX_PATH_CHARS = 4000
NEW_FILE_MODE = 0o644


class RemoteFiles:
    """The files of one target. `name` stands before paths that people and models read."""

    def __init__(
        self,
        connection: TargetConnection,
        channels: FileChannels | None = None,
        left: set[str] | None = None,
        cancellation: Cancellation | None = None,
    ) -> None:
        self._connection = connection
        self.name = connection.destination.name
        self._channels = channels or FileChannels(connection, self._sweep, self._explain_loss)
        self._left: set[str] = set() if left is None else left
        """Temporary files of writes that a lost connection ended."""
        self._cancellation = cancellation

    def for_call(self, is_cancelled: Callable[[], bool]) -> RemoteFiles:
        """Return the same files for one call: its requests end soon after it is cancelled."""
        return RemoteFiles(self._connection, self._channels, self._left, Cancellation(is_cancelled))

    def _borrow(self) -> AbstractContextManager[FileClient]:
        return self._channels.borrow(self._cancellation)

    def facts(self) -> HostFacts:
        """Return the other side's home and folder; connects."""
        return self._connection.ensure()

    def _explain_loss(self, reason: str) -> TargetError:
        if self._connection.is_ending():
            return self._connection.lost()
        because = reason or self._connection.destination.no_files
        return TargetError(f"files on {self.name} can't be used: {because}")

    def _sweep(self, client: FileClient) -> None:
        for path in tuple(self._left):
            with suppress(FileNotFoundError, PermissionError):
                client.remove(path)
            self._left.discard(path)

    def locate(self, given: str) -> Located:
        """Resolve a path over there. Raises `ToolError` for anything that cannot be a path."""
        if not given.strip() or "\0" in given or len(given) > MAX_PATH_CHARS:
            raise ToolError(f"expected a path on {self.name}, found {visible(given[:100])!r}")
        facts = self.facts()
        text = given
        if text == "~" or text.startswith("~/"):
            text = facts.home + text[1:]
        path = posixpath.normpath(posixpath.join(facts.folder, text))
        path = "/" + path.lstrip("/")
        real = self._real(path)
        places = ProtectedPlaces(facts.home, (), (facts.folder,))
        inside = is_beneath(real, facts.folder)
        shown = visible(posixpath.relpath(real, facts.folder) if inside else real)
        return Located(
            given,
            path,
            real,
            inside,
            shown,
            protected_reason(real, places) or protected_reason(path, places),
            secret_reason(real, places) or secret_reason(path, places),
        )

    def _real(self, path: str) -> str:
        """Resolve the links of a path; what does not exist yet keeps its name."""
        missing: list[str] = []
        while True:
            try:
                with self._borrow() as client:
                    return posixpath.join(client.real_path(path), *reversed(missing))
            except FileNotFoundError:
                if path == "/":
                    raise
                missing.append(posixpath.basename(path))
                path = posixpath.dirname(path)
            except OSError as error:
                raise ToolError(f"cannot resolve {visible(path)} on {self.name}: {_reason(error)}") from error

    def status(self, real: str) -> RemoteStatus | None:
        """Return the attributes of a real path, None when nothing exists there."""
        try:
            with self._borrow() as files:
                return files.status(real)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._error("look at", real, error) from error

    def load(self, located: Located, *, max_bytes: int = MAX_EDIT_BYTES) -> LoadedFile | None:
        """Return a file's bytes, None when there is no such file."""
        real, shown = located.real, located.shown
        if located.given.rstrip().endswith("/"):
            raise ToolError(f"{shown} is given as a folder, with a slash at its end; expected a file")
        if real.startswith(_KERNEL_ROOTS):
            raise ToolError(f"{shown} is made by the kernel, not a regular file; it is not read")
        status = self.status(real)
        if status is None:
            return None
        if stat.S_ISDIR(status.mode):
            raise ToolError(f"{shown} is a folder; expected a file")
        refuse_irregular(status.mode, shown)
        if status.size > max_bytes:
            raise ToolError(
                f"{shown} has {status.size:,} bytes; at most {max_bytes:,} can be handled. "
                "Use a shell command."
            )
        try:
            with self._borrow() as client:
                data = client.read(real, max_bytes + 1, status.size)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._error("read", real, error) from error
        if len(data) > max_bytes:
            raise ToolError(f"{shown} grew past {max_bytes:,} bytes while it was read")
        return LoadedFile(data, stat.S_IMODE(status.mode), _stamp(status), status.links)

    def is_secret(self, real: str) -> bool:
        """Tell whether a path's name says that it holds secrets."""
        facts = self.facts()
        return bool(secret_reason(real, ProtectedPlaces(facts.home, (), (facts.folder,))))

    def entries(self, real: str) -> list[tuple[str, RemoteStatus]]:
        """Return the entries of a folder."""
        try:
            with self._borrow() as files:
                return files.list(real)
        except OSError as error:
            raise self._error("list", real, error) from error

    def read_link(self, real: str) -> str:
        """Return the target of a link, "" when it can't be read."""
        try:
            with self._borrow() as files:
                return files.read_link(real)
        except OSError:
            return ""

    def replace(self, new: Replacement) -> Stamp:
        """Write a temporary file beside the target and rename it into its place. Refused when the target is
        not what it was; no channel can exchange names, so a save between that look and the rename is lost."""
        folder = posixpath.dirname(new.real)
        temporary = posixpath.join(folder, new.temporary or temporary_name())
        mode = new.mode if new.mode is not None else new.was.mode if new.was is not None else NEW_FILE_MODE
        if new.was is not None and not new.was.mode & 0o222 and not new.read_only_too:
            raise ToolError(f"cannot write {new.shown}: the file is read-only")
        if new.was is None:
            self._make_folders(folder)
        owner = self._owner(new)
        try:
            with self._borrow() as client:
                client.write_new(temporary, new.data, mode & 0o777 & ~ACTS_AS_OWNER, owner)
            self._require_unchanged(new)
            with self._borrow() as client:
                if new.was is None:
                    client.rename(temporary, new.real)
                else:
                    client.replace(temporary, new.real)
        except OSError as error:
            full = error.errno == errno.ENOSPC or self._is_full(folder)
            self._discard(temporary)
            if new.was is None and self.status(new.real) is not None:
                raise ToolError(f"{new.shown} appeared while it was being written; read it first") from error
            if full:
                raise ToolError(
                    f"cannot write {new.shown} on {self.name}: the disk is full; nothing was changed"
                ) from error
            raise self._error("write", new.real, error) from error
        except TargetError:
            self._left.add(temporary)  # it goes when the connection is back
            raise
        except ToolError:
            self._discard(temporary)
            raise
        status = self.status(new.real)
        return _stamp(status) if status is not None else Stamp(0, 0, 0, 0, 0)

    def remove(self, real: str, shown: str, was: LoadedFile, *, temporary: str = "") -> None:
        """Delete a file that still is what it was."""
        located = Located(real, real, real, True, shown, "", "")
        now = self.load(located)
        if now is None or now.digest != was.digest:
            raise ToolError(f"{shown} was changed by something else meanwhile; it was not deleted")
        try:
            with self._borrow() as client:
                client.remove(real)
        except OSError as error:
            raise self._error("delete", real, error) from error

    def _require_unchanged(self, new: Replacement) -> None:
        located = Located(new.real, new.real, new.real, True, new.shown, "", "")
        if self._real(new.real) != new.real:
            raise ToolError(
                f"{new.shown} leads to another file now (a link was changed); nothing was written"
            )
        now = self.load(located)
        if new.was is None:
            if now is not None:
                raise ToolError(f"{new.shown} appeared while it was being written; read it first")
        elif now is None or now.digest != new.was.digest:
            raise ToolError(
                f"{new.shown} was changed by something else while it was being edited; nothing was written. "
                "Read it again."
            )

    def _make_folders(self, folder: str) -> None:
        missing: list[str] = []
        while self.status(folder) is None:
            missing.append(folder)
            folder = posixpath.dirname(folder)
        for path in reversed(missing):
            try:
                with self._borrow() as client:
                    client.make_folder(path)
            except OSError as error:
                if self.status(path) is None:
                    raise self._error("make", path, error) from error

    def _owner(self, new: Replacement) -> tuple[int, int] | None:
        """Return the owner a replaced file had."""
        status = self.status(new.real) if new.was is not None else None
        return status.owner if status is not None else None

    def _discard(self, temporary: str) -> None:
        try:
            with suppress(OSError), self._borrow() as client:
                client.remove(temporary)
        except TargetError:
            self._left.add(temporary)

    def _is_full(self, folder: str) -> bool:
        with suppress(OSError, TargetError), self._borrow() as client:
            free = client.free_bytes(folder)
            return free is not None and free < 4096
        return False

    def _error(self, doing: str, real: str, error: OSError) -> ToolError:
        return ToolError(f"cannot {doing} {visible(real)} on {self.name}: {_reason(error)}")


def _reason(error: OSError) -> str:
    match error.errno:
        case errno.EACCES:
            return "permission denied"
        case errno.ENOENT:
            return "there is no such file or folder"
        case _:
            return visible(error.strerror or str(error))


def _stamp(status: RemoteStatus) -> Stamp:
    return Stamp(0, 0, status.size, status.modified_s * 1_000_000_000, 0)
