"""`find_definition`: where a function, class or type is defined."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable
from typing import Annotated

import msgspec
from msgspec import Meta

from buddy.agent.display import FileList
from buddy.agent.formatting import format_count
from buddy.agent.lazy_regex import pattern
from buddy.agent.tool import ToolContext, ToolError, ToolResult, reads_path, tool
from buddy.safety.sanitise import visible
from buddy.tools.grep import SearchPlace, compile_pattern, place_of, search_run
from buddy.workspace.files.bulk_read import MAX_FILE_BYTES, regular_bytes
from buddy.workspace.processes.launch import trusted_program
from buddy.workspace.processes.pool import CommandRequest
from buddy.workspace.search.matcher import Found
from buddy.workspace.search.runner import SearchLimits, SearchRun, find, stoppable
from buddy.workspace.symbols import BY_EXTENSION, defines, extension_of

MAX_LINES = 20_000
MAX_SHOWN = 50
MAX_TAGGED_FILES = 400
MAX_PARSED_BYTES = 1_500_000
_NAME = pattern(r"[^\W\d][\w$]*[?!=]?")


class Definition(msgspec.Struct, frozen=True, order=True):
    """One place: path, line number, what it is ("" when only its looks are known)."""

    path: str
    line: int
    kind: str


@tool(
    risk="low",
    category="search",
    access=reads_path,
    aliases=("go_to_definition", "goto_definition", "find_symbol", "search_symbol"),
    argument_aliases={"symbol": "name", "query": "name", "identifier": "name", "directory": "path"},
    cache_s=30,
)
async def find_definition(
    ctx: ToolContext,
    name: Annotated[str, Meta(description="Exact name of a function, class, method, type or constant")],
    path: Annotated[str, Meta(description="File or folder")] = ".",
) -> ToolResult:
    """Find where a name is defined: path:line, the line, what it is. Use grep for where it is used."""
    bare = re.sub(
        r"^(?:async\s+)?(?:def|class|function|func|fn|type|interface|struct)\s+", "", name.strip("` \"'")
    )
    short = re.split(r"\.|::|#", bare.partition("(")[0])[-1].strip()
    if not _NAME().fullmatch(short):
        raise ToolError(f"expected the name of a function, class or type, found {visible(name[:80])!r}")
    run = search_run(ctx)
    pattern = compile_pattern(
        rf"(?:^|[^\w$]){re.escape(short)}(?:$|[^\w$])", literal=False, ignore_case=False, multiline=False
    )
    place = await stoppable(run, lambda stopped: place_of(ctx, path, None, stopped))
    known = tuple(file for file in place.corpus.files if extension_of(file) in BY_EXTENSION)
    corpus = msgspec.structs.replace(place.corpus, files=known)
    found = await find(run, pattern, corpus, SearchLimits(0, MAX_LINES, MAX_LINES))
    lines = {(found.files[hit.file][0], hit.line): hit.text for hit in found.hits}
    looks = await stoppable(run, lambda stopped: _by_looks(lines, short, stopped))
    likely = {look.path for look in looks}
    files = sorted((file for file, _ in found.files), key=lambda file: file not in likely)
    parsed, known_files = await stoppable(run, lambda stopped: _by_trees(place, files, short, stopped))
    rest = [file for file in files if file not in known_files]
    tagged = await _by_ctags(run, place, rest, short)
    ends = {extension_of(one.path) for one in tagged}
    looks = [look for look in looks if look.path not in known_files and extension_of(look.path) not in ends]
    ways = (("tree-sitter", parsed), ("ctags", tagged), ("the looks of the lines", looks))
    way = " and ".join(name for name, definitions in ways if definitions)
    return (
        _answer(place, short, [*parsed, *tagged, *looks], lines, way) if way else _none(place, short, found)
    )


def _by_looks(lines: dict[tuple[str, int], str], name: str, stopped: Callable[[], bool]) -> list[Definition]:
    """Return the lines that look as if they defined the name."""
    found = itertools.takewhile(lambda _: not stopped(), lines.items())
    return [Definition(file, line, "") for (file, line), text in found if defines(file, text, name)]


def _by_trees(
    place: SearchPlace, files: list[str], name: str, stopped: Callable[[], bool]
) -> tuple[list[Definition], frozenset[str]]:
    """Find definitions with tree-sitter; also return the files it could parse."""
    from buddy.workspace.symbol_trees import Trees  # late: 20 ms, seldom needed

    trees = Trees()
    definitions: list[Definition] = []
    told: set[str] = set()
    room = MAX_PARSED_BYTES
    for file in files:
        if stopped() or room <= 0:
            break
        source = regular_bytes(os.path.join(place.corpus.top, file), MAX_FILE_BYTES)
        defined = trees.definitions(extension_of(file), source, name) if source is not None else None
        if defined is not None and source is not None:
            room -= len(source)
            told.add(file)
            definitions += [Definition(file, one.line, one.kind) for one in defined]
    return definitions, frozenset(told)


def _answer(
    place: SearchPlace,
    name: str,
    definitions: list[Definition],
    lines: dict[tuple[str, int], str],
    way: str,
) -> ToolResult:
    definitions = sorted(set(definitions))
    shown = [
        f"{visible(place.prefix + definition.path)}:{definition.line}: "
        f"{lines.get((definition.path, definition.line), '').strip()}"
        + (f"  ({definition.kind})" if definition.kind else "")
        for definition in definitions[:MAX_SHOWN]
    ]
    count = f"{format_count(len(definitions), 'definition')} of {name}"
    more = f", the first {MAX_SHOWN} are shown" if len(definitions) > MAX_SHOWN else ""
    summary = f"{count}, found by {way}{more}"
    return ToolResult("\n".join([*shown, f"[{summary}]"]), FileList(summary, tuple(shown), len(definitions)))


def _none(place: SearchPlace, name: str, found: Found) -> ToolResult:
    least = "at least " if found.more else ""
    uses = (
        f"{least}{format_count(found.total, 'line')} in {format_count(len(found.files), 'source file')}"
        f" {'mentions' if found.total == 1 else 'mention'} it"
        if found.total
        else (f"none of {found.searched:,} source files mentions it")
    )
    notes = "" if found.done and place.walked.whole else " The search was not complete: use a smaller path."
    ignored = " Ignored files were not searched." if place.walked.ignored else ""
    text = f"no definition of {name} found in {place.located.shown}; {uses}.{notes}{ignored}"
    return ToolResult(text, FileList(text, (), 0))


async def _by_ctags(run: SearchRun, place: SearchPlace, names: list[str], name: str) -> list[Definition]:
    """Find definitions with universal-ctags in the files that mention the name; nothing where it is not
    installed."""
    children = run.children
    if children is None or not names or len(names) > MAX_TAGGED_FILES:
        return []
    ctags = trusted_program("ctags", children.environment.variables.get("PATH", ""), run.workspace)
    if ctags is None:
        return []
    # --options=NONE first: no configuration of the workspace is read, which could name programs to run.
    options = ("--options=NONE", "--sort=no", "-x", "--_xformat=%n:%K:%N:%F")
    files = [f"./{file}" for file in names if "\n" not in file]
    output: list[bytes] = []
    request = CommandRequest((ctags, *options, *files), place.corpus.top, run.task_id, limited=False)
    done = await children.run(request, timeout_s=run.left_s, cancelled=run.cancelled, listener=output.append)
    if not done.ok:
        return []
    known = frozenset(names)
    definitions: list[Definition] = []
    for text in b"".join(output).decode("utf-8", "surrogateescape").splitlines():
        line, kind, tag, file = (*text.split(":", 3), "", "", "")[:4]
        file = file.removeprefix("./")
        if tag == name and line.isdigit() and file in known and kind not in ("module-import", "unknown"):
            definitions.append(Definition(file, int(line), kind))
    return definitions
