"""Templates of projects and of their components: found, checked, rendered into files. Nothing is written.

A template is a folder with a `template.toml` and `files/`; a component has a `component.toml` and one folder
below `files/` for each language or template it fits. Files that end in `.jinja` are rendered (and lose the
ending), others are copied; names of files and folders may hold `{{ variables }}` too.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.agent.tool import ToolError
from buddy.extend.hooks.files import linear_search
from buddy.extend.system_prompt import template_path
from buddy.safety.paths import is_beneath, read_beneath
from buddy.safety.sanitise import visible

_T = TypeVar("_T")
MAX_FILES = 500
MAX_FILE_BYTES = 2_000_000
MAX_VARIABLE_CHARS = 200
RECORD = ".buddy-project.toml"
"""Keeps in a project what it was made from: a component that is added later is rendered with it."""
_ENDING = ".jinja"
_FILES = {"projects": "template.toml", "components": "component.toml"}
_RESERVED = frozenset({".git", ".buddyx"})
"""Folders whose files run or decide something: no template puts any there."""
_NAME = pattern(r"[a-z0-9][a-z0-9-]{0,40}")


class TemplateError(ToolError):
    """A template, a variable or a component that cannot be used: what was expected, what was found."""


class Variable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question of a template. `default` is rendered with the variables before it and `directory`, the name
    of the project's folder; `check` is a regular expression the whole value must match."""

    about: str
    default: str = ""
    check: str = ""
    hint: str = ""
    choices: tuple[str, ...] = ()


class Template(msgspec.Struct, frozen=True):
    """A template of a project. `components` are those that are offered, `chosen` those taken by default;
    `commands` install the project and run its tests."""

    name: str
    title: str
    description: str
    language: str
    folder: str
    variables: dict[str, Variable] = {}
    components: tuple[str, ...] = ()
    chosen: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


class Component(msgspec.Struct, frozen=True):
    """A part that projects can have. `fits`: languages and templates; `packages` are its dependencies and
    `commands` come next, by language or template; `later` are those of a project that gets it afterwards."""

    name: str
    title: str
    description: str
    fits: tuple[str, ...]
    folder: str
    packages: dict[str, tuple[str, ...]] = {}
    commands: dict[str, tuple[str, ...]] = {}
    later: dict[str, tuple[str, ...]] = {}


class NewFile(msgspec.Struct, frozen=True):
    """A file to create. `path` is relative to the project's folder."""

    path: str
    data: bytes
    is_executable: bool = False


class NewProject(msgspec.Struct, frozen=True):
    """The files of a project or a component, in the order of their paths, and what to do afterwards."""

    title: str
    files: tuple[NewFile, ...]
    commands: tuple[str, ...]
    packages: tuple[str, ...] = ()
    extends: bool = False
    """It adds to a project that is there, whose record it changes."""


class ProjectRecord(msgspec.Struct, frozen=True):
    """The origin of a project, as `RECORD` keeps it."""

    template: str
    components: tuple[str, ...]
    variables: dict[str, str]


def template_folders(config: str, root: str, *, trusted: bool) -> tuple[str, ...]:
    """Return the folders with templates: the person's, those that ship, the project's while it is trusted. A
    project's never takes the place of another of its name."""
    path = os.path.join(".buddyx", "templates")
    # Over a link it could be any folder of the person's, whose files would be copied without a question.
    is_own = os.path.realpath(os.path.join(root, path)) == os.path.join(os.path.realpath(root), path)
    of_project = (os.path.join(root, path),) if trusted and is_own else ()
    return os.path.join(config, "templates"), os.path.dirname(template_path("projects")), *of_project


class ProjectRequest(msgspec.Struct, frozen=True):
    """A project as a person asks for it in words; empty is not said. `components` None: the template's."""

    template: str
    directory: str
    values: dict[str, str]
    components: tuple[str, ...] | None


REQUEST_WORDS = "TEMPLATE DIR [VARIABLE=VALUE …] [components=NAME,NAME]"


