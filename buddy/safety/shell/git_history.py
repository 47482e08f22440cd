"""Paths that a repository's history holds, listed by git itself within a time limit.

A search of the history takes longer than the list of its paths, so the check never dominates the command. The
repository's configuration must have been found to start no programs before.
"""

from __future__ import annotations

import os
import shutil
import subprocess

from buddy.safety.shell.context import TRUSTED_PATH
from buddy.safety.shell.result import READ_ONLY_ENVIRONMENT

TIME_LIMIT_S = 5.0
_ADDED = (
    *("log", "--all", "--reflog", "--format=", "--name-only", "--diff-filter=A", "--no-renames", "-z"),
    *("--no-relative", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all", "--end-of-options"),
)
_LISTED = ("ls-tree", "-r", "-z", "--name-only", "--full-tree", "--end-of-options")


def paths_in_history(folder: str, revision: str = "", *, limit_s: float = TIME_LIMIT_S) -> set[str] | None:
    """Return every path some commit of a repository has added, those deleted since too; of a `revision` those
    in its tree. Paths begin at the top of the working tree. None when git does not list them in time. Runs
    git."""
    program = shutil.which("git", path=TRUSTED_PATH)
    if program is None:
        return None
    words = (*_LISTED, revision) if revision else _ADDED
    variables = {"PATH": TRUSTED_PATH, "HOME": os.path.expanduser("~"), **READ_ONLY_ENVIRONMENT}
    try:
        listed = subprocess.run(
            [program, "--no-pager", *words],
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=limit_s,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    if listed.returncode != 0:
        return set() if revision and listed.returncode == 128 else None
    return {os.fsdecode(path.lstrip(b"\n")) for path in listed.stdout.split(b"\0") if path.strip(b"\n")}
