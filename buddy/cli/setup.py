"""`buddy init`, `buddy login`, `buddy models` and `buddy sessions`."""

from __future__ import annotations

import asyncio
import getpass
import json
import os
import shutil
import sys
import time
from collections.abc import Container, Mapping
from difflib import get_close_matches
from typing import Any

from buddy.agent.formatting import format_count
from buddy.agent.provider import ProviderError
from buddy.app.launch import find_launch, read_saved_keys, read_settings
from buddy.app.model_server import ModelServer
from buddy.app.options import Options, UsageError
from buddy.app.providers import Models, load_catalogue
from buddy.app.session_store import open_store
from buddy.app.stderr import tell
from buddy.cli.tables import show
from buddy.config.loading import FirstModel, directories, first_model, read_table
from buddy.config.settings import ConfigError, Profile, Settings, profile_of
from buddy.extend.system_prompt import template_text
from buddy.llm.catalog import Catalogue, ModelInfo
from buddy.llm.keys import (
    FILE_NAME,
    CredentialsError,
    Keyring,
    KeysError,
    check_key,
    note_keyring,
    save_credential,
)
from buddy.llm.local_servers import find_local_servers
from buddy.llm.routing import UnknownModelError, route
from buddy.repl.render import numbers as words
from buddy.repl.render.model_table import MODEL_HEAD, model_row
from buddy.repl.view.blocks import TableBlock
from buddy.safety.paths import make_private_folders, replace_file
from buddy.safety.sanitise import one_line
from buddy.sessions.listing import SessionSummary

TEMPLATE_MODEL = "anthropic/claude-sonnet-5-5"
TEMPLATE_KEY = "ANTHROPIC_API_KEY"
TEMPLATES = ((TEMPLATE_MODEL, TEMPLATE_KEY), ("openai/gpt-5.2", "OPENAI_API_KEY"))
"""Model and key of the template, then of earlier versions of it."""
_API = "[api]\n"
_OWN_KEYS = ("api_key", "api_key_file", "api_key_command")


def init(options: Options, environment: Mapping[str, str]) -> int:
    """Write the user's buddy.toml unless it exists; `--force` replaces it but keeps its models. With
    `--print`, only print every setting. Return the exit code."""
    if options.print:
        sys.stdout.write(template_text("buddy.toml.example"))
        return 0
    where = directories(environment)
    path = os.path.join(where.config, "buddy.toml")
    try:
        if os.path.lexists(path) and not options.force:
            sys.stdout.write(_describe_existing(path))
            return 0
        saved = read_saved_keys(where)
        api = _write(path, environment, saved)
    except ConfigError as error:
        tell(f"buddy: {error}. Nothing was written\n")
        return 4
    except OSError as error:
        tell(f"buddy: {error.filename or path}: {error.strerror}; nothing was written\n")
        return 1
    sys.stdout.write(f"wrote {path}\n{_next_step(api, environment, saved)}")
    return 0


def _next_step(api: Mapping[str, Any], environment: Mapping[str, str], saved: Container[str]) -> str:
    """Describe the model that was written, and what is missing to start with it."""
    model, key_env = str(api.get("model", "")), str(api.get("api_key_env", ""))
    provider = model.partition("/")[0]
    if not key_env:  # a local server, or a key somewhere else
        return f"The model is {model}. Start: buddy\n" if model else "Start: buddy\n"
    if environment.get(key_env, "").strip():
        return f"The model is {model}; its key is in {key_env}. Start: buddy\n"
    if provider in saved or any(api.get(name) for name in _OWN_KEYS):
        return f"The model is {model}; its key is saved. Start: buddy\n"
    return (
        f"The model is {model}. It needs a key:\n"
        f"  export {key_env}=…  (or: buddy login {provider})\n"
        "Then start: buddy\n"
    )


def _is_never_chosen(api: Mapping[str, Any], environment: Mapping[str, str], saved: Container[str]) -> bool:
    """Tell whether an `[api]` table is still the template's and its key is missing, so that nobody can be
    using it."""
    for model, key in TEMPLATES:
        if api == {"model": model, "api_key_env": key}:
            return not environment.get(key, "").strip() and model.partition("/")[0] not in saved
    return False


