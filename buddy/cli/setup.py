"""`buddy init`: write a commented buddy.toml once; print the reference of all settings."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Container, Mapping
from typing import Any

from buddy.agent.counting import counted
from buddy.cli.arguments import Options
from buddy.cli.place import saved_keys
from buddy.cli.telling import tell
from buddy.config.first_model import FirstModel, first_model
from buddy.config.loading import directories, read_table
from buddy.config.settings import ConfigError
from buddy.extend.templates import template_text
from buddy.safety.descriptors import make_private_folders, replace_file

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
    sys.stdout.write(f"kept your models: {' and '.join([*kept, counted(len(models), 'profile')])}\n")
    return f"{text}\n{tomli_w.dumps({'models': models})}"
