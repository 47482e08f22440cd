"""`--settings`: settings in Claude's form for one run. What buddy has is applied, anything else is refused
with a reason: a guard that is ignored would be worse than none."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.app.options import UsageError
from buddy.config.loading import LoadedSettings
from buddy.config.settings import SandboxSettings, Settings
from buddy.extend.hooks.files import HookDefinition, HooksFile, read_definitions
from buddy.safety.paths import Boundary, is_beneath
from buddy.safety.policy.decide import MODES, mode_by_name
from buddy.workspace.processes.environment import CAPTURED, SECRET_NAME

OPTION = "--settings"
_KNOWN = ("permissions", "model", "hooks", "disableAllHooks", "env", "sandbox")
_OF_THE_PERSON = ("sandbox", "env", "disableAllHooks")
"""Fields that a file of the workspace, which a model can change, may not have. Its permissions count as the
project's own: they tighten, or allow inside the sandbox."""
_WHY_NOT = {
    "additionalDirectories": "give --add-dir",
    "apiKeyHelper": "[api] api_key_command in buddy.toml",
    "disableBypassPermissionsMode": "buddy leaves approvals out only with --permission-mode yolo",
    "enableAllProjectMcpServers": "trust the folder, or give --mcp-config",
    "enabledMcpjsonServers": "trust the folder, or give --mcp-config",
    "enabledPlugins": "give --plugin-dir",
    "outputStyle": "give --append-system-prompt",
    "excludedCommands": "commands leave the sandbox by approval alone",
    "allowUnsandboxedCommands": "leaving the sandbox always needs an approval",
    "autoAllowBashIfSandboxed": "give --permission-mode auto",
    "denyRead": "give permissions.deny with Read(…)",
    "denyWrite": "give permissions.deny with Edit(…)",
}
_OF_THE_PROGRAM = pattern(r"(?:ANTHROPIC|OPENAI|AWS|BUDDY)_.*|AI_AGENT")
_OF_CLAUDE = pattern(r"(?:CLAUDE|DISABLE)_.*|MAX_(?:THINKING|MCP_OUTPUT)_TOKENS|(?:BASH|MCP)_.*TIMEOUT.*")
_CHOOSES_PROGRAMS = pattern(
    r"HOME|USER|LOGNAME|SHELL|TMPDIR|PWD|OLDPWD|TERM|ENV|IFS|PS[0-4]|CDPATH|POSIXLY_CORRECT|PROMPT_COMMAND"
    r"|(?:BASH|GIT|SSH|LD|DYLD|XDG|GREP|RIPGREP|JQ|NPM|PNPM|YARN|COREPACK|PIP|UV|CARGO|RUSTUP|DOTNET)_.*"
    r"|LESS.*|PERL(?:5|_).*|RUBY(?:OPT|LIB|_.*)|GO(?:TOOLCHAIN|ENV|ROOT)|RUSTC|NODE_.*(?<!NODE_ENV)"
    r"|PYTHON(?!UNBUFFERED|DONTWRITEBYTECODE|HASHSEED|IOENCODING).*"
    r"|.*(?:PATH|PAGER|EDITOR|VISUAL|BROWSER|ASKPASS|OPTIONS|OPTS|FLAGS|PRELOAD|WRAPPER)"
)
"""Variables that choose which programs, libraries and configuration a command uses: with one, a command that
is judged to only read could run anything."""
_NAME = pattern(r"[A-Za-z_][A-Za-z0-9_]*")


