"""Loading of settings: files, precedence, validation.

Precedence: arguments > environment (`BUDDY_*`) > project `buddy.toml` (only when trusted, and only what a
project may set) > `settings.toml` (what buddy saved itself) > user `buddy.toml` > defaults.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, cast

import msgspec

from buddy.agent.cancel import on_failure
from buddy.config.settings import (
    TARGET_FIELDS,
    ConfigError,
    Profile,
    Settings,
    TargetSettings,
    ToolSettings,
)


class Directories(msgspec.Struct, frozen=True):
    """The folders of the person's files (the XDG directories, each with `/buddy`)."""

    config: str
    data: str
    state: str
    cache: str
    home: str


class LoadedSettings(msgspec.Struct, frozen=True):
    """Settings and their sources. `warnings` are sentences for the person; `files` were read, in order of
    rising precedence; `project` is the project's file as found, trusted or not ("" when there is none);
    `saved_rules` are the rule tables buddy saved itself; they add to the person's own. `own_model` is the
    model named in the person's file; `first_model` one chosen because its key exists. `environment` are
    variables for commands, `hooks` a table of hooks of this run alone; `confines_hooks`: in the sandbox.
    `project_permissions` are lists of this run alone that count as the project's own."""

    settings: Settings
    warnings: tuple[str, ...]
    files: tuple[str, ...]
    project: str
    permission_error: str
    saved_rules: object = ()
    own_model: str = ""
    first_model: str = ""
    environment: Mapping[str, str] = {}
    hooks: Mapping[str, Any] = {}
    confines_hooks: bool = False
    project_permissions: Mapping[str, Sequence[str]] = {}


REMEMBERED = "remembered"
MAX_FILE_BYTES = 1_000_000
IGNORED = "buddy.toml of this folder is ignored until you trust the folder (/trust, --trust)"
PROJECT_SECTIONS = ("agent", "tools", "display", "session", "permissions")
_PROJECT_TIGHTER = ("shell_time_limit_s", "shell_output_bytes", "search_time_limit_s")
_PROJECT_TIGHTER_OR_NONE = (
    "shell_cpu_s",
    "shell_memory_mb",
    "shell_file_mb",
    "shell_processes",
    "shell_open_files",
)
Table = dict[str, Any]


def directories(environment: Mapping[str, str]) -> Directories:
    """Return the person's directories by the XDG rules; a home that is not set is the current directory's."""
    home = environment.get("HOME") or os.path.expanduser("~")

    def xdg(name: str, default: str) -> str:
        given = environment.get(name, "")
        return os.path.join(given if os.path.isabs(given) else os.path.join(home, default), "buddy")

    return Directories(
        config=xdg("XDG_CONFIG_HOME", ".config"),
        data=xdg("XDG_DATA_HOME", ".local/share"),
        state=xdg("XDG_STATE_HOME", ".local/state"),
        cache=xdg("XDG_CACHE_HOME", ".cache"),
        home=home,
    )


def load(
    *,
    where: Directories,
    workspace: str,
    trusted: bool,
    environment: Mapping[str, str],
    arguments: Mapping[str, Any],
    user_file: str = "",
    saved_keys: Callable[[], Container[str]] = tuple,
) -> LoadedSettings:
    """Read and merge everything. `arguments` is a table shaped like the file; `saved_keys` names the
    providers whose key was saved. Raises `ConfigError`.

    An invalid permissions table does not stop the program: it is reported in `permission_error`, and the
    policy then asks about every call.
    """
    warnings: list[str] = []
    files: list[str] = []
    merged: Table = {}
    saved = os.path.join(where.config, "settings.toml")
    saved_rules: object = ()
    own_model = ""
    candidates = [user_file or os.path.join(where.config, "buddy.toml"), saved]
    for path in candidates:
        if path == saved:
            own_model = _model_of(merged)
        table = read_table(path, required=path == user_file)
        if table is not None:
            files.append(path)
            remembered: object = {}
            if path == saved:  # beside the person's own rules, never in their place
                saved_rules = table.pop("rule", ())
                remembered = table.pop(REMEMBERED, {})
            _merge(merged, _check_table(table, path))
            _merge_saved_model(merged, remembered, own_model)
    project = os.path.join(workspace, "buddy.toml")
    if os.path.lexists(project) and os.path.abspath(project) != os.path.abspath(candidates[0]):
        if trusted:
            files.append(project)
            _merge_project(merged, read_table(project, required=False) or {}, project, warnings)
        else:
            warnings.append(IGNORED)
    else:
        project = ""
    _merge(merged, _check_table(_from_environment(environment, merged, warnings), "the environment"))
    _merge(merged, dict(arguments))
    settings, permission_error = _convert(merged)
    settings, first = _with_first_model(settings, environment, saved_keys)
    if first is not None:
        is_set = environment.get(first.key_env, "").strip()
        why = f"{first.key_env} is set" if is_set else "its provider's key is saved"
        warnings.append(f"model: {first.model}, because {why}; /model changes it")
    return LoadedSettings(
        settings,
        tuple(warnings),
        tuple(files),
        project,
        permission_error,
        saved_rules,
        own_model,
        first.model if first else "",
    )


