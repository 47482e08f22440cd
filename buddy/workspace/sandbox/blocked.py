"""The accesses the sandbox refused to one command, from the record of its attempts. Pure."""

from __future__ import annotations

import os
from collections.abc import Sequence

from buddy.agent.tool import Blocked
from buddy.workspace.sandbox.audit import Attempts
from buddy.workspace.sandbox.profile import SandboxProfile, is_reserved, is_writable
from buddy.workspace.sandbox.proxy import HostRequest

_ENGINES = frozenset({"docker.sock", "podman.sock", "containerd.sock"})
_SET_UP = ("/newroot", "/oldroot")
"""Places that exist only while bubblewrap sets up the command's view."""


def find_blocked(profile: SandboxProfile, attempts: Attempts, requests: Sequence[HostRequest]) -> Blocked:
    """Return the attempts that the command's profile refused."""
    paths = tuple(
        path
        for path in attempts.paths
        if not path.startswith(_SET_UP) and (is_reserved(profile, path) or not is_writable(profile, path))
    )
    refused = [request for request in requests if request.refusal]
    failures = (request.failure for request in requests if request.failure)
    hosts = tuple(_where(request) for request in refused if request.is_named)
    unreachable = (f"{_where(request)} ({request.refusal})" for request in refused if not request.is_named)
    addresses = tuple(
        address
        for address in attempts.addresses
        if not address.startswith(("127.", "[::1]", "/", "@")) or _is_engine(address)
    )
    return Blocked(
        paths,
        tuple(dict.fromkeys(hosts)),
        tuple(dict.fromkeys((*unreachable, *addresses))),
        tuple(dict.fromkeys(failures)),
    )


def _is_engine(address: str) -> bool:
    """Tell whether the address is a container engine of this machine. Many programs try other services and
    work without them."""
    return os.path.basename(address) in _ENGINES and os.path.exists(address)


def _where(request: HostRequest) -> str:
    return request.host if request.port in (0, 443) else f"{request.host}:{request.port}"
