"""The body of an answer → pieces of a reply. Pure; any fragmentation gives the same pieces.

What a body is, its first byte says, not its content type: servers send event streams as JSON, JSON as event
streams, and captive portals send web pages with status 200.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from buddy.agent.provider import ModelDelta, ProviderError
from buddy.llm.errors import classify
from buddy.llm.half_characters import HalfCharacters
from buddy.llm.loose_json import loads, mapping
from buddy.llm.sse import BOM, SseError, SseEvent, SseParser

MAX_BODY_BYTES = 128 * 1024 * 1024
"""Decoded bytes of one reply: twice what the longest reply of any model takes as events."""
MAX_ANSWER_BYTES = 64 * 1024 * 1024
MAX_PAGE_BYTES = 65_536
BLANKS = BOM + b" \t\r\n"

Pieces = Sequence[ModelDelta | ProviderError]
"""Errors stand as the last item, to be raised by whoever reads: what came before them still counts."""


class Decoder(Protocol):
    """Events of one wire format → pieces of a reply; errors stand as items, to be raised."""

    @property
    def is_done(self) -> bool:
        """Tell whether the reply was ended by its terminal event."""
        ...

    def feed(self, event: SseEvent) -> Pieces:
        """The pieces of one event."""
        ...

    def whole(self, answer: Mapping[str, Any]) -> Pieces:
        """The pieces of an answer that was not streamed."""
        ...

    def end(self) -> Pieces:
        """The pieces that a clean end of the body makes."""
        ...


class ReplyReader:
    """Feed it the body as it arrives until an error comes; `end` when it ended."""

    def __init__(self, decoder: Decoder, provider: str) -> None:
        self._decoder = decoder
        self._provider = provider
        self._parser: SseParser | None = None
        self._head: list[bytes] = []
        self._size = 0
        self._total = 0
        self._kind = b""
        self._halves = HalfCharacters()

    def feed(self, chunk: bytes) -> Pieces:
        """The pieces these bytes complete."""
        self._total += len(chunk)
        if self._total > MAX_BODY_BYTES:
            return (self._unusable(f"it is longer than {MAX_BODY_BYTES // 1024**2} MB"),)
        return self._halves.joined(self._read(chunk))

    def end(self) -> Pieces:
        """The body ended properly. Without a terminal event or a finish reason it says nothing: the reply was
        cut."""
        pieces = self._halves.joined(self._ended())
        return [*pieces, *self._halves.rest()]

    def _read(self, chunk: bytes) -> Pieces:
        if self._parser is None:
            return self._begin(chunk)
        try:
            events = self._parser.feed(chunk)
        except SseError as error:
            return (self._unusable(str(error)),)
        if len(events) == 1:
            return self._decoder.feed(events[0])
        return self._all(events)

    def _ended(self) -> Pieces:
        content = b"".join(self._head)
        match self._kind:
            case b"":
                return (ProviderError("cut", f"{self._provider} closed the connection without an answer"),)
            case b"<":
                return (web_page(content, self._provider),)
            case b"{" | b"[":
                return self._whole(content)
            case _:
                return self._last_words()

    def _begin(self, chunk: bytes) -> Pieces:
        """Find out what kind of body this is, and collect it when it is not a stream."""
        self._head.append(chunk)
        self._size += len(chunk)
        if not self._kind:
            self._kind = chunk.lstrip(BLANKS)[:1]
        if not self._kind:
            return ()
        if self._kind == b"<" and self._size > MAX_PAGE_BYTES:
            return (web_page(b"".join(self._head), self._provider),)
        if self._kind in b"{[<":
            too_much = self._size > MAX_ANSWER_BYTES
            return (self._unusable("the answer is longer than 64 MB"),) if too_much else ()
        head = b"".join(self._head)
        self._head = []
        self._parser = SseParser()
        return self._read(head)

    def _whole(self, content: bytes) -> Pieces:
        """An answer that was not streamed, or lines of JSON without the event stream's `data:`."""
        try:
            return self._decoder.whole(mapping(loads(content.lstrip(BLANKS))))
        except ValueError:
            pass
        self._parser = SseParser()
        pieces = self._read(content)
        return [*pieces, *self._last_words()]

    def _all(self, events: Sequence[SseEvent]) -> Pieces:
        out: list[ModelDelta | ProviderError] = []
        for event in events:
            if out and isinstance(out[-1], ProviderError):
                break
            out.extend(self._decoder.feed(event))
        return out

    def _last_words(self) -> Pieces:
        """Return the pieces of the unparsed rest. A last event that is not valid JSON was cut off; it is
        dropped here and shows as a missing finish."""
        assert self._parser is not None
        pieces = self._all(self._parser.end())
        whole = [piece for piece in pieces if not (isinstance(piece, ProviderError) and piece.kind == "cut")]
        return [*whole, *self._decoder.end()]

    def _unusable(self, why: str) -> ProviderError:
        return ProviderError("server", f"{self._provider} gave an unusable answer: {why}", retryable=False)


def web_page(content: bytes, provider: str) -> ProviderError:
    """A web page where an answer was expected: a captive portal, a gateway, or a wrong address."""
    said = (
        classify(0, {}, content, provider).message.partition("): ")[2]
        or "a web page came instead of an answer"
    )
    return ProviderError(
        "server",
        f"{provider}: {said}; check the profile's base_url, or sign in to the network",
        status=200,
        retryable=False,
    )
