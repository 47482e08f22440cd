"""All files below a folder, quickly: ignore rules applied, links never followed, bounded, stoppable."""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec

from buddy.workspace.ignore import NO_RULES, IgnoreTree

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
    ignored = own.ignored
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
