"""Settings of one run: options of the command line and `--settings` over the settings of the files; the
subagents and plug-ins it is given."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from buddy.agent.tool import Tool, ToolError
from buddy.app.options import Options, UsageError
from buddy.config.loading import LoadedSettings
from buddy.config.settings import Settings
from buddy.extend.definitions import ExtensionFile
from buddy.extend.given_agents import read_agents
from buddy.extend.plugin_folders import PluginError, plugin_of_folder
from buddy.extend.search_folders import PluginFolder
from buddy.extend.tool_names import CLAUDE_TOOLS, buddy_names
from buddy.safety.paths import Boundary, read_regular

MAX_BYTES = 1_000_000
OPTION = "--json-schema"
_SCHEMA = (
    "When the work is done, your last message is only a JSON value that matches this JSON Schema, without "
    "words or a code fence around it:\n{}"
)
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_THINKING = ((1, "none"), (4_096, "low"), (12_000, "medium"), (24_000, "high"), (48_000, "xhigh"))
"""The effort for a number of thinking tokens below each bound."""


def apply_options(
    loaded: LoadedSettings, options: Options, boundary: Boundary, *, trusted: bool
) -> LoadedSettings:
    """Return the settings with those of the options. Raises `UsageError`."""
    if options.settings:
        from buddy.app.given_settings import apply_settings, check_place  # only with the option

        is_inside = check_place(options.settings, boundary, trusted=trusted)
        loaded = apply_settings(loaded, read_json(options.settings, "--settings"), is_confined=is_inside)
    settings = loaded.settings
    agent = settings.agent
    schema = _SCHEMA.format(json.dumps(read_json(options.json_schema, OPTION))) if options.json_schema else ""
    text = "\n\n".join(filter(None, (agent.system_prompt, options.append_system_prompt, schema)))
    agent = msgspec.structs.replace(agent, system_prompt=text, effort=_effort(options) or agent.effort)
    settings = msgspec.structs.replace(settings, agent=agent)
    if options.tools is not None or options.disallowed:
        settings = _limit_tools(settings, options)
    return msgspec.structs.replace(loaded, settings=settings)


def read_json(value: str, option: str) -> dict[str, Any]:
    """Return the object of a file or of JSON given on the command line. Blocks. Raises `UsageError`."""
    text = value.strip()
    if not text.startswith("{"):
        try:
            text = read_regular(os.path.realpath(os.path.expanduser(value)), MAX_BYTES).decode("utf-8-sig")
        except (OSError, ToolError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or error
            raise UsageError(f"{option}: {value[:200]!r} can't be read: {why}") from error
    try:
        data: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{option}: expected JSON: {error}") from error
    if not isinstance(data, dict):
        raise UsageError(f"{option}: expected a JSON object, found {type(data).__name__}")
    return cast("dict[str, Any]", data)


def _effort(options: Options) -> str:
    if options.effort and options.effort not in EFFORTS:
        raise UsageError(f"--effort is one of {', '.join(EFFORTS)}; found {options.effort!r}")
    if options.effort:
        return options.effort
    if options.thinking not in ("", "adaptive", "enabled", "disabled"):
        raise UsageError(f"--thinking is adaptive, enabled or disabled; found {options.thinking!r}")
    if options.thinking == "disabled":
        return "none"
    if not options.max_thinking_tokens:
        return ""
    if not options.max_thinking_tokens.isdecimal():
        raise UsageError(f"--max-thinking-tokens needs a whole number, found {options.max_thinking_tokens!r}")
    tokens = int(options.max_thinking_tokens[:12])
    return next((effort for bound, effort in _THINKING if tokens < bound), "max")


def _limit_tools(settings: Settings, options: Options) -> Settings:
    """Return the settings without the tools that `--tools` leaves out and `--disallowedTools` names. A rule
    of `--disallowedTools` denies its calls."""
    bare = [entry for entry in options.disallowed if "(" not in entry]
    off = {*settings.tools.disabled, *buddy_names(bare)}
    if options.tools is not None and not _takes_all(options.tools) and "skill" not in _wanted(options.tools):
        off.add("skill")
    tools = msgspec.structs.replace(settings.tools, disabled=tuple(sorted(off)))
    permissions = settings.permissions
    permissions = msgspec.structs.replace(permissions, deny=(*permissions.deny, *options.disallowed))
    return msgspec.structs.replace(settings, tools=tools, permissions=permissions)


def chosen_tools(tools: Sequence[Tool], text: str) -> tuple[Tool, ...]:
    """Return the tools that `--tools` names, by Claude's names or buddy's. Raises `UsageError`."""
    if _takes_all(text):
        return tuple(tools)
    known = {*CLAUDE_TOOLS, *(tool.name for tool in tools)}
    known |= {name for names in CLAUDE_TOOLS.values() for name in names}
    if unknown := sorted(set(_names(text)) - known):
        raise UsageError(f"--tools: there is no tool {', '.join(unknown)[:200]}")
    wanted = _wanted(text)
    return tuple(tool for tool in tools if tool.name in wanted)


def _takes_all(text: str) -> bool:
    return text.strip() == "default"


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _wanted(text: str) -> set[str]:
    names = _names(text)
    wanted = set(buddy_names(names))
    if "apply_patch" not in names and not {"Edit", "Write"} <= set(names):
        wanted.discard("apply_patch")  # it edits and writes
    return wanted


def given_agents(options: Options) -> tuple[ExtensionFile, ...]:
    """Return the subagents of `--agents`. Raises `UsageError`."""
    try:
        return read_agents(read_json(options.agents, "--agents"), "--agents") if options.agents else ()
    except ValueError as error:
        raise UsageError(str(error)) from error


def given_plugins(options: Options) -> tuple[PluginFolder, ...]:
    """Return the plug-ins of `--plugin-dir`. Raises `UsageError`."""
    try:
        return tuple(map(plugin_of_folder, options.plugin_dir))
    except PluginError as error:
        raise UsageError(f"--plugin-dir: {error}") from error
