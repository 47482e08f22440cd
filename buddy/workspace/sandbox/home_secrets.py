"""Files of the home folder, outside of the workspace, whose names say that they hold secrets, and buddy's
records of other projects.

Folders with credentials have known names; a `.env` of another project or a `server.key` may lie anywhere. A
walk that is bounded in depth and entries finds those near the top. It is made in a thread, seldom.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator, Sequence

from buddy.agent.lazy_regex import pattern
from buddy.safety.protected import ProtectedPlaces, is_plain_name, secret_reason
from buddy.workspace.sandbox.profile import is_in_package, lies_in_any
from buddy.workspace.sandbox.session_records import FOLDER, record_folders

DEPTH = 4
"""Levels below the home folder: `~/code/client/project/.env` is found."""
MAX_ENTRIES = 20_000
MAX_FILES = 100
"""Every hidden file costs a command about a tenth of a millisecond. The ones nearest to the top count."""
LASTS_S = 60.0
_PUBLIC = pattern(r"(?i)(?:cacert|ca[-_.]?bundle.*|cert|.*\.crt|chain|fullchain)\.pem")
"""Certificates, which are no secret, and without which no program of an installation reaches a server."""


class HomeSecrets:
    """The secret-named files of one home folder, as they were at the last walk."""

    def __init__(self, home: str, most: int = MAX_ENTRIES) -> None:
        self._home = home
        self._most = most
        self._walked_at = float("-inf")
        self._paths: tuple[str, ...] = ()

    async def renew(self) -> None:
        """Walk again where the last walk is too old."""
        if time.monotonic() - self._walked_at > LASTS_S:
            self._walked_at = time.monotonic()
            self._paths = await asyncio.to_thread(lambda: tuple(self._walk()))

    def outside(self, places: Sequence[str]) -> tuple[str, ...]:
        """Return the files that lie in none of some places."""
        real = tuple(map(os.path.realpath, places))
        found = (path for path in self._paths if not lies_in_any(path, real))
        return tuple(path for path, _ in zip(found, range(MAX_FILES), strict=False))

    def _walk(self) -> Iterator[str]:
        """Yield files level by level. Folders whose names begin with a dot belong to programs; what is secret
        in them has known names."""
        places = ProtectedPlaces(self._home)
        folders, seen = [self._home], 0
        for _ in range(DEPTH):
            below: list[str] = []
            for folder in folders:
                if seen > self._most:
                    return
                try:
                    with os.scandir(folder) as entries:
                        many = list(entries)
                except OSError:
                    continue
                seen += len(many)
                for entry in many:
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name == FOLDER:
                            yield from record_folders((folder,))
                        elif not entry.name.startswith(".") and not is_in_package(f"{entry.path}/x"):
                            below.append(entry.path)
                    elif _looks_secret(entry, places):
                        yield entry.path
            folders = below


def _looks_secret(entry: os.DirEntry[str], places: ProtectedPlaces) -> bool:
    return (
        not is_plain_name(entry.name)
        and entry.is_file(follow_symlinks=False)
        and not _PUBLIC().fullmatch(entry.name)
        and bool(secret_reason(entry.path, places))
    )
