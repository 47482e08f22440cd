"""The policy at the start of a run (mode, rules, remembered grants), and the facts it judges calls by."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, cast
from urllib.parse import quote

import msgspec

from buddy.agent.formatting import format_count, name_first
from buddy.agent.tool import NO_SURVEY, Tool, ToolError
from buddy.app.launch import LaunchContext
from buddy.app.options import Options, UsageError
from buddy.config.loading import LoadedSettings, read_table, remember_model
from buddy.config.settings import ConfigError, Settings
from buddy.extend.hooks.dispatcher import CommandOpening
from buddy.safety.paths import Boundary, hold_file_lock, is_beneath, locate, replace_file
from buddy.safety.policy.decide import MODES, Grant, Mode, mode_by_name
from buddy.safety.policy.facts import Facts, HookOpinion, facts_of
from buddy.safety.policy.rules import Rule, RuleSet
from buddy.safety.policy.rules_loading import as_table, rules_of_claude, rules_of_tables, unreadable
from buddy.safety.policy.session import Policy
from buddy.safety.sanitise import visible
from buddy.safety.shell.result import READ_ONLY_ENVIRONMENT, Analysis
from buddy.safety.shell.scripts import script_digests
from buddy.safety.url_guard import Refused, judge_url, suspicious_url
from buddy.sessions.session import OpenSession
from buddy.workspace.files.approved_versions import Approved
from buddy.workspace.sandbox.status import NO_SANDBOX, SandboxStatus


def build_policy(
    settings: Settings, options: Options, rules: RuleSet, session: OpenSession, *, trusted: bool
) -> Policy:
    """Build the policy. `trusted` tells whether the user trusts the project. Raises `UsageError` for an
    unknown mode."""
    policy = Policy(rules, trusted=trusted, yolo_allowed=options.permission_mode == "yolo")
    policy.set_mode(mode_of(options.permission_mode or settings.permissions.mode))
    grants = [change.grant for change in session.loaded.state.grants if change.grant is not None]
    policy.grants = tuple(msgspec.convert(grant, Grant) for grant in grants)
    return policy


def mode_of(name: str) -> Mode:
    """Return the permission mode of this name. Raises `UsageError`."""
    mode = mode_by_name(name)
    if mode is None:
        raise UsageError(f"--permission-mode is one of {', '.join(MODES)}; found {name!r}")
    return mode


MAX_NAMED = 5


class RuleFiles:
    """Loads and saves permission rules."""

    def __init__(self, launch: LaunchContext, loaded: LoadedSettings) -> None:
        self._launch = launch
        self._loaded = loaded
        self._saved = os.path.join(launch.where.config, "settings.toml")
        self.errors: tuple[str, ...] = ()

    def load(self, allowed: Sequence[str]) -> RuleSet:
        """Return all rules in force: the user's, those of `--allow`, and those of a trusted project, which
        can only tighten or allow inside the sandbox."""
        settings = self._loaded.settings
        permissions = settings.permissions
        lists = {
            "allow": [*permissions.allow, *allowed],
            "ask": [*permissions.ask],
            "deny": [*permissions.deny],
        }
        rules = rules_of_tables(settings.rule, "user", "your rules")
        rules = rules.merge(rules_of_claude(lists, "user", "your permissions"))
        rules = rules.merge(self._load_saved())
        if self._loaded.permission_error:
            rules = rules.merge(unreadable("your settings", self._loaded.permission_error))
        if self._loaded.project and self._launch.trusted:
            rules = rules.merge(self._project())
        if self._launch.trusted:
            of_run = {name: [*texts] for name, texts in self._loaded.project_permissions.items()}
            rules = rules.merge(rules_of_claude(of_run, "project", "permissions of --settings"))
        self.errors = rules.errors
        return rules

    def _load_saved(self) -> RuleSet:
        """Return the rules buddy saved. Rules of an older version name no project: they were given in one
        project but would apply in all, so they are unused and the user is asked again."""
        saved = rules_of_tables(self._loaded.saved_rules, "saved", self._saved)
        unused = tuple(rule for rule in saved.rules if _holds_everywhere(rule))
        if not unused:
            return saved
        names = name_first([rule.what for rule in unused], MAX_NAMED)
        note = (
            f"{self._saved}: {format_count(len(unused), 'rule')} saved by an older version would apply in "
            f"every project, so you are asked again: {names}. Answer p to save them for a project; "
            "/permissions remove N deletes the old ones"
        )
        used = tuple(rule for rule in saved.rules if rule not in unused)
        return RuleSet(used, (*saved.errors, note), saved.broken, unused)

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
        """Save rules permanently in buddy's own settings file, without losing concurrent edits. Raises
        `ConfigError`."""

        def add(table: dict[str, Any]) -> None:
            known = list(table.get("rule", []))
            table["rule"] = known + [new for new in map(as_table, rules) if new not in known]

        change_settings(self._saved, add)

    def forget(self, rule: Rule) -> None:
        """Delete a saved rule from buddy's own settings file. Raises `ConfigError`."""

        def remove(table: dict[str, Any]) -> None:
            tables = cast(list[object], table.get("rule", []))
            table["rule"] = [saved for saved in tables if not _is_table_of(saved, rule)]

        change_settings(self._saved, remove)


