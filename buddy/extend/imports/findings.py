"""Settings that can be taken over from another program, with references in place of its secrets."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.agent.tool import ToolError
from buddy.extend.imports.breadth import reason_too_wide, wide_meaning
from buddy.extend.imports.keys import (
    as_reference,
    drop_defaults,
    holds_key,
    is_address_with_key,
    is_literal,
    is_variable,
    names_secret,
    scheme_of,
    texts_in,
)
from buddy.extend.mcp.definitions import unknown_keys
from buddy.safety.paths import read_regular
from buddy.safety.policy.rules import Decision, Rule
from buddy.safety.policy.rules_loading import as_table, rules_of_claude
from buddy.safety.sanitise import one_line
from buddy.safety.secrets.redact import redact

MAX_FILE_BYTES = 10_000_000
Table = dict[str, Any]
_NOT_COPIED = frozenset({"sandbox", "network", "write"})
"""Keys of buddy alone: in another program's file they would only widen."""
_NOT_WORDS = pattern(r"\W+")
_LINE = pattern(r"\bline ([0-9]+)")
"""The place in the errors of the parsers of JSON, TOML and YAML."""
_STRING = r'("(?:\\.|[^"\\\n])*")'
_COMMENT = pattern(_STRING + r"|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA = pattern(_STRING + r"|,(?=\s*[}\]])")


class Place(msgspec.Struct, frozen=True):
    """The places to look in: the environment's, and those of the project below `root`."""

    environment: Mapping[str, str]
    root: str
    is_trusted: bool

    @property
    def home(self) -> str:
        """Return the person's home folder."""
        return self.environment.get("HOME") or os.path.expanduser("~")


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


class WideRule(msgspec.Struct, frozen=True):
    """A rule that allows more than its words say, and what."""

    rule: Rule
    meaning: str


class Findings(msgspec.Struct):
    """The settings of one program. `files` are those that were read; `wide` are rules that are taken only
    where somebody asks for them."""

    program: str
    files: list[str] = []
    rules: list[Rule] = []
    wide: list[WideRule] = []
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
                what = f"an entry of {decision}, which may hold a key" if holds_key([entry]) else entry
                self.leave_out(f"{decision} {what}", "buddy has no rule that means the same")
            for rule in rules.rules:
                self.add_rule(rule, project, is_trusted=is_trusted)

    def add_rule(self, rule: Rule, project: str, *, is_trusted: bool) -> None:
        """Take a rule, for one project ("" for all), unless it would allow too much."""
        allows = rule.decision == "allow"
        if holds_key([token for tokens in rule.argv for token in tokens] or [rule.path or rule.host]):
            program = " ".join(rule.argv[0]) if rule.argv else ""
            what = program if program and not holds_key([program]) else "a rule"
            self.leave_out(
                f"{rule.decision} {rule.tool}: {what} …", "it may hold a key, and keys are not copied"
            )
        elif not _is_writable(as_table(rule) | {"project": project}):
            self.leave_out(rule.shown, "it holds characters that no file can")
        elif allows and (reason := reason_too_wide(rule)):
            is_all = not (rule.argv or rule.path or rule.host)
            self.leave_out(f"allow {rule.tool}" if is_all else rule.shown, reason)
        elif allows and not is_trusted:
            self.leave_out(rule.shown, "this folder is not trusted: start buddy here and type /trust")
        else:
            why = f"imported from {self.program}"
            taken = msgspec.structs.replace(rule, why=why, source="", project=project, origin="user")
            meaning = wide_meaning(rule) if allows else ""
            if meaning:
                wide = WideRule(msgspec.structs.replace(taken, why=f"{why}; {meaning}"), meaning)
                self.wide.extend(() if wide in self.wide else (wide,))
            elif taken not in self.rules:
                self.rules.append(taken)

    def take_wide(self) -> None:
        """Take the wide rules, too."""
        self.rules.extend(one.rule for one in self.wide)

    def add_server(self, name: str, entry: Table) -> None:
        """Take an MCP server; secrets in it become references to variables."""
        variables: list[str] = []
        limits = [key for key in sorted(entry) if _limits_tools(key, entry[key])]
        if limits:
            self.leave_out(
                f"MCP server {name}",
                f"{', '.join(limits)} would be lost, and with it a limit of its tools; "
                "add it with buddy mcp add, and rules that deny the others",
            )
            return
        foreign = {*unknown_keys(entry), *_NOT_COPIED}
        taken = {
            key: value
            for key, value in entry.items()
            if key not in foreign and value not in (None, "", [], {})
        }
        for field in ("env", "headers", "http_headers"):
            if isinstance(table := taken.get(field), dict):
                prefix = "" if field == "env" else name
                taken[field] = _references(cast(Table, table), prefix, variables)
        if reason := _reason_against(taken):
            self.leave_out(f"MCP server {name}", reason)
        else:
            self.servers.append(ServerEntry(name, taken, tuple(dict.fromkeys(variables))))

    def add_model(self, name: str, table: dict[str, str]) -> None:
        """Take a profile, unless its address or its other values hold a key."""
        key_variable = table.get("api_key_env")
        if is_address_with_key(table.get("base_url", "")):
            self.leave_out(
                f"model {name}", "its address may hold a key; add it to buddy.toml, then buddy login"
            )
        elif any(redact(value) != value for value in (name, *table.values())):
            self.leave_out("a model", "it holds a key, and keys are not copied")
        elif not _is_writable([name, table]):
            self.leave_out("a model", "it holds characters that no file can")
        elif key_variable is not None and not is_variable(key_variable):
            self.leave_out(f"model {name}", "the variable of its key has no valid name")
        else:
            self.models.append(ModelEntry(name, table))


