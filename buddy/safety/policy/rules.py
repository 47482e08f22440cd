"""Rules: matching of calls, and the rules made from a person's answers."""

from __future__ import annotations

import functools
import posixpath
import re
import shlex
from collections.abc import Iterable
from typing import Literal

import msgspec

from buddy.safety.paths import Located, in_main_tree, is_beneath
from buddy.safety.policy.facts import Facts
from buddy.safety.secrets.redact import redact
from buddy.safety.shell.lexer import read_line
from buddy.safety.shell.programs.names import words
from buddy.safety.shell.result import Simple, Subcommand, UnclearError, Word
from buddy.safety.shell.scripts import Scripts, is_lost, reads_code
from buddy.safety.wildcards import FOLDERS, STAR, wildcard

Decision = Literal["allow", "ask", "deny"]
Origin = Literal["session", "user", "saved", "project"]
"""`saved`: kept by buddy itself when the person answered "always"."""


class Rule(msgspec.Struct, frozen=True):
    """One rule. `tool` is shell, edit, read, fetch, mcp:<server>/<tool>, or the exact name of any tool; what
    is left empty matches everything. `argv` holds the alternatives of each token, `open_end`: any further
    tokens may follow. `path` is a pattern relative to the workspace (or absolute, or from ~), `host` a name
    or, with a leading dot, all its subdomains. `sandbox` "only": allow it inside the sandbox; "network":
    inside, with the network; "off": allow it outside of the sandbox. A rule of the tool `sandbox` allows no
    call: it opens a `host` or a `path` for what runs inside. `command` is a whole command line, word for
    word. `project` is the root of the only project the rule holds in, `folder` the only folder a command
    may start in (absolute, or relative to the workspace); `files` are paths and SHA-256 of scripts that
    must be as they were. `target` is the machine it holds on, "*" any: an allow rule without one holds on
    this machine only, a rule that tightens everywhere."""

    tool: str
    decision: Decision
    origin: Origin
    argv: tuple[tuple[str, ...], ...] = ()
    open_end: bool = False
    path: str = ""
    host: str = ""
    why: str = ""
    sandbox: Literal["", "only", "network", "off"] = ""
    source: str = ""
    command: str = ""
    project: str = ""
    folder: str = ""
    files: tuple[tuple[str, str], ...] = ()
    target: str = ""

    @property
    def shown(self) -> str:
        """Return the rule in one line, as people read it."""
        where = self.folder or self.project
        machine = f", on {self.target}" if self.target else ""
        return f"{self.decision} {self.tool}: {self.what}{f', in {where}' if where else ''}{machine}"

    @property
    def what(self) -> str:
        """Return the calls it matches, without their place."""
        tokens = [_token(token) for token in self.argv] + ["*"] * self.open_end
        return self.command or " ".join(tokens) or self.path or self.host or "*"


def _token(alternatives: tuple[str, ...]) -> str:
    """Return a token as it would be typed; alternatives with a bar between them."""
    return shlex.quote(alternatives[0]) if len(alternatives) == 1 else "|".join(alternatives)


class RuleSet(msgspec.Struct, frozen=True):
    """All rules in force. `errors` are shown to the person; `broken`: a file could not be read, so that a
    deny may be missing and everything is asked about; `unused`: saved by an older version without the project
    they were given in, so they allow nothing."""

    rules: tuple[Rule, ...] = ()
    errors: tuple[str, ...] = ()
    broken: bool = False
    unused: tuple[Rule, ...] = ()

    def merge(self, other: RuleSet) -> RuleSet:
        """Return both sets as one."""
        return RuleSet(
            self.rules + other.rules,
            self.errors + other.errors,
            self.broken or other.broken,
            self.unused + other.unused,
        )

    def without(self, rule: Rule) -> RuleSet:
        """Return the set without one rule."""
        return msgspec.structs.replace(
            self,
            rules=tuple(one for one in self.rules if one != rule),
            unused=tuple(one for one in self.unused if one != rule),
        )


def matches_argv(rule: Rule, argv: tuple[str, ...]) -> bool:
    """Tell whether a command's tokens match the rule."""
    if not rule.argv:
        return True
    if len(argv) < len(rule.argv) or (len(argv) > len(rule.argv) and not rule.open_end):
        return False
    return all(token in accepted for token, accepted in zip(argv, rule.argv, strict=False))


