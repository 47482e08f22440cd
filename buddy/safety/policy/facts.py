"""Facts about one call: all a decision depends on besides the mode, the rules and the person's answers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from buddy.agent.tool import NO_SURVEY, Category, Risk, Survey, Tool
from buddy.safety.git_programs import NAMED_BY_GIT, programs_of_git
from buddy.safety.git_repository import is_git_folder
from buddy.safety.paths import Boundary, Located, in_main_tree, is_beneath, locate
from buddy.safety.shell.result import Analysis
from buddy.safety.shell.scripts import Scripts


class HookOpinion(msgspec.Struct, frozen=True):
    """Opinion of a hook. It can make a decision stricter, never looser."""

    decision: Literal["ask", "deny"]
    reason: str


class Facts(msgspec.Struct, frozen=True):
    """Known facts about one call. `tool` is its registered name (`mcp__server__tool` for MCP); `root` and
    `home` are the folders rule patterns are relative to; `main` is the main tree where `root` is a worktree
    of it ("" otherwise): its rules apply too; `anything`: it may change anything; `shell` is the analysis of
    a shell command; `host` is the host a fetch connects to, "" for none; `sandboxed`: it would run in a
    working sandbox; `leaves_sandbox`: it asks not to. `folder` is where a call that runs something starts,
    `argv` what it runs where that is no shell command, `scripts` the scripts each command of a line names;
    `programs` names the programs the repository makes git run (hooks, filters), "" for none.
    `read_only_sandbox`: a command that was judged to only read would run where it cannot write, read secrets
    or use the network. `effect` says why such a call is asked about, in the words of its tool.
    `own_programs`: the programs of a command that PATH finds in the workspace, where sandboxed commands may
    have put them. `target` is the machine it acts on, "" for this one; paths are those over there, and no
    sandbox confines it."""

    tool: str
    risk: Risk
    root: str
    home: str
    reads: tuple[Located, ...] = ()
    writes: tuple[Located, ...] = ()
    anything: bool = False
    shell: Analysis | None = None
    host: str = ""
    sandboxed: bool = False
    leaves_sandbox: bool = False
    hook: HookOpinion | None = None
    main: str = ""
    category: Category = "files"
    folder: Located | None = None
    argv: tuple[str, ...] = ()
    scripts: tuple[Scripts, ...] = ()
    programs: str = ""
    read_only_sandbox: bool = False
    effect: str = ""
    runs_tests: bool = False
    own_programs: tuple[str, ...] = ()
    target: str = ""

    def main_tree_path(self, path: str) -> str:
        """Return a path as the main tree of the project calls it: rules given there hold in its worktrees."""
        return in_main_tree(path, self.root, self.main) or path


def facts_of(
    tool: Tool,
    arguments: Any,
    boundary: Boundary,
    *,
    shell: Analysis | None = None,
    host: str = "",
    sandboxed: bool = False,
    read_only_sandbox: bool = False,
    leaves_sandbox: bool = False,
    hook: HookOpinion | None = None,
    survey: Survey = NO_SURVEY,
    scripts: tuple[Scripts, ...] = (),
    own_programs: tuple[str, ...] = (),
) -> Facts:
    """Return the facts of a call of a declared tool. `survey`: what was found out about it on the disk.
    Raises `ToolError` when a path of it cannot be one."""
    access = tool.access(arguments)
    cwd: object = getattr(arguments, "cwd", "")
    runs = shell is not None or hasattr(arguments, "cwd")
    folder = locate(boundary, cwd if isinstance(cwd, str) and cwd else boundary.cwd) if runs else None
    # Staging a file changes the index; what git does change in the tree, the survey found out.
    written = locate if tool.category == "git" else _locate_written
    return Facts(
        tool=tool.name,
        risk=tool.risk_in_sandbox or tool.risk if sandboxed else tool.risk,
        root=boundary.root,
        home=boundary.home,
        reads=tuple(locate(boundary, path) for path in access.reads),
        writes=(
            *(written(boundary, path) for path in access.writes),
            *(_locate_written(boundary, path) for path in survey.writes),
        ),
        anything=access.anything,
        shell=shell,
        host=host,
        sandboxed=sandboxed,
        leaves_sandbox=leaves_sandbox,
        hook=hook or (HookOpinion("ask", survey.unknown) if survey.unknown else None),
        main=boundary.main,
        category=tool.category,
        folder=folder,
        argv=survey.argv,
        scripts=scripts,
        programs=survey.programs,
        read_only_sandbox=read_only_sandbox,
        effect=tool.effect,
        runs_tests=tool.runs_tests,
        own_programs=own_programs,
    )


def _locate_written(boundary: Boundary, path: str) -> Located:
    """Locate a path that is written: what the repository makes git run is protected like git's own data."""
    located = locate(boundary, path)
    if located.protected or not located.inside:
        return located
    real = located.real
    roots = (boundary.root, *boundary.extra)
    trees = (*roots, *_repositories_around(real, roots))
    programs = programs_of_git(trees, boundary.home, within=roots, settings=boundary.git_settings)
    if not any(is_beneath(real, program) or is_beneath(program, real) for program in programs):
        return located
    return msgspec.structs.replace(located, protected=NAMED_BY_GIT)


def _repositories_around(path: str, roots: Sequence[str]) -> Iterator[str]:
    """Yield the working trees, below the workspace's own, that a path lies in."""
    folder = os.path.dirname(path)
    while folder not in roots and any(is_beneath(folder, root) for root in roots):
        if os.path.lexists(os.path.join(folder, ".git")) or is_git_folder(folder):
            yield folder
        folder = os.path.dirname(folder)
