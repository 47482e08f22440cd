"""Certificates nobody signed, for servers of the tests. They take `openssl`: `requires("openssl")`."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path
from typing import NamedTuple


class Certificate(NamedTuple):
    """A certificate of one name and its key, as files."""

    certificate: Path
    key: Path

    def serving(self) -> ssl.SSLContext:
        """Return the TLS context of a server with this name."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context


def certificate_of(name: str, folder: Path) -> Certificate:
    """A new one, kept in this folder."""
    made = Certificate(folder / "certificate.pem", folder / "key.pem")
    command = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={name}".split()
    command += ["-addext", f"subjectAltName=DNS:{name}"]
    command += ["-keyout", str(made.key), "-out", str(made.certificate)]
    subprocess.run(command, capture_output=True, check=True)
    return made