def _holds_everywhere(rule: Rule) -> bool:
    """Tell whether a saved rule allows in all projects what the user was asked about in one. A path or a host
    limits a rule by itself."""
    bound = rule.project or rule.path.startswith(("/", "~")) or rule.host
    return rule.decision == "allow" and not bound


def _is_table_of(table: object, rule: Rule) -> bool:
    same = rules_of_tables([table], "saved", "").rules
    return any(msgspec.structs.replace(parsed, source=rule.source) == rule for parsed in same)


def save_model(launch: LaunchContext, loaded: LoadedSettings, model: str) -> None:
    """Make this the model of later runs, unless the user's own file names one. Raises `ConfigError`."""
    path = os.path.join(launch.where.config, "settings.toml")
    change_settings(path, lambda table: remember_model(table, model, loaded.own_model))


def change_settings(path: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Change buddy's own settings file under a lock, without losing concurrent edits. Raises
    `ConfigError`."""
    try:
        with hold_file_lock(f"{path}.lock"):
            table = read_table(path, required=False) or {}
            change(table)
            write_settings(path, table)
    except OSError as error:
        raise ConfigError(f"{path}: can't be written: {error.strerror}; nothing was saved") from error


def write_settings(path: str, table: dict[str, Any]) -> None:
    """Replace buddy's own settings file atomically. Raises `ConfigError`."""
    import tomli_w  # imported here: most runs save no settings

    first = "# Saved by buddy; put your own settings in buddy.toml beside this file.\n\n"
    try:
        # Not by aiofiles: reading, changing and replacing belong together under the lock.
        replace_file(path, (first + tomli_w.dumps(table)).encode())
    except OSError as error:
        raise ConfigError(f"{path}: can't be written: {error.strerror}; nothing was saved") from error


def _lists(permissions: object) -> dict[str, Any]:
    if not isinstance(permissions, dict):
        return {}
    return {key: permissions[key] for key in ("allow", "ask", "deny") if key in permissions}


def fact_recorder(approved: Approved) -> Callable[[str, Facts], None]:
    """Return a function that records the basis of a judgement, so that tools refuse when it has changed.

    Recorded are the targets of the call's paths, the content of its scripts, and the environment that a
    read-only command must run with.
    """

    def record(call_id: str, facts: Facts) -> None:
        started = (facts.folder,) if facts.folder is not None else ()
        for located in (*facts.reads, *facts.writes, *started):
            approved.remember(call_id, located.given, located.real)
        reads = facts.shell is not None and facts.shell.read_only
        if facts.shell is not None and not reads:
            approved.remember_scripts(call_id, facts.shell, facts.scripts)
        approved.harden(call_id, READ_ONLY_ENVIRONMENT if reads else {})

    return record


class Judge:
    """Collects facts about calls. `search_path` is the PATH of commands, "" for the trusted one; `sandbox`
    returns the sandbox that commands run in."""

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
        if tool.query is not None:
            hook = _suspicious_search(tool.query(arguments))
            return facts_of(tool, arguments, self._boundary, hook=hook)
        if tool.command is None:
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
        self._analyse = self._analyse or load_analysis(self._search_path)
        boundary = self._boundary
        if arguments.cwd:  # resolved as the tool does: "~" and links
            started = locate(boundary, arguments.cwd).real
            boundary = msgspec.structs.replace(boundary, cwd=started)
        analysis = self._analyse(tool.command(arguments), boundary)
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
            own_programs=own_programs(analysis, boundary, self._search_path) if status.is_working else (),
        )


