"""Characters that a server cut in two put together again: pure.

Servers that count text in UTF-16 units send one half of an emoji at the end of a piece and the other at the
start of the next one. Each half alone is no text: it can be neither shown nor written to a file.
"""

from __future__ import annotations

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
    """Keeps back a half at the end of a piece until the next piece of the same text comes."""

    def __init__(self) -> None:
        self._kept: Written | None = None

    def joined(self, pieces: Sequence[Piece]) -> Sequence[Piece]:
        """The pieces, whole characters only as far as the other halves came."""
        if self._kept is None and not any(map(_ends_in_half, pieces)):
            return pieces
        return [made for piece in pieces for made in self._take(piece)]

    def rest(self) -> Sequence[Piece]:
        """What is still kept back."""
        kept, self._kept = self._kept, None
        return () if kept is None else (kept,)

    def _take(self, piece: Piece) -> Iterator[Piece]:
        if isinstance(piece, Alive | UsagePiece):
            yield piece
            return
        for kept in self.rest():
            if _goes_on(kept, piece):
                piece = _with_text(piece, _paired(_text(kept) + _text(piece)))
            else:
                yield kept
        if _ends_in_half(piece):
            text = _text(piece)
            self._kept = _bare(piece, text[-1])
            piece = _with_text(piece, text[:-1])
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


def _bare(piece: Piece, half: str) -> Written | None:
    match piece:
        case TextPiece():
            return TextPiece(half, piece.block)
        case ThinkingPiece():
            return ThinkingPiece(half, piece.block)
        case CallPiece():
            return CallPiece(piece.index, "", "", half)
        case _:
            return None


def _goes_on(kept: Piece, piece: Piece) -> bool:
    if not "\udc00" <= _text(piece)[:1] <= "\udfff":
        return False
    match kept, piece:
        case (TextPiece(), TextPiece()) | (ThinkingPiece(), ThinkingPiece()):
            return kept.block == piece.block
        case CallPiece(), CallPiece():
            return kept.index == piece.index
        case _:
            return False


def _ends_in_half(piece: Piece) -> bool:
    if isinstance(piece, ThinkingPiece) and piece.signature:
        return False  # the whole block once more
    if isinstance(piece, CallPiece) and piece.complete:
        return False
    return "\ud800" <= _text(piece)[-1:] <= "\udbff"


def _paired(text: str) -> str:
    return chr(0x10000 + ((ord(text[0]) & 0x3FF) << 10) + (ord(text[1]) & 0x3FF)) + text[2:]
