"""Packages that need not be installed. Slow to import, so only when a file needs one."""

from __future__ import annotations

import importlib
from typing import Any


def optional(name: str) -> Any:
    """The module, None when it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
