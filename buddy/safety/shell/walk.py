"""A bounded look at what lies beneath some folders, for commands that follow links or split names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from buddy.safety.shell.place import Judged, RefusedError

MAX_ENTRIES = 10_000
_MAY_BE_SECRET = re.compile(
    r"^\.(?:env|netrc|npmrc|pypirc|aws|ssh|gnupg|git-cred|docker|kube)|^id_|secret|credential|service.?account"
    r"|\.(?:env|pem|key|p12|pfx|jks|keystore|kdbx|ppk|keytab|tfvars)$"
)
"""A cheap first look at a name; whether it really is one is decided with all other paths."""


def check_links(judged: Judged, roots: tuple[str, ...]) -> None:
    """Refuse when a link beneath the folders leads somewhere that may not be read."""
    for entry in _entries(judged, roots):
        if entry.is_symlink():
            judged.read(entry.path)


def check_secrets(judged: Judged, roots: tuple[str, ...]) -> None:
    """Refuse when a secret file lies beneath the folders."""
    for entry in _entries(judged, roots):
        if _MAY_BE_SECRET.search(entry.name.lower()):
            judged.read(entry.path)


def check_names(judged: Judged, roots: tuple[str, ...], separators: str) -> None:
    """Refuse when a name would be split into pieces that may not be read: they are names of their own."""
    cwd = judged.place.boundary.cwd
    for entry in _entries(judged, roots):
        if not re.search(separators, entry.name):
            continue
        if re.search(r"['\"\\]", entry.name):
            raise RefusedError(f"quotes in the name {entry.name!r} would be taken away")
        for piece in re.split(separators, os.path.relpath(entry.path, cwd))[1:]:
            judged.read(piece)


def _entries(judged: Judged, roots: tuple[str, ...]) -> Iterator[os.DirEntry[str]]:
    seen = 0
    pending = [os.path.join(judged.place.boundary.cwd, root) for root in roots or (".",)]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    seen += 1
                    if seen > MAX_ENTRIES:
                        raise RefusedError("there are too many files to see where all of them lead")
                    yield entry
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
        except OSError:
            continue  # what cannot be listed cannot be followed either
