"""The tools for new projects: `list_templates`, `list_components`, `create_project`, `add_component`.

Their files go the way of every edit: shown with the approval, judged path by path, taken back by one undo.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from msgspec import Meta

from buddy.agent.display import Diff
from buddy.agent.formatting import format_count
from buddy.agent.tool import Access, Survey, Tool, ToolContext, ToolError, ToolResult, no_access, tool
from buddy.extend.scaffolds.templates import RECORD, NewProject, Scaffolds, Template, read_record
from buddy.safety.paths import Boundary, Located, locate
from buddy.safety.sanitise import visible
from buddy.tools.files.change import ChangePlan, FileChange, Loader, change_files, preview
from buddy.workspace.files.approved_versions import Approved

EXECUTABLE = 0o755
_Render = Callable[[Boundary, Any], NewProject]


class _NewFilesPlanner:
    """Plans the files of a project. None may be there already, but the record of one that gets a
    component."""

    def __init__(self, project: NewProject, directory: str) -> None:
        self._project, self._directory = project, directory

    @property
    def paths(self) -> list[str]:
        """Return the paths, as a call would name them."""
        return [os.path.join(self._directory, file.path) for file in self._project.files]

    def __call__(self, ctx: ToolContext, targets: Sequence[Located], loader: Loader) -> ChangePlan:
        changes: list[FileChange] = []
        for file, target in zip(self._project.files, targets, strict=True):
            before = loader(target)
            if before is not None and not (file.path == RECORD and self._project.extends):
                raise ToolError(f"{target.shown} exists; nothing is overwritten, and nothing was created")
            mode = EXECUTABLE if file.is_executable else None
            changes.append(FileChange(target, before, file.data, whole=True, mode=mode))
        return ChangePlan(tuple(changes), describe_project(self._project, self._directory))


def describe_project(project: NewProject, directory: str) -> str:
    """Return the created files, and the commands that come next."""
    lines = [f"{project.title}: created {format_count(len(project.files), 'file')} in {directory}"]
    lines += [f"  {visible(file.path)}" for file in project.files]
    if project.packages:
        lines.append(f"Add to the project's dependencies: {', '.join(project.packages)}")
    if project.commands:
        lines += [f"Next, in {directory}:", *(f"  {visible(command)}" for command in project.commands)]
    return "\n".join(lines)


async def create_files(ctx: ToolContext, name: str, project: NewProject, directory: str) -> ToolResult:
    """Create the files of a project as one change, which one undo takes back. Raises `ToolError`, also where
    the templates or the record now give a file that the call was not judged with."""
    planner = _NewFilesPlanner(project, directory)
    ctx.service(Approved).demand_judged(ctx.call_id, planner.paths)
    text, diff = await change_files(ctx, name, planner.paths, planner)
    return ToolResult(text, diff)


async def create_for_person(ctx: ToolContext, project: NewProject, directory: str) -> ToolResult:
    """Create the files of a project that the person asked for. Raises `ToolError`."""
    planner = _NewFilesPlanner(project, directory)
    await asyncio.to_thread(preview, ctx, planner.paths, planner)
    return await create_files(ctx, "new-project", project, directory)


def describe_template(template: Template, components: Sequence[str]) -> str:
    """Return a template in three lines: what it is, its variables, its components."""
    variables = ", ".join(f"{name} ({one.about})" for name, one in template.variables.items())
    chosen = f"; by default {', '.join(template.chosen)}" if template.chosen else ""
    lines = (
        f"{template.name}: {template.title}. {template.description}",
        f"  variables, each with a default: {variables or 'none'}",
        f"  components: {', '.join(components) or 'none'}{chosen}",
    )
    return "\n".join(map(visible, lines))


def describe_all(scaffolds: Scaffolds) -> list[str]:
    """Return every template in three lines, then what cannot be used."""
    templates = scaffolds.templates().values()
    return [
        *(describe_template(one, list(scaffolds.fitting(one))) for one in templates),
        *scaffolds.problems(),
    ]


def scaffold_tools(scaffolds: Scaffolds) -> tuple[Tool, ...]:
    """Return the tools over these templates."""

    def render_project(_boundary: Boundary, arguments: Any) -> NewProject:
        directory = os.path.basename(os.path.abspath(arguments.directory))
        if arguments.directory.strip() in ("", "."):
            directory = os.path.basename(_boundary.cwd)
        return scaffolds.new_project(arguments.template, directory, arguments.variables, arguments.components)

    def render_component(boundary: Boundary, arguments: Any) -> NewProject:
        record = read_record(locate(boundary, arguments.directory).real)
        return scaffolds.new_component(arguments.component, record)

    def survey(render: _Render) -> Callable[[Boundary, Any], Survey]:
        def look(boundary: Boundary, arguments: Any) -> Survey:
            project = render(boundary, arguments)
            return Survey(writes=tuple(_NewFilesPlanner(project, arguments.directory).paths))

        return look

    def show(render: _Render) -> Callable[[ToolContext, Any], Diff]:
        def diff(ctx: ToolContext, arguments: Any) -> Diff:
            planner = _NewFilesPlanner(render(ctx.service(Boundary), arguments), arguments.directory)
            return preview(ctx, planner.paths, planner)

        return diff

    def writes_folder(arguments: Any) -> Access:
        return Access(writes=(arguments.directory,))

    @tool(risk="low", access=no_access)
    def list_templates() -> str:
        """List the templates of projects that create_project can use, with their variables and components."""
        return "\n".join(describe_all(scaffolds))

    @tool(risk="low", access=no_access)
    def list_components(
        template: Annotated[str, Meta(description="Only those that fit this template")] = "",
    ) -> str:
        """List the components that add_component can add to a project (tests, CI, a Dockerfile, …)."""
        components = scaffolds.fitting(scaffolds.template(template)) if template else scaffolds.components()
        return "\n".join(
            visible(f"{one.name}: {one.title}. {one.description} Fits: {', '.join(one.fits)}")
            for one in components.values()
        )

    @tool(
        risk="medium",
        category="files",
        access=writes_folder,
        survey=survey(render_project),
        preview=show(render_project),
        keeps_undo=True,
        change_name="edit",
        subject=lambda arguments: f"{arguments.template} in {arguments.directory}",
    )
    async def create_project(
        ctx: ToolContext,
        template: Annotated[str, Meta(description="Name from list_templates")],
        directory: Annotated[str, Meta(description="Folder of the new project, relative to the workspace")],
        variables: Annotated[
            dict[str, str], Meta(description="Values; those left out take their defaults")
        ] = {},  # noqa: B006 - never changed
        components: Annotated[list[str] | None, Meta(description="Left out: the template's own")] = None,
    ) -> ToolResult:
        """Create a project from a template. Existing files are never overwritten. The result names the
        commands that install it and run its tests."""
        chosen = _Arguments(template, directory, variables, components)
        project = render_project(ctx.service(Boundary), chosen)
        return await create_files(ctx, "create_project", project, directory)

    @tool(
        risk="medium",
        category="files",
        access=writes_folder,
        survey=survey(render_component),
        preview=show(render_component),
        keeps_undo=True,
        change_name="edit",
        subject=lambda arguments: f"{arguments.component} to {arguments.directory}",
    )
    async def add_component(
        ctx: ToolContext,
        component: Annotated[str, Meta(description="Name from list_components")],
        directory: Annotated[str, Meta(description="Folder of a project that create_project made")] = ".",
    ) -> ToolResult:
        """Add a component to a project that create_project made. Existing files are never overwritten."""
        record = read_record(locate(ctx.service(Boundary), directory).real)
        project = scaffolds.new_component(component, record)
        return await create_files(ctx, "add_component", project, directory)

    return list_templates, list_components, create_project, add_component


class _Arguments:
    """The arguments of `create_project`, as its access and its preview read them."""

    def __init__(
        self, template: str, directory: str, variables: dict[str, str], components: list[str] | None
    ) -> None:
        self.template, self.directory = template, directory
        self.variables, self.components = variables, components
