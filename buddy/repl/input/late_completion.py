"""A completer whose source comes later: what completes is imported and opened after the first frame."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable

from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document


def is_current(document: Document) -> bool:
    """Tell whether the line is unchanged and the pending completion menu was not closed."""
    buffer = get_app().current_buffer
    return buffer.document == document and buffer.complete_state is not None


class LateCompleter(Completer):
    """Offers what its source offers, once there is one, if the line is still the same then."""

    def __init__(self) -> None:
        self._source: Completer | None = None
        self._is_there = asyncio.Event()

    @property
    def source(self) -> Completer | None:
        """The completer, None until one is set."""
        return self._source

    @source.setter
    def source(self, source: Completer | None) -> None:
        self._source = source
        if source is None:
            self._is_there.clear()
        else:
            self._is_there.set()

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Return nothing: `get_completions_async` offers everything."""
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """Yield the completions of the source; wait for the source when it is not set yet."""
        if is_current(document):
            await self._is_there.wait()
        if self.source is not None:
            async for offer in self.source.get_completions_async(document, complete_event):
                yield offer
