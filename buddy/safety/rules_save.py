"""Rules that answers of a person become: exactly the call that was shown, in the project and folder it was
shown for. A prefix is never left open: what follows `cargo test` or `pytest` can run, write or load
something. An answer given in a worktree holds there alone."""

from __future__ import annotations

import posixpath

import msgspec

from buddy.safety.paths import is_beneath
from buddy.safety.policy_facts import Facts
from buddy.safety.redact import redact
from buddy.safety.rules import Rule
from buddy.safety.scripts import Scripts, is_lost, reads_code
from buddy.safety.shell.lexer import read_line
from buddy.safety.shell.names import words
from buddy.safety.shell.verdict import Subcommand
from buddy.safety.shell.words import Simple, UnclearError, Word

MAX_COMMAND_CHARS = 1000
_ARGUMENTS_FROM_INPUT = words("xargs parallel eval")
"""Programs whose command line comes from elsewhere."""
_KERNEL = ("/proc", "/sys", "/dev")
_GLOB = frozenset("*?[]{}~")


def rules_to_save(facts: Facts) -> tuple[Rule, ...]:
    """The rules that would let this call run in every session to come; () when nothing sensible can be
    saved, or when a rule would hold a secret."""
    return _without_secrets(() if facts.programs else _rules(facts))


def rules_for_session(facts: Facts) -> tuple[Rule, ...]:
    """The rules that would let this call run for the rest of the session. An edit covers the files of the
    whole workspace. A script must stay as it is, unless the sandbox confines whatever it becomes."""
    rules = _edits_of_workspace(facts) or _rules(facts)
    return _without_secrets(tuple(_confined(rule) for rule in rules) if facts.sandboxed else rules)


def no_place_for_commands(facts: Facts) -> str:
    """Explain why a command is asked about for the folder it starts in, whatever rules say; "" otherwise."""
    if facts.folder is None:
        return ""
    if any(is_beneath(facts.folder.real, root) for root in _KERNEL):
        return f"it would run in {facts.folder.shown}, which shows other processes and devices"
    if facts.folder.secret:
        return f"it would run in {facts.folder.shown}: {facts.folder.secret}"
    return ""


def _without_secrets(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    return () if any(redact(rule.shown) != rule.shown for rule in rules) else rules


def _confined(rule: Rule) -> Rule:
    """The rule with scripts that may change, for the sandbox alone."""
    return msgspec.structs.replace(rule, files=(), sandbox="only") if rule.files else rule


def _rules(facts: Facts) -> tuple[Rule, ...]:
    if no_place_for_commands(facts):
        return ()
    if facts.shell is not None:
        return _shell_rules(facts) if facts.shell.parsed else ()
    if facts.host:
        return (Rule("fetch", "allow", "saved", host=facts.host),)
    if facts.tool.startswith("mcp__"):
        server, _, tool = facts.tool.removeprefix("mcp__").partition("__")
        return (Rule(f"mcp:{server}/{tool}", "allow", "saved", project=facts.root),)
    if facts.argv:
        folder = facts.folder.real if facts.folder else facts.root
        exact = tuple((token,) for token in facts.argv)
        return (Rule(facts.tool, "allow", "saved", argv=exact, project=facts.root, folder=folder),)
    if facts.risk == "high":
        return ()
    return _path_rules(facts)


def _path_rules(facts: Facts) -> tuple[Rule, ...]:
    touched = facts.writes or facts.reads
    if not touched:
        return () if facts.anything else (Rule(facts.tool, "allow", "saved", project=facts.root),)
    if any(path.given == "." or path.real == facts.root for path in touched):
        if any(path.secret or not path.inside for path in touched):
            return ()
        # By its own name: staging everywhere is not stashing, though both change the workspace.
        tops = {path.real for path in touched if path.given == "."} or {facts.root}
        tops = {facts.root} if facts.category == "git" else tops
        return tuple(Rule(facts.tool, "allow", "saved", path=f"{top}/**") for top in sorted(tops))
    if any(sign in path.real for path in touched for sign in "*?"):
        return ()  # as a pattern such a name would mean more than itself
    name = "edit" if facts.writes else "read"
    patterns = dict.fromkeys(
        path.real if path.secret else _pattern(facts.root, path.real) for path in touched
    )
    return tuple(Rule(name, "allow", "saved", path=pattern) for pattern in patterns)


def _pattern(root: str, path: str) -> str:
    """The folder of a file in the workspace; a file at its top, or outside, alone. Absolute: the rule is kept
    for all projects, and what was allowed in one is not allowed in another."""
    folder = posixpath.dirname(path)
    return f"{folder}/**" if path.startswith(root + "/") and folder != root else path


def _edits_of_workspace(facts: Facts) -> tuple[Rule, ...]:
    """The rule for edits anywhere in the workspace, () when the call is no plain edit of files there."""
    plain = facts.category == "files" and facts.risk == "medium" and not facts.anything
    if not plain or not facts.writes or facts.host or facts.tool.startswith("mcp__"):
        return ()
    if any(path.secret or not is_beneath(path.real, facts.root) for path in (*facts.writes, *facts.reads)):
        return ()
    return (Rule("edit", "allow", "session", path=f"{facts.root}/**"),)


def _shell_rules(facts: Facts) -> tuple[Rule, ...]:
    shell = facts.shell
    if shell is None or len(shell.command) > MAX_COMMAND_CHARS:
        return ()
    acting = [
        (command, facts.scripts[number] if number < len(facts.scripts) else ())
        for number, command in enumerate(shell.commands)
        if command.level != "core"
    ]
    if any(_hides_what_runs(command) for command, _ in acting):
        return ()
    if any(not digest for _, scripts in acting for _, digest in scripts):
        return ()
    if all(command.literal and command.folder and command.sources is None for command, _ in acting):
        return tuple(dict.fromkeys(_exact(facts, command, scripts) for command, scripts in acting))
    return _whole_line(facts, tuple(pair for _, scripts in acting for pair in scripts))


def _hides_what_runs(command: Subcommand) -> bool:
    argv = command.argv
    if not argv or not argv[0]:
        return True
    if posixpath.basename(argv[0]) in _ARGUMENTS_FROM_INPUT:
        return True
    return reads_code(argv) or is_lost(command)


def _exact(facts: Facts, command: Subcommand, scripts: Scripts) -> Rule:
    return Rule(
        "shell",
        "allow",
        "saved",
        argv=tuple((token,) for token in command.argv),
        project=facts.root,
        folder=command.folder,
        files=scripts,
    )


def _whole_line(facts: Facts, scripts: Scripts) -> tuple[Rule, ...]:
    """The rule for a line that redirects, sets variables or gives a command input: word for word, as long as
    its words mean the same every time."""
    shell, folder = facts.shell, facts.folder
    if shell is None or folder is None:
        return ()
    try:
        line = read_line(shell.command)
    except UnclearError:
        return ()
    if not all(_is_fixed(simple) for simple in line.commands):
        return ()
    text = shell.command.strip()
    place = folder.real
    rule = Rule("shell", "allow", "saved", command=text, project=facts.root, folder=place, files=scripts)
    return (rule,)


def _is_fixed(simple: Simple) -> bool:
    """Tell whether a command's words are the same each time: no variables, no patterns."""
    said = (
        *simple.words,
        *(value for _, value in simple.assignments),
        *(redirect.word for redirect in simple.redirects),
    )
    return all(_is_fixed_word(word) for word in said)


def _is_fixed_word(word: Word) -> bool:
    return all(
        piece.kind == "quoted" or (piece.kind == "bare" and not _GLOB & set(piece.text))
        for piece in word.pieces
    )
