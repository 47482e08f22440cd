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
from buddy.app.launch import find_launch, read_settings, saved_keys
from buddy.app.model_server import ModelServer
from buddy.app.options import Options, UsageError
from buddy.app.providers import Models, catalogue
from buddy.app.session_store import session_store
from buddy.app.stderr import tell
from buddy.cli.tables import show
from buddy.config.first_model import FirstModel, first_model
from buddy.config.loading import directories, read_table
from buddy.config.settings import ConfigError, Profile, Settings, profile_of
from buddy.extend.system_prompt import template_text
from buddy.llm.catalog import Catalogue, ModelInfo
from buddy.llm.keys import (
    FILE_NAME,
    CredentialsError,
    KeyMissingError,
    Keyring,
    check_key,
    note_keyring,
    save_credential,
)
from buddy.llm.local_servers import find_local_servers
from buddy.llm.routing import UnknownModelError, route
from buddy.repl.view.blocks import TableBlock
from buddy.safety.paths import make_private_folders, replace_file
from buddy.safety.sanitise import one_line
from buddy.sessions.listing import SessionSummary

TEMPLATE_MODEL = "anthropic/claude-sonnet-5-5"
TEMPLATE_KEY = "ANTHROPIC_API_KEY"
TEMPLATES = ((TEMPLATE_MODEL, TEMPLATE_KEY), ("openai/gpt-5.2", "OPENAI_API_KEY"))
"""Model and key of the template, then of earlier ones."""
_API = "[api]\n"
_OWN_KEYS = ("api_key", "api_key_file", "api_key_command")


def init(options: Options, environment: Mapping[str, str]) -> int:
    """Write the person's buddy.toml unless there is one; `--force` begins it anew but keeps its models. With
    `--print`, only show every setting. Returns the exit code."""
    if options.print:
        sys.stdout.write(template_text("buddy.toml.example"))
        return 0
    where = directories(environment)
    path = os.path.join(where.config, "buddy.toml")
    try:
        if os.path.lexists(path) and not options.force:
            sys.stdout.write(_standing(path))
            return 0
        saved = saved_keys(where)
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
    """The model that was written, and what is missing to start with it."""
    model, key_env = str(api.get("model", "")), str(api.get("api_key_env", ""))
    provider = model.partition("/")[0]
    if not key_env:  # a local server, or a key in a place of the person's own
        return f"The model is {model}. Start: buddy\n" if model else "Start: buddy\n"
    if environment.get(key_env, "").strip():
        return f"The model is {model}; its key is in {key_env}. Start: buddy\n"
    if provider in saved or any(api.get(name) for name in _OWN_KEYS):
        return f"The model is {model}; its key is saved. Start: buddy\n"
    return (
        f"The model is {model}. Set a key (export {key_env}=… or buddy login {provider}), then start: buddy\n"
    )


def _is_never_chosen(api: Mapping[str, Any], environment: Mapping[str, str], saved: Container[str]) -> bool:
    """Tell whether an `[api]` table is still the template's own and its key is found nowhere, so that nobody
    can be using it."""
    for model, key in TEMPLATES:
        if api == {"model": model, "api_key_env": key}:
            return not environment.get(key, "").strip() and model.partition("/")[0] not in saved
    return False


def _standing(path: str) -> str:
    """The settings that stand there, in one line, and how to begin anew."""
    try:
        table = read_table(path, required=False) or {}
    except ConfigError as error:
        return f"{path} is there already, and can't be read: {error}\n"
    profiles = ", ".join(table.get("models", {}))
    model = table.get("api", {}).get("model", "") or "none"
    further = f", profiles {profiles}" if profiles else ""
    return (
        f"{path} is there already (model {model}{further}); nothing was changed.\n"
        "Edit it, or begin anew with `buddy init --force`: that keeps a copy, and your models.\n"
    )


def _with_first_model(template: str, first: FirstModel | None) -> str:
    """The template with the model whose key is there."""
    if first is None:
        return template
    chosen = template.replace(f'"{TEMPLATE_MODEL}"', f'"{first.model}"', 1)
    return chosen.replace(f'"{TEMPLATE_KEY}"', f'"{first.key_env}"', 1)


