"""What "always allow" would save: the narrowest rule that still helps, one per sub-command, or nothing."""

from __future__ import annotations

import posixpath

from buddy.safety.policy_facts import Facts
from buddy.safety.redact import redact
from buddy.safety.rules import Rule
from buddy.safety.shell.names import INTERPRETERS, WRAPPERS, words
from buddy.safety.shell.verdict import Subcommand

_PREFIX_OF_ONE = words(
    "pytest ruff mypy pyright black isort flake8 eslint tsc prettier vitest jest ctest phpunit rspec"
)
"""Tools for checking code: their name alone is a useful prefix."""

_PREFIX_OF_TWO: dict[str, frozenset[str]] = {
    "git": words("add commit stash restore switch checkout merge"),
    "npm": words("test"),
    "yarn": words("test"),
    "pnpm": words("test"),
    "cargo": words("test build check clippy fmt"),
    "go": words("test build vet fmt"),
    "dotnet": words("test build"),
    "mvn": words("test compile"),
    "gradle": words("test build"),
    "swift": words("test build"),
    "uv": words("sync"),
}
_RUNNERS = words("npm yarn pnpm")
_NEEDS_A_WORD = words(
    "git npm yarn pnpm npx bunx cargo go docker podman kubectl pip pip3 uv poetry gh apt brew"
)
"""Tools whose name alone says nothing about what they would do."""


def rules_to_save(facts: Facts) -> tuple[Rule, ...]:
    """The rules that would let this call run next time, shown to the person before they are saved; () when
    nothing sensible can be saved, or when a rule would hold a secret."""
    rules = _rules(facts)
    return () if any(redact(rule.shown) != rule.shown for rule in rules) else rules


def _rules(facts: Facts) -> tuple[Rule, ...]:
    if facts.shell is not None:
        return _shell_rules(facts.shell.commands) if facts.shell.parsed else ()
    if facts.host:
        return (Rule("fetch", "allow", "user", host=facts.host),)
    if facts.tool.startswith("mcp__"):
        server, _, tool = facts.tool.removeprefix("mcp__").partition("__")
        return (Rule(f"mcp:{server}/{tool}", "allow", "user"),)
    if facts.risk == "high":
        return ()
    found = facts.writes or facts.reads
    if not found:
        return () if facts.anything else (Rule(facts.tool, "allow", "user"),)
    name = "edit" if facts.writes else "read"
    if any(path.given == "." or path.real == facts.root for path in found):
        name = facts.tool  # staging everywhere is not running the tests, though both change the workspace
    if any(sign in path.real for path in found for sign in "*?"):
        return ()  # as a pattern such a name would mean more than itself
    patterns = dict.fromkeys(_pattern(facts.root, path.real) for path in found)
    return tuple(Rule(name, "allow", "user", path=pattern) for pattern in patterns)


def _pattern(root: str, path: str) -> str:
    """The folder of a file in the workspace; a file at its top, or outside, alone. Absolute: the rule is kept
    for all projects, and what was allowed in one is not allowed in another."""
    folder = posixpath.dirname(path)
    return f"{folder}/**" if path.startswith(root + "/") and folder != root else path


def _shell_rules(commands: tuple[Subcommand, ...]) -> tuple[Rule, ...]:
    found: dict[Rule, None] = {}
    for command in commands:
        if command.read_only:
            continue
        rule = _shell_rule(command)
        if rule is None:
            return ()
        found[rule] = None
    return tuple(found)


def _shell_rule(command: Subcommand) -> Rule | None:
    if not command.literal or not command.argv or not command.argv[0]:
        return None
    name = posixpath.basename(command.argv[0])
    if name in INTERPRETERS or name in WRAPPERS:
        return None
    if name in _NEEDS_A_WORD and (len(command.argv) < 2 or command.argv[1].startswith("-")):
        return None
    length = _prefix_length(command.argv)
    prefix = command.argv[:length] if length else command.argv
    return Rule("shell", "allow", "user", argv=tuple((token,) for token in prefix), open_end=length > 0)


def _prefix_length(argv: tuple[str, ...]) -> int:
    """How many tokens make a prefix that is safe to leave open; 0: only the exact command is saved."""
    name = argv[0]
    if name in _PREFIX_OF_ONE:
        return 1
    if len(argv) > 1 and argv[1] in _PREFIX_OF_TWO.get(name, ()):
        return 2
    if name in _RUNNERS and len(argv) > 2 and argv[1] == "run" and not argv[2].startswith("-"):
        return 3
    return 0
