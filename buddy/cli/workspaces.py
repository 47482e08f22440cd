"""The workspaces tasks work in: the project's own tree, and worktrees of it. Each has its own boundary,
prompt, judge, checkpoints and services; what is shared between them, the services say."""

from __future__ import annotations

import os

from msgspec.structs import replace

from buddy.cli.judge import Judge
from buddy.cli.place import LaunchContext
from buddy.cli.run import Run, SharedServices
from buddy.cli.tool_services import services_of
from buddy.extend import instructions as instruction_files
from buddy.extend.prompt import system_prompt
from buddy.extend.templates import template_text
from buddy.safety.paths import Boundary, is_beneath
from buddy.tasks.parts import Workspace, WorktreeParts
from buddy.workspace.checkpoints import Checkpoints
from buddy.workspace.worktrees import Worktree, Worktrees


def main_workspace(run: Run, held: SharedServices) -> Workspace:
    """The tree buddy was started in."""
    return _workspace(run, held, "checkpoints")


def worktree_parts(run: Run, held: SharedServices) -> WorktreeParts:
    """Worktrees of that tree."""
    trees = Worktrees(held.children, run.place.boundary.root, held.git_lock)
    return WorktreeParts(
        trees,
        _environment(run.place),
        lambda tree: _of_worktree(run, held, tree),
        run.session.writer.workspace_seal.derive("worktrees"),
    )


def _of_worktree(run: Run, held: SharedServices, tree: Worktree) -> Workspace:
    """The same run as if it had been started at the same place of a worktree. Settings, trust and own tools
    are the main tree's: a branch does not bring others."""
    place = replace(run.place, boundary=worktree_boundary(run, tree), environment=_environment(run.place))
    found = instruction_files.find(
        root=place.boundary.root,
        cwd=place.boundary.cwd,
        config_dir=place.where.config,
        home=place.where.home,
        names=run.settings.agent.instruction_files,
    )
    inside = replace(run, place=place, found=found)
    return replace(_workspace(inside, held, f"checkpoints-{tree.name}"), worktree=tree)


def worktree_boundary(run: Run, tree: Worktree) -> Boundary:
    """Return the boundary of a task in a worktree: the worktree, the folders added with --add-dir, and the
    long outputs of its own commands."""
    main = run.place.boundary
    below = os.path.relpath(main.cwd, main.root)
    cwd = os.path.normpath(os.path.join(tree.path, below))
    return Boundary(
        root=tree.path,
        cwd=cwd if os.path.isdir(cwd) else tree.path,
        home=main.home,
        extra=(*main.extra, os.path.realpath(os.path.join(run.session.directory, "output"))),
        own=main.own,
        main=main.root,
        trusts_repository=main.trusts_repository,
    )


def _environment(place: LaunchContext) -> dict[str, str]:
    """Without programs of the main tree on the PATH: what a task can write there must not become git here."""
    folders = place.environment.get("PATH", "").split(":")
    outside = [one for one in folders if not is_beneath(os.path.realpath(one), place.boundary.root)]
    return {**place.environment, "PATH": ":".join(outside)}


def _workspace(run: Run, held: SharedServices, checkpoints: str) -> Workspace:
    place = run.place
    return Workspace(
        boundary=place.boundary,
        system=_system(run),
        facts=Judge(
            place.boundary,
            search_path=place.environment.get("PATH", ""),
            sandbox=lambda: held.sandbox.status,
        ).facts,
        services=services_of(run, held),
        checkpoints=_checkpoints(run, held, checkpoints),
    )


def _system(run: Run) -> str:
    place = run.place
    return system_prompt(
        template_text("system_prompt.md"),
        cwd=place.boundary.cwd,
        root=place.boundary.root,
        is_repository=place.is_repository,
        platform=f"{os.uname().sysname} {os.uname().machine}",
        person=run.settings.agent.system_prompt,
        instructions=run.found.joined(trusted=place.trusted),
    )


def _checkpoints(run: Run, held: SharedServices, name: str) -> Checkpoints | None:
    if not run.settings.session.checkpoints:
        return None
    folder = os.path.join(run.session.directory, name)
    return Checkpoints(
        folder, run.place.boundary.root, held.undo, run.place.environment, seal=run.session.seal
    )
