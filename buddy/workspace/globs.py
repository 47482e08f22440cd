"""Patterns for file names: `*`, `?`, `[a-z]`, `**` between slashes, `{a,b}`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from buddy.agent.pattern import pattern
from buddy.agent.tool import ToolError
from buddy.workspace.ignore_pattern import NEVER, wild

MAX_ALTERNATIVES = 200
_INNERMOST = pattern(r"\{([^{}]*,[^{}]*)\}")


def glob_matcher(pattern: str) -> Callable[[str], bool]:
    """Return a predicate for relative paths: a pattern without a slash matches the name in any folder, one
    with a slash ("./*.py" too) the whole path. Raises `ToolError` for a pattern that cannot match
    anything."""
    regexes: list[re.Pattern[str]] = []
    for one in braces(pattern):
        text = one.removeprefix("./").removeprefix("/")
        text = f"{text}**" if text.endswith("/") else text
        is_path = "/" in text or one.startswith(("./", "/"))
        spelled = os.fsencode(text if is_path else f"**/{text}")
        found = wild(spelled, slashes=True)
        if found is NEVER() or not text:
            raise ToolError(
                f"{pattern!r} is no pattern for names; expected one like *.py, src/**/*.ts, a[0-9]"
            )
        regexes.append(re.compile(found.pattern.decode("utf-8", "surrogateescape"), re.DOTALL))
    joined = re.compile("|".join(f"(?:{regex.pattern})" for regex in regexes), re.DOTALL)
    return lambda path: joined.fullmatch(path) is not None


def below(pattern: str, folder: str) -> str:
    """A pattern as it is matched below a folder: what is spelled from the top of the file system is taken
    back to it. Raises `ToolError` for one that leads out."""
    if pattern.startswith(f"{folder}/"):
        return pattern[len(folder) + 1 :]
    fixed = re.split(r"[^/]*[*?\[{]", pattern, maxsplit=1)[0].rstrip("/")
    elsewhere = pattern.startswith("/") and os.path.lexists(fixed) and not os.path.lexists(folder + fixed)
    if elsewhere or pattern.startswith("~/") or ".." in pattern.split("/"):
        raise ToolError(
            f"{pattern!r} leads out of the folder it is matched below; expected one like src/**/*.ts, and "
            "the folder as path"
        )
    return pattern


def braces(pattern: str) -> list[str]:
    """The pattern with every `{a,b}` written out. Raises `ToolError` when that is too much."""
    done: list[str] = []
    pending = [pattern]
    while pending:
        if len(pending) + len(done) > MAX_ALTERNATIVES:
            raise ToolError(f"{pattern!r} has more than {MAX_ALTERNATIVES} alternatives; expected fewer")
        one = pending.pop(0)
        found = _INNERMOST().search(one)
        if found is None:
            done.append(one)
        else:
            pending += [one[: found.start()] + choice + one[found.end() :] for choice in found[1].split(",")]
    return done
