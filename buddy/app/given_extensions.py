"""Subagents and plug-ins that the command line gives for one run."""

from __future__ import annotations

from buddy.app.options import Options, UsageError
from buddy.app.run_settings import read_json
from buddy.extend.definitions import ExtensionFile
from buddy.extend.given_agents import read_agents
from buddy.extend.plugin_folders import PluginError, plugin_of_folder
from buddy.extend.search_folders import PluginFolder


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
