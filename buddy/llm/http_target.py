"""Addresses and headers of requests, checked before anything is sent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from buddy.agent.provider import ProviderError

HEADER_NAME = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"


class Target(msgspec.Struct, frozen=True):
    """A URL, taken apart. `authority` is host and port as the URL names them."""

    host: str
    port: int
    is_tls: bool
    authority: str
    path: str

    @property
    def address(self) -> str:
        """Host and port, for a person."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def target_of(url: str) -> Target:
    """A URL, taken apart. Raises `ProviderError` for one that can't be asked."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise _bad_url() from error
    host = parts.hostname or ""
    if parts.scheme not in ("http", "https") or not host:
        raise _bad_url()
    is_tls = parts.scheme == "https"
    try:
        name = host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError as error:
        raise _bad_url() from error
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not path.isascii() or any(character <= " " for character in path):
        raise _bad_url()
    shown = f"[{name}]" if ":" in name else name
    return Target(name, port or (443 if is_tls else 80), is_tls, f"{shown}:{port}" if port else shown, path)


def check_headers(headers: Mapping[str, str]) -> None:
    """Raise `ProviderError` for a header that can't be sent, without showing its value."""
    for name, value in headers.items():
        if not (value.isprintable() and value.isascii() and re.fullmatch(HEADER_NAME, name)):
            raise ProviderError(
                "bad_request",
                f"the header {name!r} has characters that can't be sent; check the key and headers",
            )


def _bad_url() -> ProviderError:
    return ProviderError("bad_request", "base_url is no address: expected http://host or https://host")
