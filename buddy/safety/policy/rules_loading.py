"""Rules from TOML tables and Claude-style entries (`Bash(git log:*)`): checked, refused with a message
when they are wrong."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.safety.policy.rules import (
    Decision,
    Origin,
    Rule,
    RuleSet,
    matches_argv,
    matches_host,
    matches_path,
)
from buddy.safety.sandbox_openings import SANDBOX
from buddy.safety.shell.lexer import read_line
from buddy.safety.shell.result import UnclearError

_KEYS = frozenset(
    {
        *("tool", "argv", "command", "path", "host", "decision", "why", "match", "not_match"),
        *("sandbox", "project", "folder", "files", "target"),
    }
)
_MATCHED_BY = {"shell": "argv", "edit": "path", "read": "path", "fetch": "host"}


class _WrongRule(Exception):
    """An error in a rule."""


def unreadable(source: str, problem: str) -> RuleSet:
    """Return the rules in force when a rules file cannot be read: every call is asked about."""
    return RuleSet((), (f"{source} cannot be read, so everything is asked about: {problem}",), broken=True)


def rules_of_tables(tables: object, origin: Origin, source: str) -> RuleSet:
    """Return the rules of parsed tables."""
    if not isinstance(tables, list | tuple):
        return unreadable(source, "expected [[rule]] tables")
    rules: list[Rule] = []
    errors: list[str] = []
    broken = False
    for number, table in enumerate(cast(Sequence[object], tables), start=1):
        where = f"{source}, rule {number}"
        try:
            rule = _rule(table, origin, where)
            _try_examples(rule, cast(dict[str, Any], table))
        except _WrongRule as problem:
            is_allow = isinstance(table, dict) and cast(dict[str, Any], table).get("decision") == "allow"
            effect = "it is left out" if is_allow else "everything is asked about until it is mended"
            errors.append(f"{where}: {problem}; {effect}")
            broken = broken or not is_allow
        else:
            rules.append(rule)
    return RuleSet(tuple(rules), tuple(errors), broken)


def _rule(table: object, origin: Origin, where: str) -> Rule:
    if not isinstance(table, dict):
        raise _WrongRule("expected a table")
    given = cast(dict[str, Any], table)
    unknown = sorted(set(given) - _KEYS)
    if unknown:
        raise _WrongRule(f"unknown key {', '.join(unknown)}; expected {', '.join(sorted(_KEYS))}")
    argv, open_end = _argv(given.get("argv", []))
    values = {
        "tool": given.get("tool"),
        "decision": given.get("decision"),
        "origin": origin,
        "argv": argv,
        "open_end": open_end,
        "path": given.get("path", ""),
        "host": given.get("host", ""),
        "why": given.get("why", ""),
        "sandbox": given.get("sandbox", ""),
        "command": given.get("command", ""),
        "project": _place(given, "project"),
        "folder": _place(given, "folder"),
        "files": _files(given.get("files", {})),
        "source": where,
        "target": given.get("target", ""),
    }
    try:
        rule = msgspec.convert(values, Rule)
    except msgspec.ValidationError as error:
        from buddy.agent.schema import explain  # here: only a mistake needs it

        raise _WrongRule(explain(error, values, Rule).sentence()) from error
    _check_fit(rule)
    return rule


def _place(given: dict[str, Any], key: str) -> str:
    """Return a folder of a rule as commands name it: `~` is the person's home, links are followed."""
    text = given.get(key, "")
    if not isinstance(text, str) or not text:
        return "" if not text else _refuse(f"expected a folder as {key}, found {text!r}")
    path = text if given.get("target") else os.path.expanduser(text)
    if os.path.isabs(path) and given.get("target"):  # a folder over there: links here say nothing about it
        return os.path.normpath(path)
    if os.path.isabs(path):
        return os.path.realpath(path)
    if key == "project":
        return _refuse(f"expected an absolute path as project, found {text!r}")
    return os.path.normpath(path)


def _files(given: object) -> tuple[tuple[str, str], ...]:
    """Return paths of scripts with the digests they must have."""
    if not isinstance(given, dict):
        raise _WrongRule("files must be a table of paths and their sha256")
    return tuple((str(path), str(digest)) for path, digest in cast(dict[str, object], given).items())


def _refuse(problem: str) -> str:
    raise _WrongRule(problem)


