"""The extensions of a session: its catalogue and its hooks, joined with what they act through."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from buddy.agent.tool import ToolRegistry
from buddy.app.launch import LaunchContext
from buddy.config.settings import Settings
from buddy.extend.catalogue import ExtensionCatalogue
from buddy.extend.definitions import ExtensionFile
from buddy.extend.hooks.dispatcher import CommandRunner, Hooks
from buddy.extend.hooks.files import HookDefinition
from buddy.extend.hooks.protocol import HookPoint
from buddy.extend.plugin_folders import PluginStore
from buddy.extend.search_folders import ExtensionPlaces, PluginFolder


class Extensions:
    """Skills, command files, subagent files, hooks and plug-in folders of a session. `runner` runs the
    commands of hooks, `common` gives the fields every hook reads; `changed` is awaited after the files were
    read; `given` and `hooks` are those of this run alone."""

    def __init__(
        self,
        launch: LaunchContext,
        settings: Settings,
        tools: ToolRegistry,
        *,
        runner: Callable[[], CommandRunner],
        common: Callable[[], Mapping[str, Any]],
        changed: Callable[[], Awaitable[None]],
        plugins: Sequence[PluginFolder] = (),
        given: Sequence[ExtensionFile] = (),
        hooks: Sequence[HookDefinition] = (),
        hooks_off: bool = False,
    ) -> None:
        self._given_plugins = tuple(plugins)
        self._changed = changed
        self._launch = launch
        self._off = settings.tools.disabled
        self._tools = tools
        self._plugins = PluginStore(launch.where.data)
        self._refreshing = asyncio.Lock()
        self.hooks = Hooks(runner, common)
        self.catalogue = ExtensionCatalogue(
            self._places,
            trusted=launch.trusted,
            hooks_changed=self.hooks.replace_files,
            given=given,
            hooks=hooks,
            hooks_off=hooks_off,
        )

    async def refresh(self) -> None:
        """Read what changed since the last look: before a prompt is sent, and before a list is shown."""
        async with self._refreshing:
            if await asyncio.to_thread(self.catalogue.refresh):
                self._offer_skills()
                await self._changed()

    async def end(self) -> None:
        """Run the hooks of SessionEnd; nobody is left to read what they answer."""
        if self.hooks.handles("SessionEnd"):
            point = HookPoint("SessionEnd", {"reason": "other"}, self._launch.boundary, ("other",))
            await self.hooks.dispatch(point, asyncio.Event())

    @property
    def places(self) -> ExtensionPlaces:
        """Return the places extensions come from."""
        return self._places()

    def _places(self) -> ExtensionPlaces:
        boundary, where = self._launch.boundary, self._launch.where
        return ExtensionPlaces(
            boundary.root,
            boundary.cwd,
            boundary.home,
            os.path.realpath(where.config),
            (*self._given_plugins, *self._plugins.all()),
        )

    def _offer_skills(self) -> None:
        """Offer the tool `skill` while there is a skill for the model."""
        skills = self.catalogue.of_kind("skill")
        wanted = (
            any(skill.state == "active" and skill.for_model for skill in skills) and "skill" not in self._off
        )
        if wanted == (self._tools.get("skill") is not None):
            return
        if not wanted:
            self._tools.remove("skill")
            return
        from buddy.extend.skill_tool import SKILL_TOOL  # its schema is made when a skill exists

        self._tools.register(SKILL_TOOL)
