"""The certificates that servers are judged by."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping


def trusting_the_system(environ: Mapping[str, str] = os.environ) -> ssl.SSLContext:
    """A TLS context with the system's certificates (SSL_CERT_FILE and SSL_CERT_DIR count), certifi's where
    the system has none, and those of REQUESTS_CA_BUNDLE, which many companies set."""
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
