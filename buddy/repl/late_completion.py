"""A completer whose source comes later: what completes is imported and opened after the first frame."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document


class LateCompleter(Completer):
    """Offers what its source offers; without one, nothing."""

    def __init__(self) -> None:
        self.source: Completer | None = None

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Nothing: everything is offered by `get_completions_async`."""
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """What the source offers."""
        if self.source is not None:
            async for offer in self.source.get_completions_async(document, complete_event):
                yield offer
