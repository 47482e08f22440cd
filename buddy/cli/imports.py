"""`buddy import`: take over settings and sessions of other programs, after showing what would be taken."""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from buddy.agent.formatting import format_count
from buddy.agent.tool import ToolError
from buddy.app.launch import LaunchContext, find_launch, read_settings
from buddy.app.options import Options, UsageError
from buddy.app.providers import load_catalogue
from buddy.app.session_store import open_store
from buddy.app.stderr import tell
from buddy.app.trust_state import trust_of
from buddy.config.loading import LoadedSettings, read_table
from buddy.config.settings import ConfigError
from buddy.extend.imports.findings import Findings, ModelEntry, Place, ServerEntry
from buddy.extend.imports.programs import find_settings
from buddy.extend.imports.transcripts import (
    Transcript,
    TranscriptError,
    find_transcripts,
    name_transcripts,
    read_transcript,
)
from buddy.extend.mcp.definitions import DefinitionError, read_server
from buddy.extend.mcp.sources import MAX_FILE_BYTES, SERVERS_KEYS, USER_FILE
from buddy.headless.exit_codes import CONFIGURATION, FAILED, OK
from buddy.llm.routing import UnknownModelError, route
from buddy.safety.paths import make_private_folders, read_regular, replace_file
from buddy.safety.policy.rules import Rule
from buddy.safety.policy.rules_loading import as_table, rules_of_tables
from buddy.safety.sanitise import one_line, visible
from buddy.sessions.errors import SessionError
from buddy.sessions.store import SessionStore

USAGE_TEXT = "expected: buddy import, buddy import sessions, or buddy import sessions NAME|all"
READ_IN_PLACE = (
    "Skills, commands, subagents, hooks and instruction files of these programs are read where they are: "
    "/skills, /commands, /agents, /hooks and /memory list them."
)


class Additions(msgspec.Struct):
    """Entries that are not there yet, by the file that takes them; `present` counts the others."""

    rules: list[Rule] = []
    models: list[ModelEntry] = []
    servers: list[ServerEntry] = []
    present: int = 0


def import_settings(options: Options, environment: Mapping[str, str]) -> int:
    """Carry out the subcommand. Return the exit code; raises `UsageError`."""
    try:
        launch = find_launch(options, environment)
        loaded = read_settings(launch, options)
        match options.words:
            case ():
                return _import_settings(options, environment, launch, loaded)
            case ("sessions", *names):
                store = open_store(launch, loaded.settings, tell)
                root = launch.boundary.root
                return _import_sessions(names, environment, root, store, only_list=options.print)
            case _:
                raise UsageError(USAGE_TEXT)
    except (ConfigError, SessionError) as error:
        tell(f"buddy: {error}\n")
        return CONFIGURATION
    except ToolError as error:
        tell(f"buddy: {error}\n")
        return CONFIGURATION
    except OSError as error:
        tell(f"buddy: {visible(str(error.filename or 'a file'))}: {error.strerror}\n")
        return FAILED


def _import_settings(
    options: Options, environment: Mapping[str, str], launch: LaunchContext, loaded: LoadedSettings
) -> int:
    root = launch.boundary.root
    found = find_settings(Place(environment, root, trust_of(launch.where, root)[0]))
    if not found:
        sys.stdout.write("no settings of Claude Code, Codex, Gemini CLI, opencode or aider are here\n")
        return OK
    toml = options.config or os.path.join(launch.where.config, "buddy.toml")
    servers = os.path.join(launch.where.config, USER_FILE)
    for findings in found if options.wide else ():
        findings.take_wide()
    new = _find_additions(found, loaded, _servers_in(_read_json(servers), servers))
    for findings in found:
        _print_findings(findings, new, launch.where.home)
    if not options.wide and any(findings.wide for findings in found):
        sys.stdout.write("buddy import --wide takes the wide rules, too\n")
    if new.present:
        sys.stdout.write(f"{format_count(new.present, 'setting')} already here\n")
    sys.stdout.write(f"{READ_IN_PLACE}\n")
    if not (new.rules or new.models or new.servers):
        sys.stdout.write("nothing new to take over\n")
        return OK
    targets = [
        path for path, entries in ((toml, [*new.rules, *new.models]), (servers, new.servers)) if entries
    ]
    sys.stdout.write(f"\nThis adds {_count(new)} to {visible(' and '.join(targets))}.\n")
    if options.print or not (options.yes or _confirm("Write it? [y/N] ")):
        sys.stdout.write("nothing was written" + ("" if options.print else "; --yes writes it") + "\n")
        return OK
    # Both texts are made before one is written: what does not fit leaves both files as they are.
    contents = [_toml_with(toml, new) if path == toml else _servers_with(servers, new) for path in targets]
    for at, (path, content) in enumerate(zip(targets, contents, strict=True)):
        try:
            _replace(path, content)
        except OSError as error:
            before = f"{visible(targets[0])} was written before" if at else "nothing was changed"
            tell(f"buddy: {visible(path)} can't be written: {error.strerror}; {before}\n")
            return FAILED
    sys.stdout.write(f"written: {visible(', '.join(targets))}\n")
    return OK


