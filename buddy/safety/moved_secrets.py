"""Credentials at the places where the environment says that they are, instead of the usual ones."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from buddy.safety.protected_names import SECRET_ANYWHERE, SECRET_AT_HOME

_PLACES = (
    *("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AZURE_CONFIG_DIR"),
    *("BOTO_CONFIG", "CLOUDSDK_CONFIG", "GH_CONFIG_DIR", "GNUPGHOME", "GOOGLE_APPLICATION_CREDENTIALS"),
    *("HF_TOKEN_PATH", "HISTFILE", "KRB5CCNAME", "KUBECONFIG", "NETRC", "NPM_CONFIG_USERCONFIG"),
    *("npm_config_userconfig", "PASSWORD_STORE_DIR", "PGPASSFILE", "SOPS_AGE_KEY_FILE", "TF_CLI_CONFIG_FILE"),
    *("XAUTHORITY",),
)
"""Variables whose value is a file or folder with credentials, or several of them with colons between."""

_FILES_IN: Mapping[str, tuple[str, ...]] = {
    "CARGO_HOME": ("credentials", "credentials.toml"),
    "CLAUDE_CONFIG_DIR": (".credentials.json", ".claude.json"),
    "CODEX_HOME": ("auth.json",),
    "DOCKER_CONFIG": ("config.json",),
    "GRADLE_USER_HOME": ("gradle.properties",),
    "HF_HOME": ("token",),
}
"""Variables whose value is a folder, and the files with credentials in it."""

_MOVED_FOLDERS = {
    "XDG_CONFIG_HOME": "/.config/",
    "XDG_DATA_HOME": "/.local/share/",
    "XDG_CACHE_HOME": "/.cache/",
}


def moved_secrets(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the absolute paths of credentials that variables name, whether they exist or not."""
    return tuple(path for path in dict.fromkeys(_named(environment)) if os.path.isabs(path))


def _named(environment: Mapping[str, str]) -> Iterator[str]:
    for variable in _PLACES:
        value = environment.get(variable, "").removeprefix("FILE:").removeprefix("DIR:")
        yield from value.split(":")
    for variable, names in _FILES_IN.items():
        yield from (os.path.join(environment.get(variable, ""), name) for name in names)
    for variable, usual in _MOVED_FOLDERS.items():
        folder = environment.get(variable, "")
        names = (name.removeprefix(usual) for name, _reason in SECRET_AT_HOME if name.startswith(usual))
        yield from (os.path.join(folder, name) for name in (*names, *SECRET_ANYWHERE))