def _write(path: str, environment: Mapping[str, str], saved: Container[str]) -> Mapping[str, Any]:
    """Write the template, with the models a person chose in a file that stands there, and return the `[api]`
    table that was written. Raises `ConfigError`, `OSError`."""
    make_private_folders(os.path.dirname(path))
    text = _with_first_model(template_text("buddy.toml"), first_model(environment, lambda: saved))
    if os.path.lexists(path):
        table = dict(read_table(path, required=False) or {})
        if _is_never_chosen(table.get("api", {}), environment, saved):
            del table["api"]
        text = _with_models(text, table)
        backup = f"{path}.{time.strftime('%Y%m%d-%H%M%S')}"
        shutil.copy2(path, backup)
        sys.stdout.write(f"kept the one that was there as {backup}\n")
    replace_file(path, text.encode())
    return (read_table(path, required=True) or {}).get("api", {})


def _with_models(text: str, table: Mapping[str, Any]) -> str:
    """The template with the `[api]` and `[models.*]` tables of other settings."""
    import tomli_w  # only who begins anew pays for it

    if table.get("api"):
        before, _, after = text.partition(_API)
        rest = after.partition("\n\n")[2]
        text = f"{before}{tomli_w.dumps({'api': table['api']})}\n{rest}"
    models = table.get("models", {})
    if not models:
        return text
    kept = ["[api]"] if table.get("api") else []
    sys.stdout.write(f"kept your models: {' and '.join([*kept, format_count(len(models), 'profile')])}\n")
    return f"{text}\n{tomli_w.dumps({'models': models})}"


def login(options: Options, environment: Mapping[str, str]) -> int:
    """Ask for the key of a profile's provider and save it. Returns the exit code."""
    launch = find_launch(options, environment)
    try:
        profile = _meant(read_settings(launch, options).settings, options.words[0] if options.words else "")
        owner = _provider(profile.model, profile.base_url, given=bool(options.words))
        key = check_key(_asked(owner), "what was typed")
        kept = _kept(os.path.join(launch.where.data, FILE_NAME), owner, key)
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


PICKED = 15
"""Sessions that `buddy resume` offers."""
_SESSION_HEAD = ("session", "last", "tasks", "what")


def models(options: Options, environment: Mapping[str, str]) -> int:
    """The models of the configured servers and of those on this machine, then the catalogue; filtered by the
    words given."""
    words = [word.lower() for word in options.words]
    served = [one for one in _served(options, environment) if all(word in one[0].lower() for word in words)]
    found = [info for info in catalogue().models.values() if all(word in info.id.lower() for word in words)]
    sizes = [f"{context:,}" if context else "?" for _name, context, _url in served]
    rows = [(row[0], size, "", "", f"at {row[2]}") for row, size in zip(served, sizes, strict=True)]
    rows += [_model_row(info) for info in found]
    lines = [f"{row[0]:<52} {size:>9}  at {row[2]}" for row, size in zip(served, sizes, strict=True)]
    lines += map(_model_line, found)
    show(
        TableBlock(("model", "context", "in/M", "out/M", "can"), tuple(rows)),
        lines,
        options,
        environment,
        sys.stdout,
    )
    if not found and not served:
        asked = " ".join(words)
        near = _near(asked, catalogue())
        hint = f"did you mean {near}?" if near else "buddy models lists all"
        tell(f"buddy: no model has {asked!r} in its name; {hint}\n")
        return 1
    return 0


def _served(options: Options, environment: Mapping[str, str]) -> list[tuple[str, int, str]]:
    """Name for `-m`, context (0 where the server does not say) and address of each model that a server
    lists. A server that can't be asked is told on stderr."""
    try:
        launch = find_launch(options, environment)
        settings = read_settings(launch, options).settings
    except ConfigError as error:
        tell(f"buddy: {error}\n")
        return []
    return asyncio.run(_ask_servers(Models(settings, launch)))


async def _ask_servers(known: Models) -> list[tuple[str, int, str]]:
    try:
        servers = known.own_servers()
        local, *listed = await asyncio.gather(_on_this_machine(), *map(_list_of, servers))
    finally:
        await known.aclose()
    asked = {row[2].rstrip("/") for rows in listed for row in rows}
    return [row for rows in listed for row in rows] + [row for row in local if row[2] not in asked]