def _find_additions(
    found: Sequence[Findings], loaded: LoadedSettings, servers: Mapping[str, Any]
) -> Additions:
    """Return what is new. Models that buddy cannot reach are noted with their program."""
    settings = loaded.settings
    here = {_bare(rule) for rule in rules_of_tables(settings.rule, "user", "").rules}
    new = Additions()
    models, names = dict(settings.models), set(servers)
    for findings in found:
        for rule in findings.rules:
            if _bare(rule) in here:
                new.present += 1
            else:
                here.add(_bare(rule))
                new.rules.append(rule)
        for model in findings.models:
            table = model.table
            try:
                route(load_catalogue(), table["model"], base_url=table.get("base_url", ""))
            except UnknownModelError as error:
                findings.leave_out(f"model {table['model']}", str(error))
                continue
            if model.name in models:
                new.present += 1
            else:
                models[model.name] = settings.api
                new.models.append(model)
        for server in findings.servers:
            try:
                read_server(server.name, server.entry, "user", "")
            except DefinitionError as error:
                findings.leave_out(f"MCP server {server.name}", str(error))
                continue
            if server.name in names:
                new.present += 1
            else:
                names.add(server.name)
                new.servers.append(server)
    return new


def _bare(rule: Rule) -> Rule:
    """Return a rule without where it comes from and why."""
    return msgspec.structs.replace(rule, why="", source="", origin="user")


def _print_findings(findings: Findings, new: Additions, home: str) -> None:
    files = ", ".join(
        visible(path.replace(home, "~", 1) if path.startswith(home) else path) for path in findings.files
    )
    lines = [f"{findings.program} ({files})" if files else findings.program]
    meanings = [(one.rule, f" (wide: {one.meaning})") for one in findings.wide]
    lines += [
        f"  rule: {_rule_line(rule)}{next((said for wide, said in meanings if wide == rule), '')}"
        for rule in findings.rules
        if rule in new.rules
    ]
    lines += [
        f"  model: {visible(model.name)} = {visible(', '.join(model.table.values()))}"
        for model in findings.models
        if model in new.models
    ]
    for server in findings.servers:
        if server in new.servers:
            words = " ".join(map(str, (server.entry.get("command", ""), *server.entry.get("args", []))))
            needs = f"; set {', '.join(server.variables)} in the environment" if server.variables else ""
            what = one_line(words.strip() or str(server.entry.get("url", "")), 200)
            lines.append(f"  MCP server: {visible(server.name)} ({what}){visible(needs)}")
    lines += [
        f"  left out: {_rule_line(one.rule)} (wide: {one.meaning})"
        for one in findings.wide
        if one.rule not in findings.rules
    ]
    lines += [f"  left out: {one.what} ({one.why})" for one in findings.left_out]
    sys.stdout.write("\n".join(lines) + "\n")


def _rule_line(rule: Rule) -> str:
    where = f" (only in {rule.project})" if rule.project else ""
    return one_line(f"{rule.decision} {rule.tool} {rule.what}{where}", 300)


def _count(new: Additions) -> str:
    counts = ((new.rules, "rule"), (new.models, "model"), (new.servers, "MCP server"))
    return ", ".join(format_count(len(entries), word) for entries, word in counts if entries)


def _confirm(question: str) -> bool:
    """Ask on a terminal; nobody there is a no."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    sys.stdout.write(question)
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _toml_with(path: str, new: Additions) -> bytes:
    """Return buddy.toml with tables at its end; its text stays as it is. Raises `ConfigError`, `OSError`."""
    import tomllib  # imported here, as the next: only writing needs them

    import tomli_w

    pieces = [f"\n[[rule]]\n{tomli_w.dumps(as_table(rule))}" for rule in new.rules]
    pieces += [f"\n{tomli_w.dumps({'models': {model.name: model.table}})}" for model in new.models]
    before = _read_own(path)
    text = f"{before.rstrip()}\n" if before.strip() else ""
    text += f"\n# From here on by buddy import, {time.strftime('%Y-%m-%d')}\n{''.join(pieces)}"
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(
            f"{path}: the new tables don't fit behind what is there ({error}); "
            f"add them yourself:\n{''.join(pieces)}"
        ) from error
    if rules_of_tables(tables.get("rule", []), "user", path).broken:
        raise ConfigError(f"{path}: its rules can't be read; buddy doctor says which. Nothing was written")
    return text.encode()


def _read_own(path: str) -> str:
    """Return the text of the person's file, "" where there is none, after checking that it can be read."""
    if read_table(path, required=False) is None:
        return ""
    return read_regular(path).decode()


