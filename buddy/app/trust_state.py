"""The user's trust in the folder, read from the store together with what it was given for."""

from __future__ import annotations

import os
import tempfile

from buddy.agent.formatting import name_first
from buddy.config.loading import Directories
from buddy.safety.sanitise import visible
from buddy.safety.trust import TrustStore, folder_of
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
    names = name_first([visible(change.name) for change in changes], MAX_NAMED)
    return (
        False,
        f"{names} changed since you trusted this folder; /trust show prints the changes, /trust always "
        "trusts it again",
    )


def trust_store(where: Directories) -> TrustStore:
    """Return the store of trust answers, which is outside every repository."""
    path = os.path.join(where.state, "trust.json")
    return TrustStore(path, home=where.home, temporary=tempfile.gettempdir())