def _model_of(table: Table) -> str:
    """Return the model a table chooses, "" for none."""
    for section in ("agent", "api"):
        model = cast(Table, table.get(section, {})).get("model")
        if isinstance(model, str) and model:
            return model
    return ""


def _merge_saved_model(merged: Table, remembered: object, own_model: str) -> None:
    """Merge the last chosen model, unless the person's file has named another one since."""
    if isinstance(remembered, dict):
        table = cast(Table, remembered)
        model = table.get("model")
        if isinstance(model, str) and model and table.get("instead_of") == own_model:
            _merge(merged, {"agent": {"model": model}})


def _with_first_model(
    settings: Settings, environment: Mapping[str, str], saved: Callable[[], Container[str]]
) -> tuple[Settings, FirstModel | None]:
    """Return the settings with a model: where nothing chooses one, that of the first key in the
    environment."""
    if settings.agent.model or settings.api != Profile():
        return settings, None
    first = first_model(environment, saved)
    if first is None:
        return settings, None
    return msgspec.structs.replace(settings, api=Profile(model=first.model)), first


def remember_model(table: Table, model: str, own_model: str) -> None:
    """Store a chosen model in the table of `settings.toml`."""
    table[REMEMBERED] = {"model": model, "instead_of": own_model}


def read_table(path: str, *, required: bool) -> Table | None:
    """Return a TOML file as a table, None when it isn't there. Raises `ConfigError` naming file and line."""
    import tomllib  # here because a start without any file (4 ms) does not need it

    try:
        return tomllib.loads(_text(path))
    except FileNotFoundError:
        if required:
            raise ConfigError(f"{path}: there is no such file; give --config an existing one") from None
        return None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: {_toml_words(str(error))}. Correct it, or move the file away") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: nested too deeply; expected tables of settings") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8") from error
    except OSError as error:
        raise ConfigError(f"{path}: can't be read: {error.strerror}") from error


def _toml_words(said: str) -> str:
    """Explain an error of the TOML parser: the line number, then the problem. The line is not quoted, because
    it may hold a key."""
    problem, _, place = said.rstrip(")").partition(" (at ")
    hint = " (text needs quotes)" if problem == "Invalid value" else ""
    where = place.partition(",")[0] or "the file"
    return f"{where} is not valid TOML: {problem[:1].lower()}{problem[1:]}{hint}"


