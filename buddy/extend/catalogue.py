"""The catalogue of a session: every skill, command file, subagent file and hook, with why one is not active.

It is read when first asked for, and again when a look at the files' times says that something changed. Where
no folder exists, a look is some thirty failed `stat` calls.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Sequence

import msgspec

from buddy.agent.tool import ToolError
from buddy.extend.definitions import ExtensionFile, definitions_in, watched_paths
from buddy.extend.hooks.files import HookDefinition, HooksFile, read_definitions
from buddy.extend.hooks.protocol import CommandHook, Hook
from buddy.extend.search_folders import ExtensionPlaces, Kind, hook_files, search_folders
from buddy.safety.paths import read_beneath, read_regular
from buddy.safety.trusted_files import MAX_THING_BYTES

UNTRUSTED = "this folder is not trusted: /trust"
CHANGED = "it changed since you trusted this folder: /trust"
CHANGED_PLUGIN = "it changed since you added the plug-in: buddy plugin add, again"
MAX_LISTED_CHARS = 12_000
"""Of the list of skills and subagents in the system prompt."""
Stamp = tuple[str, int, int, int]


class HookEntry(msgspec.Struct, frozen=True):
    """One hook of a settings file, for the list: `reason` says why it is not active, "" for one that is."""

    label: str
    source: str
    title: str
    reason: str
    confined: bool


class ExtensionCatalogue:
    """Finds definitions and keeps them. `trusted`: the person trusts the project; `taken`: names of built-in
    commands, which no file may take; `given` and `hooks`: definitions of this run, which come first;
    `hooks_off` switches all hooks off; `hooks_changed` gets those in force. Blocks: call `refresh` in a
    thread."""

    def __init__(
        self,
        places: Callable[[], ExtensionPlaces],
        *,
        trusted: bool,
        hooks_changed: Callable[[tuple[Hook, ...]], None],
        taken: Collection[str] = (),
        given: Sequence[ExtensionFile] = (),
        hooks: Sequence[HookDefinition] = (),
        hooks_off: bool = False,
    ) -> None:
        self._given = given
        self._given_hooks = tuple(hooks)
        self._hooks_off = hooks_off
        self._places = places
        self._trusted = trusted
        self._hooks_changed = hooks_changed
        self._stamps: tuple[Stamp, ...] | None = None
        self._accepted: frozenset[str] | None = None
        self.taken = taken
        self.definitions: tuple[ExtensionFile, ...] = tuple(given)
        self.hooks: tuple[HookEntry, ...] = ()

    def refresh(self) -> bool:
        """Read everything again where a file or folder changed; return whether one did."""
        places = self._places()
        folders, files = search_folders(places), hook_files(places)
        paths = [path for folder in folders if os.path.lexists(folder.path) for path in watched_paths(folder)]
        paths += [file.path for file in files]
        stamps = tuple(stamp for path in paths if (stamp := _stamp(path)) is not None)
        is_empty = not stamps and self._stamps is None and not self._given_hooks
        if stamps == self._stamps or is_empty:
            return False
        self._stamps = stamps
        found = [definition for folder in folders for definition in definitions_in(folder)]
        self.definitions = tuple(self._judge([*self._given, *found]))
        self._read_hooks(files, places.root)
        return True

    def of_kind(self, kind: Kind) -> tuple[ExtensionFile, ...]:
        """Return all definitions of a kind, inactive ones too, by name."""
        return tuple(
            sorted(
                (definition for definition in self.definitions if definition.kind == kind),
                key=lambda one: one.name,
            )
        )

    def find(self, kind: Kind, name: str) -> ExtensionFile | None:
        """Return the active definition of a name."""
        known = (
            definition
            for definition in self.definitions
            if definition.kind == kind and definition.name == name
        )
        return next((one for one in known if one.state == "active"), None)

    def invocable(self, name: str) -> ExtensionFile | None:
        """Return what `/name` means besides built-in commands: a command file, or a skill for people."""
        if name.startswith("skill:"):
            skill = self.find("skill", name.removeprefix("skill:"))
            return skill if skill is not None and skill.for_user else None
        command = self.find("command", name)
        if command is not None:
            return command
        skill = self.find("skill", name)
        return skill if skill is not None and skill.for_user and name not in self.taken else None

    def why_not(self, name: str) -> str:
        """Return why `/name` is known and can't be used, "" where the name means nothing."""
        bare = name.removeprefix("skill:")
        known = [
            definition
            for definition in self.definitions
            if definition.kind != "agent" and definition.name in (name, bare)
        ]
        return next((f"{one.label}: {one.reason}" for one in known if one.state != "active"), "")

    def prompt_text(self) -> str:
        """Return what the system prompt says about skills and subagents, "" for none. The same text until a
        file changes, so that the prompt's cached beginning stays."""
        skills = [one for one in self.of_kind("skill") if one.state == "active" and one.for_model]
        agents = [one for one in self.of_kind("agent") if one.state == "active"]
        pieces: list[str] = []
        if skills:
            rows = [f"- {skill.name}: {_about(skill)}" for skill in skills if skill.description]
            pieces.append(
                _list_of(
                    "# Skills\n\nWhen one fits what is asked, read it first with `skill`.\n",
                    rows,
                )
            )
        if agents:
            rows = [f"- {agent.name}: {_about(agent)}" for agent in agents]
            pieces.append(_list_of("# Subagents\n\nNames for `agent` of `delegate`.\n", rows))
        return "\n\n".join(pieces)

    def _judge(self, found: Iterable[ExtensionFile]) -> Iterable[ExtensionFile]:
        """Say of each definition whether it is active: not untrusted, and the first of its name."""
        first: dict[tuple[str, str], ExtensionFile] = {}
        for one in found:
            if one.state == "active" and one.scope == "project" and not self._trusted:
                one = msgspec.structs.replace(one, state="untrusted", reason=UNTRUSTED)
            elif one.state == "active" and one.kind == "command" and one.name in self.taken:
                why = f"/{one.name} is a command of buddy; give the file another name"
                one = msgspec.structs.replace(one, state="shadowed", reason=why)
            elif one.state == "active" and (one.kind, one.name) in first:
                other = first[one.kind, one.name]
                one = msgspec.structs.replace(one, state="shadowed", reason=f"{other.label} comes first")
            elif one.state == "active":
                first[one.kind, one.name] = one
            yield one

    def _read_hooks(self, files: Iterable[HooksFile], root: str) -> None:
        read: list[tuple[HooksFile, tuple[HookDefinition, ...]]] = []
        off = self._hooks_off
        for file in files:
            found, switches_off = _definitions(file, root)
            off = off or (switches_off and file.scope == "user")
            read.append((file, found))
        if self._accepted is None:  # what the person was shown when they trusted the folder
            mine = (one for file, found in read if file.scope == "project" for one in found)
            self._accepted = frozenset(one.digest for one in mine) if self._trusted else frozenset()
        entries: list[HookEntry] = []
        hooks: list[Hook] = []
        judged = [(one, "") for one in self._given_hooks]
        judged += [(one, one.problem or self._refusal(file, one)) for file, found in read for one in found]
        for one, refusal in judged:
            reason = refusal or ("disableAllHooks is set" if off else "")
            handler = one.hook.handler if one.hook is not None else None
            is_confined = isinstance(handler, CommandHook) and handler.confined
            title = one.hook.title if one.hook is not None else ""
            entries.append(HookEntry(one.label, one.source, title, reason, is_confined))
            hooks += [one.hook] if one.hook is not None and not reason else []
        self.hooks = tuple(entries)
        self._hooks_changed(tuple(hooks))

    def _refusal(self, file: HooksFile, one: HookDefinition) -> str:
        if file.scope == "plug-in":
            return "" if one.digest in file.accepted else CHANGED_PLUGIN
        if file.scope != "project":
            return ""
        if not self._trusted:
            return UNTRUSTED
        return "" if self._accepted is not None and one.digest in self._accepted else CHANGED


def _definitions(file: HooksFile, root: str) -> tuple[tuple[HookDefinition, ...], bool]:
    if not os.path.lexists(file.path):
        return (), False
    try:
        if file.scope != "user":  # no link: what it leads to can change without a question
            top = root if file.scope == "project" else os.path.dirname(os.path.dirname(file.path))
            data = read_beneath(top, os.path.relpath(file.path, top), MAX_THING_BYTES)
        else:
            data = read_regular(os.path.realpath(file.path), MAX_THING_BYTES)
    except (OSError, ToolError) as error:
        return (HookDefinition("the whole file", file.label, "", problem=str(error)),), False
    return read_definitions(file, data)


def _stamp(path: str) -> Stamp | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return path, status.st_mtime_ns, status.st_size, status.st_ino


def _about(one: ExtensionFile) -> str:
    where = f" [for {', '.join(one.paths)}]" if one.paths else ""
    return f"{one.description}{where}"


def _list_of(heading: str, rows: list[str]) -> str:
    left = MAX_LISTED_CHARS
    kept: list[str] = []
    for row in rows:
        left -= len(row)
        if left < 0:
            kept.append(f"- and {len(rows) - len(kept)} more")
            break
        kept.append(row)
    return "\n".join([heading, *kept])
