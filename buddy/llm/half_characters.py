"""Characters that a server cut in two, put together again.

Servers that count text in UTF-16 units send one half of an emoji at the end of a piece and the other at the
start of the next one. Each half alone is no text: it can be neither shown nor written to a file.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence

import msgspec

from buddy.agent.provider import (
    Alive,
    CallPiece,
    ModelDelta,
    ProviderError,
    TextPiece,
    ThinkingPiece,
    UsagePiece,
)

Piece = ModelDelta | ProviderError
Written = TextPiece | ThinkingPiece | CallPiece


class HalfCharacters:
    """Keeps back a half at the end of a piece until the next piece of the same text comes. A half that stays
    alone becomes U+FFFD."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-16-le")("replace")
        self._kept: Written | None = None

    def joined(self, pieces: Sequence[Piece]) -> Sequence[Piece]:
        """The pieces, whole characters only as far as the other halves came."""
        if self._kept is None and not any(map(_ends_in_half, pieces)):
            return pieces
        return [made for piece in pieces for made in self._take(piece)]

    def rest(self) -> Sequence[Piece]:
        """The half that is still kept back."""
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
