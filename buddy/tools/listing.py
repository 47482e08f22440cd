"""`list_files`: what is in a folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import Any, cast

import msgspec

from buddy.agent.counting import counted, sized
from buddy.agent.display import FileList
from buddy.agent.tool import Access, ToolContext, ToolError, ToolResult, tool
from buddy.safety.paths import Boundary, Located
from buddy.safety.sanitise import visible
from buddy.tools.changing import located
from buddy.tools.near_names import missing
from buddy.workspace.files import explained, status_of
from buddy.workspace.ignore import IgnoreTree
from buddy.workspace.locks import in_thread

MAX_ENTRIES = 500
MAX_LOOKED_AT = 100_000


class IgnoreRules(msgspec.Struct, frozen=True):
    """The host's ignore rules for listings. The arguments are a real path and whether it is a folder."""

    ignored: Callable[[str, bool], bool]


NO_RULES = IgnoreRules(lambda _path, _folder: False)


class FolderEntry(msgspec.Struct, frozen=True):
    """One thing in a folder."""

    name: str
    kind: str
    size: int


def list_folder(ctx: ToolContext, target: Located) -> ToolResult:
    """The entries of a folder, folders first, with sizes."""
    with explained(f"list {target.shown}"):
        entries, ignored, more = _entries(ctx, target)
    entries.sort(key=lambda entry: (entry.kind != "folder", entry.name.lower(), entry.name))
    lines = [_line(entry) for entry in entries[:MAX_ENTRIES]]
    notes = [counted(len(entries), "entry", "entries") if entries else "empty"]
    if len(entries) > MAX_ENTRIES:
        notes.append(f"the first {MAX_ENTRIES} are shown")
    if ignored:
        notes.append(f"{ignored} ignored")
    if more:
        notes.append(f"only {MAX_LOOKED_AT:,} were looked at")
    where = f"{target.shown}: {', '.join(notes)}"
    paths = tuple(entry.name + ("/" if entry.kind == "folder" else "") for entry in entries[:MAX_ENTRIES])
    return ToolResult("\n".join([where, *lines]), FileList(where, paths, len(entries)))


def _entries(ctx: ToolContext, target: Located) -> tuple[list[FolderEntry], int, bool]:
    """The entries that are not ignored, how many are, and whether there are more than were looked at. A
    folder that is itself ignored was asked for by name: then nothing in it is left out."""
    own = IgnoreRules(IgnoreTree(ctx.service(Boundary).root).ignored)
    rules = cast(IgnoreRules, ctx.services.get(IgnoreRules, own))
    if rules.ignored(target.real, True):
        rules = NO_RULES
    found: list[FolderEntry] = []
    ignored = 0
    with os.scandir(target.real) as entries:
        for entry in entries:
            if len(found) + ignored >= MAX_LOOKED_AT:
                return found, ignored, True
            if rules.ignored(entry.path, entry.is_dir(follow_symlinks=False)):
                ignored += 1
            else:
                found.append(_entry(entry))
    return found, ignored, False


def _entry(entry: os.DirEntry[str]) -> FolderEntry:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return FolderEntry(entry.name, "gone", 0)
    if stat.S_ISLNK(status.st_mode):
        return FolderEntry(entry.name, f"link to {visible(os.readlink(entry.path))}", 0)
    if stat.S_ISDIR(status.st_mode):
        return FolderEntry(entry.name, "folder", 0)
    if stat.S_ISREG(status.st_mode):
        return FolderEntry(entry.name, "file", status.st_size)
    return FolderEntry(entry.name, "special", 0)


def _line(entry: FolderEntry) -> str:
    match entry.kind:
        case "folder":
            return f"{visible(entry.name)}/"
        case "file":
            return f"{visible(entry.name)}  {sized(entry.size)}"
        case _:
            return f"{visible(entry.name)}  ({entry.kind})"


def _access(arguments: Any) -> Access:
    return Access(reads=(arguments.path,))


@tool(
    risk="low",
    category="files",
    access=_access,
    aliases=("ls", "list_dir", "list_directory"),
    argument_aliases={"dir": "path", "directory": "path", "dir_path": "path", "file_path": "path"},
    cache_s=30,
)
async def list_files(ctx: ToolContext, path: str = ".") -> ToolResult:
    """List one folder, with sizes: folders first. Ignored entries are only counted. find_files looks in the
    folders below as well."""

    def work() -> ToolResult:
        target = located(ctx, path)
        status = status_of(target.real)
        if status is None:
            raise ToolError(missing(target, ctx.service(Boundary)))
        if not stat.S_ISDIR(status.st_mode):
            raise ToolError(f"{target.shown} is not a folder; read it with read_file")
        return list_folder(ctx, target)

    return await in_thread(work)
