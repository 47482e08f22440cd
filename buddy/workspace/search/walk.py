"""All files below a folder: globs and ignore rules applied, links never followed, bounded, stoppable."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.agent.tool import ToolError
from buddy.workspace.search.ignore import NEVER, NO_RULES, IgnoreTree, wild

MAX_FILES = 300_000


class Walked(msgspec.Struct):
    """Result of a walk, as paths relative to its folder. `ignored` are the files and (with a final slash)
    folders that rules left out, not entered; `links` and `special` are not among the files; `whole` is False
    when the walk was stopped or reached its limit. Sizes and times are not read: that costs four times as
    much as the walk."""

    files: list[str] = []
    ignored: list[str] = []
    links: list[str] = []
    special: list[str] = []
    unreadable: list[str] = []
    whole: bool = True


def never() -> bool:
    """Nothing stops the walk."""
    return False


def walk(
    top: str, rules: IgnoreTree | None, stopped: Callable[[], bool] = never, *, max_files: int = MAX_FILES
) -> Walked:
    """Walk below a real path; `rules` None ignores nothing but git's and buddy's own folders. `stopped` is
    asked once per folder and every 256 files."""
    found = Walked()
    pending = [""]
    while pending:
        if stopped() or len(found.files) >= max_files:
            found.whole = False
            break
        prefix = pending.pop()
        _folder(top, prefix, rules, found, pending)
    found.files.sort()
    return found


def _folder(top: str, prefix: str, rules: IgnoreTree | None, found: Walked, pending: list[str]) -> None:
    path = f"{top}/{prefix}" if top != "/" else f"/{prefix}"
    try:
        with os.scandir(path) as listing:
            entries = list(listing)
    except OSError:
        found.unreadable.append(prefix or ".")
        return
    names = {entry.name for entry in entries if entry.name.startswith(".")}
    own = NO_RULES if rules is None else rules.rules(path.rstrip("/") or "/", names)
    ignored = own.is_ignored
    for entry in entries:
        name = entry.name
        try:
            is_folder = entry.is_dir(follow_symlinks=False)
            if ignored(name, is_folder):
                found.ignored.append(f"{prefix}{name}/" if is_folder else prefix + name)
            elif is_folder:
                pending.append(f"{prefix}{name}/")
            elif entry.is_file(follow_symlinks=False):
                found.files.append(prefix + name)
            elif entry.is_symlink():
                found.links.append(prefix + name)
            else:
                found.special.append(prefix + name)
        except OSError:
            found.unreadable.append(prefix + name)


MAX_ALTERNATIVES = 200
_INNERMOST = pattern(r"\{([^{}]*,[^{}]*)\}")


def glob_matcher(pattern: str) -> Callable[[str], bool]:
    """Return a predicate for relative paths: a pattern without a slash matches the name in any folder, one
    with a slash ("./*.py" too) the whole path. Raises `ToolError` for a pattern that cannot match
    anything."""
    try:
        os.fsencode(pattern)
    except UnicodeEncodeError as error:
        raise ToolError("the pattern holds half a character (a lone surrogate), which is not text") from error
    regexes: list[re.Pattern[str]] = []
    for brace in braces(pattern):
        text = brace.removeprefix("./").removeprefix("/")
        text = f"{text}**" if text.endswith("/") else text
        is_path = "/" in text or brace.startswith(("./", "/"))
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
    """Return a pattern as it is matched below a folder: what is spelled from the top of the file system is
    taken back to it. Raises `ToolError` for one that leads out."""
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
    """Return the pattern with every `{a,b}` written out. Raises `ToolError` when that is too much."""
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
