"""The proxy for an address, and the certificates that servers are judged by."""

from __future__ import annotations

import os
import re
import socket
import ssl
import sys
from collections.abc import Mapping
from urllib.parse import urlsplit


def proxy_for(base_url: str, environ: Mapping[str, str]) -> str:
    """Return the proxy for requests to this address, "" for none. This machine is never reached through
    one."""
    try:
        parts = urlsplit(base_url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        return ""
    if is_this_machine(host):
        return ""
    settings = {
        name.lower(): value for name, value in environ.items() if name.lower().endswith("_proxy") and value
    }
    if not settings and sys.platform == "darwin":
        settings = _system_settings()
    proxy = settings.get(f"{parts.scheme}_proxy") or settings.get("all_proxy") or ""
    if not proxy or _is_exempt(host, port, settings.get("no_proxy", "")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def is_this_machine(host: str) -> bool:
    """Tell whether a host is this machine by its name or address alone."""
    if host.lower().removesuffix(".") == "localhost":
        return True
    try:
        if ":" in host:
            return socket.inet_pton(socket.AF_INET6, host) == socket.inet_pton(socket.AF_INET6, "::1")
        # The system reads 127.1 as an address too; 127.0.0.999 is a name that anybody's server may resolve.
        return bool(re.fullmatch(r"127(\.[0-9]+){1,3}", host)) and bool(socket.inet_aton(host))
    except OSError:
        return False


def _is_exempt(host: str, port: int | None, no_proxy: str) -> bool:
    """Tell whether `no_proxy` names this host, a domain above it, or everything."""
    for entry in no_proxy.lower().split(","):
        name = entry.strip().removeprefix("*").removeprefix(".")
        if entry.strip() == "*":
            return True
        if name and (f"{host}:{port}" == name or host == name or host.endswith("." + name)):
            return True
    return False


def _system_settings() -> dict[str, str]:
    """macOS keeps proxies outside the environment; only urllib knows how to ask for them."""
    from urllib.request import getproxies  # 25 ms, and only there

    return {f"{scheme}_proxy": url for scheme, url in getproxies().items()}


def trusting_the_system(environ: Mapping[str, str] = os.environ) -> ssl.SSLContext:
    """Return a TLS context with the system's certificates (SSL_CERT_FILE and SSL_CERT_DIR count), certifi's
    where the system has none, and those of REQUESTS_CA_BUNDLE, which many companies set."""
    context = ssl.create_default_context()
    bundle = environ.get("REQUESTS_CA_BUNDLE", "")
    if bundle and not environ.get("SSL_CERT_FILE") and os.path.exists(bundle):
        in_folder = os.path.isdir(bundle)
        context.load_verify_locations(
            cafile=None if in_folder else bundle, capath=bundle if in_folder else None
        )
    paths = ssl.get_default_verify_paths()
    if not paths.cafile and not (paths.capath and os.listdir(paths.capath)):
        import certifi  # only where it is needed: 15 ms

        context.load_verify_locations(certifi.where())
    return context
