"""`buddy new TEMPLATE DIR`: create a project from a template, with questions on a terminal."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Mapping

import msgspec

from buddy.app.launch import find_launch
from buddy.app.options import Options, UsageError
from buddy.app.stderr import tell
from buddy.config.settings import ConfigError
from buddy.extend.scaffolds.templates import (
    REQUEST_WORDS,
    NewProject,
    ProjectRequest,
    Scaffolds,
    Template,
    TemplateError,
    Variable,
    fill_variables,
    parse_request,
    template_folders,
)
from buddy.extend.scaffolds.tools import EXECUTABLE, describe_all, describe_project
from buddy.headless.exit_codes import CONFIGURATION, FAILED, OK
from buddy.safety.sanitise import visible

_FILE = 0o644


def new_project(options: Options, environment: Mapping[str, str]) -> int:
    """Carry out the subcommand. Return the exit code; raises `UsageError`."""
    try:
        launch = find_launch(options, environment)
    except ConfigError as error:
        tell(f"buddy: {error}\n")
        return CONFIGURATION
    if options.cd:
        raise UsageError("buddy new takes the folder as its second word, and no --cd")
    folders = template_folders(launch.where.config, launch.boundary.root, trusted=launch.trusted)
    scaffolds = Scaffolds(lambda: folders)
    request = None
    try:
        request = parse_request(options.words)
        if not request.template:
            sys.stdout.write("\n".join((*describe_all(scaffolds), "", f"buddy new {REQUEST_WORDS}\n")))
            return OK
        template = scaffolds.template(request.template)
        if not request.directory:
            raise UsageError(f"which folder? Expected: buddy new {REQUEST_WORDS}")
        directory = os.path.abspath(request.directory)
        is_terminal = sys.stdin.isatty() and sys.stdout.isatty() and not (options.yes or options.print)
        if is_terminal:
            request = _ask(scaffolds, template, request, os.path.basename(directory))
        name = os.path.basename(directory)
        project = scaffolds.new_project(template.name, name, request.values, request.components)
    except TemplateError as error:
        is_known = request is not None and request.template in scaffolds.templates()
        prompt = (
            "" if is_known else f". To send it as a prompt: buddy -- {shlex.join(('new', *options.words))}"
        )
        raise UsageError(f"{error}{prompt}") from error
    if options.print or is_terminal:
        sys.stdout.write(
            "".join(f"  {visible(os.path.join(request.directory, one.path))}\n" for one in project.files)
        )
    if options.print or (is_terminal and _read_line("Create them? [Y/n] ").lower() not in ("", "y", "yes")):
        sys.stdout.write("nothing was written\n")
        return OK
    try:
        write_project(project, directory)
    except OSError as error:
        reason = "exists; nothing is overwritten" if isinstance(error, FileExistsError) else error.strerror
        tell(f"buddy: {error.filename}: {reason}. Nothing was created\n")
        return FAILED
    sys.stdout.write(f"{describe_project(project, request.directory)}\n")
    return OK


def _ask(scaffolds: Scaffolds, template: Template, request: ProjectRequest, directory: str) -> ProjectRequest:
    """Ask for each variable that was not given, and for the components. A wrong answer is asked again."""
    values = dict(request.values)
    for name, variable in template.variables.items():
        while name not in values:
            only = msgspec.structs.replace(template, variables=_until(template, name))
            default = fill_variables(only, directory, values)[name]
            answer = _read_line(f"{variable.about}{_choices(variable)} [{default}]: ") or default
            try:
                fill_variables(only, directory, {**values, name: answer})
            except TemplateError as error:
                sys.stdout.write(f"  {error}\n")
                continue
            values[name] = answer
    components = request.components
    if components is None:
        fitting = list(scaffolds.fitting(template))
        chosen = ",".join(template.chosen)
        answer = _read_line(f"components, of {', '.join(fitting)} (- for none) [{chosen}]: ") or chosen
        components = tuple(filter(None, answer.strip("-").replace(" ", ",").split(",")))
    return msgspec.structs.replace(request, values=values, components=components)


def _until(template: Template, name: str) -> dict[str, Variable]:
    """Return the variables up to this one: later ones may depend on it."""
    names = list(template.variables)
    return {one: template.variables[one] for one in names[: names.index(name) + 1]}


def _choices(variable: Variable) -> str:
    return f" ({', '.join(variable.choices)})" if variable.choices else ""


def _read_line(question: str) -> str:
    sys.stdout.write(question)
    sys.stdout.flush()
    line = sys.stdin.readline()
    if not line:  # Ctrl+D
        sys.stdout.write("\n")
        raise KeyboardInterrupt
    return line.strip()


def write_project(project: NewProject, directory: str) -> None:
    """Create all files, or none. Raises `OSError`; `FileExistsError` where something is there already."""
    for file in project.files:
        path = os.path.join(directory, file.path)
        if os.path.lexists(path):
            raise FileExistsError(17, "File exists", path)
    created: list[str] = []
    try:
        for file in project.files:
            path = os.path.join(directory, file.path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            mode = EXECUTABLE if file.is_executable else _FILE
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as target:
                created.append(path)
                target.write(file.data)
    except OSError:
        for path in created:
            with contextlib.suppress(OSError):
                os.unlink(path)
        raise
