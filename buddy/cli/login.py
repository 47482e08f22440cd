"""`buddy login`: a key is asked for without echo and saved, in the keyring where there is one, else 0600."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Mapping

from buddy.cli.arguments import Options, UsageError
from buddy.cli.models import catalogue
from buddy.cli.place import find_place, read_settings
from buddy.cli.telling import tell
from buddy.config import ConfigError, profile_of
from buddy.llm.credentials import FILE_NAME, CredentialsError, save_credential
from buddy.llm.keys import KeyMissingError, checked
from buddy.llm.routes import UnknownModelError, route


def login(options: Options, environment: Mapping[str, str]) -> int:
    """Ask for the key of a profile's provider and save it. Returns the exit code."""
    place = find_place(options, environment)
    try:
        settings = read_settings(place, options).settings
        name = options.words[0] if options.words else ""
        profile = profile_of(settings, name)
        owner = _provider(profile.model or name, profile.base_url)
        key = checked(_asked(owner), "what was typed")
        path = os.path.join(place.where.data, FILE_NAME)
        save_credential(path, owner, key)
    except (ConfigError, KeyMissingError, CredentialsError, UnknownModelError) as error:
        tell(f"buddy: {error}\n")
        return 4
    sys.stdout.write(f"saved the key of {owner} in {path} (readable by you alone)\n")
    return 0


def _provider(model: str, base_url: str) -> str:
    known = catalogue()
    if model in known.providers:
        return known.providers[model].name
    if not model:
        raise UsageError("which provider? buddy login openai, or set [api] model first (buddy init)")
    return route(known, model, base_url=base_url).provider


def _asked(owner: str) -> str:
    if sys.stdin.isatty():
        return getpass.getpass(f"key of {owner} (not shown): ")
    return os.read(sys.stdin.fileno(), 16_384).decode("utf-8", "replace")
