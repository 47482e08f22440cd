"""Imports of own tools: modules of the workspace outside `.buddyx/ext` are refused. The person's trust covers
the files in that folder; a module beside it is an ordinary file, which may change without a question.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

from buddy.safety.paths import is_beneath


class ImportGuard:
    """The first finder of `sys.meta_path` once own tools were loaded. What the program itself could import
    before stays allowed: buddy may run from a checkout, or from an environment in the workspace."""

    def __init__(self) -> None:
        self._usual = tuple(os.path.realpath(path) for path in sys.path if path)
        self._workspaces: dict[str, str] = {}

    def guard(self, root: str, folder: str) -> None:
        """Watch a workspace whose own tools lie in `folder`."""
        self._workspaces[root] = folder

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Leave the import to the other finders. Raises `ImportError` for a module that may not be loaded."""
        if not any(self._is_added(place) for place in (sys.path if path is None else path)):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None:
            return None
        for found in (spec.origin or "", *(spec.submodule_search_locations or ())):
            if found and self._is_added(found):
                raise ImportError(
                    f"{found} lies in the workspace outside .buddyx/ext, where it can change without a "
                    "question: put it into .buddyx/ext, or install it",
                    name=name,
                    path=found,
                )
        return None

    def _is_added(self, path: str) -> bool:
        """Tell whether a place is in a workspace, outside of its own tools, and was not usual before."""
        real = os.path.realpath(path or os.curdir)
        if any(is_beneath(real, usual) for usual in self._usual):
            return False
        return any(
            is_beneath(real, root) and not is_beneath(real, folder)
            for root, folder in self._workspaces.items()
        )


def guard_imports(root: str, folder: str) -> None:
    """Refuse imports from a workspace outside the folder of its own tools, from now on."""
    guard = next((finder for finder in sys.meta_path if isinstance(finder, ImportGuard)), None)
    if guard is None:
        guard = ImportGuard()
        sys.meta_path.insert(0, guard)
    guard.guard(root, folder)
