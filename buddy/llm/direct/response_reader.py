"""The body of an answer → pieces of a reply. Pure; any fragmentation gives the same pieces."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from buddy.agent.json_codec import dumps, loads, mapping
from buddy.agent.provider import (
    Alive,
    CallPiece,
    ModelDelta,
    ProviderError,
    TextPiece,
    ThinkingPiece,
    UsagePiece,
)
from buddy.llm.errors import classify

MAX_EVENT_BYTES = 16 * 1024 * 1024
"""An event (or a line) longer than this is not a model's answer."""

BOM = b"\xef\xbb\xbf"


class SseEvent(msgspec.Struct, frozen=True, gc=False):
    """One event. `name` is "" unless the server named it; `data` has its lines joined by a line feed."""

    name: str
    data: bytes


class SseError(ValueError):
    """The bytes are no event stream: one sentence."""


class SseParser:
    """Feed it the body as it arrives; call `end` when it ended."""

    __slots__ = ("_after_cr", "_bytes", "_data", "_events", "_name", "_started", "_tail")

    def __init__(self) -> None:
        self._tail: list[bytes] = []
        self._data: list[bytes] = []
        self._name = ""
        self._bytes = 0
        self._after_cr = False
        self._started = False
        self._events: list[SseEvent] = []

    def feed(self, chunk: bytes) -> Sequence[SseEvent]:
        """Return the events these bytes complete. Raises `SseError` when one grows beyond
        `MAX_EVENT_BYTES`."""
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk.startswith(b"\n"):
                chunk = chunk[1:]
        if b"\n" not in chunk and b"\r" not in chunk:
            self._keep(chunk)
            return ()
        if self._tail:
            self._tail.append(chunk)
            chunk = b"".join(self._tail)
            self._tail.clear()
        self._events = []
        lines = chunk.splitlines()
        self._bytes = sum(map(len, self._data))
        if chunk.endswith(b"\r"):
            self._after_cr = True
        elif not chunk.endswith(b"\n"):
            self._keep(lines.pop())
        for line in lines:
            self._take(line)
        return self._events

    def end(self) -> Sequence[SseEvent]:
        """Return the events left when the body ends without a closing blank line."""
        self._events = []
        if self._tail:
            self._take(b"".join(self._tail))
            self._tail.clear()
        self._dispatch()
        return self._events

    def _keep(self, piece: bytes) -> None:
        if piece:
            self._tail.append(piece)
            self._count(len(piece))

    def _count(self, more: int) -> None:
        self._bytes += more
        if self._bytes > MAX_EVENT_BYTES:
            raise SseError(f"an event of the stream is longer than {MAX_EVENT_BYTES // 1024**2} MB")

    def _take(self, line: bytes) -> None:
        if not self._started:
            self._started = True
            line = line.removeprefix(BOM)
        if not line:
            self._dispatch()
        elif line.startswith(b"data:"):
            data = line[6:] if line[5:6] == b" " else line[5:]
            self._data.append(data)
            self._count(len(data))
        elif line.startswith(b"event:"):
            self._name = line[6:].decode("utf-8", "replace").strip()
        elif line.startswith(b"error:"):
            # llama.cpp's own field: the reason why its stream ends here.
            self._dispatch()
            self._name = "error"
            reason = line[6:].strip()
            self._data.append(reason if reason.startswith(b"{") else _as_error(reason))
            self._dispatch()
        elif line.startswith(b"{"):
            self._dispatch()
            self._data.append(line)
            self._dispatch()

    def _dispatch(self) -> None:
        if self._data:
            data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            self._events.append(SseEvent(self._name, data))
            self._data.clear()
        self._name = ""
        self._bytes = 0


def _as_error(reason: bytes) -> bytes:
    return dumps({"error": {"message": reason.decode("utf-8", "replace")}})


Piece = ModelDelta | ProviderError
Written = TextPiece | ThinkingPiece | CallPiece


class HalfCharacters:
    """Keeps back a half at the end of a piece until the next piece of the same text comes. A half that stays
    alone becomes U+FFFD."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-16-le")("replace")
        self._kept: Written | None = None

    def join(self, pieces: Sequence[Piece]) -> Sequence[Piece]:
        """Return the pieces, whole characters only as far as the other halves came."""
        if self._kept is None and not any(map(_ends_in_half, pieces)):
            return pieces
        return [made for piece in pieces for made in self._take(piece)]

    def rest(self) -> Sequence[Piece]:
        """Return the half that is still kept back."""
        kept, self._kept = self._kept, None
        return () if kept is None else (_with_text(kept, self._decoder.decode(b"", final=True)),)

    def _take(self, piece: Piece) -> Iterator[Piece]:
        if isinstance(piece, Alive | UsagePiece):
            yield piece
            return
        if self._kept is not None and not _goes_on(self._kept, piece):
            yield from self.rest()
        if self._kept is not None or _ends_in_half(piece):
            text = self._decoder.decode(_text(piece).encode("utf-16-le", "surrogatepass"))
            self._kept = _bare(piece) if self._decoder.getstate()[0] else None
            piece = _with_text(piece, text)
            if isinstance(piece, TextPiece) and not piece.text:
                piece = Alive()
        yield piece


def _text(piece: Piece) -> str:
    match piece:
        case TextPiece() | ThinkingPiece():
            return piece.text
        case CallPiece():
            return piece.arguments
        case _:
            return ""


def _with_text(piece: Piece, text: str) -> Piece:
    match piece:
        case TextPiece() | ThinkingPiece():
            return msgspec.structs.replace(piece, text=text)
        case CallPiece():
            return msgspec.structs.replace(piece, arguments=text)
        case _:
            return piece


def _bare(piece: Piece) -> Written | None:
    match piece:
        case TextPiece():
            return TextPiece("", piece.block)
        case ThinkingPiece():
            return ThinkingPiece("", piece.block)
        case CallPiece():
            return CallPiece(piece.index, "", "", "")
        case _:
            return None


def _goes_on(kept: Piece, piece: Piece) -> bool:
    match kept, piece:
        case TextPiece(), TextPiece():
            return kept.block == piece.block
        case ThinkingPiece(), ThinkingPiece():
            return kept.block == piece.block and not piece.signature
        case CallPiece(), CallPiece():
            return kept.index == piece.index and not piece.complete
        case _:
            return False


def _ends_in_half(piece: Piece) -> bool:
    if isinstance(piece, ThinkingPiece) and piece.signature:
        return False  # the whole block once more
    if isinstance(piece, CallPiece) and piece.complete:
        return False
    return "\ud800" <= _text(piece)[-1:] <= "\udbff"


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
        """Return the pieces of one event."""
        ...

    def whole(self, answer: Mapping[str, Any]) -> Pieces:
        """Return the pieces of an answer that was not streamed."""
        ...

    def end(self) -> Pieces:
        """Return the pieces that a clean end of the body makes."""
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
        """Return the pieces these bytes complete."""
        self._total += len(chunk)
        if self._total > MAX_BODY_BYTES:
            return (self._unusable(f"it is longer than {MAX_BODY_BYTES // 1024**2} MB"),)
        return self._halves.join(self._read(chunk))

    def end(self) -> Pieces:
        """The body ended properly. Without a terminal event or a finish reason it says nothing: the reply was
        cut."""
        pieces = self._halves.join(self._end())
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

    def _end(self) -> Pieces:
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
        """Return an answer that was not streamed, or lines of JSON without the event stream's `data:`."""
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
    """Build the error for a web page instead of an answer: a captive portal, a gateway, or a wrong
    address."""
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
