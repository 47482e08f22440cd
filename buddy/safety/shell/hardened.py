"""What is added to the environment of a command that was judged to only read."""

from __future__ import annotations

READ_ONLY_ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_CONFIG_COUNT": "5",
    "GIT_CONFIG_KEY_0": "core.fsmonitor",
    "GIT_CONFIG_VALUE_0": "false",
    "GIT_CONFIG_KEY_1": "core.hooksPath",
    "GIT_CONFIG_VALUE_1": "/dev/null",
    "GIT_CONFIG_KEY_2": "diff.autoRefreshIndex",
    "GIT_CONFIG_VALUE_2": "false",
    "GIT_CONFIG_KEY_3": "safe.bareRepository",
    "GIT_CONFIG_VALUE_3": "explicit",
    "GIT_CONFIG_KEY_4": "log.showSignature",
    "GIT_CONFIG_VALUE_4": "false",
    "npm_config_logs_max": "0",
    "npm_config_update_notifier": "false",
}
"""git then writes no index and starts no program of the repository's choice, npm writes no log and asks
nobody for a newer version of itself."""