def _servers_in(table: dict[str, Any], path: str) -> dict[str, Any]:
    """Return the servers in the table of mcp.json, made where they are missing. Raises `ConfigError`."""
    key = next((key for key in SERVERS_KEYS if key in table), SERVERS_KEYS[0])
    servers: object = table.setdefault(key, {})
    if not isinstance(servers, dict):
        raise ConfigError(f"{path}: {key}: expected an object of servers by name; correct it first")
    return cast("dict[str, Any]", servers)


def _read_json(path: str) -> dict[str, Any]:
    """Return the table of the person's mcp.json. Raises `ConfigError`."""
    try:
        data = read_regular(path, MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise ConfigError(f"{path}: more than {MAX_FILE_BYTES:,} bytes; nothing was changed")
        table: object = json.loads(data) if data.strip() else {}
    except FileNotFoundError:
        return {}
    except (OSError, ToolError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"{path}: can't be read ({why}); nothing was changed") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not valid JSON ({error}); correct it first") from error
    if not isinstance(table, dict):
        raise ConfigError(f'{path}: expected {{"mcpServers": {{…}}}}')
    return cast("dict[str, Any]", table)


def _servers_with(path: str, new: Additions) -> bytes:
    """Return mcp.json with the new servers. Raises `ConfigError`."""
    table = _read_json(path)
    _servers_in(table, path).update((server.name, server.entry) for server in new.servers)
    text = json.dumps(table, indent=2, ensure_ascii=False) + "\n"
    try:
        return text.encode()
    except UnicodeEncodeError:  # half a character, written as an escape by the person
        return json.dumps(table, indent=2).encode() + b"\n"


def _replace(path: str, content: bytes) -> None:
    """Write a file of the person's: through a link to where it leads, with the mode it has."""
    target = os.path.realpath(path)
    make_private_folders(os.path.dirname(target))
    mode = stat.S_IMODE(os.stat(target).st_mode) if os.path.exists(target) else 0o600
    replace_file(target, content, mode=mode)


def _import_sessions(
    names: Sequence[str],
    environment: Mapping[str, str],
    root: str,
    store: SessionStore,
    *,
    only_list: bool,
) -> int:
    """List the sessions of other programs in this folder, and write those that are chosen."""
    found = _read_transcripts(environment, root)
    here = {summary.name for summary in store.list()}
    new = {name: one for name, one in found.items() if name not in here}
    for name, one in found.items():
        at = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.created_at))
        mark = "" if name in new else "  (already here)"
        messages = format_count(len(one.messages), "message")
        sys.stdout.write(f"{visible(name):<16}  {at}  {messages:<14} {one.title}{mark}\n")
    if not found:
        sys.stdout.write("no sessions of Claude Code or Codex are kept for this folder\n")
    chosen = names or (_ask_names() if new and not only_list else ())
    unknown = [name for name in chosen if name != "all" and name not in found]
    if unknown:
        raise UsageError(
            f"no session is called {', '.join(map(repr, unknown))}; the list above has their names"
        )
    if only_list:
        sys.stdout.write("nothing was imported: --print only lists\n")
        return OK
    for name, one in new.items():
        if "all" in chosen or name in chosen:
            session_id = store.add(name, one.title, one.messages)
            sys.stdout.write(f"imported {name} as {session_id}: buddy resume {name}\n")
    return OK


def _ask_names() -> tuple[str, ...]:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        sys.stdout.write("buddy import sessions NAME … (or all) imports them\n")
        return ()
    sys.stdout.write("Which ones? Names, all, or Enter for none: ")
    sys.stdout.flush()
    return tuple(sys.stdin.readline().split())


def _read_transcripts(environment: Mapping[str, str], root: str) -> dict[str, Transcript]:
    found: list[Transcript] = []
    for path in find_transcripts(environment, root):
        try:
            transcript = read_transcript(path, root)
        except TranscriptError as error:
            tell(f"buddy: {error}\n")
            continue
        if transcript is not None:
            found.append(transcript)
    return name_transcripts(found)
