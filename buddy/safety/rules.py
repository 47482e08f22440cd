"""A rule: which calls it matches, and what it says about them. Where rules come from is not known here."""

from __future__ import annotations

import functools
import re
import shlex
from typing import Literal

import msgspec

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
    must be as they were."""

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

    @property
    def shown(self) -> str:
        """The rule in one line, as people read it."""
        where = self.folder or self.project
        return f"{self.decision} {self.tool}: {self.what}{f', in {where}' if where else ''}"

    @property
    def what(self) -> str:
        """The calls it matches, without their place."""
        tokens = [_token(token) for token in self.argv] + ["*"] * self.open_end
        return self.command or " ".join(tokens) or self.path or self.host or "*"


def _token(alternatives: tuple[str, ...]) -> str:
    """A token as it would be typed; alternatives with a bar between them."""
    return shlex.quote(alternatives[0]) if len(alternatives) == 1 else "|".join(alternatives)


class RuleSet(msgspec.Struct, frozen=True):
    """All rules in force. `errors` are shown to the person; `broken`: a file could not be read, so that a
    deny may be missing and everything is asked about; `unused`: saved by an older version without the project
    they were given in, so they allow nothing."""

    rules: tuple[Rule, ...] = ()
    errors: tuple[str, ...] = ()
    broken: bool = False
    unused: tuple[Rule, ...] = ()

    def joined(self, other: RuleSet) -> RuleSet:
        """Both together."""
        return RuleSet(
            self.rules + other.rules,
            self.errors + other.errors,
            self.broken or other.broken,
            self.unused + other.unused,
        )

    def without(self, rule: Rule) -> RuleSet:
        """The same but for one rule."""
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
    return _compiled(pattern).fullmatch(path) is not None


@functools.lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str]:
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
