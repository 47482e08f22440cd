"""Completion of `/commands` and `@files`."""

from __future__ import annotations

from collections.abc import Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from buddy.repl.controller import Controller


class DeskCompleter(Completer):
    """Completes where something is completable."""

    def __init__(self, controller: Controller, cwd: str) -> None:
        self._controller = controller
        self._cwd = cwd

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Nothing yet."""
        return ()
