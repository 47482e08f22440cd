"""The person's and the project's rules: read from settings, saved to buddy's own file."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec

from buddy.agent.counting import counted
from buddy.cli.place import LaunchContext
from buddy.config.loading import LoadedSettings, read_table, remember_model
from buddy.config.settings import ConfigError
from buddy.safety.descriptors import make_private_folders, replace_file
from buddy.safety.rules import Rule, RuleSet
from buddy.safety.rules_claude import rules_of_claude
from buddy.safety.rules_load import as_table, rules_of_tables, unreadable

MAX_NAMED = 5


class RuleFiles:
    """Loading and saving of permission rules."""

    def __init__(self, place: LaunchContext, loaded: LoadedSettings) -> None:
        self._place = place
        self._loaded = loaded
        self._saved = os.path.join(place.where.config, "settings.toml")
        self.errors: tuple[str, ...] = ()

    def load(self, allowed: Sequence[str]) -> RuleSet:
        """All rules in force: the person's, those of `--allow`, and what a trusted project adds (which can
        only tighten, or allow inside the sandbox)."""
        settings = self._loaded.settings
        permissions = settings.permissions
        lists = {
            "allow": [*permissions.allow, *allowed],
            "ask": [*permissions.ask],
            "deny": [*permissions.deny],
        }
        found = rules_of_tables(settings.rule, "user", "your rules")
        found = found.joined(rules_of_claude(lists, "user", "your permissions"))
        found = found.joined(self._saved_rules())
        if self._loaded.permission_error:
            found = found.joined(unreadable("your settings", self._loaded.permission_error))
        if self._loaded.project and self._place.trusted:
            found = found.joined(self._project())
        self.errors = found.errors
        return found

    def _saved_rules(self) -> RuleSet:
        """The rules buddy saved. Those of an older version name no project: they were given in one and would
        hold in all, so the person is asked again."""
        found = rules_of_tables(self._loaded.saved_rules, "saved", self._saved)
        unused = tuple(rule for rule in found.rules if _holds_everywhere(rule))
        if not unused:
            return found
        names = ", ".join(rule.what for rule in unused[:MAX_NAMED])
        more = f" and {len(unused) - MAX_NAMED} more" if len(unused) > MAX_NAMED else ""
        note = (
            f"{self._saved}: {counted(len(unused), 'rule')} saved by an older version would hold in every "
            f"project, so you are asked again: {names}{more}. Answer p to save them for a project; "
            "/permissions remove N deletes the old ones"
        )
        kept = tuple(rule for rule in found.rules if rule not in unused)
        return RuleSet(kept, (*found.errors, note), found.broken, unused)

    def _project(self) -> RuleSet:
        path = self._loaded.project
        try:
            table = read_table(path, required=False) or {}
        except ConfigError as error:
            return unreadable(path, str(error))
        return rules_of_tables(table.get("rule", []), "project", path).joined(
            rules_of_claude(_lists(table.get("permissions", {})), "project", path)
        )

    def save(self, rules: Sequence[Rule]) -> None:
        """Keep rules for good, in buddy's own settings file; nobody else's edit of it is lost. Raises
        `ConfigError`."""

        def added(table: dict[str, Any]) -> None:
            known = list(table.get("rule", []))
            table["rule"] = known + [new for new in map(as_table, rules) if new not in known]

        change_settings(self._saved, added)

    def forget(self, rule: Rule) -> None:
        """Delete a saved rule from buddy's own settings file. Raises `ConfigError`."""

        def removed(table: dict[str, Any]) -> None:
            tables = cast(list[object], table.get("rule", []))
            table["rule"] = [one for one in tables if not _is_table_of(one, rule)]

        change_settings(self._saved, removed)


def _holds_everywhere(rule: Rule) -> bool:
    """Tell whether a saved rule allows something in all projects that was shown in one. A path or a host is
    its own place."""
    bound = rule.project or rule.path.startswith(("/", "~")) or rule.host
    return rule.decision == "allow" and not bound


def _is_table_of(table: object, rule: Rule) -> bool:
    same = rules_of_tables([table], "saved", "").rules
    return any(msgspec.structs.replace(one, source=rule.source) == rule for one in same)


def remember(place: LaunchContext, loaded: LoadedSettings, model: str) -> None:
    """Start with this model from now on, until the person's own file names another. Raises `ConfigError`."""
    path = os.path.join(place.where.config, "settings.toml")
    change_settings(path, lambda table: remember_model(table, model, loaded.own_model))


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def change_settings(path: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Change buddy's own settings file; nobody else's edit of it is lost. Raises `ConfigError`."""
    try:
        make_private_folders(os.path.dirname(path))
        with open(f"{path}.lock", "a", encoding="utf-8", opener=_private) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            table = read_table(path, required=False) or {}
            change(table)
            write_settings(path, table)
    except OSError as error:
        raise ConfigError(f"{path}: can't be written: {error.strerror}; nothing was saved") from error


def write_settings(path: str, table: dict[str, Any]) -> None:
    """Replace a settings file of buddy's own, whole or not at all. Raises `ConfigError`."""
    import tomli_w  # here: most runs save no settings

    first = "# Saved by buddy; your own settings belong into buddy.toml beside this file.\n\n"
    try:
        replace_file(path, (first + tomli_w.dumps(table)).encode())
    except OSError as error:
        raise ConfigError(f"{path}: can't be written: {error.strerror}; nothing was saved") from error


def _lists(permissions: object) -> dict[str, Any]:
    if not isinstance(permissions, dict):
        return {}
    return {key: permissions[key] for key in ("allow", "ask", "deny") if key in permissions}