def parse_request(words: Sequence[str]) -> ProjectRequest:
    """Read `REQUEST_WORDS`. Raises `TemplateError`."""
    values = dict(word.split("=", 1) for word in words if "=" in word)
    places = [word for word in words if "=" not in word]
    if len(places) > 2:
        raise TemplateError(f"expected {REQUEST_WORDS}; found {' '.join(words)!r}")
    listed = values.pop("components", None)
    components = None if listed is None else tuple(filter(None, listed.split(",")))
    template, directory = (*places, "", "")[:2]
    return ProjectRequest(template, directory, values, components)


class Scaffolds:
    """The templates of some folders; the first one that has a name wins. `folders` is asked each time: those
    of a project count only while it is trusted."""

    def __init__(self, folders: Callable[[], Sequence[str]]) -> None:
        self._folders = folders

    def templates(self) -> dict[str, Template]:
        """Return all templates that can be used, by name."""
        return _usable(self._found("projects"), self._template)

    def components(self) -> dict[str, Component]:
        """Return all components that can be used, by name."""
        return _usable(self._found("components"), self._component)

    def problems(self) -> list[str]:
        """Return a sentence for each template and component that cannot be used."""
        told: list[str] = []
        for kind, load in (("projects", self._template), ("components", self._component)):
            for name, folder in self._found(kind):
                try:
                    load(name, folder)
                except TemplateError as error:
                    told.append(f"{name} can't be used: {visible(str(error))}")
        return told

    def template(self, name: str) -> Template:
        """Return a template. Raises `TemplateError` with the names there are."""
        folder = dict(self._found("projects")).get(name)
        if folder is None:
            raise TemplateError(_unknown("template", name, [found for found, _ in self._found("projects")]))
        return self._template(name, folder)

    def fitting(self, template: Template) -> dict[str, Component]:
        """Return the components a project of this template can have."""
        return {
            name: component
            for name, component in self.components().items()
            if {template.name, template.language} & {*component.fits}
        }

    def _found(self, kind: str) -> Iterator[tuple[str, str]]:
        seen: set[str] = set()
        for above in self._folders():
            folder = os.path.join(above, kind)
            names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
            for name in names:
                is_one = os.path.lexists(os.path.join(folder, name, _FILES[kind]))
                if is_one and _NAME().fullmatch(name) and name not in seen:
                    seen.add(name)
                    yield name, os.path.join(folder, name)

    def _template(self, name: str, folder: str) -> Template:
        _refuse_links_out(folder)
        table = _read_table(os.path.join(folder, "template.toml"))
        return _convert({**table, "name": name, "folder": folder}, Template, folder)

    def _component(self, name: str, folder: str) -> Component:
        _refuse_links_out(folder)
        table = _read_table(os.path.join(folder, "component.toml"))
        return _convert({**table, "name": name, "folder": folder}, Component, folder)

    def new_project(
        self, name: str, directory: str, values: Mapping[str, str], components: Sequence[str] | None
    ) -> NewProject:
        """Render a project for a folder of this name; None takes the template's components. Raises
        `TemplateError`."""
        template = self.template(name)
        chosen = tuple(template.chosen if components is None else dict.fromkeys(components))
        parts = [self._fitting_component(template, one) for one in chosen]
        variables = fill_variables(template, directory, values)
        record = ProjectRecord(name, chosen, variables)
        known = {**variables, "components": list(chosen)}
        files = {file.path: file for file in _render_folder(template.folder, "files", known)}
        for part in parts:
            for file in _render_component(part, template, known):
                files.setdefault(file.path, file)
        files[RECORD] = NewFile(RECORD, _record_text(record))
        return NewProject(
            f"{template.title} in {directory}",
            tuple(files[path] for path in sorted(files)),
            _render_commands(
                (*template.commands, *(one for part in parts for one in _of(template, part.commands))), known
            ),
        )

    def new_component(self, name: str, record: ProjectRecord) -> NewProject:
        """Render a component for a project that was made by `new_project`; the record it should have then is
        among the files. Raises `TemplateError`."""
        template = self.template(record.template)
        if name in record.components:
            raise TemplateError(f"the project has the component {name} already (see {RECORD})")
        part = self._fitting_component(template, name)
        changed = msgspec.structs.replace(record, components=(*record.components, name))
        values = {name: value for name, value in record.variables.items() if name != "directory"}
        known: dict[str, Any] = {
            **fill_variables(template, record.variables.get("directory", ""), values),
            "components": list(changed.components),
        }
        files = [*_render_component(part, template, known), NewFile(RECORD, _record_text(changed))]
        commands = (*_of(template, part.later), *_of(template, part.commands))
        return NewProject(
            part.title,
            tuple(files),
            _render_commands(commands, known),
            _of(template, part.packages),
            extends=True,
        )

    def _fitting_component(self, template: Template, name: str) -> Component:
        folder = dict(self._found("components")).get(name)
        part = self._component(name, folder) if folder is not None else None
        if part is None or not {template.name, template.language} & {*part.fits}:
            raise TemplateError(_unknown(f"component of {template.name}", name, list(self.fitting(template))))
        return part


