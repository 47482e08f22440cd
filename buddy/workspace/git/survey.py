"""Survey of a change to a repository, made with git plumbing before the call is judged: the files a checkout
or a stash would write, and the programs the repository makes git run. Nothing of the repository runs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence

from buddy.agent.cancel import on_failure
from buddy.agent.formatting import format_count
from buddy.agent.tool import Survey, ToolError
from buddy.safety.paths import Boundary, locate
from buddy.workspace.git.config import (
    active_hooks,
    executing_keys,
    inert_options,
    list_command,
    parse_settings,
)
from buddy.workspace.git.run import Repository, find_repository
from buddy.workspace.git.waiting import WaitingError, communicate
from buddy.workspace.processes.launch import trusted_program

LIMIT_S = 10.0
MOST_FILES = 5_000
UNKNOWN = "it cannot be told which files this would change"


def repository_programs(top: str) -> str:
    """Return the hooks and configured programs a repository makes git run, in words; "" for none. Waits for
    git."""
    keys, hooks = executing_keys(top), active_hooks(top)
    parts = [f"programs of its configuration ({', '.join(keys)})"] if keys else []
    parts += [f"hooks ({', '.join(hooks)})"] if hooks else []
    return f"the repository brings {' and '.join(parts)}" if parts else ""


def survey_programs(boundary: Boundary) -> Survey:
    """Survey a command that writes only git's own data."""
    repository = _repository(boundary)
    return Survey() if repository is None else Survey(programs=repository_programs(repository.top))


def survey_switch(boundary: Boundary, ref: str) -> Survey:
    """Survey a switch to a commit or branch: the files that differ there."""
    return _survey(boundary, lambda look: look.paths_of_switch(ref))


def survey_restore(boundary: Boundary, ref: str, paths: Sequence[str]) -> Survey:
    """Survey files restored from a commit or from the index."""
    named = tuple(locate(boundary, path).path for path in paths if path)
    return _survey(boundary, lambda look: look.paths_of_restore(ref, named))


def survey_stash(boundary: Boundary, entry: str) -> Survey:
    """Survey a stash entry that is applied; "" for changes that are put aside."""
    return _survey(
        boundary, lambda look: look.paths_of_stash(entry) if entry else look.paths_unlike("HEAD", ())
    )


def _survey(boundary: Boundary, find: Callable[[_Look], list[str]]) -> Survey:
    repository = _repository(boundary)
    if repository is None:
        return Survey()
    programs = repository_programs(repository.top)
    try:
        names = find(_Look(repository))
    except (OSError, subprocess.TimeoutExpired, WaitingError, _Failed, ToolError):
        return Survey(programs=programs, unknown=UNKNOWN)
    if len(names) > MOST_FILES:
        return Survey(programs=programs, unknown=f"it would change {format_count(len(names), 'file')}")
    return Survey(writes=tuple(f"{repository.top}/{name}" for name in names), programs=programs)


def _repository(boundary: Boundary) -> Repository | None:
    try:
        return find_repository(boundary.cwd, boundary.root, boundary.main)
    except ToolError:
        return None  # the tool says so


class _Failed(Exception):
    """git did not answer."""


class _Look:
    """Plumbing commands in one repository, with everything that could run switched off."""

    def __init__(self, repository: Repository) -> None:
        git = trusted_program("git")
        if git is None:
            raise _Failed
        self._git = git
        self._repository = repository
        self._options: tuple[str, ...] = ()
        listed = self._run(list_command(git)[1:])
        self._options = inert_options(parse_settings(listed))

    def paths_of_switch(self, ref: str) -> list[str]:
        """Return paths that differ between HEAD and where `git checkout REF` leads."""
        here = self._commit("HEAD")
        found: list[str] = []
        for commit in self._targets(ref):
            if here:
                found += self._names("diff-tree", "-r", "--name-only", "--no-renames", "-z", here, commit)
            else:
                found += self._names("ls-tree", "-r", "--name-only", "--full-tree", "-z", commit)
        return found

    def paths_of_restore(self, ref: str, paths: Sequence[str]) -> list[str]:
        """Return paths that differ from a commit, or from the index."""
        if ref:
            return [
                name for source in self._meanings(ref, "tree") for name in self.paths_unlike(source, paths)
            ]
        return self._names("diff-files", "--name-only", "-z", "--", *paths)

    def paths_unlike(self, ref: str, paths: Sequence[str]) -> list[str]:
        """Return paths of the working tree that differ from a commit."""
        return self._names("diff-index", "--name-only", "--no-renames", "-z", ref, "--", *paths)

    def paths_of_stash(self, entry: str) -> list[str]:
        """Return paths a stash entry changes, and the untracked files it holds."""
        found = self._names("diff-tree", "-r", "--name-only", "--no-renames", "-z", f"{entry}^1", entry)
        untracked = self._commit(f"{entry}^3")
        if untracked:
            found += self._names("ls-tree", "-r", "--name-only", "--full-tree", "-z", untracked)
        return found

    def _targets(self, ref: str) -> list[str]:
        """Return the commits a name may mean: its own, or those of remote branches git would make a branch
        of."""
        found = self._meanings(ref, "commit", required=False)
        if found:
            return found
        listed = self._run(("for-each-ref", "--format=%(objectname) %(refname:lstrip=3)", "refs/remotes"))
        pairs = [line.split(" ", 1) for line in listed.splitlines()]
        found = [pair[0] for pair in pairs if pair[1:] == [ref]]
        if not found:
            raise _Failed
        return found

    def _meanings(self, ref: str, kind: str, *, required: bool = True) -> list[str]:
        """Return the objects a name may mean: checkout prefers a branch to a tag of the same name, other
        commands prefer the tag."""
        found = filter(None, (self._peel(f"refs/heads/{ref}", kind), self._peel(ref, kind)))
        names = list(dict.fromkeys(found))
        if required and not names:
            raise _Failed
        return names

    def _commit(self, ref: str) -> str:
        return self._peel(ref, "commit")

    def _peel(self, ref: str, kind: str) -> str:
        """Resolve a ref to an object of a kind, in two steps: behind `name@{1}` git reads what is added to a
        name as part of a date."""
        try:
            found = self._run(("rev-parse", "--verify", "--quiet", ref)).strip()
            return self._run(("rev-parse", "--verify", "--quiet", f"{found}^{{{kind}}}")).strip()
        except _Failed:
            return ""

    def _names(self, *arguments: str) -> list[str]:
        return [name for name in self._run(arguments).split("\0") if name]

    def _run(self, arguments: Sequence[str]) -> str:
        top = self._repository.top
        with (
            subprocess.Popen(
                (self._git, "-c", "safe.directory=*", f"--work-tree={top}", *self._options, *arguments),
                cwd=self._repository.cwd,
                env={
                    "PATH": os.path.dirname(self._git),
                    "HOME": "/dev/null/nowhere",
                    "LC_ALL": "C",
                    "GIT_OPTIONAL_LOCKS": "0",
                    "GIT_NO_LAZY_FETCH": "1",
                    "GIT_ALLOW_PROTOCOL": "none",
                    "GIT_LITERAL_PATHSPECS": "1",
                },
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            ) as process,
            on_failure(process.kill),
        ):
            output, _ = communicate(process, top, LIMIT_S)
        if process.returncode != 0:
            raise _Failed
        return output.decode("utf-8", "replace")