def _describe_existing(path: str) -> str:
    """Describe the existing settings in one line, and how to start over."""
    try:
        table = read_table(path, required=False) or {}
    except ConfigError as error:
        return f"{path} already exists and can't be read: {error}\n"
    profiles = ", ".join(table.get("models", {}))
    model = table.get("api", {}).get("model", "") or "none"
    further = f", profiles {profiles}" if profiles else ""
    return (
        f"{path} already exists (model {model}{further}); nothing was changed.\n"
        "Edit it, or replace it with `buddy init --force`, which keeps a copy and your models.\n"
    )


def _with_first_model(template: str, first: FirstModel | None) -> str:
    """Return the template with the model whose key exists."""
    if first is None:
        return template
    text = template.replace(f'"{TEMPLATE_MODEL}"', f'"{first.model}"', 1)
    return text.replace(f'"{TEMPLATE_KEY}"', f'"{first.key_env}"', 1)


def _write(path: str, environment: Mapping[str, str], saved: Container[str]) -> Mapping[str, Any]:
    """Write the template with the models of an existing file, and return the `[api]` table that was written.
    Raises `ConfigError`, `OSError`."""
    make_private_folders(os.path.dirname(path))
    text = _with_first_model(template_text("buddy.toml"), first_model(environment, lambda: saved))
    if os.path.lexists(path):
        table = dict(read_table(path, required=False) or {})
        if _is_never_chosen(table.get("api", {}), environment, saved):
            del table["api"]
        text = _with_models(text, table)
        backup = f"{path}.{time.strftime('%Y%m%d-%H%M%S')}"
        shutil.copy2(path, backup)
        sys.stdout.write(f"saved the old file as {backup}\n")
    replace_file(path, text.encode())
    return (read_table(path, required=True) or {}).get("api", {})


def _with_models(text: str, table: Mapping[str, Any]) -> str:
    """Return the template with the `[api]` and `[models.*]` tables of existing settings."""
    import tomli_w  # only needed with --force

    if table.get("api"):
        before, _, after = text.partition(_API)
        rest = after.partition("\n\n")[2]
        text = f"{before}{tomli_w.dumps({'api': table['api']})}\n{rest}"
    models = table.get("models", {})
    if not models:
        return text
    tables = ["[api]"] if table.get("api") else []
    sys.stdout.write(f"kept your models: {' and '.join([*tables, format_count(len(models), 'profile')])}\n")
    return f"{text}\n{tomli_w.dumps({'models': models})}"


def login(options: Options, environment: Mapping[str, str]) -> int:
    """Ask for the key of a profile's provider and save it. Return the exit code."""
    launch = find_launch(options, environment)
    try:
        profile = _find_profile(
            read_settings(launch, options).settings, options.words[0] if options.words else ""
        )
        owner = _provider(profile.model, profile.base_url, is_typed=bool(options.words))
        key = check_key(_read_key(owner), "what was typed")
        storage = _save_key(os.path.join(launch.where.data, FILE_NAME), owner, key)
    except (ConfigError, KeysError, UnknownModelError) as error:
        tell(f"buddy: {error}\n")
        return 4
    sys.stdout.write(f"saved the key of {owner} in {storage}\n")
    for name in _overriding_variables(profile, owner):
        if environment.get(name, "").strip():
            tell(f"buddy: {name} is set in the environment and takes precedence\n")
    return 0


def _find_profile(settings: Settings, name: str) -> Profile:
    """Return the profile of a name. A name without a profile is a provider's, whatever the default profile
    is."""
    if not name or "/" in name or name in settings.models or name == settings.api.model:
        return profile_of(settings, name)
    return Profile(model=name)


def _overriding_variables(profile: Profile, owner: str) -> tuple[str, ...]:
    """Return the environment variables that take precedence over a saved key."""
    known = load_catalogue().providers.get(owner)
    usual = known.key_env if known is not None and not profile.base_url else ""
    return tuple(dict.fromkeys(name for name in (profile.api_key_env, usual) if name))


def _save_key(path: str, owner: str, key: str) -> str:
    """Save the key and return its place for display. Raises `CredentialsError`.

    The credentials file is read before the keyring, so an older key in it is replaced by a note.
    """
    if Keyring().save(owner, key):
        try:
            note_keyring(path, owner)
        except CredentialsError:
            if os.path.exists(path):
                raise  # an older key in it would take precedence
        return "the keyring"
    save_credential(path, owner, key)
    return f"{path} (readable by you alone)"