def _of(template: Template, by_name: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the entries for a template, or else for its language."""
    return by_name.get(template.name, by_name.get(template.language, ()))


def _usable(found: Iterator[tuple[str, str]], load: Callable[[str, str], _T]) -> dict[str, _T]:
    usable: dict[str, _T] = {}
    for name, folder in found:
        with contextlib.suppress(TemplateError):
            usable[name] = load(name, folder)
    return usable


def fill_variables(template: Template, directory: str, values: Mapping[str, str]) -> dict[str, str]:
    """Return the value of every variable, given or by default. Raises `TemplateError`."""
    unknown = sorted(set(values) - set(template.variables))
    if unknown:
        raise TemplateError(_unknown(f"variable of {template.name}", unknown[0], list(template.variables)))
    if not directory.isprintable() or "/" in directory or len(directory) > MAX_VARIABLE_CHARS:
        raise TemplateError(f"expected the name of a folder, found {visible(directory)!r}")
    filled: dict[str, str] = {"directory": directory}
    for name, variable in template.variables.items():
        filled[name] = _check(name, variable, values.get(name) or _default(template, name, variable, filled))
    return filled


def _default(template: Template, name: str, variable: Variable, known: Mapping[str, str]) -> str:
    text = _render_text(variable.default, known, f"the default of {name} in {template.name}")
    if not text:
        raise TemplateError(f"the variable {name} is missing: {variable.about}")
    return text


def _check(name: str, variable: Variable, value: str) -> str:
    """Return the value. Raises `TemplateError` where it does not fit."""
    if len(value) > MAX_VARIABLE_CHARS or not value.isprintable():
        raise TemplateError(f"{name}: expected at most {MAX_VARIABLE_CHARS} printable characters")
    if variable.choices and value not in variable.choices:
        raise TemplateError(f"{name} is one of {', '.join(variable.choices)}; found {visible(value)!r}")
    try:
        fits = not variable.check or _fits(variable.check, value)
    except re.error as error:
        raise TemplateError(f"the check of {name} is no regular expression: {error}") from error
    if not fits:
        hint = variable.hint or f"text like {variable.check}"
        raise TemplateError(f"{name} ({variable.about}): expected {hint}; found {visible(value)!r}")
    return value


def _fits(check: str, value: str) -> bool:
    """Match a whole value that may be the model's: in linear time, but for what only `re` knows (lookahead).
    Raises `re.error`."""
    re.compile(check)
    try:
        return linear_search(f"^(?:{check})$")(value) is not None
    except re.error:
        return re.fullmatch(check, value) is not None


def read_record(folder: str) -> ProjectRecord:
    """Return what the project in a folder was made from. Raises `TemplateError`."""
    path = os.path.join(folder, RECORD)
    if not os.path.lexists(path):
        raise TemplateError(
            f"{RECORD} is not in this folder: components are added to projects that create_project made"
        )
    return _convert(_read_table(path), ProjectRecord, path)


def _record_text(record: ProjectRecord) -> bytes:
    import tomli_w  # imported here: only a new project needs it

    head = "# What this project was made from; buddy reads it when a component is added.\n"
    return (head + tomli_w.dumps(msgspec.to_builtins(record))).encode()


def _unknown(kind: str, name: str, known: Sequence[str]) -> str:
    import difflib  # imported here: only needed for the error

    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"there is no {kind} {visible(name)!r}{hint} (known: {', '.join(known) or 'none'})"


def _refuse_links_out(folder: str) -> None:
    """Refuse a template or component that lies elsewhere than among the others: its files would be copied
    from there without a question. Raises `TemplateError`."""
    above = os.path.dirname(os.path.dirname(folder))
    if not is_beneath(os.path.realpath(folder), os.path.realpath(above)):
        raise TemplateError(f"{folder}: it is a link out of {above}")


def _read_table(path: str) -> dict[str, Any]:
    import tomllib  # imported here: a session that makes no project does not need it

    try:
        return tomllib.loads(_read_whole(path).decode())
    except TemplateError:
        raise
    except (OSError, ToolError) as error:
        raise TemplateError(f"{path}: can't be read: {getattr(error, 'strerror', None) or error}") from error
    except ValueError as error:
        raise TemplateError(f"{path}: not valid TOML ({error})") from error


def _read_whole(path: str) -> bytes:
    """Return the bytes of a file of a template, which is no link. Raises `TemplateError` for a large one."""
    data = read_beneath(os.path.dirname(path), os.path.basename(path), MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise TemplateError(f"{path}: more than {MAX_FILE_BYTES:,} bytes")
    return data


def _convert(table: Mapping[str, Any], kind: type[Any], where: str) -> Any:
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        raise TemplateError(f"{where}: {error}") from error


def _render_commands(commands: Sequence[str], known: Mapping[str, Any]) -> tuple[str, ...]:
    """Render the commands; those that become empty are left out."""
    return tuple(filter(None, (_render_text(command, known, command) for command in commands)))


def _render_component(part: Component, template: Template, known: Mapping[str, Any]) -> Iterator[NewFile]:
    """Yield the files for the template, or else for its language."""
    for name in (template.name, template.language):
        if os.path.isdir(os.path.join(part.folder, "files", name)):
            yield from _render_folder(part.folder, f"files/{name}", known)
            return
    raise TemplateError(f"{part.folder}: files/{template.language} is missing")


def _render_folder(top: str, inside: str, known: Mapping[str, Any]) -> Iterator[NewFile]:
    """Yield every file of a folder of the template at `top`. Links are refused: they could lead anywhere."""
    count = 0
    folder = os.path.join(top, inside)
    if os.path.realpath(folder) != os.path.join(os.path.realpath(top), inside):
        raise TemplateError(f"{folder}: a template holds no links")
    for above, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted((*names, *(one for one in folders if os.path.islink(os.path.join(above, one))))):
            count += 1
            path = os.path.join(above, name)
            if os.path.islink(path) or count > MAX_FILES:
                raise TemplateError(f"{path}: a template holds no links, and at most {MAX_FILES} files")
            yield _render_file(path, os.path.relpath(path, folder), known)


def _render_file(path: str, relative: str, known: Mapping[str, Any]) -> NewFile:
    try:
        data = _read_whole(path)
        is_executable = bool(os.stat(path).st_mode & stat.S_IXUSR)
    except TemplateError:
        raise
    except (OSError, ToolError) as error:
        raise TemplateError(f"{path}: can't be read: {getattr(error, 'strerror', None) or error}") from error
    target = _render_text(relative.removesuffix(_ENDING), known, relative)
    parts = target.split("/")
    if not all(parts) or {".", ".."} & {*parts} or not target.isprintable():
        raise TemplateError(
            f"{path}: its name becomes {visible(target)!r}, which is no path within the project"
        )
    if own := _RESERVED & {part.casefold() for part in parts}:
        raise TemplateError(f"{path}: a template cannot write into {min(own)}")
    if relative.endswith(_ENDING):
        data = _render_text(data.decode("utf-8", "replace"), known, path).encode()
    return NewFile(target, data, is_executable)


def _render_text(text: str, known: Mapping[str, Any], where: str) -> str:
    """Render a text. Raises `TemplateError` that names the place."""
    # Here: 30 ms, only for a new project.
    from buddy.extend.scaffolds.bounded_rendering import RenderingError, render

    try:
        return render(text, known)
    except RenderingError as error:
        raise TemplateError(f"{where}{error}") from error
