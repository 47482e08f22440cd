"""Skills, command files and subagent files as records: found, read without blocking, judged usable or not;
and the YAML at their top.

The body of a file is read when it is used, by `read_body`; a record holds what lists and prompts need.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, cast

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.agent.tool import ToolError
from buddy.extend.search_folders import Kind, Scope, SearchFolder
from buddy.safety.paths import is_beneath, read_regular
from buddy.safety.protected import ProtectedPlaces, secret_reason
from buddy.safety.sanitise import clean, one_line, visible

MAX_FRONT_CHARS = 32 * 1024
MAX_EVENTS = 4_000
MAX_NESTING = 12
_FENCE = pattern(r"\A---[ \t]*\r?\n(?P<front>.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_LINE = pattern(r"(?P<key>[A-Za-z][\w-]*)[ \t]*:[ \t]*(?P<value>.*)")


class FrontMatter(msgspec.Struct, frozen=True):
    """A file's fields and its body. `warning` says what was wrong with the front matter, "" for nothing."""

    fields: Mapping[str, Any]
    body: str
    warning: str = ""


def split_front_matter(text: str) -> FrontMatter:
    """Return the fields and the body of a file; a file without front matter is all body."""
    text = text.removeprefix("\ufeff")
    if not text.startswith("---"):
        return FrontMatter({}, text.strip())
    found = _FENCE().match(text)
    if found is None:
        return FrontMatter({}, text.strip(), "its front matter has no closing line of dashes")
    front, body = found["front"], text[found.end() :].strip()
    if len(front) > MAX_FRONT_CHARS:
        return FrontMatter({}, body, f"its front matter is over {MAX_FRONT_CHARS // 1024} KiB; ignored")
    try:
        fields = _load(front)
    except _WrongFrontMatter as error:
        return FrontMatter(_line_by_line(front), body, f"its front matter is no valid YAML ({error})")
    return FrontMatter(fields, body)


class _WrongFrontMatter(Exception):
    """The reason why front matter can't be used, in words."""


def _load(front: str) -> dict[str, Any]:
    import yaml as pyyaml  # here: 15 ms that only people with such files pay

    yaml: Any = pyyaml
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        depth = 0
        for count, event in enumerate(yaml.parse(front, loader)):
            if isinstance(event, yaml.AliasEvent):
                raise _WrongFrontMatter("aliases are not allowed")
            depth += isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent)
            depth -= isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent)
            if depth > MAX_NESTING or count > MAX_EVENTS:
                raise _WrongFrontMatter("it is nested too deeply or too long")
        loaded: object = yaml.load(front, loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 2}: " if mark is not None else ""
        raise _WrongFrontMatter(f"{where}{getattr(error, 'problem', None) or 'unreadable'}") from error
    except (ValueError, RecursionError, OverflowError) as error:  # dates and numbers that are none
        raise _WrongFrontMatter(str(error)[:100]) from error
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise _WrongFrontMatter("expected fields, like `name: value`")
    return {str(key): value for key, value in cast(dict[object, Any], loaded).items()}


def _line_by_line(front: str) -> dict[str, str]:
    """Return the fields that stand in lines of their own; indented lines go on with the one above."""
    fields: dict[str, str] = {}
    key = ""
    for line in front.splitlines():
        if key and line[:1] in (" ", "\t") and line.strip():
            fields[key] = f"{fields[key]} {line.strip()}".strip()
        elif found := _LINE().fullmatch(line):
            key, value = found["key"], found["value"].strip()
            fields[key] = "" if value in ("|", ">", "|-", ">-") else _unquote(value)
    return fields


def _unquote(value: str) -> str:
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if is_quoted else value


def text_field(fields: Mapping[str, Any], *names: str) -> str:
    """Return the first of these fields that has a value, as text; a list becomes `[a] [b]`."""
    for name in names:
        value = fields.get(name)
        if isinstance(value, list):
            return " ".join(f"[{item}]" for item in cast(list[object], value))
        if value is not None and not isinstance(value, dict):
            return str(value).strip()
    return ""


