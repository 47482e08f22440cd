"""The policy a run begins with: mode, rules and remembered grants, and the facts about calls it judges."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Sequence
from typing import Any, cast
from urllib.parse import quote

import msgspec

from buddy.agent.formatting import format_count
from buddy.agent.tool import NO_SURVEY, Tool, ToolError
from buddy.app.launch import LaunchContext
from buddy.app.options import Options, UsageError
from buddy.config.loading import LoadedSettings, read_table, remember_model
from buddy.config.settings import ConfigError, Settings
from buddy.safety.paths import Boundary, locate, make_private_folders, replace_file
from buddy.safety.policy.decide import MODES, Mode, mode_by_name
from buddy.safety.policy.facts import Facts, HookOpinion, facts_of
from buddy.safety.policy.grants import Grant
from buddy.safety.policy.rules import Rule, RuleSet
from buddy.safety.policy.rules_loading import as_table, rules_of_claude, rules_of_tables, unreadable
from buddy.safety.policy.session import Policy
from buddy.safety.sanitise import visible
from buddy.safety.shell.hardened import READ_ONLY_ENVIRONMENT
from buddy.safety.shell.result import Analysis
from buddy.safety.shell.scripts import script_digests
from buddy.safety.url_guard import Refused, judge_url, suspicious_url
from buddy.sessions.session import OpenSession
from buddy.workspace.files.approved_versions import Approved
from buddy.workspace.sandbox.status import NO_SANDBOX, SandboxStatus


def policy_of(
    settings: Settings, options: Options, rules: RuleSet, session: OpenSession, *, trusted: bool
) -> Policy:
    """The policy. `trusted`: the person trusts the project. Raises `UsageError` for an unknown mode."""
    policy = Policy(rules, trusted=trusted, yolo_allowed=options.permission_mode == "yolo")
    policy.set_mode(mode_of(options.permission_mode or settings.permissions.mode))
    grants = [change.grant for change in session.loaded.state.grants if change.grant is not None]
    policy.grants = tuple(msgspec.convert(grant, Grant) for grant in grants)
    return policy


def mode_of(name: str) -> Mode:
    """The permission mode of a name. Raises `UsageError`."""
    mode = mode_by_name(name)
    if mode is None:
        raise UsageError(f"--permission-mode is one of {', '.join(MODES)}; found {name!r}")
    return mode


MAX_NAMED = 5


class RuleFiles:
    """Loading and saving of permission rules."""

    def __init__(self, launch: LaunchContext, loaded: LoadedSettings) -> None:
        self._launch = launch
        self._loaded = loaded
        self._saved = os.path.join(launch.where.config, "settings.toml")
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
        found = found.merge(rules_of_claude(lists, "user", "your permissions"))
        found = found.merge(self._saved_rules())
        if self._loaded.permission_error:
            found = found.merge(unreadable("your settings", self._loaded.permission_error))
        if self._loaded.project and self._launch.trusted:
            found = found.merge(self._project())
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
            f"{self._saved}: {format_count(len(unused), 'rule')} saved by an older version would hold in "
            f"every project, so you are asked again: {names}{more}. Answer p to save them for a project; "
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
        return rules_of_tables(table.get("rule", []), "project", path).merge(
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


def save_model(launch: LaunchContext, loaded: LoadedSettings, model: str) -> None:
    """Start with this model from now on, until the person's own file names another. Raises `ConfigError`."""
    path = os.path.join(launch.where.config, "settings.toml")
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


def remember_judged(approved: Approved) -> Callable[[str, Facts], None]:
    """Return a function that records what a call was judged by: the places its paths lead to and the content
    of its scripts (tools refuse when these have changed), and the environment a command that only reads must
    run with."""

    def judged(call_id: str, facts: Facts) -> None:
        started = (facts.folder,) if facts.folder is not None else ()
        for located in (*facts.reads, *facts.writes, *started):
            approved.remember(call_id, located.given, located.real)
        reads = facts.shell is not None and facts.shell.read_only
        if facts.shell is not None and not reads:
            approved.remember_scripts(call_id, facts.shell, facts.scripts)
        approved.harden(call_id, READ_ONLY_ENVIRONMENT if reads else {})

    return judged


SHELL_TOOL = "run_shell"
SEARCH_TOOL = "web_search"


class Judge:
    """Looks at calls. `search_path`: the PATH that commands will run with, "" for the trusted one;
    `sandbox`: what commands are confined by."""

    def __init__(
        self,
        boundary: Boundary,
        *,
        search_path: str = "",
        sandbox: Callable[[], SandboxStatus] = lambda: NO_SANDBOX,
    ) -> None:
        self._boundary = boundary
        self._sandbox = sandbox
        self._search_path = search_path
        self._analyse: Callable[[str, Boundary], Analysis] | None = None

    def facts(self, tool: Tool, arguments: Any) -> Facts:
        """Collect what the policy needs to know about a call. Raises `ToolError` for an impossible path."""
        survey = tool.survey(self._boundary, arguments) if tool.survey is not None else NO_SURVEY
        if tool.name == SEARCH_TOOL:
            return facts_of(tool, arguments, self._boundary, hook=_sought(arguments.query))
        if tool.name != SHELL_TOOL:
            host, hook = _address(arguments)
            return facts_of(
                tool,
                arguments,
                self._boundary,
                host=host,
                hook=hook,
                survey=survey,
                sandboxed=tool.confined and self._sandbox().is_working,
            )
        if self._analyse is None:
            from buddy.app.shell_judge import (
                ShellJudge,  # tree-sitter and the tables: 20 ms, with the first command
            )

            self._analyse = ShellJudge(self._search_path).analyse
        boundary = self._boundary
        if arguments.cwd:  # as the tool reads it: "~" and links
            started = locate(boundary, arguments.cwd).real
            boundary = msgspec.structs.replace(boundary, cwd=started)
        analysis = self._analyse(arguments.command, boundary)
        scripts = () if analysis.read_only else script_digests(analysis, boundary)
        status = self._sandbox()
        return facts_of(
            tool,
            arguments,
            self._boundary,
            shell=analysis,
            scripts=scripts,
            sandboxed=status.is_working,
            read_only_sandbox=status.has_read_only,
        )


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
