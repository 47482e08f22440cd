"""Settings that can be taken over from another program, with references in place of its secrets."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.agent.tool import ToolError
from buddy.safety.paths import read_regular
from buddy.safety.policy.rules import Decision, Rule
from buddy.safety.policy.rules_loading import rules_of_claude
from buddy.safety.sanitise import one_line
from buddy.safety.secrets.redact import redact

MAX_FILE_BYTES = 10_000_000
Table = dict[str, Any]
_SECRET_NAME = pattern(r"KEY|TOKEN|SECRET|PASSW|AUTH|CREDENTIAL|COOKIE", re.IGNORECASE)
_REFERENCE = pattern(r"\$\{[A-Za-z_][A-Za-z0-9_]*(?::-[^}]*)?\}")
_BARE_VARIABLE = pattern(r"\$(?=[A-Za-z_])([A-Za-z_][A-Za-z0-9_]*)|\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_STRING = r'("(?:\\.|[^"\\\n])*")'
_COMMENT = pattern(_STRING + r"|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA = pattern(_STRING + r"|,(?=\s*[}\]])")
_TOO_WIDE = {
    "shell": "it allows every command; mode auto runs commands in the sandbox unasked",
    "edit": "it allows every edit; that is mode edit",
    "read": "reads in the workspace need no rule",
    "fetch": "it allows every address",
}


class LeftOut(msgspec.Struct, frozen=True):
    """A setting that is not taken over, and why."""

    what: str
    why: str


class ServerEntry(msgspec.Struct, frozen=True):
    """An MCP server in the words of `mcp.json`. `variables` must be set in the environment: they stand where
    the other program's file holds a secret."""

    name: str
    entry: Table
    variables: tuple[str, ...] = ()


class ModelEntry(msgspec.Struct, frozen=True):
    """A profile: a table of `[models.NAME]`."""

    name: str
    table: dict[str, str]


class Findings(msgspec.Struct):
    """The settings of one program. `files` are those that were read."""

    program: str
    files: list[str] = []
    rules: list[Rule] = []
    servers: list[ServerEntry] = []
    models: list[ModelEntry] = []
    left_out: list[LeftOut] = []

    def leave_out(self, what: str, why: str) -> None:
        """Note a setting that is not taken over."""
        self.left_out.append(LeftOut(one_line(redact(what), 120), one_line(redact(why), 300)))

    def add_entries(self, decision: Decision, entries: object, project: str, *, is_trusted: bool) -> None:
        """Take permission entries in Claude's words."""
        for entry in _texts(entries):
            rules = rules_of_claude({decision: [entry]}, "user", self.program)
            if rules.errors or not rules.rules:
                self.leave_out(f"{decision} {entry}", "buddy has no rule that means the same")
            for rule in rules.rules:
                self.add_rule(rule, project, is_trusted=is_trusted)

    def add_rule(self, rule: Rule, project: str, *, is_trusted: bool) -> None:
        """Take a rule, for one project ("" for all), unless it would allow too much."""
        allows = rule.decision == "allow"
        is_wide = not (rule.argv or rule.path or rule.host or rule.tool.startswith("mcp:"))
        if allows and is_wide:
            self.leave_out(f"allow {rule.tool}", _TOO_WIDE.get(rule.tool, "it allows every call"))
        elif redact(rule.shown) != rule.shown:
            self.leave_out(rule.shown, "it holds a key, and keys are not copied")
        elif allows and not is_trusted:
            self.leave_out(rule.shown, "this folder is not trusted: start buddy here and type /trust")
        else:
            why = f"imported from {self.program}"
            taken = msgspec.structs.replace(rule, why=why, source="", project=project, origin="user")
            if taken not in self.rules:
                self.rules.append(taken)

    def add_server(self, name: str, entry: Table) -> None:
        """Take an MCP server; secrets in it become references to variables."""
        variables: list[str] = []
        taken = {key: value for key, value in entry.items() if value not in (None, "", [], {})}
        for field in ("env", "headers"):
            if isinstance(table := taken.get(field), dict):
                taken[field] = _references(cast(Table, table), name if field == "headers" else "", variables)
        texts = [str(taken.get("command", "")), str(taken.get("url", "")), *map(str, taken.get("args", []))]
        if any(redact(text) != text for text in texts) or _has_password(str(taken.get("url", ""))):
            self.leave_out(
                f"MCP server {name}", "its command or address holds a key; add it with buddy mcp add"
            )
            return
        self.servers.append(ServerEntry(name, taken, tuple(dict.fromkeys(variables))))


