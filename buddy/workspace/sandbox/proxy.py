"""The only way out of the sandbox: a proxy that opens tunnels (CONNECT) to allowed hosts and keeps a list.

A host is allowed by its name, exactly or with its subdomains (`.example.org`); it is resolved here, every
address is judged by where it leads, and the tunnel goes to a judged address. Each command has a password of
its own for the proxy, so the list says which command asked for what.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence

import msgspec

from buddy.safety.addresses import Network
from buddy.safety.sanitise import visible
from buddy.safety.url_guard import Refused, Resolver, canonical_host, judge_url, resolve_and_judge
from buddy.workspace.sandbox.network import DOOR_PORT

MAX_HEAD_BYTES = 8192
HEAD_WITHIN_S = 30.0
CONNECT_WITHIN_S = 15.0
MAX_TUNNELS = 256
MAX_REQUESTS = 200
"""Different hosts that are kept of one command."""
_PIECE_BYTES = 64 * 1024
_HTTPS = 443


class HostRequest(msgspec.Struct, frozen=True):
    """One command's wish to reach a host. `refusal` is "" when the tunnel was opened; `is_named`: a rule for
    the host's name is what is missing."""

    host: str
    port: int
    refusal: str
    is_named: bool = True


class Pass(msgspec.Struct):
    """One command's way through the proxy. `hosts`: allowed for this command besides those of the session."""

    name: str
    password: str
    hosts: tuple[str, ...] = ()
    requests: list[HostRequest] = msgspec.field(default_factory=list[HostRequest])

    def environment(self) -> Mapping[str, str]:
        """Return the variables that send programs through the proxy."""
        address = f"http://{self.name}:{self.password}@127.0.0.1:{DOOR_PORT}"
        local = "localhost,127.0.0.1,::1"
        variables = {"NO_PROXY": local, "no_proxy": local}
        for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"):
            variables[name] = variables[name.lower()] = address
        return variables

    def note(self, request: HostRequest) -> None:
        """Keep a request, once each."""
        if len(self.requests) < MAX_REQUESTS and request not in self.requests:
            self.requests.append(request)


class SandboxProxy:
    """Serves one door. At each request `allowed` gives the hosts of the session, and `networks` the private
    networks that allowed names may lead to."""

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
        """Forget a pass; what still runs of its command is refused from now on."""
        self._passes.pop(name, None)

    async def serve(self, listener: socket.socket) -> asyncio.Server:
        """Accept connections from the door until the server is closed."""
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
        refusal, addresses = await self._judge(request, holder)
        is_named = bool(request.host) and not self._is_open(request, holder)
        holder.note(HostRequest(request.host or request.target, request.port, refusal, is_named))
        if refusal:
            await _refuse(writer, "403 Forbidden", refusal)
            return
        await self._tunnel(reader, writer, request.port, addresses)

    async def _judge(self, request: _Request, holder: Pass) -> tuple[str, Sequence[str]]:
        """Return why a request is refused, or "" and where its host leads."""
        if request.method != "CONNECT":
            shown = visible(request.line[:200])
            return f"only https goes through the sandbox's proxy, found {shown}", ()
        if not request.host:
            return "the host cannot be read", ()
        if self._tunnels > MAX_TUNNELS:
            return f"more than {MAX_TUNNELS} connections at once", ()
        if not self._is_open(request, holder):
            where = request.host if request.port == _HTTPS else f"{request.host}:{request.port}"
            return f'{where} is not an allowed host; [sandbox] hosts = ["{where}"] allows it', ()
        networks = self._networks()
        judged = judge_url(f"https://{_bracketed(request.host)}:{request.port}/", networks)
        if isinstance(judged, Refused):
            return judged.reason, ()
        if judged.address:
            return "", (judged.address,)
        addresses = await resolve_and_judge(judged.host, request.port, self._resolver, networks)
        return (addresses.reason, ()) if isinstance(addresses, Refused) else ("", addresses)

    def _is_open(self, request: _Request, holder: Pass) -> bool:
        return is_allowed(request.host, request.port, (*holder.hosts, *self._allowed()))

    async def _tunnel(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int, addresses: Sequence[str]
    ) -> None:
        opened = await _connect(addresses, port)
        if opened is None:
            await _refuse(writer, "502 Bad Gateway", "the host does not answer")
            return
        far_reader, far_writer = opened
        try:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await writer.drain()
            await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
        finally:
            far_writer.close()


class _Request(msgspec.Struct, frozen=True):
    method: str
    line: str
    target: str
    host: str
    port: int
    name: str
    password: str


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


def _parse(head: bytes) -> _Request:
    """Read the request line and the password; whatever cannot be read is empty."""
    line, *fields = head.decode("latin-1").split("\r\n")
    method, _, rest = line.partition(" ")
    host, _, port = rest.rpartition(" ")[0].rpartition(":")
    number = int(port) if port.isascii() and port.isdecimal() and len(port) < 6 else 0
    given = next((text for text in fields if text.lower().startswith("proxy-authorization:")), "")
    name, password = _credentials(given.partition(":")[2].strip())
    known = host[1:-1] if host.startswith("[") else canonical_host(host)
    readable = method == "CONNECT" and 0 < number < 65536
    return _Request(method, line, rest.rpartition(" ")[0], known if readable else "", number, name, password)


def _credentials(text: str) -> tuple[str, str]:
    scheme, _, encoded = text.partition(" ")
    if scheme.lower() != "basic":
        return "", ""
    try:
        name, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return name, password


def _bracketed(host: str) -> str:
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
