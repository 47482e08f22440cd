"""The only way out of the sandbox: a proxy that opens tunnels (CONNECT) to allowed hosts, forwards plain http
requests to them, and records all requests.

A host is allowed by its exact name or with its subdomains (`.example.org`). It is resolved here, every
address is judged, and the connection goes to a judged address. Each command has its own proxy password, so
the record tells which command asked for what.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_network

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.safety.sanitise import visible
from buddy.safety.url_guard import Network, Refused, Resolver, canonical_host, judge_url, resolve_and_judge
from buddy.workspace.sandbox.network import DOOR_PORT

MAX_HEAD_BYTES = 8192
HEAD_WITHIN_S = 30.0
CONNECT_WITHIN_S = 15.0
MAX_TUNNELS = 256
MAX_REQUESTS = 200
"""Limit on the different hosts recorded for one command."""
_PIECE_BYTES = 64 * 1024
_HTTPS = 443
_ANY_NETWORK = (ip_network("0.0.0.0/0"), ip_network("::/0"))
_PLAIN_LINE = pattern(r"([A-Z]{1,20}) ((?i:http)://[^\s/?#@\\]+)([/?][!-~]*|) HTTP/1\.[01]")
_FIELD = pattern(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\x00-\x08\x0a-\x1f\x7f]*")
_LENGTH = pattern(r"[0-9]{1,15}")
_HOP_FIELDS = frozenset({"host", "connection", "keep-alive", "te", "trailer", "upgrade"})
"""Header fields for the next hop only, and the host, which the address contains."""


class HostRequest(msgspec.Struct, frozen=True):
    """One command's request for a host. `refusal` is "" when it is allowed; `is_named` means that only a rule
    for the host's name is missing; `failure` tells why an allowed host was not reached."""

    host: str
    port: int
    refusal: str
    is_named: bool = True
    failure: str = ""


class Pass(msgspec.Struct):
    """One command's permission to use the proxy. `hosts` are allowed for this command in addition to the
    session's."""

    name: str
    password: str
    hosts: tuple[str, ...] = ()
    requests: list[HostRequest] = msgspec.field(default_factory=list[HostRequest])

    def environment(self) -> Mapping[str, str]:
        """Return the variables that make programs use the proxy."""
        address = f"http://{self.name}:{self.password}@127.0.0.1:{DOOR_PORT}"
        local = "localhost,127.0.0.1,::1"
        variables = {"NO_PROXY": local, "no_proxy": local}
        for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"):
            variables[name] = variables[name.lower()] = address
        return variables

    def note(self, request: HostRequest) -> None:
        """Record a request, each once."""
        if len(self.requests) < MAX_REQUESTS and request not in self.requests:
            self.requests.append(request)


