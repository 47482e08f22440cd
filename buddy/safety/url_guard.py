"""The guard for web addresses: strict parsing, checks of the resolved addresses, and of data a URL may carry
away."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import unicodedata
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal
from urllib.parse import unquote, unquote_plus, urlsplit

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.safety.sanitise import visible
from buddy.safety.secrets.context import bits
from buddy.safety.secrets.key_shapes import find_shapes

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_V4: tuple[tuple[str, str], ...] = (
    ("0.0.0.0/8", "this host"),
    ("10.0.0.0/8", "a private network"),
    ("100.64.0.0/10", "a carrier's network"),
    ("127.0.0.0/8", "this machine"),
    ("168.63.129.16/32", "a cloud's metadata service"),
    ("169.254.0.0/16", "the local link or a cloud's metadata service"),
    ("172.16.0.0/12", "a private network"),
    ("192.0.0.0/24", "reserved"),
    ("192.0.2.0/24", "reserved for documentation"),
    ("192.31.196.0/24", "reserved"),
    ("192.52.193.0/24", "reserved"),
    ("192.88.99.0/24", "reserved"),
    ("192.168.0.0/16", "a private network"),
    ("192.175.48.0/24", "reserved"),
    ("198.18.0.0/15", "reserved for measurements"),
    ("198.51.100.0/24", "reserved for documentation"),
    ("203.0.113.0/24", "reserved for documentation"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved"),
)
_V6_GLOBAL = ipaddress.IPv6Network("2000::/3")
_V6: tuple[tuple[str, str], ...] = (
    ("2001::/23", "reserved (Teredo tunnels and others)"),
    ("2001:db8::/32", "reserved for documentation"),
    ("2002::/16", "a 6to4 tunnel"),
    ("2620:4f:8000::/48", "reserved"),
    ("3fff::/20", "reserved for documentation"),
)
_ISATAP = frozenset({0x00005EFE, 0x02005EFE})


def not_public(address: Address, exceptions: Sequence[Network] = ()) -> str:
    """Why an address may not be connected to; "" when it is a public one. `exceptions` are networks the
    caller allows all the same."""
    if any(address in network for network in exceptions):
        return ""
    if isinstance(address, ipaddress.IPv4Address):
        return _reason_in(address, _V4)
    if address not in _V6_GLOBAL:
        return "not a public IPv6 address"
    if (int(address) >> 32) & 0xFFFFFFFF in _ISATAP:
        return "a tunnel into a private network"
    return _reason_in(address, _V6)


def _reason_in(address: Address, table: Sequence[tuple[str, str]]) -> str:
    return next((reason for network, reason in table if address in ipaddress.ip_network(network)), "")


MAX_URL_CHARS = 8192
MAX_ADDRESSES = 16
_URL = pattern(r"(?i)(https?)://([^/?#]*)(.*)\Z", re.DOTALL)
_SCHEME = pattern(r"(?i)([a-z][a-z0-9+.-]*):")
_NAME = pattern(
    r"(?=.{1,253}\Z)(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
)
_NUMERIC = pattern(r"[0-9]+|0x[0-9a-f]*")
_DOTS = str.maketrans({"。": ".", "．": ".", "｡": "."})
_LOCAL_NAMES = pattern(
    r"(?:.+\.)?(?:localhost|localdomain|local|internal|intranet|private|home\.arpa|lan|corp|onion)"
)
DEFAULT_PORTS = {"http": 80, "https": 443}

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port to addresses, written as numbers. Raises `OSError` for a name that has none."""