def _is_writable(value: object) -> bool:
    """Tell whether a value can stand in a file: no dates, no halves of characters."""
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _limits_tools(key: str, value: object) -> bool:
    """Tell whether a key of a server keeps some of its tools from the model. An empty list of those that are
    switched on is a limit as well."""
    name = key.lower().replace("_", "")
    if name in ("enabledtools", "includetools", "allowedtools", "tools"):
        return value is not None
    return name in ("disabledtools", "excludetools", "deniedtools") and bool(value)


def _reason_against(entry: Table) -> str:
    """Return why a server cannot be taken over, "" if it can."""
    args: object = entry.get("args", [])
    if not isinstance(args, list):
        return "its args are not a list"
    command: object = entry.get("command", "")
    words = [*texts_in(command), *map(str, cast("list[object]", args))]
    addresses = [str(entry.get(key, "")) for key in ("url", "serverUrl", "httpUrl")]
    if holds_key(words) or any(map(is_address_with_key, addresses)):
        return "its command or address may hold a key; add it with buddy mcp add"
    oauth: object = entry.get("oauth")
    if isinstance(oauth, dict):
        names = [name for name in map(str, cast(Table, oauth)) if "secret" in name.lower()]
        if names:
            return f"oauth.{names[0]} holds a key; add it with buddy mcp add"
    if any(redact(text) != text for text in texts_in(entry)):
        return "it holds a key; add it with buddy mcp add"
    return "" if _is_writable(entry) else "it holds a value that mcp.json cannot hold, such as a date"


def _texts(entries: object) -> list[str]:
    listed = cast("list[object]", entries) if isinstance(entries, list) else []
    return [entry for entry in listed if isinstance(entry, str)]


def _references(table: Table, prefix: str, variables: list[str]) -> dict[str, str]:
    """Return variables or headers with `${NAME}` in place of each secret; the names are added to
    `variables`."""
    taken: dict[str, str] = {}
    for name, value in table.items():
        text = as_reference(str(value))
        if names_secret(name):
            without = drop_defaults(text)
            is_secret = is_literal(without)
            if without != text and not is_secret:
                variables.append(without[without.index("${") + 2 : without.index("}")])
            text = without
        else:
            is_secret = redact(text) != text or is_address_with_key(text)
        if is_secret or isinstance(value, dict | list):
            words = f"{prefix} {name}" if prefix else name
            variable = _NOT_WORDS().sub("_", words).upper() if prefix else name
            scheme = scheme_of(text) if prefix else ""
            variables.append(variable)
            text = f"{scheme}${{{variable}}}"
        taken[name] = text
    return taken


def read_text(path: str, findings: Findings) -> str | None:
    """Return the text of a settings file, None where there is none."""
    try:
        data = read_regular(path, MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        return None
    except (OSError, ToolError) as error:
        findings.leave_out(path, f"can't be read: {getattr(error, 'strerror', None) or error}")
        return None
    if len(data) > MAX_FILE_BYTES:
        findings.leave_out(path, f"more than {MAX_FILE_BYTES:,} bytes")
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
        line = _LINE().search(str(error))
        findings.leave_out(path, f"not readable as settings{f' (line {line[1]})' if line else ''}")
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
