"""Environment variables added to a command that was judged to only read."""

from __future__ import annotations

import os

_ATTRIBUTES = os.path.join(os.path.dirname(__file__), "secret_files.gitattributes")
"""Makes git show "Binary files differ" instead of the content of secret files, in the whole history."""

_GIT_SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "diff.autoRefreshIndex": "false",
    "safe.bareRepository": "explicit",
    "log.showSignature": "false",
    "log.diffMerges": "separate",
    "credential.helper": "",
    "core.attributesFile": _ATTRIBUTES,
}
READ_ONLY_ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_CONFIG_COUNT": str(len(_GIT_SETTINGS)),
    **{f"GIT_CONFIG_KEY_{at}": key for at, key in enumerate(_GIT_SETTINGS)},
    **{f"GIT_CONFIG_VALUE_{at}": value for at, value in enumerate(_GIT_SETTINGS.values())},
    "npm_config_logs_max": "0",
    "npm_config_update_notifier": "false",
}
"""With these git writes no index and starts no program of the repository's choice; npm writes no log and does
not check for updates."""