def _has_password(address: str) -> bool:
    try:
        return urlsplit(address).password is not None
    except ValueError:
        return False


def _texts(entries: object) -> list[str]:
    listed = cast("list[object]", entries) if isinstance(entries, list) else []
    return [entry for entry in listed if isinstance(entry, str)]


def _references(table: Table, prefix: str, variables: list[str]) -> dict[str, str]:
    """Return variables or headers with `${NAME}` in place of each secret; the names are added to
    `variables`."""
    taken: dict[str, str] = {}
    for name, value in table.items():
        text = _BARE_VARIABLE().sub(lambda found: f"${{{found[1] or found[2]}}}", str(value))
        is_secret = _SECRET_NAME().search(name) is not None or redact(text) != text
        if is_secret and text and not _REFERENCE().search(text):
            words = f"{prefix} {name}" if prefix else name
            variable = re.sub(r"\W+", "_", words).upper() if prefix else name
            scheme = "Bearer " if prefix and text.startswith("Bearer ") else ""
            variables.append(variable)
            text = f"{scheme}${{{variable}}}"
        taken[name] = text
    return taken


def read_text(path: str, findings: Findings) -> str | None:
    """Return the text of a settings file, None where there is none."""
    try:
        data = read_regular(path, MAX_FILE_BYTES)
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        return None
    except (OSError, ToolError) as error:
        findings.leave_out(path, f"can't be read: {getattr(error, 'strerror', None) or error}")
        return None
    findings.files.append(path)
    return data.decode("utf-8-sig", "replace")


def read_table(path: str, findings: Findings, parse: Callable[[str], object]) -> Table:
    """Return the table of a file, {} where there is none or it cannot be parsed."""
    text = read_text(path, findings)
    if text is None:
        return {}
    try:
        table = parse(text)
    except (ValueError, RecursionError) as error:
        place = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        findings.leave_out(path, f"not readable as settings{place}")
        return {}
    return cast(Table, table) if isinstance(table, dict) else {}


def parse_json(text: str) -> object:
    """Parse JSON with comments and trailing commas. Raises `ValueError`."""
    for extra in (_COMMENT(), _LAST_COMMA()):
        text = extra.sub(lambda found: found[1] or "", text)
    return json.loads(text) if text.strip() else {}


def parse_toml(text: str) -> object:
    """Parse TOML. Raises `ValueError`."""
    import tomllib  # imported here: few programs keep TOML

    return tomllib.loads(text)


def parse_yaml(text: str) -> object:
    """Parse YAML by the safe loader. Raises `ValueError`."""
    import yaml  # imported here: only aider keeps YAML

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def section(table: Mapping[str, Any], *names: str) -> Table:
    """Return a table within a table, {} where it is missing or something else."""
    for name in names:
        inner = table.get(name)
        table = cast(Table, inner) if isinstance(inner, dict) else {}
    return dict(table)


def home_folder(environment: Mapping[str, str], variable: str, default: str) -> str:
    """Return the folder a program keeps its files in: its variable, or a folder of the home folder."""
    home = environment.get("HOME") or os.path.expanduser("~")
    chosen = environment.get(variable, "")
    return chosen if os.path.isabs(chosen) else os.path.join(home, default)