class JudgedAddress(msgspec.Struct, frozen=True):
    """An address that may be asked for. `host` is lower-case ASCII (punycode), `address` its number when it
    was one already, else ""; `target` is path and query; `shown` is the whole for people, as it will be
    asked."""

    scheme: Literal["http", "https"]
    host: str
    port: int
    target: str
    address: str

    @property
    def authority(self) -> str:
        """Host and, where it is not the usual one, port: the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """Return the address as it is requested."""
        return f"{self.scheme}://{self.authority}{self.target}"

    @property
    def shown(self) -> str:
        """Return the address for people: the name in punycode, odd characters visible."""
        return visible(self.url)


class Refused(msgspec.Struct, frozen=True):
    """An address that is not fetched, and why. `is_failure`: no rule refuses it, it just cannot be found."""

    reason: str
    is_failure: bool = False


def judge_url(text: str, exceptions: Sequence[Network] = ()) -> JudgedAddress | Refused:
    """Parse an address strictly. What two parsers could read differently is refused."""
    if len(text) > MAX_URL_CHARS:
        return Refused(f"the address is {len(text)} characters long; at most {MAX_URL_CHARS} are taken")
    if any(unicodedata.category(sign)[0] in "CZ" for sign in text):
        return Refused("the address holds spaces, control or invisible characters")
    if "\\" in text:
        return Refused("the address holds a backslash, which programs read in different ways")
    found = _URL().match(text)
    if found is None:
        scheme = _SCHEME().match(text)
        what = (
            f"{scheme[1].lower()}: addresses are" if scheme else "an address without http:// or https:// is"
        )
        return Refused(f"{what} not fetched; expected http:// or https://")
    scheme, authority, rest = found.groups()
    if "@" in authority:
        host = visible(authority.rpartition("@")[2])
        return Refused(f"the address holds a user name before the host {host}; write it without")
    secure: Literal["http", "https"] = "https" if scheme.lower() == "https" else "http"
    parts = _host_and_port(authority, DEFAULT_PORTS[secure])
    if isinstance(parts, Refused):
        return parts
    host, port = parts
    return _judge_host(host, exceptions, secure, port, _target(rest))


def _host_and_port(authority: str, default: int) -> tuple[str, int] | Refused:
    found = re.fullmatch(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]*))?", authority, re.ASCII)
    if found is None:
        return Refused(f"the host {visible(authority[:200])} cannot be read")
    host, port = found[1], int((found[2] or "")[:6] or default)
    if not 0 < port < 65536:
        return Refused(f"port {port} does not exist")
    return host, port


def _judge_host(
    host: str, exceptions: Sequence[Network], scheme: Literal["http", "https"], port: int, target: str
) -> JudgedAddress | Refused:
    address = _address_of(host)
    if isinstance(address, Refused):
        return address
    if address is not None:
        reason = not_public(address, exceptions)
        if reason:
            return Refused(f"{address} is {reason}; only public addresses are fetched")
        return JudgedAddress(scheme, str(address), port, target, str(address))
    name = canonical_host(host)
    if not name:
        return Refused(f"{visible(host[:200])!r} is not a host name")
    if _LOCAL_NAMES().fullmatch(name) and not exceptions:
        return Refused(f"{name} is a name of a private network; only public addresses are fetched")
    return JudgedAddress(scheme, name, port, target, "")


def _target(rest: str) -> str:
    """Path and query in ASCII, without the fragment."""
    path = rest.partition("#")[0]
    quoted = "".join(
        sign
        if "!" <= sign <= "~" and sign not in '"<>^`{|}'
        else "".join(f"%{byte:02X}" for byte in sign.encode())
        for sign in path
    )
    return quoted if quoted.startswith("/") else f"/{quoted}"


def canonical_host(text: str) -> str:
    """Return a host name in lower case and punycode, without the dot at its end; "" when it is none. Read as
    browsers do (UTS 46, not transitional): "ß" is a letter of its own."""
    name = unicodedata.normalize("NFKC", text.translate(_DOTS)).lower()
    if not name.isascii():
        import idna  # its tables cost 10 ms, for hosts outside ASCII only

        try:
            labels = idna.uts46_remap(text.translate(_DOTS), std3_rules=False).split(".")
            name = ".".join(
                label if label.isascii() else idna.alabel(label).decode("ascii") for label in labels
            )
        except UnicodeError:  # idna.IDNAError is one
            return ""
    name = name.removesuffix(".")
    return name if _NAME().fullmatch(name) else ""


def _address_of(host: str) -> Address | Refused | None:
    """Return the address a host is written as, in any of the spellings programs accept; None for a name."""
    if host.startswith("["):
        if "%" in host:
            return Refused("an IPv6 address with a zone is of the local link")
        try:
            return ipaddress.IPv6Address(host[1:-1])
        except ValueError:
            return Refused(f"{visible(host[:200])} is not an IPv6 address")
    text = unicodedata.normalize("NFKC", host.translate(_DOTS)).lower().removesuffix(".")
    parts = text.split(".")
    if not _NUMERIC().fullmatch(parts[-1]):
        return None
    value = _number_of(parts)
    return (
        Refused(f"{visible(host[:200])} is not an address") if value is None else ipaddress.IPv4Address(value)
    )


def _number_of(parts: list[str]) -> int | None:
    """Up to four parts, decimal, octal or hexadecimal, the last filling what is left: as C libraries read
    them."""
    if len(parts) > 4:
        return None
    numbers: list[int] = []
    for part in parts:
        if not _NUMERIC().fullmatch(part) or len(part) > 20:
            return None
        try:
            numbers.append(_integer(part))
        except ValueError:
            return None
    *first, last = numbers
    if any(number > 255 for number in first) or last >= 256 ** (4 - len(first)):
        return None
    return sum(number << (8 * (3 - place)) for place, number in enumerate(first)) + last


def _integer(part: str) -> int:
    if part.startswith("0x"):
        return int(part[2:] or "0", 16)
    return int(part, 8) if part.startswith("0") else int(part)


async def resolve_and_judge(
    host: str, port: int, resolver: Resolver, exceptions: Sequence[Network] = ()
) -> tuple[str, ...] | Refused:
    """Look a name up once and judge every address; one that is not public refuses the name."""
    try:
        found = await resolver(host, port)
    except OSError as error:
        return Refused(f"{host} cannot be found: {error.strerror or error}", is_failure=True)
    addresses: list[str] = []
    for text in dict.fromkeys(found):
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return Refused(f"{host} leads to {visible(text[:100])}, which is not an address")
        reason = not_public(address, exceptions)
        if reason:
            return Refused(f"{host} leads to {address}, which is {reason}; only public addresses are fetched")
        addresses.append(str(address))
    return tuple(addresses[:MAX_ADDRESSES]) or Refused(f"{host} has no address", is_failure=True)


async def system_resolver(host: str, port: int) -> Sequence[str]:
    """Return the operating system's answer."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


