"""The user's trust in the folder, read from the store together with what it was given for."""

from __future__ import annotations

import os
import tempfile

from buddy.config.loading import Directories
from buddy.safety.sanitise import visible
from buddy.safety.trust import TrustChange, TrustStore, folder_of
from buddy.safety.trusted_files import trusted_things

MAX_NAMED = 5


def trust_of(where: Directories, root: str) -> tuple[bool, str]:
    """Tell whether the user trusts this folder; with a sentence when the trusted content has changed
    since."""
    store = trust_store(where)
    folder = folder_of(root)
    standing = store.standing(folder)
    if not standing.trusted:
        return False, standing.problem
    changes = store.changes(folder, trusted_things(root))
    if not changes:
        return True, ""
    return (
        False,
        f"{_list_names(changes)} changed since you trusted this folder; /trust show prints the changes, "
        "/trust always trusts it again",
    )


def trust_store(where: Directories) -> TrustStore:
    """Return the store of trust answers, which is outside every repository."""
    path = os.path.join(where.state, "trust.json")
    return TrustStore(path, home=where.home, temporary=tempfile.gettempdir())


def _list_names(changes: tuple[TrustChange, ...]) -> str:
    """List the first changed names and the number of others. The names come from the repository, so they are
    sanitised."""
    names = ", ".join(visible(change.name) for change in changes[:MAX_NAMED])
    more = len(changes) - MAX_NAMED
    return f"{names} and {more} more" if more > 0 else names
