"""Internet addresses that are nobody's public server.

An own table, because `ipaddress.is_global` lets translated and tunnelled forms through (NAT64, 6to4,
IPv4-compatible). Source: the IANA special-purpose address registries.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

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
        return _listed(address, _V4)
    if address not in _V6_GLOBAL:
        return "not a public IPv6 address"
    if (int(address) >> 32) & 0xFFFFFFFF in _ISATAP:
        return "a tunnel into a private network"
    return _listed(address, _V6)


def _listed(address: Address, table: Sequence[tuple[str, str]]) -> str:
    return next((reason for network, reason in table if address in ipaddress.ip_network(network)), "")
