"""The person's and the project's rules: read from settings, saved to buddy's own file; and facts for the
policy."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from buddy.agent.tool import Tool, ToolError
from buddy.cli.place import Place
from buddy.config import ConfigError, Loaded, read_table
from buddy.safety.paths import Boundary, locate
from buddy.safety.policy_facts import Facts, HookOpinion, facts_of
from buddy.safety.rules import Rule, RuleSet
from buddy.safety.rules_claude import rules_of_claude
from buddy.safety.rules_load import as_table, rules_of_tables, unreadable
from buddy.safety.sanitise import visible
from buddy.safety.shell.verdict import Analysis
from buddy.safety.suspicious import suspicious_url
from buddy.safety.url_guard import Refused, judge_url

SHELL_TOOL = "run_shell"
SEARCH_TOOL = "web_search"


class RuleFiles:
    """Where rules come from and go to."""

    def __init__(self, place: Place, loaded: Loaded) -> None:
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
        if self._loaded.permission_error:
            found = found.joined(unreadable("your settings", self._loaded.permission_error))
        if self._loaded.project and self._place.trusted:
            found = found.joined(self._project())
        self.errors = found.errors
        return found

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
        os.makedirs(self._place.where.config, mode=0o700, exist_ok=True)
        with open(f"{self._saved}.lock", "a", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            table = read_table(self._saved, required=False) or {}
            known = list(table.get("rule", []))
            table["rule"] = known + [new for new in map(as_table, rules) if new not in known]
            write_settings(self._saved, table)


def write_settings(path: str, table: dict[str, Any]) -> None:
    """Replace a settings file of buddy's own, whole or not at all. Raises `ConfigError`."""
    import tomli_w  # here: most runs save no settings

    temporary = f"{path}.{os.getpid()}.new"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "wb") as file:
            file.write(b"# Saved by buddy; your own settings belong into buddy.toml beside this file.\n\n")
            tomli_w.dump(table, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise ConfigError(f"{path}: can't be written: {error.strerror}; nothing was saved") from error


def _lists(permissions: object) -> dict[str, Any]:
    if not isinstance(permissions, dict):
        return {}
    return {key: permissions[key] for key in ("allow", "ask", "deny") if key in permissions}


class Judge:
    """Facts about calls, for the policy: paths resolved, shell commands analysed, hosts parsed.
    `search_path`: the PATH that commands will run with, "" for the trusted one."""

    def __init__(self, boundary: Boundary, *, search_path: str = "") -> None:
        self._boundary = boundary
        self._search_path = search_path
        self._analyse: Callable[[str, Boundary], Analysis] | None = None

    def facts(self, tool: Tool, arguments: Any) -> Facts:
        """What the policy needs to know about a call. Raises `ToolError` for a path that can be none."""
        if tool.name == SEARCH_TOOL:
            return facts_of(tool, arguments, self._boundary, hook=_sought(arguments.query))
        if tool.name != SHELL_TOOL:
            host, hook = _address(arguments)
            return facts_of(tool, arguments, self._boundary, host=host, hook=hook)
        if self._analyse is None:
            from buddy.cli.shell_judge import (
                ShellJudge,  # tree-sitter and the tables: 20 ms, with the first command
            )

            self._analyse = ShellJudge(self._search_path).analyse
        boundary = self._boundary
        if arguments.cwd:  # as the tool reads it: "~" and links
            started = locate(boundary, arguments.cwd).real
            boundary = msgspec.structs.replace(boundary, cwd=started)
        return facts_of(tool, arguments, self._boundary, shell=self._analyse(arguments.command, boundary))


def _address(arguments: Any) -> tuple[str, HookOpinion | None]:
    """The host a call goes to, and why a person must look at what it sends; ("", None) for most tools.
    Raises `ToolError` for an address nobody fetches, so that nobody is asked about it."""
    url: object = getattr(arguments, "url", "")
    if not isinstance(url, str) or not url:
        return "", None
    judged = judge_url(url)
    if isinstance(judged, Refused):
        raise ToolError(judged.reason)
    reason = suspicious_url(url)
    return judged.host, HookOpinion("ask", f"{judged.shown}: {reason}") if reason else None


def _sought(query: str) -> HookOpinion | None:
    """Why a person must look at what is searched for: it goes to strangers, like an address."""
    reason = suspicious_url(f"https://search.invalid/?q={quote(query, safe='')}")
    return HookOpinion("ask", f"the search {visible(query)}: {reason}") if reason else None
