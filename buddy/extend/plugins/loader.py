"""Load the tools people add: `@tool` functions in `.buddyx/ext/*.py` and from packages with the entry point
group `buddy.tools`.

The files are code of the workspace: load them only where the person trusts it. A file that can't be imported
is reported with file and line and stops nothing. Names of other tools are never taken over.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping, Sized
from types import ModuleType
from typing import Any, Protocol, cast

import msgspec

from buddy.agent.tool import Tool, ToolRegistry
from buddy.extend.plugins.isolation import (
    IMPORT_LIMIT_S,
    PluginLoop,
    capture_output,
    contain,
    guard_imports,
    run_code,
    unfit,
)

GROUP = "buddy.tools"
MAX_FILE_BYTES = 1_000_000
_log = logging.getLogger(__name__)


class LoadedPlugin(msgspec.Struct, frozen=True):
    """Tools of one file or package, and its problems, a sentence each."""

    tools: tuple[Tool, ...]
    problems: tuple[str, ...]


class Reloaded(msgspec.Struct, frozen=True):
    """The changes a reload made: names of tools, and sentences for the person."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    problems: tuple[str, ...]


class PluginTools:
    """The plug-in tools of a session, in its registry. `trusted`: the person trusts the folder's code. `off`:
    names the person switched off, built-in tools among them; nothing else takes those. `workspace`: modules
    that lie in it outside the folder are refused ("": none are)."""

    def __init__(
        self,
        folder: str,
        registry: ToolRegistry,
        *,
        trusted: bool,
        off: Collection[str] = (),
        workspace: str = "",
    ) -> None:
        self.folder = folder
        self.trusted = trusted
        self._off = off
        self._workspace = workspace
        self._registry = registry
        self._files: dict[str, tuple[str, LoadedPlugin]] = {}
        self._plugins: LoadedPlugin | None = None
        self._loop = PluginLoop()

    def load(self) -> Reloaded:
        """Read the folder's files in the order of their names, and the packages once. Files whose content is
        the same are not read again. Blocks and runs their code."""
        before = {tool.name: tool for tool in self._tools()}
        problems: list[str] = []
        files = self._sources(problems) if self.trusted else {}
        if files and self._workspace:
            guard_imports(self._workspace, self.folder)
        self._files = {path: self._file(path, source) for path, source in files.items()}
        if self._plugins is None:
            self._plugins = from_entry_points(installed_points(), self._loop)
        for name in before:
            self._registry.remove(name)
        kept: dict[str, Tool] = {}
        for found in (self._plugins, *(found for _, found in self._files.values())):
            problems += found.problems
            for tool in found.tools:
                clash = self._registry.get(tool.name)
                why = unfit(tool) or (_clash(tool, clash) if clash is not None else "")
                if why or tool.name in self._off:
                    problems += [f"{tool.source}: {why}"] if why else []
                    continue
                self._registry.register(tool)
                kept[tool.name] = tool
        added = tuple(sorted(name for name, tool in kept.items() if before.get(name) is not tool))
        return Reloaded(added, tuple(sorted(set(before) - set(kept))), tuple(problems))

    def close(self) -> None:
        """End the event loop of the tools. No call of theirs may be running."""
        self._loop.close()

    def _tools(self) -> list[Tool]:
        mine = [found for _, found in self._files.values()] + ([self._plugins] if self._plugins else [])
        registered = [self._registry.get(tool.name) for found in mine for tool in found.tools]
        owned = {id(tool) for found in mine for tool in found.tools}
        return [tool for tool in registered if tool is not None and id(tool) in owned]

    def _sources(self, problems: list[str]) -> dict[str, bytes]:
        try:
            names = sorted(os.listdir(self.folder))
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            problems.append(f"{self.folder}: can't be read: {error.strerror}")
            return {}
        found: dict[str, bytes] = {}
        for name in names:
            path = os.path.join(self.folder, name)
            if not name.endswith(".py") or name.startswith((".", "_")) or not os.path.isfile(path):
                continue
            if os.path.realpath(path) != os.path.join(self._real_folder(), name):
                problems.append(
                    f"{path}: a link, or behind one; not loaded: what it leads to can change without a "
                    "question. Put the file itself into .buddyx/ext"
                )
                continue
            try:
                with open(path, "rb") as file:
                    data = file.read(MAX_FILE_BYTES + 1)
            except OSError as error:
                problems.append(f"{path}: can't be read: {error.strerror}")
                continue
            if len(data) > MAX_FILE_BYTES:
                problems.append(f"{path}: over {MAX_FILE_BYTES:,} bytes; not loaded")
                continue
            found[path] = data
        return found

    def _real_folder(self) -> str:
        """Return the place of `.buddyx/ext` in the workspace, wherever links in it lead."""
        above, name = os.path.split(os.path.abspath(self.folder))
        root, between = os.path.split(above)
        return os.path.join(os.path.realpath(root), between, name)

    def _file(self, path: str, source: bytes) -> tuple[str, LoadedPlugin]:
        digest = hashlib.sha256(source).hexdigest()
        known = self._files.get(path)
        if known is not None and known[0] == digest:
            return known
        builtin = {id(tool): tool for tool in self._registry.list_all()}
        return digest, from_source(path, source, builtin, self._loop)