def _provider(model: str, base_url: str, *, is_typed: bool) -> str:
    """Return the provider whose key is meant. `given` tells whether the name was typed: a bare one means a
    provider."""
    known = load_catalogue()
    if model in known.providers:
        return known.providers[model].name
    if not model:
        raise UsageError("which provider? buddy login openai, or set [api] model first (buddy init)")
    try:
        return route(known, model, base_url=base_url).provider
    except UnknownModelError as error:
        if not is_typed or "/" in model:
            raise
        near = get_close_matches(model, known.providers, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        expected = "expected openai, anthropic or another provider's name, or that of a profile"
        raise UnknownModelError(f"unknown provider {model!r}: {expected}{hint}") from error


def _read_key(owner: str) -> str:
    if sys.stdin.isatty():
        try:
            return getpass.getpass(f"key of {owner} (not shown): ")
        except EOFError:  # Ctrl+D
            return ""
        except KeyboardInterrupt:
            tell("\n")  # so that the shell's prompt starts on a new line
            raise
    return os.read(sys.stdin.fileno(), 16_384).decode("utf-8", "replace")


MAX_OFFERED = 15
"""Number of sessions that `buddy resume` offers."""
_SESSION_HEAD = ("session", "last", "tasks", "what")


def models(options: Options, environment: Mapping[str, str]) -> int:
    """Print the models of the configured and local servers, then the catalogue, filtered by the given
    words."""
    wanted = [word.lower() for word in options.words]
    served = [
        row for row in _list_served(options, environment) if all(word in row[0].lower() for word in wanted)
    ]
    matches = [
        info for info in load_catalogue().models.values() if all(word in info.id.lower() for word in wanted)
    ]
    rows = tuple((name, words.context_size(context), url) for name, context, url in served)
    lines = (f"{name:<52} {f'{context:,}' if context else '?':>9}  at {url}" for name, context, url in served)
    show(TableBlock(("model", "ctx", "at"), rows), lines, options, environment, sys.stdout)
    if rows and matches and sys.stdout.isatty():
        sys.stdout.write("\n")
    table = TableBlock(MODEL_HEAD, tuple(map(model_row, matches)))
    show(table, map(_model_line, matches), options, environment, sys.stdout)
    if not matches and not served:
        query = " ".join(wanted)
        near = _find_similar(query, load_catalogue())
        hint = f"did you mean {near}?" if near else "buddy models lists all"
        tell(f"buddy: no model has {query!r} in its name; {hint}\n")
        return 1
    return 0


def _list_served(options: Options, environment: Mapping[str, str]) -> list[tuple[str, int, str]]:
    """Return name for `-m`, context (0 when unknown) and address of each model that a server lists. Reports
    unreachable servers on stderr."""
    try:
        launch = find_launch(options, environment)
        settings = read_settings(launch, options).settings
    except ConfigError as error:
        tell(f"buddy: {error}\n")
        return []
    return asyncio.run(_ask_servers(Models(settings, launch)))


async def _ask_servers(provider_models: Models) -> list[tuple[str, int, str]]:
    try:
        servers = provider_models.own_servers()
        local, *listed = await asyncio.gather(_on_this_machine(), *map(_list_of, servers))
    finally:
        await provider_models.aclose()
    addresses = {row[2].rstrip("/") for rows in listed for row in rows}
    return [row for rows in listed for row in rows] + [row for row in local if row[2] not in addresses]


async def _list_of(server: ModelServer) -> list[tuple[str, int, str]]:
    try:
        return [(model.name, model.context, server.base_url) for model in await server.list()]
    except ProviderError as error:
        tell(f"buddy: the models of {server.base_url} are not listed: {error.message}\n")
        return []


async def _on_this_machine() -> list[tuple[str, int, str]]:
    servers = await find_local_servers()
    return [(f"{server.provider}/{name}", 0, server.base_url) for server in servers for name in server.models]


def _find_similar(query: str, catalogue: Catalogue) -> str:
    """Return the most similar name or part of a name in the catalogue, "" for none."""
    import difflib  # imported here: 1 ms, only needed for a misspelt name

    names = [info.id.lower() for info in catalogue.models.values()]
    parts = {part for name in names for part in name.replace("/", "-").split("-")}
    return next(iter(difflib.get_close_matches(query, [*sorted(parts), *names], 1)), "")


def _model_line(info: ModelInfo) -> str:
    prices = info.prices
    price = "" if prices.input is None else f"${prices.input:g} / ${prices.output:g} per M"
    able = " ".join(sorted(info.capabilities))
    return f"{info.id:<52} {info.context:>9,}  {price:<22} {able}".rstrip()


def sessions(options: Options, environment: Mapping[str, str]) -> int:
    """Print the sessions of this folder. On a terminal the newest is last, just above the prompt. Runs of
    exec and sessions without an answer need `--all`."""
    try:
        launch = find_launch(options, environment)
        store = open_store(launch, read_settings(launch, options).settings, tell)
    except ConfigError as error:
        tell(f"buddy: {error}\n")
        return 4
    summaries = store.list()
    listed = summaries if options.all else tuple(summary for summary in summaries if summary.matters())
    if options.json:
        sys.stdout.write(json.dumps([_session_object(one) for one in listed], indent=1) + "\n")
        return 0
    rows = tuple(map(_session_row, reversed(listed)))
    show(TableBlock(_SESSION_HEAD, rows), map(_session_line, listed), options, environment, sys.stdout)
    left_out = len(summaries) - len(listed)
    if left_out:
        pronoun = "it" if left_out == 1 else "them"
        hidden = f"{format_count(left_out, 'session')} hidden (from exec, or without an answer)"
        tell(f"{hidden}; --all shows {pronoun}\n")
    elif not summaries:
        tell(f"buddy: there are no sessions in {launch.boundary.root}\n")
    return 0


def pick_session(options: Options, environment: Mapping[str, str]) -> str:
    """Ask for the number of the session to resume; without a choice, return the newest. Raises `ConfigError`,
    `UsageError`."""
    launch = find_launch(options, environment)
    store = open_store(launch, read_settings(launch, options).settings, tell)
    listed = [one for one in store.list() if one.matters() and not one.foreign][:MAX_OFFERED]
    if len(listed) < 2:
        return "last"
    newest_last = list(enumerate(listed, 1))[::-1]
    table = TableBlock(("", *_SESSION_HEAD), tuple((str(at), *_session_row(one)) for at, one in newest_last))
    lines = (f"{at:>3}  {_session_line(one)}" for at, one in newest_last)
    show(table, lines, options, environment, sys.stdout)
    while True:
        sys.stdout.write(f"Which one? 1 to {len(listed)}, Enter for 1: ")
        sys.stdout.flush()
        line = sys.stdin.readline()
        if not line:  # Ctrl+D
            sys.stdout.write("\n")
            raise KeyboardInterrupt
        answer = line.strip() or "1"
        if answer.isascii() and answer.isdigit() and 1 <= int(answer) <= len(listed):
            return listed[int(answer) - 1].session_id


def _session_row(summary: SessionSummary) -> tuple[str, ...]:
    at = time.strftime("%Y-%m-%d %H:%M", time.localtime(summary.last_at))
    marks = summary.marks()
    title = one_line(summary.name or summary.title or "", 200)
    return (summary.session_id, at, f"{summary.tasks}", f"{title} ({marks})" if marks else title)


def _session_line(summary: SessionSummary) -> str:
    session_id, at, _tasks, _title = _session_row(summary)
    marks = summary.marks()
    title = one_line(summary.name or summary.title or "", 60)
    tail = f"  ({marks})" if marks else ""
    return f"{session_id}  {at}  {format_count(summary.tasks, 'task'):<7}  {title}{tail}".rstrip()


def _session_object(summary: SessionSummary) -> dict[str, object]:
    return {
        "session_id": summary.session_id,
        "name": summary.name,
        "title": summary.title,
        "tasks": summary.tasks,
        "created_at": summary.created_at,
        "last_at": summary.last_at,
        "size_bytes": summary.size_bytes,
        "headless": summary.headless,
        "answered": summary.answered,
        "in_use": summary.locked,
        "foreign": summary.foreign,
    }