class SandboxProxy:
    """Serves one listening socket. For each request, `allowed` returns the session's hosts and `networks` the
    private networks that allowed names may lead to."""

    def __init__(
        self,
        allowed: Callable[[], Sequence[str]],
        resolver: Resolver,
        networks: Callable[[], Sequence[Network]] = tuple,
    ) -> None:
        self._allowed = allowed
        self._resolver = resolver
        self._networks = networks
        self._passes: dict[str, Pass] = {}
        self._tunnels = 0

    def admit(self, name: str, hosts: tuple[str, ...] = ()) -> Pass:
        """Make a pass for one command."""
        made = Pass(name, secrets.token_urlsafe(16), hosts)
        self._passes[name] = made
        return made

    def dismiss(self, name: str) -> None:
        """Remove a pass; remaining processes of its command are refused from now on."""
        self._passes.pop(name, None)

    async def serve(self, listener: socket.socket) -> asyncio.Server:
        """Accept connections until the server is closed."""
        return await asyncio.start_server(self._serve, sock=listener, limit=MAX_HEAD_BYTES)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tunnels += 1
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
                await self._answer(reader, writer)
        finally:
            self._tunnels -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(HEAD_WITHIN_S):
                head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            await _refuse(writer, "431 Request Header Fields Too Large", "the request is too long")
            return
        request = _parse(head)
        holder = self._passes.get(request.name)
        if holder is None or not secrets.compare_digest(holder.password, request.password):
            await _refuse(
                writer,
                "407 Proxy Authentication Required",
                "use the proxy address from HTTPS_PROXY with its password",
                'Proxy-Authenticate: Basic realm="buddy"\r\n',
            )
            return
        judged = await self._judge(request, holder)
        is_named = bool(request.host) and not self._is_open(request, holder)
        made = HostRequest(request.host or request.target, request.port, "", is_named)
        if isinstance(judged, Refused) and not judged.is_failure:
            holder.note(msgspec.structs.replace(made, refusal=judged.reason))
            await _refuse(writer, "403 Forbidden", judged.reason)
            return
        opened = None if isinstance(judged, Refused) else await _connect(judged, request.port)
        if opened is None:
            failure = judged.reason if isinstance(judged, Refused) else f"{_where(request)} does not answer"
            holder.note(msgspec.structs.replace(made, failure=failure))
            await _refuse(writer, "502 Bad Gateway", failure)
            return
        holder.note(made)
        await _pass_on(request, reader, writer, *opened)

    async def _judge(self, request: _ProxyRequest, holder: Pass) -> tuple[str, ...] | Refused:
        """Return the addresses of a request's host, or the reason why it is refused."""
        if not request.host:
            return Refused(request.fault or "the host cannot be read")
        if self._tunnels > MAX_TUNNELS:
            return Refused(f"more than {MAX_TUNNELS} connections at once")
        if not self._is_open(request, holder):
            where = _where(request)
            return Refused(f'{where} is not an allowed host; [sandbox] hosts = ["{where}"] allows it')
        if request.fault:
            return Refused(request.fault)
        networks = self._networks()
        judged = judge_url(f"https://{_bracket(request.host)}:{request.port}/", networks)
        if isinstance(judged, Refused):
            return judged
        if judged.address:
            return (judged.address,)
        return await resolve_and_judge(judged.host, request.port, self._resolver, networks)

    def _is_open(self, request: _ProxyRequest, holder: Pass) -> bool:
        return is_allowed(request.host, request.port, (*holder.hosts, *self._allowed()))


class _ProxyRequest(msgspec.Struct, frozen=True):
    """The head of a request. `forward` is the head to send for a plain http request, b"" for a tunnel;
    `body_bytes` follow it; `fault` tells why it is refused whatever its target."""

    target: str
    host: str
    port: int
    name: str
    password: str
    forward: bytes = b""
    body_bytes: int = 0
    fault: str = ""


async def _pass_on(
    request: _ProxyRequest,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    far_reader: asyncio.StreamReader,
    far_writer: asyncio.StreamWriter,
) -> None:
    """Serve a tunnel until one side ends, or one plain request and its answer."""
    try:
        if request.forward:
            far_writer.write(request.forward)
            await asyncio.gather(
                _copy_exactly(reader, far_writer, request.body_bytes), _copy(far_reader, writer)
            )
            return
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await writer.drain()
        await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
    finally:
        far_writer.close()


def is_allowed(host: str, port: int, rules: Sequence[str]) -> bool:
    """Tell whether a host in canonical form is allowed by rules `name`, `.name`, `name:port` or `*`."""
    for rule in rules:
        if rule == "*":
            return port == _HTTPS
        name, _, wanted = rule.partition(":")
        if port != (int(wanted) if wanted.isdecimal() else _HTTPS):
            continue
        bare = canonical_host(name.removeprefix("."))
        if bare and (host == bare or (name.startswith(".") and host.endswith(f".{bare}"))):
            return True
    return False


def _parse(head: bytes) -> _ProxyRequest:
    """Read the request line and the password; unreadable parts are empty."""
    line, *fields = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    method, _, rest = line.partition(" ")
    target, _, _version = rest.rpartition(" ")
    given = next((text for text in fields if text.lower().startswith("proxy-authorization:")), "")
    name, password = _credentials(given.partition(":")[2].strip())
    if method != "CONNECT":
        return _plain(line, fields, _ProxyRequest(visible(target[:200]), "", 0, name, password))
    host, _, port = target.rpartition(":")
    number = int(port) if port.isascii() and port.isdecimal() and len(port) < 6 else 0
    known = host[1:-1] if host.startswith("[") else canonical_host(host)
    return _ProxyRequest(target, known if 0 < number < 65536 else "", number, name, password)