def list_field(fields: Mapping[str, Any], *names: str) -> tuple[str, ...] | None:
    """Return the first of these fields that is there as a list of words: a YAML list, a mapping of names to
    true (opencode), or text with commas or blanks, which may stand in parentheses; None for none of them."""
    for name in names:
        value = fields.get(name)
        if isinstance(value, list):
            return tuple(str(item).strip() for item in cast(list[object], value) if str(item).strip())
        if isinstance(value, dict):
            return tuple(str(key) for key, on in cast(dict[object, object], value).items() if on is True)
        if value is not None:
            return _words(str(value))
    return None


def _words(text: str) -> tuple[str, ...]:
    words, depth = [""], 0
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        if depth <= 0 and sign in ", \t\n":
            words.append("")
        else:
            words[-1] += sign
    return tuple(word for word in words if word)


def flag_field(fields: Mapping[str, Any], name: str, *, default: bool) -> bool:
    """Return a yes or no; the default where it is neither."""
    value = fields.get(name, default)
    if isinstance(value, str):
        return {"true": True, "yes": True, "false": False, "no": False}.get(value.strip().lower(), default)
    return value if isinstance(value, bool) else default


MAX_FILE_BYTES = 256 * 1024
MAX_FILES = 1_000
"""Of one search folder."""
MAX_DEPTH = 6
NAME_CHARS = 64
DESCRIPTION_CHARS = 1024
MAX_OWN_SERVERS = 20
"""MCP servers that one subagent file may define itself."""
_NAME = pattern(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_TYPABLE = pattern(r"[\w.-]+(?::[\w.-]+)*")
State = Literal["active", "untrusted", "shadowed", "malformed", "disabled"]


class ExtensionFile(msgspec.Struct, frozen=True):
    """One skill, command file or subagent file. `reason` says why it is not active, `warning` what is odd
    about an active one. `folder` is a skill's own folder, `home` the person's. Fields that a kind does not
    have are empty."""

    kind: Kind
    name: str
    path: str
    label: str
    scope: Scope
    inside: str = ""
    home: str = ""
    description: str = ""
    hint: str = ""
    state: State = "active"
    reason: str = ""
    warning: str = ""
    model: str = ""
    agent: str = ""
    fork: bool = False
    allowed_tools: tuple[str, ...] = ()
    for_model: bool = True
    for_user: bool = True
    paths: tuple[str, ...] = ()
    tools: tuple[str, ...] | None = None
    disallowed_tools: tuple[str, ...] = ()
    permission_mode: str = ""
    max_turns: int = 0
    background: bool | None = None
    worktree: bool = False
    skills: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    own_servers: dict[str, Any] = {}
    """The MCP servers that a subagent file defines itself, as written, by name."""
    body: str = ""
    """The text of a definition that stands in no file."""

    @property
    def folder(self) -> str:
        """Return the folder a skill's other files are relative to."""
        return os.path.dirname(self.path)

    @property
    def is_toml(self) -> bool:
        """Tell whether this is a command file of Gemini's kind."""
        return self.path.endswith(".toml")


def definitions_in(folder: SearchFolder) -> Iterator[ExtensionFile]:
    """Yield the definitions of a folder in the order of their names; of one that can't be listed none."""
    for name, path in sorted(_files(folder))[:MAX_FILES]:
        yield _definition(folder, folder.prefix + name, path)


def watched_paths(folder: SearchFolder) -> list[str]:
    """Return the paths whose state says whether the folder's definitions changed."""
    return [folder.path, *(path for _, path in _files(folder)), *_subfolders(folder)]


def read_body(definition: ExtensionFile) -> FrontMatter:
    """Return a definition's file as it is now. Raises `ToolError`."""
    if definition.body:
        return FrontMatter({}, definition.body)
    return _parse(definition.path, definition.inside, definition.home)


def secret_within(real: str, top: str, home: str) -> str:
    """Return why a file beneath a folder is secret, "" for any other. Only its path within counts where the
    folder itself lies among secrets: buddy's own data hold copies of plug-ins, and worktrees."""
    places = ProtectedPlaces(home)
    if secret_reason(os.path.join(top, "file"), places):
        return secret_reason(f"/{os.path.relpath(real, top)}", ProtectedPlaces(""))
    return secret_reason(real, places)


def _files(folder: SearchFolder) -> Iterator[tuple[str, str]]:
    stem, ending = os.path.splitext(os.path.basename(folder.path))
    if folder.kind != "skill" and ending in folder.endings and os.path.isfile(folder.path):
        yield stem, folder.path
        return
    if folder.kind == "skill":
        own = os.path.join(folder.path, "SKILL.md")
        if os.path.lexists(own):
            yield os.path.basename(folder.path), own
            return
        for entry in _entries(folder.path):
            path = os.path.join(entry.path, "SKILL.md")
            if os.path.lexists(path):
                yield entry.name, path
        return
    pending = [(folder.path, "", 0)]
    while pending:
        directory, before, depth = pending.pop()
        for entry in _entries(directory):
            stem, ending = os.path.splitext(entry.name)
            if ending in folder.endings and not _is_folder(entry):
                yield before + stem, entry.path
            elif folder.deep and depth < MAX_DEPTH and _is_folder(entry):
                pending.append((entry.path, f"{before}{entry.name}:", depth + 1))


def _subfolders(folder: SearchFolder) -> list[str]:
    found: list[str] = []
    pending = [(folder.path, 0)]
    while pending:
        directory, depth = pending.pop()
        if depth and not folder.deep and folder.kind != "skill":
            break
        below = [entry.path for entry in _entries(directory) if _is_folder(entry)]
        found += below
        if folder.deep and depth < MAX_DEPTH:
            pending += [(path, depth + 1) for path in below]
    return found


def _entries(path: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as listing:
            return [
                entry for entry, _ in zip(listing, range(MAX_FILES), strict=False) if entry.name[0] != "."
            ]
    except OSError:
        return []


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Tell whether to look into it; a link is not followed, so that no circle is walked."""
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _parse(path: str, inside: str, home: str) -> FrontMatter:
    real = os.path.realpath(path)
    if inside and not is_beneath(real, os.path.realpath(inside)):
        raise ToolError(f"it is a link to {visible(real)}, outside of the folder it belongs to")
    if inside and (secret := secret_within(real, os.path.realpath(inside), home)):
        raise ToolError(f"it leads to {visible(real)}, which no model gets unasked: {secret}")
    try:
        text = read_regular(real, MAX_FILE_BYTES + 1).decode("utf-8", "replace")
    except OSError as error:
        raise ToolError(f"it can't be read: {error.strerror}") from error
    if len(text) > MAX_FILE_BYTES:
        raise ToolError(f"it is over {MAX_FILE_BYTES // 1024} KiB")
    return _toml(text) if path.endswith(".toml") else split_front_matter(text)


def _toml(text: str) -> FrontMatter:
    import tomllib  # here: only Gemini's command files need it

    try:
        table = tomllib.loads(text.removeprefix("\ufeff"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ToolError(f"it is no valid TOML: {error}") from error
    prompt = table.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        raise ToolError('expected a text as "prompt"')
    return FrontMatter(table, prompt.strip())


def _definition(folder: SearchFolder, name: str, path: str) -> ExtensionFile:
    shown = one_line(clean(name), 120)
    label = f"{folder.label}/{one_line(clean(os.path.relpath(path, folder.path)), 120)}"
    found = ExtensionFile(folder.kind, name, path, label, folder.scope, folder.inside, folder.home)
    if not _TYPABLE().fullmatch(name) or len(name) > 2 * NAME_CHARS:
        reason = "its name can't be typed: expected letters, digits, '-', '_' or '.'"
        return msgspec.structs.replace(found, name=visible(shown), state="malformed", reason=reason)
    try:
        front = _parse(path, folder.inside, folder.home)
    except ToolError as error:
        return msgspec.structs.replace(found, state="malformed", reason=one_line(clean(str(error)), 300))
    found = _with_fields(found, front.fields)
    problems = [front.warning, _oddity(found, front.fields) if folder.kind == "skill" else ""]
    if folder.kind == "agent":
        servers, own, problem = read_agent_servers(
            front.fields.get("mcpServers", front.fields.get("mcp_servers", front.fields.get("mcp-servers")))
        )
        found = msgspec.structs.replace(found, servers=servers, own_servers=own)
        problems.append(problem)
    found = msgspec.structs.replace(found, warning="; ".join(filter(None, problems)))
    if not front.body:
        return msgspec.structs.replace(found, state="malformed", reason="it has no text")
    if not found.description and folder.kind != "skill":
        return msgspec.structs.replace(found, description=_first_line(front.body))
    return found


def read_agent_servers(value: object) -> tuple[tuple[str, ...], dict[str, Any], str]:
    """Return the MCP servers that a subagent names, the ones it defines itself as they are written, and a
    sentence about those that are too many."""
    entries = cast(list[object], value) if isinstance(value, list) else [value]
    names: dict[str, None] = {}
    own: dict[str, Any] = {}
    for entry in entries:
        if isinstance(entry, dict):
            for name, what in cast(dict[object, object], entry).items():
                if isinstance(what, dict):
                    own.setdefault(str(name), what)
                else:
                    names[str(name)] = None
        elif entry is not None:
            names.update(dict.fromkeys(_words(str(entry))))
    surplus = list(own)[MAX_OWN_SERVERS:]
    for name in surplus:
        del own[name]
    return (
        tuple(name for name in names if name not in own),
        own,
        f"it defines more than {MAX_OWN_SERVERS} MCP servers; the rest is left out" if surplus else "",
    )


def _oddity(found: ExtensionFile, fields: Any) -> str:
    """Return what the agentskills format does not allow in a skill that can be used all the same."""
    given = text_field(fields, "name")
    own = found.name.rpartition(":")[2]
    if not found.description:
        return "it has no description, so the model can't tell when to use it"
    if len(text_field(fields, "description")) > DESCRIPTION_CHARS:
        return f"its description is over {DESCRIPTION_CHARS:,} characters; the rest is left out"
    if given and given != own:
        return f"its name is {one_line(clean(given), 60)!r}, its folder's {own!r}: the folder's counts"
    if not _NAME().fullmatch(own) or len(own) > NAME_CHARS:
        return "a skill's name has lower-case letters, digits and single hyphens, at most 64"
    return ""


def _with_fields(found: ExtensionFile, fields: Any) -> ExtensionFile:
    """Return the definition with the fields of its front matter; values of no use are left out."""
    turns = text_field(fields, "maxTurns", "max-turns", "steps")
    model = text_field(fields, "model")
    background = fields.get("background")
    tools = list_field(fields, "tools")
    name = found.name
    if found.kind == "agent":
        given = text_field(fields, "name")
        prefix = found.name.rpartition(":")[0]
        if given and _TYPABLE().fullmatch(given) and len(given) <= NAME_CHARS:
            name = f"{prefix}:{given}" if prefix else given
    return msgspec.structs.replace(
        found,
        name=name,
        description=one_line(clean(text_field(fields, "description")), DESCRIPTION_CHARS),
        hint=one_line(clean(text_field(fields, "argument-hint", "argument_hint")), 120),
        model="" if model in ("", "inherit", "default") else one_line(clean(model), 120),
        agent=one_line(clean(text_field(fields, "agent")), NAME_CHARS),
        fork=text_field(fields, "context") == "fork" or flag_field(fields, "subtask", default=False),
        allowed_tools=list_field(fields, "allowed-tools", "allowed_tools") or (),
        for_model=not flag_field(fields, "disable-model-invocation", default=False),
        for_user=flag_field(fields, "user-invocable", default=True),
        paths=list_field(fields, "paths") or (),
        tools=None if "*" in (tools or ()) else tools,
        disallowed_tools=list_field(fields, "disallowedTools", "disallowed-tools") or (),
        permission_mode=text_field(fields, "permissionMode", "permission-mode"),
        max_turns=int(turns[:6]) if turns.isdecimal() and turns.isascii() else 0,
        background=background if isinstance(background, bool) else None,
        worktree=text_field(fields, "isolation") == "worktree",
        skills=list_field(fields, "skills") or (),
    )


def _first_line(body: str) -> str:
    line = next((line for line in body.splitlines() if line.strip()), "")
    return one_line(clean(line.lstrip("# ").strip()), 100)
