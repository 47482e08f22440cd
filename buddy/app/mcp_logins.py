"""The saved logins to MCP servers, in the store that keys are in. Imported where a server is defined."""

from __future__ import annotations

import importlib.util

from buddy.app.launch import LaunchContext
from buddy.extend.mcp.logins import Logins
from buddy.llm.keys import Keyring


def saved_logins(launch: LaunchContext) -> Logins:
    """Return the logins: tokens in the keyring where its extra is installed and it works, else in a file."""
    keyring = Keyring() if importlib.util.find_spec("keyring") else None
    return Logins(launch.where.data, keyring)