def _plain(line: str, fields: Sequence[str], asked: _ProxyRequest) -> _ProxyRequest:
    """Build the forwarded head of an http:// request: one address, one host, one body of known length, one
    answer, so that no two programs read it differently."""
    found = _PLAIN_LINE().fullmatch(line)
    if found is None:
        return msgspec.structs.replace(asked, fault="only http and https go through the sandbox's proxy")
    method, scheme_host, target = found.groups()
    url = judge_url(scheme_host, _ANY_NETWORK)  # only to split it: `_judge` decides about its target
    if isinstance(url, Refused):
        return msgspec.structs.replace(asked, fault=url.reason)
    asked = msgspec.structs.replace(asked, host=url.host, port=url.port)
    if not all(map(_FIELD().fullmatch, fields)):
        return msgspec.structs.replace(asked, fault="a header field cannot be read")
    named = [(name.lower(), text) for name, _, text in (field.partition(":") for field in fields)]
    lengths = [text.strip(" \t") for name, text in named if name == "content-length"]
    if any(name == "transfer-encoding" for name, _ in named):
        return msgspec.structs.replace(
            asked, fault="a body needs a Content-Length here, no Transfer-Encoding"
        )
    if len(lengths) > 1 or not all(_LENGTH().fullmatch(text) for text in lengths):
        return msgspec.structs.replace(asked, fault="the Content-Length cannot be read")
    listed = (text for name, text in named if name == "connection")
    dropped = {word.strip().lower() for text in listed for word in text.split(",")} - {"content-length"}
    kept = (
        field
        for field, (name, _) in zip(fields, named, strict=True)
        if name not in dropped | _HOP_FIELDS and not name.startswith("proxy-")
    )
    path = target if target.startswith("/") else f"/{target}"
    head = (f"{method} {path} HTTP/1.1", f"Host: {url.authority}", *kept, "Connection: close", "", "")
    forward = "\r\n".join(head).encode("latin-1")
    return msgspec.structs.replace(asked, forward=forward, body_bytes=int(lengths[0]) if lengths else 0)


def _credentials(text: str) -> tuple[str, str]:
    scheme, _, encoded = text.partition(" ")
    if scheme.lower() != "basic":
        return "", ""
    try:
        name, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return name, password


def _where(request: _ProxyRequest) -> str:
    return request.host if request.port == _HTTPS else f"{request.host}:{request.port}"


def _bracket(host: str) -> str:
    return f"[{host}]" if ":" in host else host


async def _refuse(writer: asyncio.StreamWriter, status: str, reason: str, fields: str = "") -> None:
    body = f"sandbox: {reason}\n".encode()
    head = (
        f"HTTP/1.1 {status}\r\n{fields}Content-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    writer.write(head.encode() + body)
    await writer.drain()


async def _connect(
    addresses: Sequence[str], port: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
    """Connect to the first address that answers."""
    for address in addresses:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(CONNECT_WITHIN_S):
                return await asyncio.open_connection(address, port)
    return None


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass bytes on until one side ends."""
    with contextlib.suppress(OSError):
        while piece := await reader.read(_PIECE_BYTES):
            writer.write(piece)
            await writer.drain()
    with contextlib.suppress(OSError, RuntimeError):
        if writer.can_write_eof():
            writer.write_eof()


async def _copy_exactly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: int) -> None:
    """Pass on this many bytes and no more: further ones would be a second request."""
    with contextlib.suppress(OSError):
        while count and (piece := await reader.read(min(count, _PIECE_BYTES))):
            count -= len(piece)
            writer.write(piece)
            await writer.drain()
    if count:
        writer.close()  # the body was cut off: no answer follows