MAX_QUERY_CHARS = 500
_VALUE = pattern(r"[A-Za-z0-9+/_=~.-]{20,}")
_LABEL = pattern(r"[a-z0-9-]{25,}")
_KNOWN = pattern(r"[0-9a-f]{7,64}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
"""Commit ids, checksums and UUIDs are ordinary in paths."""
_WORD = pattern(r"[A-Za-z0-9+/=]+")
_HUMP = pattern(r"[a-z][A-Z]")
_RANDOM_CHARS = 20
_RANDOM_BITS = 3.2
_RANDOM_HUMPS = 5


def suspicious_url(url: str) -> str:
    """Why an address looks as if it carried data away; "" when it doesn't."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return "it cannot be read"
    if any(find_shapes(unquote(url))):
        return "it holds something that looks like a key or token"
    if len(parts.query) > MAX_QUERY_CHARS:
        return f"its query is {len(parts.query)} characters long"
    query = unquote_plus(f"{parts.query}#{parts.fragment}")
    if any(_is_random(value) for value in _VALUE().findall(query)):
        return "its query holds a long random text, as a secret would be"
    path = unquote(parts.path)
    if any(_is_random(value) for value in re.split(r"[/;,@]", path) if not _KNOWN().fullmatch(value)):
        return "its path holds a long random text, as a secret would be"
    if any(_is_random(label) for label in _LABEL().findall(host)):
        return "its host name holds a long random text, as a secret would be"
    return ""


def _is_random(text: str) -> bool:
    longest = max(_WORD().findall(text), key=len, default="")
    if len(longest) < _RANDOM_CHARS or bits(longest) < _RANDOM_BITS:
        return False
    mixed = any(sign.isdigit() for sign in longest) and any(sign.isalpha() for sign in longest)
    return mixed or len(_HUMP().findall(longest)) >= _RANDOM_HUMPS