def _text(path: str) -> str:
    """Read a settings file. Only a regular file of limited size is accepted, so that a pipe or 8 GB do no
    harm."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with on_failure(os.close, descriptor):
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ConfigError(f"{path}: not a regular file; a settings file was expected")
        if found.st_size > MAX_FILE_BYTES:
            raise ConfigError(
                f"{path}: {found.st_size:,} bytes; a settings file has at most {MAX_FILE_BYTES:,}"
            )
    with open(descriptor, "rb") as file:
        return file.read(MAX_FILE_BYTES).decode("utf-8")


def _convert(merged: Table) -> tuple[Settings, str]:
    try:
        return msgspec.convert(merged, Settings), ""
    except msgspec.ValidationError as error:
        if "permissions" not in str(error) and "$.rule" not in str(error):
            raise ConfigError(f"settings: {_in_section(error, merged)}") from error
        rest = {key: value for key, value in merged.items() if key not in ("permissions", "rule")}
        return msgspec.convert(rest, Settings), f"the rules can't be used: {_in_section(error, merged)}"


def _in_section(error: msgspec.ValidationError, merged: Table) -> str:
    """Return a problem of all settings, named by its section: `[permissions] mode: expected …`."""
    from buddy.agent.schema import explain  # here: only a mistake needs it

    problem = explain(error, merged, Settings)
    if not problem.names:
        return problem.words
    section, *rest = problem.names
    return f"[{section}] {'.'.join(rest)}: {problem.words}" if rest else f"[{section}]: {problem.words}"


def _check_table(table: Table, path: str) -> Table:
    """Return the table of one file, or a `ConfigError` that names the file and the nearest known name."""
    _check_names(table, Settings.__struct_fields__, path, "")
    for section, value in table.items():
        if section in ("permissions", "rule"):
            continue
        if not isinstance(value, dict):
            raise ConfigError(f"{path}: [{section}] must be a table, found {type(value).__name__}")
        if section in ("models", "mcp_servers", "targets"):
            continue
        record = _record_of(section)
        _check_names(cast(Table, value), record.__struct_fields__, path, f"[{section}] ")
        _check_types(value, record, f"{path}: [{section}]")
    records: tuple[tuple[str, type[msgspec.Struct]], ...] = (("models", Profile), ("targets", TargetSettings))
    for section, record in records:
        for name, profile in cast(dict[str, Any], table.get(section, {})).items():
            if isinstance(profile, dict):
                known = _fields_of(section, cast(Table, profile), record)
                _check_names(cast(Table, profile), known, path, f"[{section}.{name}] ")
            _check_types(profile, record, f"{path}: [{section}.{name}]")
    return table


def _fields_of(section: str, table: Table, record: type[msgspec.Struct]) -> Sequence[str]:
    """Return the names a table may have: those of a target depend on its kind."""
    kind = table.get("kind", "ssh")
    if section == "targets" and isinstance(kind, str) and kind in TARGET_FIELDS:
        return TARGET_FIELDS[kind]
    return record.__struct_fields__


def _check_types(value: Any, record: type[msgspec.Struct], where: str) -> None:
    try:
        msgspec.convert(value, record)
    except msgspec.ValidationError as error:
        from buddy.agent.schema import explain  # here: only a mistake needs it

        problem = explain(error, value, record)
        colon = "" if problem.names else ":"
        raise ConfigError(f"{where}{colon} {problem.sentence()}") from error


def _check_names(table: Table, known: Sequence[str], path: str, section: str) -> None:
    for name in table:
        if name not in known:
            import difflib  # here: 1 ms that only a misspelled setting needs

            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known)}"
            raise ConfigError(f"{path}: {section}unknown name {name!r}{hint}")


def _merge(into: Table, table: Mapping[str, Any]) -> None:
    for key, value in table.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], cast(Table, value))
        elif isinstance(value, dict):
            into[key] = {}
            _merge(into[key], cast(Table, value))
        else:
            into[key] = value


def _merge_project(merged: Table, table: Table, path: str, warnings: list[str]) -> None:
    """Merge the settings a trusted project may make; drop the others with a warning."""
    if isinstance(table.get("api"), dict) and "model" in table["api"]:
        warnings.append(f"{path}: [api] is for your own buddy.toml; choose a profile with [agent] model")
    warnings.extend(
        f"{path}: [{section}] can only be set in your own buddy.toml; left out"
        for section in table
        if section not in PROJECT_SECTIONS
    )
    allowed = {key: value for key, value in table.items() if key in PROJECT_SECTIONS and key != "permissions"}
    _check_table(allowed, path)
    agent = cast(Table, allowed.get("agent", {}))
    if "model" in agent and agent["model"] not in cast(Table, merged.get("models", {})):
        warnings.append(f"{path}: model {agent['model']!r} is none of your profiles; left out")
        allowed["agent"] = {key: value for key, value in agent.items() if key != "model"}
    if "session" in allowed:
        allowed["session"] = _project_session_settings(cast(Table, allowed["session"]), path, warnings)
    if "tools" in allowed:
        allowed["tools"] = _tighter(merged, cast(Table, allowed["tools"]))
    _merge(merged, allowed)


def _project_session_settings(table: Table, path: str, warnings: list[str]) -> Table:
    """Return the session settings a project may make: checkpoints on or off. The sessions' folder and their
    lifetime concern other projects too."""
    left_out = [key for key, value in table.items() if key != "checkpoints" or value is not True]
    if left_out:
        names = ", ".join(left_out)
        warnings.append(f"{path}: [session] {names} can only be set in your own buddy.toml; left out")
    return {key: value for key, value in table.items() if key not in left_out}


def _tighter(merged: Table, table: Table) -> Table:
    mine = msgspec.convert(merged.get("tools", {}), ToolSettings)
    found = {key: min(value, getattr(mine, key)) for key, value in table.items() if key in _PROJECT_TIGHTER}
    for key in _PROJECT_TIGHTER_OR_NONE:
        given: tuple[int, int] = (table.get(key, 0), getattr(mine, key))
        found[key] = min((value for value in given if value), default=0)
    if "disabled" in table:
        found["disabled"] = [*mine.disabled, *table["disabled"]]
    return found


PREFIX = "BUDDY_"
SHORT_NAMES = {"BUDDY_MODEL": ("agent", "model"), "BUDDY_PERMISSION_MODE": ("permissions", "mode")}
SET_BY_BUDDY = frozenset({"BUDDY_SESSION_ID", "BUDDY_TASK_ID", "BUDDY_JOB"})
"""Variables that buddy sets for its children; a nested buddy sees them, and they are no settings."""
_NO_VARIABLES = ("models", "mcp_servers", "rule", "targets")


def _from_environment(environment: Mapping[str, str], merged: Table, warnings: list[str]) -> Table:
    """Read `BUDDY_MODEL`, `BUDDY_PERMISSION_MODE`, `BUDDY_<SECTION>_<KEY>` and `BUDDY_MODELS_<NAME>_<KEY>`,
    converted to their types. Warn about any other `BUDDY_…`."""
    given = sorted(name for name in environment if name.startswith(PREFIX) and name not in SET_BY_BUDDY)
    if not given:
        return {}
    table: Table = {}
    known = _variables(merged)
    # The short names come first: the long one, being more exact, wins over them.
    for name in sorted(given, key=lambda name: name not in SHORT_NAMES):
        path = known.get(name)
        if path is None:
            warnings.append(_unknown_variable(name, known))
            continue
        value = environment[name]
        if not value and name in SHORT_NAMES:
            continue
        *sections, key = path
        record = Profile if sections[0] == "models" else _record_of(sections[0])
        into = table
        for section in sections:
            into = into.setdefault(section, {})
        is_mode = path == SHORT_NAMES["BUDDY_PERMISSION_MODE"]
        into[key] = _convert_text(_mode(value) if is_mode else value, record, key, name)
    return table


def _variables(merged: Table) -> dict[str, tuple[str, ...]]:
    """Return every variable that is a setting, with the setting's place in the file."""
    names: dict[str, tuple[str, ...]] = dict(SHORT_NAMES)
    for section in Settings.__struct_fields__:
        if section not in _NO_VARIABLES:
            for key in _record_of(section).__struct_fields__:
                names[f"{PREFIX}{section}_{key}".upper()] = (section, key)
    for profile in cast(Table, merged.get("models", {})):
        for key in Profile.__struct_fields__:
            words = "".join(sign if sign.isalnum() else "_" for sign in profile)
            names[f"{PREFIX}models_{words}_{key}".upper()] = ("models", profile, key)
    return names


