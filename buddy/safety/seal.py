"""Seals: message authentication codes with the person's key. They prove that this person's buddy wrote a
file, for one purpose and one place; a repository can't bring a valid one."""

from __future__ import annotations

import hmac
import json
import os

import msgspec

SEAL_LENGTH = 32
"""Hexadecimal digits: 128 bits."""


class Seal(msgspec.Struct, frozen=True):
    """A key for one purpose. Keys derived with different fields are independent."""

    key: bytes

    def derive(self, *fields: str) -> Seal:
        """Return the key of a narrower purpose."""
        text = json.dumps(["key", *fields], ensure_ascii=True)
        return Seal(hmac.digest(self.key, text.encode("ascii"), "sha256"))

    def of(self, data: bytes) -> str:
        """Return the seal of some bytes."""
        return hmac.digest(self.key, data, "sha256").hex()[:SEAL_LENGTH]

    def holds(self, data: bytes, seal: str | bytes) -> bool:
        """Tell whether a seal was made with this key of these bytes."""
        given = seal if isinstance(seal, bytes) else seal.encode("utf-8", "replace")
        return hmac.compare_digest(given, self.of(data).encode("ascii"))


def random_seal() -> Seal:
    """Return a random key: its seals are valid in this process only."""
    return Seal(os.urandom(32))