def _check_fit(rule: Rule) -> None:
    """Check that all keys have a meaning for the tool; otherwise the rule would match more than its author
    expects."""
    if rule.command and (rule.tool != "shell" or rule.argv):
        raise _WrongRule("command is only for rules of the shell, and takes the place of argv")
    if rule.folder and rule.tool in ("edit", "read", "fetch"):
        raise _WrongRule(f"folder means nothing for tool {rule.tool!r}; write path or project")
    if rule.files and (rule.tool != "shell" or rule.decision != "allow"):
        raise _WrongRule("files is only for allow rules of the shell")
    if rule.target and (rule.tool in (SANDBOX, "fetch") or rule.sandbox):
        raise _WrongRule("target means nothing here: sandbox and fetches are those of this machine")
    if rule.tool == SANDBOX:
        _check_opening(rule)
        return
    for key in ("argv", "path", "host"):
        wanted = _MATCHED_BY.get(rule.tool)
        if key == "argv" and rule.tool == "run_tests":
            continue
        if getattr(rule, key) and wanted != key and (wanted is not None or key != "path"):
            raise _WrongRule(f"{key} means nothing for tool {rule.tool!r}")
    if rule.sandbox and (rule.tool != "shell" or rule.decision != "allow"):
        raise _WrongRule("sandbox is only for allow rules of the shell")
    if rule.sandbox not in ("", "only") and rule.origin == "project":
        raise _WrongRule("a project cannot let a command out of the sandbox")


def _check_opening(rule: Rule) -> None:
    if rule.origin == "project":
        raise _WrongRule("a project cannot open the sandbox")
    if rule.decision != "allow" or bool(rule.host) == bool(rule.path) or rule.argv or rule.sandbox:
        raise _WrongRule("a rule of the sandbox allows one host or one path, and nothing else")
    if rule.path and not rule.path.startswith(("/", "~/")):
        raise _WrongRule(f"expected an absolute path or one from ~, found {rule.path!r}")


def _argv(given: object) -> tuple[tuple[tuple[str, ...], ...], bool]:
    """Return tokens with their alternatives; whether any further ones may follow."""
    if not isinstance(given, list | tuple):
        raise _WrongRule("argv must be a list of tokens")
    tokens = list(cast(Sequence[object], given))
    open_end = bool(tokens) and tokens[-1] == "*"
    found: list[tuple[str, ...]] = []
    for token in tokens[:-1] if open_end else tokens:
        alternatives = cast(list[object], token) if isinstance(token, list) else [token]
        texts = tuple(text for text in alternatives if isinstance(text, str))
        if not texts or len(texts) != len(alternatives):
            raise _WrongRule(f"expected a token or a list of tokens in argv, found {token!r}")
        if "*" in texts:
            raise _WrongRule('a "*" may only be the last token of argv')
        found.append(texts)
    return tuple(found), open_end


def _try_examples(rule: Rule, table: dict[str, Any]) -> None:
    for key, wanted in (("match", True), ("not_match", False)):
        examples = table.get(key, [])
        if not isinstance(examples, list):
            raise _WrongRule(f"{key} must be a list of examples")
        for example in cast(list[object], examples):
            if not isinstance(example, str):
                raise _WrongRule(f"{key} must hold texts, found {example!r}")
            if _fits(rule, example) is not wanted:
                verb = "does not match" if wanted else "matches"
                raise _WrongRule(f"it {verb} its example {example!r}")


def _fits(rule: Rule, example: str) -> bool:
    if rule.tool == "shell":
        try:
            line = read_line(example)
        except UnclearError as error:
            raise _WrongRule(f"the example {example!r} is not a plain command: {error.reason}") from error
        if rule.command:
            return example == rule.command
        return all(
            matches_argv(rule, tuple(word.text for word in command.words)) for command in line.commands
        )
    if rule.tool == "fetch":
        return matches_host(rule, example)
    if rule.path:
        return matches_path(rule, "/", "~", example if example.startswith(("/", "~")) else f"/{example}")
    raise _WrongRule("examples need argv, path or host")


def as_table(rule: Rule) -> dict[str, Any]:
    """Return a rule as the table that is saved."""
    table: dict[str, Any] = {"tool": rule.tool}
    if rule.argv or rule.open_end:
        tokens: list[Any] = [token[0] if len(token) == 1 else list(token) for token in rule.argv]
        table["argv"] = [*tokens, "*"] if rule.open_end else tokens
    for key in ("command", "path", "host", "sandbox", "project", "folder", "target"):
        if getattr(rule, key):
            table[key] = getattr(rule, key)
    if rule.files:
        table["files"] = dict(rule.files)
    table["decision"] = rule.decision
    if rule.why:
        table["why"] = rule.why
    return table