def matches_host(rule: Rule, host: str) -> bool:
    """Tell whether a parsed host name is the rule's, or beneath it where the rule starts with a dot."""
    wanted, found = rule.host.lower().rstrip("."), host.lower().rstrip(".")
    if not wanted:
        return True
    return found.endswith(wanted) if wanted.startswith(".") else found == wanted


def matches_path(rule: Rule, root: str, home: str, path: str) -> bool:
    """Tell whether an absolute path matches the rule. Patterns are anchored at the workspace; a pattern that
    names a folder (`src/`) covers everything in it."""
    if not rule.path:
        return True
    pattern = rule.path
    if pattern.startswith("~/"):
        pattern = home + pattern[1:]
    elif not pattern.startswith("/"):
        pattern = root.rstrip("/") + "/" + pattern.removeprefix("./")
    return _compile_pattern(pattern).fullmatch(path) is not None


@functools.lru_cache(maxsize=512)
def _compile_pattern(pattern: str) -> re.Pattern[str]:
    """`**` crosses folders, `*` and `?` do not; everything else is literal, in any letter case: a rule must
    not be evaded where the file system ignores case."""
    if pattern.endswith("/"):
        pattern += "**"
    pieces: list[str] = []
    for piece in re.findall(r"/\*\*(?:/|$)|\*+|\?|[^*?/]+|/", pattern):
        if piece == "/**/":
            pieces += ["/", FOLDERS]
        elif piece == "/**":
            pieces.append("(?:/.*)?")
        elif piece.startswith("*"):
            pieces += [STAR] if len(piece) == 1 else [FOLDERS, STAR]
        else:
            pieces.append("[^/]" if piece == "?" else re.escape(piece))
    return re.compile(wildcard(pieces, "[^/]"), re.DOTALL | re.IGNORECASE)


_EVERYTHING = frozenset({"", "*", "**", "**/*", "/**"})


def applies(rule: Rule, facts: Facts) -> bool:
    """Tell whether a rule that tightens (deny or ask) matches a call."""
    if not holds_in(rule, facts):
        return False
    if facts.shell is not None and rule.tool == "read":
        started = (facts.folder,) if facts.folder is not None else ()
        return any(_path_matches(rule, facts, path) for path in (*facts.shell.reads, *started))
    if rule.tool not in _names(facts):
        return False
    if facts.shell is not None and rule.folder and not _may_start_in(rule, facts):
        return False
    if facts.shell is not None and rule.command:
        return rule.command == facts.shell.command.strip()
    if facts.shell is not None and rule.argv:
        return any(matches_argv(rule, argv) for argv in _argvs(facts))
    if facts.argv and rule.argv:
        return matches_argv(rule, facts.argv)
    if rule.tool in ("edit", "read") or rule.path:
        paths = facts.reads if rule.tool == "read" else facts.writes or facts.reads
        return not rule.path or any(_path_matches(rule, facts, path) for path in paths)
    return matches_host(rule, facts.host)


def covers(rules: tuple[Rule, ...], facts: Facts) -> tuple[Rule, ...]:
    """Return the allow rules that together cover every part of a call, () when some part is left."""
    rules = tuple(rule for rule in rules if holds_in(rule, facts))
    if facts.shell is not None:
        return _covers_shell(rules, facts)
    if facts.argv:
        return _covers_run(rules, facts)
    named = tuple(rule for rule in rules if rule.tool in _names(facts, exact=_is_exact(facts)))
    if facts.host or facts.anything or not (facts.reads or facts.writes):
        fitting = (rule for rule in named if not rule.path and matches_host(rule, facts.host))
        chosen = next(fitting, None)
        return (chosen,) if chosen else ()
    chosen_rules: list[Rule] = []
    for path in facts.writes:
        chosen = _covering(named, facts, path)
        if chosen is None:
            return ()
        chosen_rules.append(chosen)
    readers = tuple(rule for rule in rules if rule.tool in ("read", facts.tool))
    for path in facts.reads:
        if facts.writes and path.inside and not path.secret:
            continue  # what is read on the way to an allowed write needs no rule of its own
        chosen = _covering(readers, facts, path)
        if chosen is None:
            return ()
        chosen_rules.append(chosen)
    return tuple(chosen_rules)


def holds_in(rule: Rule, facts: Facts) -> bool:
    """Tell whether a rule was made for the machine and the project of a call, or for all."""
    everywhere = rule.target == "*" or (not rule.target and rule.decision != "allow")
    if not everywhere and rule.target != facts.target:
        return False
    return not rule.project or rule.project in (facts.root, facts.main)


