"""`buddy login`: a key is asked for without echo and saved, in the keyring where there is one, else 0600."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Mapping
from difflib import get_close_matches

from buddy.cli.arguments import Options, UsageError
from buddy.cli.models import catalogue
from buddy.cli.place import find_place, read_settings
from buddy.cli.telling import tell
from buddy.config.settings import ConfigError, Profile, Settings, profile_of
from buddy.llm.credentials import FILE_NAME, CredentialsError, note_keyring, save_credential
from buddy.llm.keyring_store import Keyring
from buddy.llm.keys import KeyMissingError, checked
from buddy.llm.routes import UnknownModelError, route


def login(options: Options, environment: Mapping[str, str]) -> int:
    """Ask for the key of a profile's provider and save it. Returns the exit code."""
    place = find_place(options, environment)
    try:
        profile = _meant(read_settings(place, options).settings, options.words[0] if options.words else "")
        owner = _provider(profile.model, profile.base_url, given=bool(options.words))
        key = checked(_asked(owner), "what was typed")
        kept = _kept(os.path.join(place.where.data, FILE_NAME), owner, key)
    except (ConfigError, KeyMissingError, CredentialsError, UnknownModelError) as error:
        tell(f"buddy: {error}\n")
        return 4
    sys.stdout.write(f"saved the key of {owner} in {kept}\n")
    for name in _first_asked(profile, owner):
        if environment.get(name, "").strip():
            tell(f"buddy: {name} is set in the environment and goes before it\n")
    return 0


def _meant(settings: Settings, name: str) -> Profile:
    """The profile of a name; a name without one is a provider's, wherever the default profile leads."""
    if not name or "/" in name or name in settings.models or name == settings.api.model:
        return profile_of(settings, name)
    return Profile(model=name)


def _first_asked(profile: Profile, owner: str) -> tuple[str, ...]:
    """The variables that go before a saved key."""
    known = catalogue().providers.get(owner)
    usual = known.key_env if known is not None and not profile.base_url else ""
    return tuple(dict.fromkeys(name for name in (profile.api_key_env, usual) if name))


def _kept(path: str, owner: str, key: str) -> str:
    """Save the key; returns where, for the person. The file is asked before the keyring: an older key in it
    would go before the new one. Raises `CredentialsError`."""
    if Keyring().save(owner, key):
        try:
            note_keyring(path, owner)
        except CredentialsError:
            if os.path.exists(path):
                raise  # an older key in it may go before the new one
        return "the keyring"
    save_credential(path, owner, key)
    return f"{path} (readable by you alone)"


def _provider(model: str, base_url: str, *, given: bool) -> str:
    """The provider whose key is meant; `given`: the name was typed, and a bare one means a provider."""
    known = catalogue()
    if model in known.providers:
        return known.providers[model].name
    if not model:
        raise UsageError("which provider? buddy login openai, or set [api] model first (buddy init)")
    try:
        return route(known, model, base_url=base_url).provider
    except UnknownModelError as error:
        if not given or "/" in model:
            raise
        near = get_close_matches(model, known.providers, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        expected = "expected openai, anthropic or another provider's name, or that of a profile"
        raise UnknownModelError(f"unknown provider {model!r}: {expected}{hint}") from error


def _asked(owner: str) -> str:
    if sys.stdin.isatty():
        try:
            return getpass.getpass(f"key of {owner} (not shown): ")
        except EOFError:  # Ctrl+D
            return ""
        except KeyboardInterrupt:
            tell("\n")  # the shell's prompt begins on a line of its own
            raise
    return os.read(sys.stdin.fileno(), 16_384).decode("utf-8", "replace")
