"""The folders in which skills, command files, subagent files and hooks are looked for, in order of
precedence: the project's before the person's, buddy's own before those of other agents."""

from __future__ import annotations

import os
from typing import Literal

import msgspec

from buddy.extend.hooks.files import HooksFile
from buddy.extend.instructions import project_directories

Kind = Literal["skill", "command", "agent"]
Scope = Literal["project", "user", "plug-in"]


class SearchFolder(msgspec.Struct, frozen=True):
    """One folder of definitions. `inside` is the folder that no file may lead out of, "" where the person may
    link as they like; `prefix` goes before every name (a plug-in's); `deep`: subfolders count, and become
    part of the name. `home` is the person's, whose secrets have names of their own."""

    kind: Kind
    path: str
    label: str
    scope: Scope
    inside: str = ""
    prefix: str = ""
    deep: bool = False
    endings: tuple[str, ...] = (".md",)
    home: str = ""


class PluginFolder(msgspec.Struct, frozen=True):
    """A plug-in the person added: its name, its folder, where it came from, the digests of its hooks and MCP
    servers as they were then, and the further paths its manifest named, relative to the folder, by part."""

    name: str
    path: str
    source: str = ""
    hooks: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    more: dict[str, tuple[str, ...]] = {}


class ExtensionPlaces(msgspec.Struct, frozen=True):
    """The places extensions come from: the project's root and working folder, the person's home, buddy's
    folder of settings, and the plug-ins the person added."""

    root: str
    cwd: str
    home: str
    config: str
    plugins: tuple[PluginFolder, ...] = ()


def search_folders(places: ExtensionPlaces) -> tuple[SearchFolder, ...]:
    """Return every folder to look into; the first definition of a name wins."""
    return (*_skills(places), *_commands(places), *_agents(places), *plugin_folders(places))


def _project(
    places: ExtensionPlaces, kind: Kind, name: str, *, deep: bool = False, ending: str = ".md"
) -> SearchFolder:
    path = os.path.join(places.root, name)
    return SearchFolder(
        kind, path, name, "project", places.root, deep=deep, endings=(ending,), home=places.home
    )


def _user(
    places: ExtensionPlaces, kind: Kind, path: str, *, deep: bool = False, ending: str = ".md"
) -> SearchFolder:
    return SearchFolder(
        kind, path, _label(places, path), "user", deep=deep, endings=(ending,), home=places.home
    )


def _label(places: ExtensionPlaces, path: str) -> str:
    return f"~{path.removeprefix(places.home)}" if path.startswith(places.home + "/") else path


def _skills(places: ExtensionPlaces) -> tuple[SearchFolder, ...]:
    home = places.home
    above = reversed(project_directories(places.root, places.cwd))
    names = [os.path.relpath(os.path.join(folder, ".agents/skills"), places.root) for folder in above]
    return (
        _project(places, "skill", ".buddyx/skills"),
        *(_project(places, "skill", name) for name in names),
        _project(places, "skill", ".claude/skills"),
        _user(places, "skill", os.path.join(places.config, "skills")),
        *(
            _user(places, "skill", os.path.join(home, name))
            for name in (".config/agents/skills", ".agents/skills", ".claude/skills", ".codex/skills")
        ),
    )


def _commands(places: ExtensionPlaces) -> tuple[SearchFolder, ...]:
    return (
        _project(places, "command", ".buddyx/commands", deep=True),
        _project(places, "command", ".claude/commands", deep=True),
        _project(places, "command", ".opencode/commands"),
        _project(places, "command", ".opencode/command"),
        _project(places, "command", ".gemini/commands", deep=True, ending=".toml"),
        _user(places, "command", os.path.join(places.config, "commands"), deep=True),
        _user(places, "command", os.path.join(places.home, ".claude/commands"), deep=True),
        _user(places, "command", os.path.join(places.home, ".codex/prompts")),
        _user(places, "command", os.path.join(places.home, ".gemini/commands"), deep=True, ending=".toml"),
    )


def _agents(places: ExtensionPlaces) -> tuple[SearchFolder, ...]:
    return (
        *(
            _project(places, "agent", name)
            for name in (".buddyx/agents", ".claude/agents", ".opencode/agents", ".opencode/agent")
        ),
        _user(places, "agent", os.path.join(places.config, "agents")),
        _user(places, "agent", os.path.join(places.home, ".claude/agents")),
    )


PLUGIN_FOLDERS: tuple[tuple[Kind, str], ...] = (
    ("skill", "skills"),
    ("command", "commands"),
    ("agent", "agents"),
)


HOOKS_FILE = "hooks/hooks.json"


def plugin_folders(places: ExtensionPlaces) -> tuple[SearchFolder, ...]:
    """Return the folders of plug-ins."""
    return tuple(
        SearchFolder(
            kind,
            os.path.join(plugin.path, folder),
            f"plug-in {plugin.name}",
            "plug-in",
            inside=plugin.path,
            prefix=f"{plugin.name}:",
            deep=kind == "command",
            home=places.home,
        )
        for plugin in places.plugins
        for kind, usual in PLUGIN_FOLDERS
        for folder in (usual, *plugin.more.get(usual, ()))
    )


def hook_files(places: ExtensionPlaces) -> tuple[HooksFile, ...]:
    """Return the files hooks may stand in: the person's, plug-ins', the project's."""
    home, root, workspace = places.home, places.root, (places.root, places.cwd)
    mine = (os.path.join(home, ".claude/settings.json"), os.path.join(places.config, "hooks.json"))
    return (
        *(
            HooksFile(path, _label(places, path), "user", confined=False, workspace=workspace)
            for path in mine
        ),
        *(msgspec.structs.replace(file, workspace=workspace) for file in plugin_hooks(places)),
        *(
            HooksFile(
                os.path.join(root, name), name, "project", confined=True, folder=root, workspace=workspace
            )
            for name in (".claude/settings.json", ".claude/settings.local.json", ".buddyx/hooks.json")
        ),
    )


def plugin_hooks(places: ExtensionPlaces) -> tuple[HooksFile, ...]:
    """Return the hooks files of plug-ins. They are other people's, so they run in the sandbox."""
    return tuple(
        HooksFile(
            os.path.join(plugin.path, name),
            f"plug-in {plugin.name}",
            "plug-in",
            confined=True,
            environment={"CLAUDE_PLUGIN_ROOT": plugin.path},
            accepted=frozenset(plugin.hooks),
            folder=plugin.path,
        )
        for plugin in places.plugins
        for name in (HOOKS_FILE, *plugin.more.get("hooks", ()))
    )
