"""The keys `buddy login` saved: one JSON file that only its owner can read, replaced as a whole."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

import msgspec

from buddy.safety.descriptors import make_private_folders, replace_file

FILE_NAME = "credentials.json"


class CredentialsError(Exception):
    """The file cannot be read or written: one sentence."""


def read_credentials(path: str | os.PathLike[str], warn: Callable[[str], None]) -> dict[str, str]:
    """Provider → key; empty when nothing was saved. Raises `CredentialsError`."""
    try:
        with open(path, "rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            content = file.read()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise CredentialsError(f"{path} could not be read ({error.strerror})") from error
    if mode & 0o077:
        warn(f"{path} can be read by others (mode {mode:o}): chmod 600 {path}")
    try:
        return msgspec.json.decode(content, type=dict[str, str])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CredentialsError(
            f"{path} is not what buddy wrote there: expected provider names and keys; "
            "remove it and run `buddy login` again"
        ) from error


def save_credential(path: str | os.PathLike[str], provider: str, key: str) -> None:
    """Remember a key (or forget it: ""). The file is written beside its place and moved there, so that it is
    whole at every instant and never readable by others. Raises `CredentialsError`."""
    saved = read_credentials(path, warn=lambda _: None)
    saved.pop(provider, None)
    if key:
        saved[provider] = key
    _write(path, saved)


def note_keyring(path: str | os.PathLike[str], provider: str) -> None:
    """Remember that a provider's key is in the keyring, by an empty key: a start can tell without asking a
    keyring, which may be locked. Raises `CredentialsError`."""
    saved = read_credentials(path, warn=lambda _: None)
    if saved.get(provider) != "":
        _write(path, {**saved, provider: ""})


def _write(path: str | os.PathLike[str], saved: dict[str, str]) -> None:
    try:
        make_private_folders(os.path.dirname(path))
        replace_file(path, msgspec.json.format(msgspec.json.encode(dict(sorted(saved.items()))), indent=2))
    except OSError as error:
        raise CredentialsError(f"{path} could not be written ({error.strerror})") from error
