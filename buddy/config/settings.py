"""Settings as one frozen record: everything a person can set, with its default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

Limit = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]
"""A whole number; 0 means none."""
MOST_DOLLARS = 1_000_000
Dollars = Annotated[float, msgspec.Meta(ge=0, le=MOST_DOLLARS)]
"""An amount; 0 means none. `nan`, which no cost would ever reach, and negative amounts are refused."""
LONGEST_S = 365 * 24 * 3600
Seconds = Annotated[float, msgspec.Meta(gt=0, le=LONGEST_S)]
"""A time limit: above 0, a year at most."""
Days = Annotated[float, msgspec.Meta(ge=0, le=1_000_000)]
Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
Tokens = Annotated[int, msgspec.Meta(ge=0)]
"""A token limit; 0 means none."""
Temperature = Annotated[float, msgspec.Meta(ge=0, le=10)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
MaxTokens = Annotated[int, msgspec.Meta(ge=1)]


class ConfigError(Exception):
    """An invalid setting. One sentence: place, expected value, found value."""


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A named model configuration: `[api]` is the default one, `[models.NAME]` are further ones."""

    model: str = ""
    base_url: str = ""
    api_key_env: str = ""
    api_key_file: str = ""
    api_key_command: str = ""
    api_key: str = ""
    context_limit: Tokens = 0
    lane: Literal["auto", "direct", "litellm"] = "auto"
    temperature: Temperature | None = None
    top_p: Share | None = None
    max_tokens: MaxTokens | None = None
    effort: str | None = None
    vision: bool | None = None


class TargetSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another place to work in: `[targets.NAME]`. `TARGET_FIELDS` names the fields of each kind. What is left
    empty is the configuration of the program that reaches it. User scope only."""

    kind: Literal["ssh", "container", "tmux"] = "ssh"
    host: str = ""
    container: str = ""
    program: str = ""
    user: str = ""
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    folder: str = ""
    config: str = ""
    local_tools: tuple[str, ...] = ()
    socket: str = "buddy"
    session: str = ""
    pane: str = ""
    width: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 0
    height: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 0


TARGET_FIELDS: Mapping[str, tuple[str, ...]] = {
    "ssh": ("kind", "host", "user", "port", "folder", "config", "local_tools"),
    "container": ("kind", "container", "user", "folder", "program", "local_tools"),
    "tmux": ("kind", "socket", "session", "pane", "width", "height"),
}
"""The settings of a target, by its kind."""


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of turns."""

    model: str = ""
    max_iterations: Count = 200
    system_prompt: str = ""
    temperature: Temperature | None = None
    top_p: Share | None = None
    max_tokens: MaxTokens | None = None
    effort: str | None = None
    steering: Literal["one", "all"] = "all"
    follow_ups: Literal["one", "all"] = "one"
    instruction_files: tuple[str, ...] = (
        "AGENTS.override.md",
        "AGENTS.md",
        "CLAUDE.md",
        ".claude/CLAUDE.md",
        "GEMINI.md",
        "CRUSH.md",
    )


class ToolSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tools in use and the limits of their output. The limits from `shell_cpu_s` on hold for each process
    of a command, but for `shell_processes`, which the system counts for the whole user."""

    disabled: tuple[str, ...] = ()
    direct: Limit = 20
    shell_time_limit_s: Seconds = 120
    shell_output_bytes: Annotated[int, msgspec.Meta(ge=100, le=100_000_000)] = 131_072
    shell_cpu_s: Limit = 0
    shell_memory_mb: Limit = 0
    shell_file_mb: Limit = 0
    shell_processes: Limit = 0
    shell_open_files: Limit = 0
    search_time_limit_s: Seconds = 10
    web_search_url: str = ""


class PermissionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Permissions in Claude's words; buddy's own form are the `[[rule]]` tables."""

    mode: Literal["plan", "ask", "edit", "auto"] = "ask"
    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class SandboxSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The sandbox of commands. `write`: places they may change besides the workspace; `hosts`: names they may
    reach; `networks`: private networks those names may lead to. User scope only."""

    level: Literal["auto", "require", "off"] = "auto"
    write: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()


class DisplaySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the terminal's look."""

    theme: Literal["auto", "dark", "light", "plain"] = "auto"
    color: Literal["auto", "always", "never"] = "auto"
    show_tokens: bool = True
    show_thinking: bool = True
    vi: bool = False
    enter_while_running: Literal["steer", "queue"] = "steer"
    title: bool = True
    bell: bool = True
    notifications: Literal["auto", "off", "osc9", "osc99", "osc777"] = "auto"
    progress: Literal["auto", "on", "off"] = "auto"
    fold_lines: Limit = 6
    pictures: Literal["auto", "off", "blocks", "kitty", "sixel"] = "auto"


class PictureSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model that makes pictures: a profile or litellm's name. User scope only: pictures cost money."""

    model: str = ""


class NetworkSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Time limits of a request, in seconds, and the number of tries. Without a person the larger of `tries`
    and `unattended_tries` holds, for servers that answered."""

    connect_s: Seconds = 15
    first_token_s: Seconds = 180
    idle_s: Seconds = 60
    content_s: Seconds = 600
    total_s: Seconds = 1_800
    tries: Count = 6
    unattended_tries: Count = 16


class SessionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Folder and lifetime of sessions, and of deleted files."""

    directory: str = ""
    keep_days: Days = 90
    keep_count: Limit = 200
    trash_days: Days = 30
    trash_mb: Limit = 1000
    checkpoints: bool = True


class BudgetSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits in dollars and tokens; 0 means none."""

    session_usd: Dollars = 0
    task_usd: Dollars = 0
    day_usd: Dollars = 0
    session_tokens: Tokens = 0
    task_tokens: Tokens = 0


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything a person can set."""

    api: Profile = Profile()
    models: dict[str, Profile] = {}
    targets: dict[str, TargetSettings] = {}
    agent: AgentSettings = AgentSettings()
    tools: ToolSettings = ToolSettings()
    permissions: PermissionSettings = PermissionSettings()
    sandbox: SandboxSettings = SandboxSettings()
    display: DisplaySettings = DisplaySettings()
    pictures: PictureSettings = PictureSettings()
    network: NetworkSettings = NetworkSettings()
    session: SessionSettings = SessionSettings()
    budget: BudgetSettings = BudgetSettings()
    mcp_servers: dict[str, dict[str, Any]] = {}
    rule: tuple[dict[str, Any], ...] = ()


def profile_of(settings: Settings, name: str = "") -> Profile:
    """Return the profile of a name, the default one for "". A name without a profile is a model of the
    default profile's provider settings, or of its own when it names a provider (`anthropic/…`). Raises
    `ConfigError`."""
    chosen = name or settings.agent.model
    if not chosen:
        return settings.api
    if chosen in settings.models:
        return settings.models[chosen]
    if chosen == settings.api.model:
        return settings.api
    known = settings.api
    same_provider = "/" not in chosen or chosen.split("/")[0] == known.model.split("/")[0]
    if same_provider:
        return msgspec.structs.replace(known, model=chosen, context_limit=0)
    return Profile(model=chosen)
