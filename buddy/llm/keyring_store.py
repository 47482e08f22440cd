"""The desktop's keyring, where the `keyring` extra is installed and something keeps keys there.

It may ask the person to unlock it, and waits for that: use it in a thread.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

SERVICE = "buddy"


class Keyring:
    """Keys by their provider. Imported when it is first used: it loads every backend it finds. A keyring that
    is not there, is locked or fails holds nothing and takes nothing."""

    def __init__(self, importer: Callable[[str], Any] = importlib.import_module) -> None:
        self._importer = importer
        self._keyring: Any = None

    def read(self, provider: str) -> str:
        """The key, "" when there is none."""
        try:
            return self._loaded().get_password(SERVICE, provider) or ""
        except Exception:  # noqa: BLE001 - the border of an extension: backends raise what they like
            return ""

    def save(self, provider: str, key: str) -> bool:
        """Save a key and tell whether it is stored. It is read back, because some backends accept a key and
        store nothing."""
        try:
            self._loaded().set_password(SERVICE, provider, key)
        except Exception:  # noqa: BLE001 - the border of an extension: backends raise what they like
            return False
        return self.read(provider) == key

    def _loaded(self) -> Any:
        if self._keyring is None:
            self._keyring = self._importer("keyring")
        return self._keyring