async def _list_of(server: ModelServer) -> list[tuple[str, int, str]]:
    try:
        return [(one.name, one.context, server.base_url) for one in await server.list()]
    except ProviderError as error:
        tell(f"buddy: the models of {server.base_url} are not listed: {error.message}\n")
        return []


async def _on_this_machine() -> list[tuple[str, int, str]]:
    found = await find_local_servers()
    return [(f"{one.provider}/{name}", 0, one.base_url) for one in found for name in one.models]


def _near(asked: str, known: Catalogue) -> str:
    """The word of a model's name, or the name, that looks most like the one asked for; "" for none."""
    import difflib  # here: 1 ms that only a misspelled name needs

    names = [info.id.lower() for info in known.models.values()]
    parts = {part for name in names for part in name.replace("/", "-").split("-")}
    return next(iter(difflib.get_close_matches(asked, [*sorted(parts), *names], 1)), "")


def _model_line(info: ModelInfo) -> str:
    prices = info.prices
    price = "" if prices.input is None else f"${prices.input:g} / ${prices.output:g} per M"
    able = " ".join(sorted(info.capabilities))
    return f"{info.id:<52} {info.context:>9,}  {price:<22} {able}".rstrip()


def _model_row(info: ModelInfo) -> tuple[str, str, str, str, str]:
    prices = info.prices
    able = " ".join(sorted(info.capabilities))
    return info.id, f"{info.context:,}", _dollars(prices.input), _dollars(prices.output), able


def _dollars(price: float | None) -> str:
    return "" if price is None else f"${price:g}"


def sessions(options: Options, environment: Mapping[str, str]) -> int:
    """The sessions of this folder: on a terminal the newest stands last, just above the prompt. Runs of exec
    and sessions without an answer are left out without `--all`."""
    try:
        launch = find_launch(options, environment)
        store = session_store(launch, read_settings(launch, options).settings, tell)
    except ConfigError as error:
        tell(f"buddy: {error}\n")
        return 4
    found = store.list()
    listed = found if options.all else tuple(one for one in found if one.matters())
    if options.json:
        sys.stdout.write(json.dumps([_session_object(one) for one in listed], indent=1) + "\n")
        return 0
    rows = tuple(map(_session_row, reversed(listed)))
    show(TableBlock(_SESSION_HEAD, rows), map(_session_line, listed), options, environment, sys.stdout)
    left_out = len(found) - len(listed)
    if left_out:
        them = "it" if left_out == 1 else "them"
        hidden = f"{format_count(left_out, 'session')} hidden (from exec, or without an answer)"
        tell(f"{hidden}; --all shows {them}\n")
    elif not found:
        tell(f"buddy: there are no sessions in {launch.boundary.root}\n")
    return 0


def pick_session(options: Options, environment: Mapping[str, str]) -> str:
    """Ask which session to resume, by its number; the newest where there is no choice. Raises
    `ConfigError`, `UsageError`."""
    launch = find_launch(options, environment)
    store = session_store(launch, read_settings(launch, options).settings, tell)
    listed = [one for one in store.list() if one.matters() and not one.foreign][:PICKED]
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


def _session_row(one: SessionSummary) -> tuple[str, ...]:
    at = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.last_at))
    marks = one.marks()
    title = one_line(one.name or one.title or "", 200)
    return (one.session_id, at, f"{one.tasks}", f"{title} ({marks})" if marks else title)


def _session_line(one: SessionSummary) -> str:
    session_id, at, _tasks, _title = _session_row(one)
    marks = one.marks()
    title = one_line(one.name or one.title or "", 60)
    tail = f"  ({marks})" if marks else ""
    return f"{session_id}  {at}  {format_count(one.tasks, 'task'):<7}  {title}{tail}".rstrip()


def _session_object(one: SessionSummary) -> dict[str, object]:
    return {
        "session_id": one.session_id,
        "name": one.name,
        "title": one.title,
        "tasks": one.tasks,
        "created_at": one.created_at,
        "last_at": one.last_at,
        "size_bytes": one.size_bytes,
        "headless": one.headless,
        "answered": one.answered,
        "in_use": one.locked,
        "foreign": one.foreign,
    }