def _is_exact(facts: Facts) -> bool:
    """Tell whether a rule fits exactly: an edit rule is about file contents and allows no delete, no commit
    and no test run."""
    return facts.risk == "high" or facts.category in ("git", "shell", "tasks")


def _is_rule_for_folder(rule: Rule, facts: Facts, folder: str) -> bool:
    """Tell whether an allow rule holds for a command that starts in this folder. A folder outside the
    workspace must be named by the rule."""
    if not rule.folder:
        return facts.folder is None or (facts.folder.inside and not facts.folder.secret)
    if not folder:
        return False
    wanted = rule.folder if rule.folder.startswith("/") else f"{facts.root}/{rule.folder}"
    return wanted in (folder, facts.main_tree_path(folder))


def _may_start_in(rule: Rule, facts: Facts) -> bool:
    """Tell whether a command may start in a rule's folder. Used for rules that tighten, so an unknown folder
    counts."""
    commands = facts.shell.commands if facts.shell else ()
    return any(not command.folder or _is_rule_for_folder(rule, facts, command.folder) for command in commands)


def _covers_run(rules: tuple[Rule, ...], facts: Facts) -> tuple[Rule, ...]:
    """Find the rules for a tool that runs a known command line; a rule without `command` covers every one in
    its project."""
    folder = facts.folder.real if facts.folder is not None else facts.root
    for rule in rules:
        if rule.tool not in (facts.tool, "*") or not _is_rule_for_folder(rule, facts, folder):
            continue
        if matches_argv(rule, facts.argv) and not rule.path and not rule.host:
            return (rule,)
    return ()


def _covers_shell(rules: tuple[Rule, ...], facts: Facts) -> tuple[Rule, ...]:
    shell = facts.shell
    if shell is None or not shell.parsed:
        return ()
    rules = tuple(
        rule
        for rule in rules
        if rule.tool in _names(facts) and (facts.sandboxed or rule.sandbox in ("", "off"))
    )
    chosen: list[Rule] = []
    whole = next((rule for rule in rules if rule.command and _is_rule_for_line(rule, facts)), None)
    if whole is not None:
        return (whole,)
    for number, command in enumerate(shell.commands):
        if command.level == "core":
            continue
        # An answer was given to the words that were shown, and what a command does with its input depends
        # on that: sqlite3, ssh and patch run or write what they are fed.
        scripts = facts.scripts[number] if number < len(facts.scripts) else ()
        found = next(
            (
                rule
                for rule in rules
                if not rule.command
                and matches_argv(rule, command.argv)
                and (rule.origin not in ("saved", "session") or command.sources is None)
                and _is_rule_for_folder(rule, facts, command.folder)
                and _is_as_shown(rule, facts, scripts)
            ),
            None,
        )
        if found is None or not command.literal:
            return ()
        chosen.append(found)
    return tuple(chosen)


def _is_as_shown(rule: Rule, facts: Facts, scripts: Scripts) -> bool:
    """Tell whether the scripts of a command are those the rule was made with. A new module, or a file that an
    older version of buddy did not check, is not covered."""
    if not set(rule.files) <= _script_names(facts, scripts):
        return False
    if rule.origin not in ("saved", "session") or rule.sandbox == "only":
        return True
    return all({pair, (facts.main_tree_path(pair[0]), pair[1])} & set(rule.files) for pair in scripts)


def _script_names(facts: Facts, scripts: Scripts) -> set[tuple[str, str]]:
    """Return scripts by their names here and in the main tree of a worktree."""
    return {
        pair for path, digest in scripts for pair in ((path, digest), (facts.main_tree_path(path), digest))
    }


def _is_rule_for_line(rule: Rule, facts: Facts) -> bool:
    folder = facts.folder.real if facts.folder is not None else facts.root
    scripts = tuple(pair for found in facts.scripts for pair in found)
    return (
        facts.shell is not None
        and rule.command == facts.shell.command.strip()
        and _is_rule_for_folder(rule, facts, folder)
        and _is_as_shown(rule, facts, scripts)
    )


def _covering(rules: Iterable[Rule], facts: Facts, path: Located) -> Rule | None:
    """Return a rule that allows this path. What lies outside or holds secrets must be named by its rule."""
    delicate = bool(path.secret) or not path.inside
    whole = {f"{facts.root}/**", f"{facts.main}/**"}
    for rule in rules:
        if delicate and (rule.path in _EVERYTHING or (path.secret and rule.path in whole)):
            continue
        if any(matches_path(rule, root, facts.home, text) for root, text in _path_names(facts, path.real)):
            return rule
    return None