def own_programs(analysis: Analysis, boundary: Boundary, search_path: str) -> tuple[str, ...]:
    """Return the names in a command that PATH leads to files in the workspace. A name with a slash is a path,
    which a rule shows as it is."""
    from buddy.safety.shell.context import TRUSTED_PATH  # as below: only with a command
    from buddy.safety.shell.programs.registry import program_path

    names = {argv[0] for part in analysis.commands for argv in (part.argv, *part.inner) if argv}
    roots = (boundary.root, *boundary.extra)

    def is_own(name: str) -> bool:
        path = program_path(name, search_path or TRUSTED_PATH, boundary.cwd)
        places = (os.path.normpath(path), os.path.realpath(path)) if path else ()
        return any(is_beneath(place, root) for place in places for root in roots)

    return tuple(sorted(name for name in names if "/" not in name and is_own(name)))


def load_analysis(search_path: str) -> Callable[[str, Boundary], Analysis]:
    """Return a function that analyses commands started in a boundary's working directory. Program names are
    looked up in a PATH, "" for the trusted one."""
    # Here: tree-sitter and its tables take 20 ms, so only with the first command.
    from buddy.safety.shell.analysis import Analyser
    from buddy.safety.shell.context import TRUSTED_PATH, CommandPlace

    analyser = Analyser()
    return lambda command, boundary: analyser.analyse(
        command, CommandPlace(boundary, search_path or TRUSTED_PATH)
    )


def _address(arguments: Any) -> tuple[str, HookOpinion | None]:
    """Return the host a call goes to, and the opinion that the user must look at what it sends; ("", None)
    for most tools.

    Raises `ToolError` for an address that is never fetched, so that nobody is asked about it.
    """
    url: object = getattr(arguments, "url", "")
    if not isinstance(url, str) or not url:
        return "", None
    target = judge_url(url)
    if isinstance(target, Refused):
        raise ToolError(target.reason)
    reason = suspicious_url(url)
    return target.host, HookOpinion("ask", f"{target.shown}: {reason}") if reason else None


def _suspicious_search(query: str) -> HookOpinion | None:
    """Return the opinion that the user must look at a search: its words go to strangers, like an address."""
    reason = suspicious_url(f"https://search.invalid/?q={quote(query, safe='')}")
    return HookOpinion("ask", f"the search {visible(query)}: {reason}") if reason else None


def opening_of_hook(policy: Policy, command: str, boundary: Boundary) -> CommandOpening:
    """Return what the person's own rules open for a command of one of their hooks."""
    from buddy.safety.policy.try_command import judge_command  # only such a hook needs it
    from buddy.safety.shell.analysis import Analyser

    judged = judge_command(
        command, boundary, Analyser(), rules=policy.rules, trusted=False, sandboxed=True
    ).verdict
    if judged.decision != "allow" or judged.decided_by != "rule":
        return ""
    return "outside" if judged.outside else "network" if judged.network else ""