_ENTRY = pattern(r"([A-Za-z_][\w-]*|mcp__[\w-]+__\*)(?:\((.*)\))?", re.DOTALL)
_PATH_TOOLS = {
    "Read": "read",
    "Grep": "read",
    "Glob": "read",
    "LS": "read",
    "NotebookRead": "read",
    "Edit": "edit",
    "Write": "edit",
    "MultiEdit": "edit",
    "NotebookEdit": "edit",
    **dict.fromkeys(("read_file", "grep", "find_files", "list_files"), "read"),
    **dict.fromkeys(("edit_file", "write_file", "apply_patch"), "edit"),
}
_WHOLE_TOOLS = {
    "WebSearch": "web_search",
    "web_search": "web_search",
    **dict.fromkeys(("Task", "Agent", "delegate"), "delegate"),
    **dict.fromkeys(("TodoWrite", "todo"), "todo"),
    **dict.fromkeys(("AskUserQuestion", "ask_user"), "ask_user"),
    **dict.fromkeys(("BashOutput", "TaskOutput", "read_job"), "read_job"),
    **dict.fromkeys(("KillShell", "KillBash", "TaskStop", "stop_job"), "stop_job"),
    **dict.fromkeys(("Skill", "skill"), "skill"),
    **{
        name: name
        for name in (
            *("EnterPlanMode", "ExitPlanMode", "EnterWorktree", "ExitWorktree", "SlashCommand", "ToolSearch"),
            *("TaskCreate", "TaskGet", "TaskList", "TaskUpdate", "CronCreate", "CronDelete", "CronList"),
            *("ListMcpResourcesTool", "ReadMcpResourceTool", "LSP", "Monitor", "SendMessage"),
        )
    },
}
"""Tools that a rule names as a whole. Those of the last group exist in Claude Code alone: their rules match
nothing, and the lists of other programs that name them stay valid."""
EXPECTED = "a tool and what it may do, like Bash(git log:*), Edit(src/**) or WebFetch(domain:example.com)"
_DECISIONS: tuple[Decision, ...] = ("allow", "ask", "deny")


def rules_of_claude(permissions: object, origin: Origin, source: str) -> RuleSet:
    """Return the rules of a `permissions` object. An entry that cannot be expressed is named in an error;
    where it would tighten, a wider rule takes its place or the set is broken."""
    if not isinstance(permissions, dict):
        return RuleSet((), (f"{source}: permissions must be an object",), broken=True)
    rules: list[Rule] = []
    errors: list[str] = []
    broken = False
    for decision in _DECISIONS:
        entries = cast(dict[str, object], permissions).get(decision, [])
        for entry in cast(list[object], entries) if isinstance(entries, list | tuple) else [entries]:
            rule = _claude_rule(entry, decision, origin, source) if isinstance(entry, str) else None
            if rule is not None:
                rules.append(rule)
                continue
            errors.append(f"{source}: expected {EXPECTED}; found the {decision} entry {entry!r}")
            broken = broken or decision != "allow"
    return RuleSet(tuple(rules), tuple(errors), broken)


def _claude_rule(entry: str, decision: Decision, origin: Origin, source: str) -> Rule | None:
    found = _ENTRY().fullmatch(entry.strip())
    if found is None:
        return None
    name, inside = found[1], found[2]
    if name in ("Bash", "run_shell"):
        return _bash(inside, decision, origin, source)
    if name in _PATH_TOOLS:
        path = "" if inside in (None, "", "*", "**") else _path(inside)
        return Rule(_PATH_TOOLS[name], decision, origin, path=path, source=source)
    if name in ("WebFetch", "web_fetch"):
        host = (inside or "").removeprefix("domain:")
        if inside and not inside.startswith("domain:"):
            return None
        return Rule(
            "fetch", decision, origin, host=host.removeprefix("*") if host != "*" else "", source=source
        )
    if name in _WHOLE_TOOLS and inside in (None, "", "*"):
        return Rule(_WHOLE_TOOLS[name], decision, origin, source=source)
    if name.startswith("mcp__") and not inside:
        server, _, tool = name.removeprefix("mcp__").partition("__")
        return Rule(f"mcp:{server}/{tool or '*'}", decision, origin, source=source)
    return None


def _path(inside: str) -> str:
    """`//x` is absolute and `/x` relative to the project in Claude's spelling."""
    if inside.startswith("//"):
        return inside[1:]
    return inside.removeprefix("./").removeprefix("/")


def _bash(inside: str | None, decision: Decision, origin: Origin, source: str) -> Rule | None:
    if inside in (None, "", "*", ":*"):
        return Rule("shell", decision, origin, source=source)
    text = inside.strip()
    open_end = False
    for ending in (":*", " *"):
        if text.endswith(ending):
            text, open_end = text[: -len(ending)], True
            break
    try:
        tokens = shlex.split(text)
    except ValueError:
        return None
    if any("*" in token for token in tokens):
        if decision == "allow":
            return None
        # Wider than asked for: up to the first star.
        tokens = tokens[: next(index for index, token in enumerate(tokens) if "*" in token)]
        open_end = True
    return Rule(
        "shell", decision, origin, argv=tuple((token,) for token in tokens), open_end=open_end, source=source
    )