def _path_matches(rule: Rule, facts: Facts, path: Located) -> bool:
    """For rules that tighten: the path as given and where it leads are both looked at."""
    return any(
        matches_path(rule, root, facts.home, text)
        for given in (path.real, path.path)
        for root, text in _path_names(facts, given)
    )


def _path_names(facts: Facts, path: str) -> Iterable[tuple[str, str]]:
    """Yield each name of a path with the folder rules are relative to there: in a worktree a file also has
    the name of its place in the main tree, so that the project's rules apply there too."""
    yield facts.root, path
    named = in_main_tree(path, facts.root, facts.main)
    if named:
        yield facts.main, named


def _names(facts: Facts, *, exact: bool = False) -> frozenset[str]:
    """Return the tool names by which a rule may refer to this call. `exact`: only the tool's own name (an
    edit rule does not allow a delete)."""
    names = {facts.tool, "*"}
    if facts.tool.startswith("mcp__"):
        server, _, tool = facts.tool.removeprefix("mcp__").partition("__")
        names |= {f"mcp:{server}/{tool}", f"mcp:{server}/*", f"mcp:{server}"}
    if facts.shell is not None:
        names.add("shell")
    if facts.host:
        names.add("fetch")
    if not exact and facts.writes:
        names.add("edit")
    if not exact and facts.reads:
        names.add("read")
    return frozenset(names)


def _argvs(facts: Facts) -> Iterable[tuple[str, ...]]:
    """Yield every argv a command line starts as far as it can be known, under the name and the plain name of
    its program."""
    for command in facts.shell.commands if facts.shell else ():
        for argv in (command.argv, *command.inner):
            yield argv
            if argv and "/" in argv[0]:
                yield (posixpath.basename(argv[0]), *argv[1:])


MAX_COMMAND_CHARS = 1000
_ARGUMENTS_FROM_INPUT = words("xargs parallel eval")
"""Programs whose command line comes from elsewhere."""
_KERNEL = ("/proc", "/sys", "/dev")
_GLOB = frozenset("*?[]{}~")


def rules_to_save(facts: Facts) -> tuple[Rule, ...]:
    """Return the rules that would let this call run in every session to come; () when nothing sensible can be
    saved, or when a rule would hold a secret."""
    return _without_secrets(() if facts.programs else _on_target(_rules(facts), facts))


def rules_for_session(facts: Facts) -> tuple[Rule, ...]:
    """Return the rules that would let this call run for the rest of the session. An edit covers the files of
    the whole workspace. A script must stay as it is, unless the sandbox confines whatever it becomes."""
    rules = _on_target(_edits_of_workspace(facts) or _rules(facts), facts)
    return _without_secrets(tuple(_sandbox_only(rule) for rule in rules) if facts.sandboxed else rules)


def no_place_for_commands(facts: Facts) -> str:
    """Explain why a command is asked about for the folder it starts in, whatever rules say; "" otherwise."""
    if facts.folder is None:
        return ""
    if any(is_beneath(facts.folder.real, root) for root in _KERNEL):
        return f"it would run in {facts.folder.shown}, which shows other processes and devices"
    if facts.folder.secret:
        return f"it would run in {facts.folder.shown}: {facts.folder.secret}"
    return ""


def _on_target(rules: tuple[Rule, ...], facts: Facts) -> tuple[Rule, ...]:
    """Return the rules for the machine of a call alone: what was allowed there is not allowed elsewhere."""
    if not facts.target:
        return rules
    return tuple(msgspec.structs.replace(rule, target=facts.target) for rule in rules)


def _without_secrets(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    return () if any(redact(rule.shown) != rule.shown for rule in rules) else rules


def _sandbox_only(rule: Rule) -> Rule:
    """Return the rule with scripts that may change, for the sandbox alone."""
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
    """Return the folder of a file in the workspace; a file at its top, or outside, alone. Absolute: the rule
    is kept for all projects, and what was allowed in one is not allowed in another."""
    folder = posixpath.dirname(path)
    return f"{folder}/**" if path.startswith(root + "/") and folder != root else path


def _edits_of_workspace(facts: Facts) -> tuple[Rule, ...]:
    """Return the rule for edits anywhere in the workspace, () when the call is no plain edit of files
    there."""
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
    """Return the rule for a line that redirects, sets variables or gives a command input: word for word, as
    long as its words mean the same every time."""
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
