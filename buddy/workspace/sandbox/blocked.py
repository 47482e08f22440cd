"""What the sandbox refused one command, from the record of its attempts. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from buddy.agent.tool import Blocked
from buddy.workspace.sandbox.audit import Attempts
from buddy.workspace.sandbox.profile import SandboxProfile, is_reserved, is_writable
from buddy.workspace.sandbox.proxy import HostRequest

_SET_UP = ("/newroot", "/oldroot")
"""Places that exist only while bubblewrap builds the command's view of the machine."""


def blocked_of(profile: SandboxProfile, attempts: Attempts, requests: Sequence[HostRequest]) -> Blocked:
    """Judge a command's attempts by its profile."""
    paths = tuple(
        path
        for path in attempts.paths
        if not path.startswith(_SET_UP) and (is_reserved(profile, path) or not is_writable(profile, path))
    )
    hosts = tuple(
        request.host if request.port == 443 else f"{request.host}:{request.port}"
        for request in requests
        if request.refusal
    )
    addresses = tuple(
        address for address in attempts.addresses if not address.startswith(("127.", "[::1]", "/", "@"))
    )
    return Blocked(paths, tuple(dict.fromkeys(hosts)), addresses)
