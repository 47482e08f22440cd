"""The files that `buddy mcp` writes definitions of servers to: the person's mcp.json and the project's
.mcp.json, in the form that other programs use. What a file holds besides stays as it is."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Callable
from typing import Any, cast

from buddy.agent.tool import ToolError
from buddy.extend.mcp.sources import MAX_FILE_BYTES, PROJECTS_KEY, SERVERS_KEYS
from buddy.safety.paths import hold_file_lock, make_private_folders, read_regular, replace_file
from buddy.safety.sanitise import visible

USER_MODE, PROJECT_MODE = 0o600, 0o644


class DefinitionFileError(Exception):
    """A file that cannot be read or written, or a name that is taken or missing: one sentence."""


class DefinitionFile:
    """One scope of one file. `folder`: the entries for that folder in the person's file, "" for the others;
    `lock_folder` is a folder of the person's own. Everything here blocks and raises
    `DefinitionFileError`."""

    def __init__(self, path: str, lock_folder: str, *, folder: str = "", is_project: bool = False) -> None:
        self.path = path
        self._lock_folder = lock_folder
        self._folder = folder
        self._is_project = is_project

    def names(self) -> tuple[str, ...]:
        """Return the names of the servers in it."""
        return tuple(self._servers(self._read()))

    def entry(self, name: str) -> object:
        """Return the entry of a server as it stands there, None for no such server."""
        return self._servers(self._read()).get(name)

    def places_of(self, name: str, url: str) -> tuple[str, ...]:
        """Return where the file defines a server of this name with this address as written: folders, "" for
        all folders. The scope does not matter."""
        whole = self._read()
        folders: object = whole.get(PROJECTS_KEY)
        tables: dict[str, object] = {"": whole}
        if isinstance(folders, dict):
            tables |= cast("dict[str, object]", folders)
        return tuple(place for place, table in tables.items() if _has_address(table, name, url))

    def add(self, name: str, entry: dict[str, Any]) -> None:
        """Add a server whose name is free."""

        def change(servers: dict[str, Any]) -> None:
            if name in servers:
                raise DefinitionFileError(
                    f"{self.path} already has a server {visible(name)}; buddy mcp remove {visible(name)} "
                    "removes it"
                )
            servers[name] = entry

        self._change(change)

    def remove(self, name: str) -> None:
        """Remove a server."""

        def change(servers: dict[str, Any]) -> None:
            if name not in servers:
                raise DefinitionFileError(f"{self.path} has no server {visible(name)}")
            del servers[name]

        self._change(change)

    def _change(self, change: Callable[[dict[str, Any]], None]) -> None:
        lock = hold_file_lock(os.path.join(self._lock_folder, "mcp-files.lock"))
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(lock)
            except OSError as error:
                raise DefinitionFileError(
                    f"{self._lock_folder} could not be locked ({error.strerror})"
                ) from error
            whole = self._read()
            change(self._servers(whole))
            self._write(whole)

    def _read(self) -> dict[str, Any]:
        try:
            found = os.lstat(self.path)
            if self._is_project and stat.S_ISLNK(found.st_mode):
                raise DefinitionFileError(f"{self.path} is a link; buddy changes only a file of the project")
            if os.stat(self.path).st_uid != os.geteuid():
                raise DefinitionFileError(f"{self.path} belongs to somebody else; it is not changed")
            text = read_regular(self.path, MAX_FILE_BYTES).decode("utf-8-sig")
        except FileNotFoundError:
            return {}
        except (OSError, ToolError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise DefinitionFileError(f"{self.path} could not be read ({why})") from error
        try:
            whole: object = json.loads(text) if text.strip() else {}
        except (ValueError, RecursionError) as error:
            raise DefinitionFileError(
                f"{self.path} is not valid JSON ({error}); correct it first, nothing was changed"
            ) from error
        if not isinstance(whole, dict):
            raise DefinitionFileError(
                f'{self.path}: expected {{"mcpServers": {{…}}}}, found {type(whole).__name__}; '
                "nothing was changed"
            )
        return cast("dict[str, Any]", whole)

    def _servers(self, whole: dict[str, Any]) -> dict[str, Any]:
        """Return the table of servers in the content of the file, made where it is missing."""
        if self._folder:
            whole = self._table(self._table(whole, PROJECTS_KEY), self._folder)
        key = next((key for key in SERVERS_KEYS if key in whole), SERVERS_KEYS[0])
        return self._table(whole, key)

    def _table(self, parent: dict[str, Any], key: str) -> dict[str, Any]:
        found: object = parent.setdefault(key, {})
        if not isinstance(found, dict):
            raise DefinitionFileError(
                f"{self.path}: {key}: expected an object, found {type(found).__name__}; nothing was changed"
            )
        return cast("dict[str, Any]", found)

    def _write(self, whole: dict[str, Any]) -> None:
        data = json.dumps(whole, ensure_ascii=False, indent=2).encode("utf-8", "surrogatepass") + b"\n"
        mode = PROJECT_MODE if self._is_project else USER_MODE
        # A link to the person's own file, as in a folder of settings under git, stays a link.
        path = self.path if self._is_project else os.path.realpath(self.path)
        try:
            if not self._is_project:
                make_private_folders(os.path.dirname(path))
            with contextlib.suppress(FileNotFoundError):
                mode = stat.S_IMODE(os.stat(path).st_mode)
            replace_file(path, data, mode=mode)
        except OSError as error:
            raise DefinitionFileError(f"{self.path} could not be written ({error.strerror})") from error


def _has_address(table: object, name: str, url: str) -> bool:
    """Tell whether a table of a file has a server of this name and address."""
    given = cast("dict[str, Any]", table) if isinstance(table, dict) else {}
    for key in SERVERS_KEYS:
        servers: object = given.get(key)
        entry: object = cast("dict[str, Any]", servers).get(name) if isinstance(servers, dict) else None
        if isinstance(entry, dict) and url in (
            cast("dict[str, Any]", entry).get(key) for key in ("url", "serverUrl", "httpUrl")
        ):
            return True
    return False
