"""Message authentication with a key of the person's: proof that a file's content was written by this person's
buddy, for one purpose and one place. A repository can carry anything; it cannot carry a valid seal."""

from __future__ import annotations

import hmac
import json
import os

import msgspec

SEAL_LENGTH = 32
"""Hexadecimal digits: 128 bits."""


class Seal(msgspec.Struct, frozen=True):
    """A key for one purpose. Keys derived with other fields know nothing of each other."""

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
    """Return a key nobody else has: what is sealed with it is trusted within this process alone."""
    return Seal(os.urandom(32))