def from_source(
    path: str, source: bytes, known: Mapping[int, Tool], loop: PluginLoop, limit_s: float = IMPORT_LIMIT_S
) -> LoadedPlugin:
    """Return the tools a file defines; those in `known` (by id) it only imported. Runs its code, which has to
    end in time."""
    digest = hashlib.sha256(os.fsencode(path) + b"\0" + source).hexdigest()[:12]
    stem = os.path.splitext(os.path.basename(path))[0]
    name = f"buddy_ext_{stem}_{digest}"
    module = ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module  # annotations of records are looked up there

    def define() -> None:
        exec(compile(source, path, "exec"), module.__dict__)  # noqa: S102 - code the person trusted

    error = _run_quietly(define, path, limit_s)
    if error is not None:
        sys.modules.pop(name, None)
        return LoadedPlugin((), (f"{_place(error, path)}: not loaded: {type(error).__name__}: {error}",))
    tools = [value for value in vars(module).values() if isinstance(value, Tool) and id(value) not in known]
    unique = {id(tool): contain(msgspec.structs.replace(tool, source=path), loop) for tool in tools}
    return LoadedPlugin(tuple(unique.values()), ())


def _run_quietly(
    work: Callable[[], None], what: str, limit_s: float = IMPORT_LIMIT_S
) -> BaseException | None:
    """Run a plug-in's code; its output and its error go to the log."""
    printed: list[str] = []
    with capture_output(printed.append):
        error = run_code(work, limit_s)
    if printed:
        _log.info("plug-in %s printed: %s", what, "".join(printed)[:2000])
    if error is not None:
        _log.warning("plug-in %s was not loaded", what, exc_info=error)
    return error


def _place(error: BaseException, path: str) -> str:
    """Return file and line of the plug-in's own code where the error came from."""
    if isinstance(error, SyntaxError) and error.filename == path:
        return f"{path}:{error.lineno or 1}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return f"{path}:{lines[-1]}" if lines else path


class EntryPoint(Protocol):
    """The part of `importlib.metadata.EntryPoint` that is used."""

    @property
    def name(self) -> str:
        """Return the tool's name in its package's metadata."""
        ...

    @property
    def value(self) -> str:
        """Return the place of the object, `module:attribute`."""
        ...

    @property
    def dist(self) -> Any:
        """Return its distribution, None when unknown."""
        ...

    def load(self) -> Any:
        """Import the object."""
        ...


def installed_points() -> Iterable[EntryPoint]:
    """Return the entry points of installed packages. Looking for the group's name in their metadata takes 2
    ms; importing importlib.metadata and letting it look takes 25, at every start, for something few people
    have."""
    if not any(_names_the_group(folder) for folder in sys.path):
        return ()
    from importlib.metadata import entry_points

    return cast(Iterable[EntryPoint], entry_points(group=GROUP))


def _names_the_group(folder: str) -> bool:
    wanted = f"[{GROUP}]".encode()
    try:
        metadata = [
            one.path for one in os.scandir(folder or ".") if one.name.endswith((".dist-info", ".egg-info"))
        ]
    except OSError:
        return False
    return any(wanted in _content(os.path.join(path, "entry_points.txt")) for path in metadata)


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def from_entry_points(points: Iterable[EntryPoint], loop: PluginLoop) -> LoadedPlugin:
    """Return the tools of installed packages: each entry point names a `Tool` or several."""
    tools: list[Tool] = []
    problems: list[str] = []
    for point in sorted(points, key=lambda point: point.name):
        source = point.dist.name if point.dist is not None else point.value
        held: list[object] = []
        error = _run_quietly(lambda point=point, held=held: held.append(point.load()), point.value)
        if error is not None:
            problems.append(f"{source} ({point.value}): not loaded: {type(error).__name__}: {error}")
            continue
        several = _tools_in(held[0])
        if several is None:
            problems.append(f"{source} ({point.value}): expected a tool or a list of tools")
            continue
        tools.extend(contain(msgspec.structs.replace(one, source=source), loop) for one in several)
    return LoadedPlugin(tuple(tools), tuple(problems))


def _tools_in(loaded: object) -> list[Tool] | None:
    if isinstance(loaded, Tool):
        return [loaded]
    if not isinstance(loaded, list | tuple):
        return None
    members = cast(Iterable[object], loaded)
    tools = [member for member in members if isinstance(member, Tool)]
    return tools if len(tools) == len(cast(Sized, loaded)) else None


def _clash(tool: Tool, other: Tool) -> str:
    stem = os.path.splitext(os.path.basename(tool.source))[0]
    return (
        f"a tool named {tool.name!r} is there already ({other.source}); name this one "
        f"{stem}_{tool.name} (@tool(name=…))"
    )