def _mode(value: str) -> str:
    """Translate a permission mode to buddy's name; an unknown one fails with the other settings."""
    from buddy.safety.policy.decide import mode_by_name  # only who sets one pays for it

    return mode_by_name(value) or value


def _unknown_variable(name: str, known: Mapping[str, object]) -> str:
    import difflib  # here: 1 ms that only a misspelled variable needs

    near = difflib.get_close_matches(name, known, n=1)
    hint = (
        f"did you mean {near[0]}?" if near else "settings are BUDDY_<SECTION>_<KEY>; see buddy init --print"
    )
    return f"{name} is no setting and has no effect; {hint}"


def _record_of(section: str) -> type[msgspec.Struct]:
    return cast("type[msgspec.Struct]", type(getattr(Settings(), section)))


def _convert_text(text: str, record: type[msgspec.Struct], key: str, name: str) -> Any:
    wanted = next(field.type for field in msgspec.structs.fields(record) if field.name == key)
    given: Any = text.split(",") if "tuple" in str(wanted) else text
    try:
        return msgspec.convert(given, wanted, strict=False)
    except msgspec.ValidationError as error:
        from buddy.agent.schema import explain  # here: only a mistake needs it

        raise ConfigError(f"{name}: {explain(error, given, wanted, shown=True).sentence()}") from error


class FirstModel(msgspec.Struct, frozen=True):
    """A provider's default model and the variable with its key."""

    key_env: str
    model: str


IN_ORDER = (
    FirstModel("ANTHROPIC_API_KEY", "anthropic/claude-sonnet-5-5"),
    FirstModel("OPENAI_API_KEY", "openai/gpt-6.1-sol"),
    FirstModel("GEMINI_API_KEY", "gemini/gemini-pro-latest"),
    FirstModel("OPENROUTER_API_KEY", "openrouter/anthropic/claude-sonnet-5.5"),
    FirstModel("XAI_API_KEY", "xai/grok-4.7"),
    FirstModel("DEEPSEEK_API_KEY", "deepseek/deepseek-v4-pro"),
    FirstModel("MISTRAL_API_KEY", "mistral/mistral-large-latest"),
    FirstModel("ZAI_API_KEY", "zai/glm-5.3"),
    FirstModel("MOONSHOT_API_KEY", "moonshot/kimi-k3"),
    FirstModel("DASHSCOPE_API_KEY", "dashscope/qwen3-coder-plus"),
    FirstModel("GROQ_API_KEY", "groq/openai/gpt-oss-120b"),
)
"""The providers by precedence."""


def first_model(
    environment: Mapping[str, str], saved: Callable[[], Container[str]] = tuple
) -> FirstModel | None:
    """Return the model of the first key found; None without any. `saved` names the providers with a saved
    key, asked only where the environment has none."""
    found = next((one for one in IN_ORDER if environment.get(one.key_env, "").strip()), None)
    if found is not None:
        return found
    kept = saved()
    return next((one for one in IN_ORDER if one.model.partition("/")[0] in kept), None)
