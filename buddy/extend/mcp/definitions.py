"""Definitions of MCP servers as files hold them: read, checked, expanded, put in one line. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, cast
from urllib.parse import urlsplit

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.safety.sanitise import one_line, visible
from buddy.safety.url_guard import canonical_host

Kind = Literal["stdio", "http", "sse", "channel"]
"""`channel`: a connection that a program embedding buddy provides."""
Scope = Literal["arguments", "user", "plugin", "project", "program"]
"""The place a definition comes from. Those of others, a project's or a plug-in's, need an approval."""
OF_OTHERS: frozenset[Scope] = frozenset({"plugin", "project"})

DEFAULT_TIMEOUT_S = 300.0
LONGEST_TIMEOUT_S = 24 * 3600.0
MILLISECONDS_FROM = 1000
"""`timeout` is in milliseconds from this number on, as most programs write it; below it, in seconds."""
NAME = pattern(r"[A-Za-z0-9](?:[A-Za-z0-9_. -]{0,62}[A-Za-z0-9])?")
_HEADER_NAME = pattern(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_IS_NAME = pattern(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
VARIABLE = pattern(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_PLAIN_WORD = pattern(r"""[^\s,;"'()]+""")
_LOADS_CODE = pattern(
    r"PATH|ENV|BASH_ENV|SHELLOPTS|IFS|_JAVA_OPTIONS|(?:LD|DYLD)_.*|PYTHON.*|PERL5.*|RUBY.*|GIT_SSH(?:_COMMAND)?|.*_OPTIONS|.*_OPTS"
    r"|.*PATH|.*PRELOAD"
)
"""Variables that choose the programs and libraries a server runs: their values are shown for an approval."""
SHORTEST_COMMAND = 40
_TYPES: Mapping[str, Kind] = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamableHttp": "http",
    "remote": "http",
    "sse": "sse",
}
_KNOWN = frozenset(
    {
        *("type", "transport", "command", "args", "env", "cwd", "timeout", "url", "serverUrl", "httpUrl"),
        *("headers", "http_headers", "disabled", "enabled", "sandbox", "network", "write", "oauth"),
        *("tool_timeout_sec", "tool_timeout_s", "description", "required"),
    }
)


class DefinitionError(ValueError):
    """A definition that cannot be used: what was expected, what was found."""


def kind_of(value: object) -> str:
    """Return what a value of a file is, in words."""
    match value:
        case None:
            return "nothing (null)"
        case bool():
            return "true" if value else "false"
        case str():
            return "text"
        case int() | float():
            return "a number"
        case list() | tuple():
            return "a list"
        case dict():
            return "an object"
        case _:
            return "something else"


class OAuthClient(msgspec.Struct, frozen=True):
    """A client registered beforehand, or one whose id is the address of a document that describes it (for
    authorization servers that read one). Empty: the client registers itself."""

    client_id: str = ""
    client_secret: str = ""
    scopes: tuple[str, ...] = ()
    port: int = 0
    document: str = ""


class ServerDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """One server, with its variables not yet expanded. `source` is the file it stands in, `folder` that of
    its plug-in ("" for none), `agent` the subagent that alone has it ("" for the whole session). `sandbox`,
    `network` and `write` describe the sandbox of a stdio server; `required`: a run of `exec` does not begin
    without it."""

    name: str
    scope: Scope
    source: str
    kind: Kind
    folder: str = ""
    agent: str = ""
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str = ""
    url: str = ""
    headers: dict[str, str] = {}
    timeout_s: float = DEFAULT_TIMEOUT_S
    sandbox: bool = True
    network: bool = True
    write: tuple[str, ...] = ()
    disabled: bool = False
    required: bool = False
    oauth: OAuthClient = OAuthClient()

    def summary(self, limit: int = 0) -> str:
        """Return the definition in one line, as it stands in the file: variables show their names. The risks
        come first and are never cut; with a `limit`, the command line or address is cut to fit it."""
        if self.kind == "channel":
            return "provided by the program"
        if self.kind == "stdio":
            words = " ".join((self.command, *self.args))
        else:
            words = f"{self.kind} {_shown_url(self.url)}"
        risks, words = visible("".join(f"{risk}; " for risk in self.risks())), visible(words)
        return risks + (one_line(words, max(limit - len(risks), SHORTEST_COMMAND)) if limit else words)

    def risks(self) -> tuple[str, ...]:
        """Return the rights the definition takes and the things it is handed, the gravest first."""
        env = [
            f"{_quote(name)}={_quote(self.env[name])}" if _LOADS_CODE().fullmatch(name) else _quote(name)
            for name in sorted(self.env)
        ]
        is_stdio = self.kind == "stdio"
        return (
            *(["outside the sandbox"] if is_stdio and not self.sandbox else []),
            *([f"may write {', '.join(map(_quote, self.write))}"] if is_stdio and self.write else []),
            *([f"starts in {_quote(self.cwd)}"] if is_stdio and self.cwd else []),
            *([f"reads {', '.join(reads)}"] if (reads := self.variables()) else []),
            *([f"environment {', '.join(env)}"] if is_stdio and env else []),
            *(
                [f"headers {', '.join(map(_quote, sorted(self.headers)))}"]
                if not is_stdio and self.headers
                else []
            ),
        )

    def variables(self) -> tuple[str, ...]:
        """Return the names of environment variables that the definition reads."""
        texts = (self.command, *self.args, self.cwd, self.url, *self.env.values(), *self.headers.values())
        return tuple(dict.fromkeys(found[1] for text in texts for found in VARIABLE().finditer(text)))


def read_servers(
    table: object, scope: Scope, source: str
) -> tuple[tuple[ServerDefinition, ...], tuple[str, ...]]:
    """Return the servers of a table by name, and a sentence for each that cannot be used."""
    if not isinstance(table, dict):
        return (), (f"{source}: expected an object of servers by name, found {kind_of(table)}",)
    servers: list[ServerDefinition] = []
    problems: list[str] = []
    for name, entry in cast("dict[Any, Any]", table).items():
        try:
            servers.append(read_server(str(name), entry, scope, source))
        except DefinitionError as error:
            problems.append(f"{source}: MCP server {visible(str(name)[:80])}: {error}")
    return tuple(servers), tuple(problems)


def read_server(name: str, entry: object, scope: Scope, source: str) -> ServerDefinition:
    """Return one definition. Raises `DefinitionError`."""
    if NAME().fullmatch(name) is None:
        raise DefinitionError(
            "expected a name of at most 64 letters, digits, blanks and . _ -, "
            f"found {visible(name[:80])!r}; rename it"
        )
    if not isinstance(entry, dict):
        raise DefinitionError(f"expected an object with command or url, found {kind_of(entry)}")
    given = cast("dict[str, Any]", entry)
    kind = _kind(given)
    url = _text(given, "url", "serverUrl", "httpUrl")
    if kind == "stdio" and not _text(given, "command"):
        raise DefinitionError("expected command (a program) or url (an address), found neither")
    if kind != "stdio":
        _check_url(url)
    command, args = _words(given)
    disabled = bool(given.get("disabled", False)) or given.get("enabled", True) is False
    return ServerDefinition(
        name=name,
        scope=scope,
        source=source,
        kind=kind,
        command=command,
        args=args,
        env=_texts(given, "env"),
        cwd=_text(given, "cwd"),
        url=url,
        headers={**_texts(given, "http_headers"), **_texts(given, "headers")},
        timeout_s=_timeout_s(given),
        sandbox=_flag(given, "sandbox", default=True),
        network=_flag(given, "network", default=True),
        write=_list(given, "write"),
        disabled=disabled,
        required=_flag(given, "required", default=False),
        oauth=_oauth(given),
    )


def unknown_keys(entry: object) -> tuple[str, ...]:
    """Return the keys of an entry that buddy does not know, for a person who writes one."""
    return tuple(sorted(set(cast("dict[str, Any]", entry)) - _KNOWN)) if isinstance(entry, dict) else ()