def apply_settings(loaded: LoadedSettings, table: dict[str, Any], *, is_confined: bool) -> LoadedSettings:
    """Return the settings with those of a table. Raises `UsageError`."""
    _refuse_unknown(table, (*_KNOWN, "$schema"), "")
    if is_confined and (outer := [name for name in _OF_THE_PERSON if table.get(name)]):
        raise UsageError(f"{OPTION}: {outer[0]} counts only in a file outside the workspace, or as JSON")
    permissions = _table_of(table, "permissions")
    settings = _apply_mode(loaded.settings, permissions, is_confined=is_confined)
    lists = {key: _texts(permissions, key, "permissions.") for key in ("allow", "ask", "deny")}
    if not is_confined:
        settings = _add_permissions(settings, lists)
    settings = _apply_sandbox(settings, _table_of(table, "sandbox"))
    model = table.get("model", settings.agent.model)
    if not isinstance(model, str):
        raise UsageError(f"{OPTION}: expected text as model")
    settings = msgspec.structs.replace(settings, agent=msgspec.structs.replace(settings.agent, model=model))
    environment, notes = read_environment(_table_of(table, "env"))
    hooks = {name: table[name] for name in ("hooks", "disableAllHooks") if name in table}
    read_hooks(hooks, is_confined=is_confined)  # for its errors: a run without its hooks must not begin
    return msgspec.structs.replace(
        loaded,
        settings=settings,
        environment=environment,
        hooks=hooks,
        confines_hooks=is_confined,
        project_permissions=lists if is_confined else {},
        warnings=(*loaded.warnings, *notes),
    )


def check_place(value: str, boundary: Boundary, *, trusted: bool) -> bool:
    """Tell whether the settings are a file of the workspace, where a model can change it. Raises `UsageError`
    for one in a folder that is not trusted."""
    if value.lstrip().startswith("{"):
        return False
    path = Path(os.path.abspath(os.path.expanduser(value)))
    # A link in the workspace belongs to the workspace: a model can let it lead elsewhere.
    names = (os.path.join(os.path.realpath(name.parent), name.name) for name in (path, *path.parents))
    places = (os.path.realpath(path), *names)
    is_inside = any(is_beneath(place, root) for place in places for root in (boundary.root, *boundary.extra))
    if is_inside and not trusted:
        raise UsageError(
            f"{OPTION}: {value[:200]!r} lies in a folder you don't trust; give --trust, or a file elsewhere"
        )
    return is_inside


def read_hooks(table: Mapping[str, Any], *, is_confined: bool) -> tuple[HookDefinition, ...]:
    """Return the hooks of the settings. Raises `UsageError` for one that can't be used."""
    if not isinstance(table.get("disableAllHooks", False), bool):
        raise UsageError(f"{OPTION}: expected true or false as disableAllHooks")
    if not table:
        return ()
    file = HooksFile("", OPTION, "project" if is_confined else "user", confined=is_confined)
    definitions, _off = read_definitions(file, msgspec.json.encode(table))
    for definition in definitions:
        if definition.problem:
            raise UsageError(f"{OPTION}: hooks: {definition.label}: {definition.problem}")
    return definitions


