"""`buddy mcp`: MCP servers added, listed, removed, logged in to and tried."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
import time
from collections.abc import Mapping
from typing import Any, Literal, cast

from buddy.app.launch import LaunchContext, find_launch, read_settings
from buddy.app.mcp_definitions import KnownServer, KnownServers, expanded, known_servers, passing_session
from buddy.app.mcp_logins import saved_logins
from buddy.app.options import Options, UsageError
from buddy.app.stderr import tell
from buddy.cli.log import start_log
from buddy.config.loading import LoadedSettings
from buddy.config.settings import ConfigError
from buddy.extend.mcp.definition_files import DefinitionFile, DefinitionFileError
from buddy.extend.mcp.definitions import DefinitionError, ServerDefinition, read_server, unknown_keys
from buddy.extend.mcp.logins import Logins, LoginsError, host_of
from buddy.extend.mcp.sources import PROJECT_FILE, USER_FILE
from buddy.headless.exit_codes import CONFIGURATION
from buddy.safety.sanitise import clean, one_line, visible

USAGE_TEXT = (
    "expected: buddy mcp add NAME URL | NAME -- COMMAND [ARGUMENT …], add-json NAME JSON, list, get NAME, "
    "remove NAME, login NAME, logout NAME, test NAME"
)
FAILED = 1
TEST_S = 90.0
MAX_TOOLS_SHOWN = 100
Scope = Literal["local", "user", "project"]
SCOPES: tuple[Scope, ...] = ("local", "user", "project")


def mcp(options: Options, environment: Mapping[str, str]) -> int:
    """Carry out the subcommand. Returns the exit code; raises `UsageError`."""
    words = options.words or ("list",)
    if words[0] not in ("add", "add-json") and (options.transport or options.env or options.header):
        raise UsageError(f"--transport, --env and --header go with buddy mcp add, not with {words[0]}")
    try:
        launch = find_launch(options, environment)
        loaded = read_settings(launch, options)
        start_log(launch.where, debug=options.debug)
        return _McpCommand(launch, loaded, options).run(words)
    except (ConfigError, DefinitionError, DefinitionFileError, LoginsError) as error:
        tell(f"buddy: {clean(str(error))}\n")  # it may name a folder as somebody else called it
        return CONFIGURATION


class _McpCommand:
    """One command of `buddy mcp`."""

    def __init__(self, launch: LaunchContext, loaded: LoadedSettings, options: Options) -> None:
        self._launch = launch
        self._loaded = loaded
        self._options = options
        self._has_told_logins = False

    def run(self, words: tuple[str, ...]) -> int:
        """Carry it out and return the exit code."""
        match words:
            case ("add", name, target, *rest):
                return self._add(name, self._entry(target, rest))
            case ("add-json", name, text):
                return self._add(name, _json_entry(text))
            case ("list",):
                return self._list()
            case ("get", name):
                return self._get(name)
            case ("remove", name):
                return self._remove(name)
            case ("login", name):
                return self._login(name)
            case ("logout", name):
                return self._logout(name)
            case ("test", name):
                return asyncio.run(self._test(self._approved(name)))
            case _:
                raise UsageError(USAGE_TEXT)

    # -- files ---------------------------------------------------------------------------------------------

    def _scope(self) -> Scope | None:
        match self._options.scope:
            case "local" | "user" | "project" as scope:
                return scope
            case _:
                return None

    def _file(self, scope: Scope) -> DefinitionFile:
        launch, state = self._launch, self._launch.where.state
        if scope == "project":
            return DefinitionFile(os.path.join(launch.boundary.root, PROJECT_FILE), state, is_project=True)
        user = os.path.join(launch.where.config, USER_FILE)
        return DefinitionFile(user, state, folder=launch.boundary.root if scope == "local" else "")

    def _entry(self, target: str, rest: list[str]) -> dict[str, Any]:
        """Return the entry that the words and options of `add` describe."""
        options = self._options
        is_address = target.startswith(("http://", "https://")) and not rest
        if "://" in target and not target.startswith(("http://", "https://")):
            raise UsageError(
                "expected an address that begins with https:// or http://, or a command; "
                f"found {visible(target.partition('://')[0][:40])}://"
            )
        kind = options.transport or ("http" if is_address else "stdio")
        if kind == "stdio":
            if options.header:
                raise UsageError("--header goes with a server that has an address; a command takes --env")
            pairs = dict(_split_pair(text, "=", "--env", "KEY=VALUE") for text in options.env)
            return {"type": "stdio", "command": target, "args": rest, **({"env": pairs} if pairs else {})}
        if options.env:
            raise UsageError("--env goes with a server that has a command; an address takes --header")
        if rest:
            raise UsageError(f"a server with an address takes nothing after it; found {shlex.join(rest)}")
        pairs = dict(_split_pair(text, ":", "--header", "'NAME: VALUE'") for text in options.header)
        return {"type": kind, "url": target, **({"headers": pairs} if pairs else {})}

    def _add(self, name: str, entry: dict[str, Any]) -> int:
        scope = self._scope() or "local"
        file = self._file(scope)
        definition = read_server(name, entry, "project" if scope == "project" else "user", file.path)
        for key in unknown_keys(entry):
            tell(f"buddy: {visible(key)} is a key buddy does not know; it is written and has no effect\n")
        file.add(name, entry)
        _say(f"added {visible(name)} to {visible(file.path)} ({definition.summary(200)})")
        if scope == "project":
            _say(f"everybody who works on the project approves it once: /mcp trust {visible(name)}")
        shadow = known_servers(self._launch, self._loaded.settings, self._options).servers.get(name)
        if shadow is not None and shadow.definition.url + shadow.definition.command != (
            definition.url + definition.command
        ):
            tell(f"buddy: it is not used: {visible(shadow.definition.source)} has a server of that name\n")
        return 0

    def _remove(self, name: str) -> int:
        scope = self._scope()
        scopes: tuple[Scope, ...] = (scope,) if scope else SCOPES
        found: list[Scope] = [one for one in scopes if name in self._file(one).names()]
        if not found:
            where = self._known().servers.get(name)
            if where is not None:
                raise ConfigError(
                    f"{visible(name)} is defined in {visible(where.definition.source)}: edit it there"
                )
            raise ConfigError(
                f"there is no MCP server {visible(name)!r} to remove; buddy mcp list shows them"
            )
        if len(found) > 1:
            raise UsageError(f"{visible(name)} is in several files: add --scope {' or '.join(found)}")
        file = self._file(found[0])
        entry = file.entry(name)
        file.remove(name)
        _say(f"removed {visible(name)} from {visible(file.path)}")
        self._forget_unused_login(name, entry)
        return 0

    def _forget_unused_login(self, name: str, entry: object) -> None:
        """Forget the login to a removed server, unless another definition of the person's uses it."""
        try:
            definition = read_server(name, entry, "user", "")
            url = expanded(definition, self._launch, self._loaded.settings).url
            if not url or not self._logins().has(name, url):
                return
        except (DefinitionError, LoginsError):
            return
        places = self._file("user").places_of(name, definition.url)
        known = self._known().servers.get(name)
        if known is not None and known.definition.url == definition.url:
            places = (*places, known.definition.source)
        if places:
            where = visible(places[0] or "another definition")
            _say(f"its login stays, {where} uses it; buddy mcp logout {visible(name)} forgets it")
            return
        self._logins().remove(name, url)
        _say("forgot its login too; what the server knows of it is ended there")

    # -- looking -------------------------------------------------------------------------------------------

    def _known(self) -> KnownServers:
        known = known_servers(self._launch, self._loaded.settings, self._options)
        for problem in known.problems:
            tell(f"buddy: {clean(problem)}\n")
        return known

    def _one(self, name: str) -> KnownServer:
        known = self._known()
        if name not in known.servers:
            names = ", ".join(map(visible, known.servers)) or "none"
            raise ConfigError(f"there is no MCP server {visible(name)!r} (servers: {names})")
        return known.servers[name]

    def _approved(self, name: str) -> ServerDefinition:
        server = self._one(name)
        _check_standing(name, server.standing)
        return server.definition

    def _list(self) -> int:
        known = self._known()
        for server in known.servers.values():
            definition = server.definition
            notes = [note for note in (self._state(server), visible(definition.source)) if note]
            _say(f"{visible(definition.name)}: {definition.summary(160)} · {' · '.join(notes)}")
        for definition in known.hidden:
            _say(
                f"{visible(definition.name)} of {visible(definition.source)} is not used: yours has that name"
            )
        if not known.servers:
            _say("no MCP server is defined; buddy mcp add NAME URL adds one")
        return 0

    def _state(self, server: KnownServer) -> str:
        definition = server.definition
        if server.standing == "disabled":
            return "disabled"
        if server.standing == "untrusted":
            return f"waits for your approval (/mcp trust {visible(definition.name)})"
        return "logged in" if self._has_login(definition) else ""

    def _has_login(self, definition: ServerDefinition) -> bool:
        if definition.kind not in ("http", "sse"):
            return False
        try:
            url = expanded(definition, self._launch, self._loaded.settings).url
        except DefinitionError:
            return False
        try:
            return self._logins().has(definition.name, url)
        except LoginsError as error:
            if not self._has_told_logins:
                tell(f"buddy: {clean(str(error))}\n")
            self._has_told_logins = True
            return False

    def _get(self, name: str) -> int:
        server = self._one(name)
        definition = server.definition
        _say(f"{visible(name)}: {definition.summary()}")
        _say(f"  defined in {visible(definition.source)}")
        if state := self._state(server):
            _say(f"  {state}")
        if definition.headers:
            _say(f"  headers: {', '.join(map(visible, definition.headers))}")
        if reads := definition.variables():
            _say(f"  reads from your environment: {', '.join(reads)}")
        _say(f"  a call may be silent for {definition.timeout_s:g} s")
        return 0

    # -- logins --------------------------------------------------------------------------------------------

    def _logins(self) -> Logins:
        return saved_logins(self._launch)

    def _remote(self, name: str) -> ServerDefinition:
        definition = self._approved(name)
        if definition.kind not in ("http", "sse"):
            raise ConfigError(f"{visible(name)} is started by a command; only servers with an address log in")
        return expanded(definition, self._launch, self._loaded.settings)

    def _login(self, name: str) -> int:
        definition = self._remote(name)
        if not sys.stdin.isatty():
            raise ConfigError("a login needs a person at a terminal; run buddy mcp login in one")
        from buddy.cli.mcp_login import log_in_here  # half a second, only for a login
        from buddy.extend.mcp.records import LoginFailedError

        try:
            before = self._logins().find(name, definition.url)
            scopes = before.scopes() if before is not None and before.wanted_scope else ()
            login = asyncio.run(
                log_in_here(definition, self._launch.environment, scopes, self._launch.boundary.root)
            )
        except LoginFailedError as error:
            tell(f"buddy: {visible(name)}: {one_line(str(error), 400)}\n")
            return FAILED
        place = self._logins().save(name, login)
        _say(f"logged in to {visible(name)}, saved in {visible(place)}")
        _say(f"a running buddy uses it after /mcp reconnect {visible(name)}")
        return 0

    def _logout(self, name: str) -> int:
        """Forget every login saved under a name, also where its definition is gone or not approved."""
        addresses = self._logins().forget(name)
        if not addresses:
            self._one(name)
            _say(f"there is no login to {visible(name)}")
            return 0
        hosts = ", ".join(dict.fromkeys(host_of(url) for url in addresses))
        _say(f"forgot the login to {visible(name)} ({hosts}); what the server knows of it is ended there")
        return 0

    # -- trying --------------------------------------------------------------------------------------------

    async def _test(self, definition: ServerDefinition) -> int:
        """Connect as a session does, and say what the server offers."""
        begun = time.monotonic()
        name = definition.name
        async with passing_session(self._launch, self._loaded, self._options, tell) as session:
            servers = session.mcp
            server = servers.servers.get(name) if servers is not None else None
            if servers is None or server is None:
                raise ConfigError(f"there is no MCP server {visible(name)!r}")
            _check_standing(name, server.state)  # as the session sees it: the file may just have changed
            changed = asyncio.Event()
            servers.add_listener(changed.set)
            server.reconnect()
            try:
                async with asyncio.timeout(TEST_S):
                    while server.state not in ("ready", "lost", "login", "failed"):
                        changed.clear()
                        await changed.wait()
            except TimeoutError:
                pass
            seconds = time.monotonic() - begun
            reason = f": {one_line(server.reason, 400)}" if server.reason else ""
            if server.state != "ready":
                tell(f"buddy: {visible(name)}: {server.state_words}{reason}\n")
                tail = clean(server.stderr.text()).splitlines()[-10:]
                tell("".join(f"  stderr | {line}\n" for line in tail))
                return FAILED
            tools = servers.tools_of(name)
            _say(f"{visible(name)} is ready after {seconds:.1f} s and offers {len(tools)} tools")
            for tool in tools[:MAX_TOOLS_SHOWN]:
                _say(f"  {tool.name}: {one_line(tool.description, 100)}")
        return 0


def _say(text: str) -> None:
    print(text)  # noqa: T201 - the command's answer


def _check_standing(name: str, state: str) -> None:
    """Refuse a server that may not be started or asked. Raises `ConfigError`."""
    if state == "disabled":
        raise ConfigError(
            f"{visible(name)} is disabled in its definition; take `disabled` out there to use it"
        )
    if state == "untrusted":
        raise ConfigError(
            f"{visible(name)} waits for your approval of its definition as it is now: "
            f"/mcp trust {visible(name)} inside buddy"
        )


def _split_pair(text: str, separator: str, option: str, expected: str) -> tuple[str, str]:
    name, found, value = text.partition(separator)
    if not found or not name.strip():
        raise UsageError(f"{option}: expected {expected}, found {visible(name[:40])!r}")
    return name.strip(), value.strip() if separator == ":" else value


def _json_entry(text: str) -> dict[str, Any]:
    try:
        entry: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"add-json: not valid JSON ({error})") from error
    if not isinstance(entry, dict):
        raise UsageError('add-json: expected an object such as {"type": "http", "url": "https://…"}')
    return cast("dict[str, Any]", entry)
