"""Matching of rules against a call. A deny or ask applies when any part of the call matches; an allow only
counts when every part of it is covered."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from buddy.safety.paths import Located, in_main_tree
from buddy.safety.policy_facts import Facts
from buddy.safety.rules import Rule, matches_argv, matches_host, matches_path
from buddy.safety.scripts import Scripts

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
        return any(matches_argv(rule, argv) for argv in _seen(facts))
    if facts.argv and rule.argv:
        return matches_argv(rule, facts.argv)
    if rule.tool in ("edit", "read") or rule.path:
        paths = facts.reads if rule.tool == "read" else facts.writes or facts.reads
        return not rule.path or any(_path_matches(rule, facts, path) for path in paths)
    return matches_host(rule, facts.host)


def covers(rules: tuple[Rule, ...], facts: Facts) -> tuple[Rule, ...]:
    """The allow rules that together cover every part of a call, () when some part is left."""
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
    """Tell whether a rule was made for the project of a call, or for all."""
    return not rule.project or rule.project in (facts.root, facts.main)


def _is_exact(facts: Facts) -> bool:
    """An edit rule is about the content of files: it allows no delete, no commit and no test run."""
    return facts.risk == "high" or facts.category in ("git", "shell", "tasks")


def _is_rule_for_folder(rule: Rule, facts: Facts, folder: str) -> bool:
    """Tell whether an allow rule holds for a command that starts in this folder. A folder outside the
    workspace must be named by the rule."""
    if not rule.folder:
        return facts.folder is None or (facts.folder.inside and not facts.folder.secret)
    if not folder:
        return False
    wanted = rule.folder if rule.folder.startswith("/") else f"{facts.root}/{rule.folder}"
    return wanted in (folder, facts.named(folder))


def _may_start_in(rule: Rule, facts: Facts) -> bool:
    """For rules that tighten: a folder that is not known may be the rule's."""
    commands = facts.shell.commands if facts.shell else ()
    return any(not one.folder or _is_rule_for_folder(rule, facts, one.folder) for one in commands)


def _covers_run(rules: tuple[Rule, ...], facts: Facts) -> tuple[Rule, ...]:
    """For tools that run a known command line: a rule without one holds for every one in its project."""
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
    """Tell whether the scripts of a command are those a rule was made with. An answer covers no further ones:
    a module that came since, or what an older version did not look at."""
    if not set(rule.files) <= _named(facts, scripts):
        return False
    if rule.origin not in ("saved", "session") or rule.sandbox == "only":
        return True
    return all({pair, (facts.named(pair[0]), pair[1])} & set(rule.files) for pair in scripts)


def _named(facts: Facts, scripts: Scripts) -> set[tuple[str, str]]:
    """Scripts under the names they have here and in the main tree of a worktree."""
    return {pair for path, digest in scripts for pair in ((path, digest), (facts.named(path), digest))}


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
    """A rule that allows this path. What lies outside or holds secrets must be named by its rule."""
    delicate = bool(path.secret) or not path.inside
    whole = {f"{facts.root}/**", f"{facts.main}/**"}
    for rule in rules:
        if delicate and (rule.path in _EVERYTHING or (path.secret and rule.path in whole)):
            continue
        if any(matches_path(rule, root, facts.home, text) for root, text in _called(facts, path.real)):
            return rule
    return None


def _path_matches(rule: Rule, facts: Facts, path: Located) -> bool:
    """For rules that tighten: the path as given and where it leads are both looked at."""
    return any(
        matches_path(rule, root, facts.home, text)
        for given in (path.real, path.path)
        for root, text in _called(facts, given)
    )


def _called(facts: Facts, path: str) -> Iterable[tuple[str, str]]:
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


def _seen(facts: Facts) -> Iterable[tuple[str, ...]]:
    """Every argv a command line starts as far as it can be known, under the name and the plain name of its
    program."""
    for command in facts.shell.commands if facts.shell else ():
        for argv in (command.argv, *command.inner):
            yield argv
            if argv and "/" in argv[0]:
                yield (posixpath.basename(argv[0]), *argv[1:])