def read_environment(table: Mapping[str, Any]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the variables for commands and hooks, and sentences about those that do nothing here. Raises
    `UsageError`."""
    variables: dict[str, str] = {}
    notes: list[str] = []
    for name, value in table.items():
        shown = f"{OPTION}: env: {name[:60]!r}"
        if not _NAME().fullmatch(name) or not isinstance(value, str) or "\0" in value:
            raise UsageError(f"{shown}: expected a name and a text")
        if _OF_THE_PROGRAM().fullmatch(name):
            raise UsageError(f"{shown} sets up the program: set it before buddy starts, or use buddy.toml")
        if _OF_CLAUDE().fullmatch(name):
            notes.append(f"{shown} sets up Claude Code; it does nothing here")
        elif SECRET_NAME().search(name):
            raise UsageError(f"{shown} may hold a key, and commands get none")
        elif name in CAPTURED or _CHOOSES_PROGRAMS().fullmatch(name.upper()):
            raise UsageError(f"{shown} chooses what commands run; set it in the command itself")
        else:
            variables[name] = value
    return variables, tuple(notes)


def _apply_mode(settings: Settings, table: Mapping[str, Any], *, is_confined: bool) -> Settings:
    _refuse_unknown(table, ("allow", "ask", "deny", "defaultMode"), "permissions.")
    if "defaultMode" not in table:
        return settings
    mode = mode_by_name(str(table["defaultMode"]))
    if mode is None or mode == "yolo":
        raise UsageError(f"{OPTION}: defaultMode is one of plan, default, acceptEdits, auto")
    own = settings.permissions
    if is_confined and MODES.index(mode) > MODES.index(mode_by_name(own.mode) or "plan"):
        raise UsageError(
            f"{OPTION}: this defaultMode counts only in a file outside the workspace, or as JSON; give "
            f"--permission-mode {mode}"
        )
    return msgspec.structs.replace(settings, permissions=msgspec.structs.replace(own, mode=mode))


def _add_permissions(settings: Settings, lists: Mapping[str, tuple[str, ...]]) -> Settings:
    own = settings.permissions
    more = {key: (*getattr(own, key), *texts) for key, texts in lists.items()}
    return msgspec.structs.replace(settings, permissions=msgspec.structs.replace(own, **more))


def _apply_sandbox(settings: Settings, table: Mapping[str, Any]) -> Settings:
    """Apply Claude's settings of the sandbox. Fields that only say what buddy does anyway may stand there."""
    network, files = _table_of(table, "network", "sandbox."), _table_of(table, "filesystem", "sandbox.")
    known = ("enabled", "failIfUnavailable", "network", "filesystem")
    for name, usual in (("allowUnsandboxedCommands", True), ("autoAllowBashIfSandboxed", False)):
        if table.get(name, usual) is usual:
            known = (*known, name)
        else:
            raise UsageError(f"{OPTION}: sandbox.{name} is not supported: {_WHY_NOT[name]}")
    _refuse_unknown(table, known, "sandbox.")
    _refuse_unknown(network, ("allowedDomains",), "sandbox.network.")
    _refuse_unknown(files, ("allowWrite",), "sandbox.filesystem.")
    own = settings.sandbox
    return msgspec.structs.replace(
        settings,
        sandbox=SandboxSettings(
            level=_level(own, table),
            write=(*own.write, *_texts(files, "allowWrite", "sandbox.filesystem.")),
            hosts=(*own.hosts, *_texts(network, "allowedDomains", "sandbox.network.")),
            networks=own.networks,
        ),
    )


def _level(own: SandboxSettings, table: Mapping[str, Any]) -> Any:
    flags = {key: table.get(key) for key in ("enabled", "failIfUnavailable")}
    for key, value in flags.items():
        if not isinstance(value, bool | None):
            raise UsageError(f"{OPTION}: expected true or false as sandbox.{key}")
    if flags["failIfUnavailable"]:
        return "require"
    if flags["enabled"] is None:
        return own.level
    if not flags["enabled"]:
        return "off"
    return "auto" if own.level == "off" else own.level


def _refuse_unknown(table: Mapping[str, Any], known: tuple[str, ...], above: str) -> None:
    """Raise `UsageError` for the first field that buddy does not have and that says something."""
    for name, value in table.items():
        if name not in known and value not in (None, False, [], {}):
            why = _WHY_NOT.get(name, f"expected {', '.join(known)}; other settings belong in buddy.toml")
            raise UsageError(f"{OPTION}: {above}{name[:60]} is not supported: {why}")


def _table_of(table: Mapping[str, Any], key: str, above: str = "") -> dict[str, Any]:
    value = table.get(key, {})
    if not isinstance(value, dict):
        raise UsageError(f"{OPTION}: expected an object as {above}{key}")
    return cast("dict[str, Any]", value)


def _texts(table: Mapping[str, Any], key: str, above: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(one, str) for one in cast("list[object]", value)):
        raise UsageError(f"{OPTION}: {above}{key}: expected a list of texts")
    return tuple(cast("list[str]", value))