def _kind(given: Mapping[str, Any]) -> Kind:
    named = given.get("type", given.get("transport", ""))
    if not named:
        return "stdio" if given.get("command") or not _text(given, "url", "serverUrl", "httpUrl") else "http"
    kind = _TYPES.get(named) if isinstance(named, str) else None
    if kind is None:
        raise DefinitionError(f"type is one of stdio, http, sse; found {visible(str(named)[:40])!r}")
    return kind


def _check_url(url: str) -> None:
    expanded = VARIABLE().sub("x", url)
    try:
        parts = urlsplit(expanded)
    except ValueError as error:
        raise DefinitionError(f"url is no address: {error}") from error
    whole = VARIABLE().fullmatch(url) is not None
    if not whole and (parts.scheme not in ("http", "https") or not parts.netloc):
        raise DefinitionError(
            f"expected a url that begins with https:// or http://, found {visible(url[:80])!r}"
        )


def _words(given: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    command = given.get("command", "")
    if isinstance(command, list):  # opencode writes program and arguments as one list
        words = _list(given, "command")
        return words[0] if words else "", (*words[1:], *_list(given, "args"))
    return _text(given, "command"), _list(given, "args")


def _timeout_s(given: Mapping[str, Any]) -> float:
    for name in ("timeout", "tool_timeout_sec", "tool_timeout_s"):
        value = given.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise DefinitionError(f"{name}: expected a number above 0, found {visible(str(value)[:40])!r}")
        seconds = value / 1000 if name == "timeout" and value >= MILLISECONDS_FROM else float(value)
        return min(seconds, LONGEST_TIMEOUT_S)
    return DEFAULT_TIMEOUT_S


def _oauth(given: Mapping[str, Any]) -> OAuthClient:
    table = given.get("oauth")
    if not isinstance(table, dict):
        return OAuthClient()
    found = cast("dict[str, Any]", table)
    port = found.get("callbackPort", found.get("port", 0))
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= 65535:
        raise DefinitionError(f"oauth callbackPort: expected a port, found {visible(str(port)[:40])!r}")
    scopes = found.get("scopes", found.get("scope", ()))
    document = _text(found, "clientMetadataUrl", "client_metadata_url")
    if document:
        _check_document(document)
    return OAuthClient(
        _text(found, "clientId", "client_id"),
        _text(found, "clientSecret", "client_secret"),
        tuple(scopes.split()) if isinstance(scopes, str) else _list(found, "scopes"),
        port,
        document,
    )


def _check_document(address: str) -> None:
    """Check the address of a document: https, with a path that is not the root, and nothing that a browser
    or server would read otherwise."""
    try:
        parts = urlsplit(address)
        is_fit = parts.scheme == "https" and parts.hostname and parts.path.strip("/")
        is_fit = is_fit and not (parts.username or parts.password or parts.fragment)
        is_fit = is_fit and address.isascii() and address.isprintable() and " " not in address
        is_fit = is_fit and not {".", ".."}.intersection(parts.path.split("/"))
    except ValueError:
        is_fit = False
    if not is_fit:
        raise DefinitionError(
            "oauth clientMetadataUrl: expected the https address of a document, with a path, found "
            f"{visible(address[:80])!r}"
        )


def _text(given: Mapping[str, Any], *names: str) -> str:
    for name in names:
        value = given.get(name, "")
        if not isinstance(value, str) or "\0" in value:
            raise DefinitionError(f"{name}: expected text, found {kind_of(value)}")
        if value:
            return value
    return ""


def _flag(given: Mapping[str, Any], name: str, *, default: bool) -> bool:
    value = given.get(name, default)
    if not isinstance(value, bool):
        raise DefinitionError(f"{name}: expected true or false, found {visible(str(value)[:40])!r}")
    return value


def _list(given: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = given.get(name, ())
    if not isinstance(value, list | tuple):
        raise DefinitionError(f"{name}: expected a list of texts, found {kind_of(value)}")
    texts = cast("list[object]", value)
    if any(not isinstance(one, str | int | float) or "\0" in str(one) for one in texts):
        raise DefinitionError(f"{name}: expected a list of texts")
    return tuple(map(str, texts))


def _texts(given: Mapping[str, Any], name: str) -> dict[str, str]:
    value: object = given.get(name) or {}
    if not isinstance(value, dict):
        raise DefinitionError(f"{name}: expected an object of texts, found {kind_of(value)}")
    table = cast("dict[str, object]", value)
    for key, text in table.items():
        if (
            not isinstance(text, str | int | float)
            or "\0" in f"{key}{text}"
            or ("=" in key and name == "env")
        ):
            raise DefinitionError(f"{name}: expected text for {visible(str(key)[:40])!r}")
    return {key: str(text) for key, text in table.items()}


def _quote(word: str) -> str:
    """Return a word of a definition so that it ends where it seems to end."""
    return word if _PLAIN_WORD().fullmatch(word) else json.dumps(word, ensure_ascii=False)


def _hide_values(query: str) -> str:
    """Return a query with the names of its fields and of variables, and no other value."""
    fields = (field.partition("=") for field in query.split("&"))
    return "&".join(
        f"{name}={value if _IS_NAME().fullmatch(value) else '…'}" if equals else "…"
        for name, equals, value in fields
    )


def _shown_url(url: str) -> str:
    """Return an address without its password and the values of its query, and with a host that looks like no
    other."""
    rest, _, fragment = url.partition("#")
    rest, _, query = rest.partition("?")
    before, slashes, rest = rest.partition("//")
    place, slash, path = rest.partition("/")
    user, at, host = place.rpartition("@")
    shown = f"{before}{slashes}{'…' if user else ''}{at}{host}{slash}{path}"
    shown += f"?{_hide_values(query)}" if query else ""
    shown += "#…" if fragment else ""
    try:
        host = urlsplit(VARIABLE().sub("x", url)).hostname or ""
    except ValueError:
        return shown
    return shown if host.isascii() else f"{shown} ({canonical_host(host) or 'not a host name'})"


def expand_variables(
    definition: ServerDefinition, environment: Mapping[str, str], forbidden: Collection[str]
) -> ServerDefinition:
    """Return the definition with `${VAR}` and `${VAR:-default}` replaced. `forbidden`: variables with keys of
    the person's providers, which a project's server never gets. Raises `DefinitionError`."""

    def value(found: re.Match[str]) -> str:
        name, default = found[1], found[2]
        if definition.scope in OF_OTHERS and name in forbidden:
            raise DefinitionError(
                f"it asks for {name}, a key of yours; a {definition.scope}'s server does not get it. If you "
                "want that, define the server in your own mcp.json"
            )
        known = environment.get(name, "")
        if known or (name in environment and default is None):
            return known
        if default is None:
            raise DefinitionError(f"the variable {name} is not set; set it, or write ${{{name}:-default}}")
        return default

    def expand(text: str) -> str:
        return VARIABLE().sub(value, text)

    expanded = msgspec.structs.replace(
        definition,
        command=expand(definition.command),
        args=tuple(map(expand, definition.args)),
        env=_expand_values(definition.env, expand),
        cwd=expand(definition.cwd),
        url=expand(definition.url),
        headers=_expand_values(definition.headers, expand),
    )
    if expanded.kind in ("http", "sse"):
        _check_url(expanded.url)
        for header, text in expanded.headers.items():
            if not (text.isascii() and text.isprintable() and _HEADER_NAME().fullmatch(header)):
                raise DefinitionError(
                    f"the header {visible(header[:80])} holds characters that can't be sent: expected "
                    "printable ASCII"
                )
    return expanded


def _expand_values(table: Mapping[str, str], expand: Callable[[str], str]) -> dict[str, str]:
    return {name: expand(text) for name, text in table.items()}
