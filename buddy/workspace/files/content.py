"""Decoding of a file's bytes to text, and encoding of text to the same kind of bytes, UTF-8 or older.

Text is looked at with every line end as a newline (`text`); positions in it lead back to the untouched
original (`raw`), so that an edit replaces only what it names and every other byte stays as it is.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from buddy.agent.lazy_regex import pattern
from buddy.agent.tool import ToolError

LegacyEncoding = Literal["latin-1", "cp932", "gb18030", "cp949", "big5", "euc_jp", "cp1251", "koi8_r"]
KNOWN: Mapping[str, LegacyEncoding] = {
    "cp932": "cp932",
    "gb18030": "gb18030",
    "cp949": "cp949",
    "big5": "big5",
    "euc_jp": "euc_jp",
    "cp1251": "cp1251",
    "koi8_r": "koi8_r",
}
"""By charset-normalizer's name."""
WESTERN = ("latin_1", "cp1252")
SAMPLE_BYTES = 128 * 1024
_HIGH = bytes(range(0x80, 0x100))
_RUNS = pattern(rb"[\x80-\xff]{4,}")
MOST_ALIKE = 2
"""Where more guesses are equally good, the text is too short to tell."""
RUN_SHARE = 3
"""Of the bytes beyond ASCII at least one in so many stands in a long run where letters are not Latin."""


def legacy_encoding(data: bytes) -> LegacyEncoding:
    """Return the encoding; latin-1, which any bytes have, for Western text and when in doubt."""
    high = len(data) - len(data.translate(None, _HIGH))
    invalid = len(data) - len(data.decode("utf-8", "ignore").encode())
    runs = sum(map(len, _RUNS().findall(data)))
    if invalid * 2 <= high or runs * RUN_SHARE < high:  # UTF-8 with a few bad bytes; Latin letters
        return "latin-1"
    guess = _guess(data[: data.find(b"\n", SAMPLE_BYTES)] if len(data) > SAMPLE_BYTES else data)
    try:
        return guess if data.decode(guess).encode(guess) == data else "latin-1"
    except UnicodeError:
        return "latin-1"


def _guess(sample: bytes) -> LegacyEncoding:
    try:
        from charset_normalizer import from_bytes  # here: 31 ms, and few files are like this
    except ImportError:  # not installed
        return "latin-1"
    matches = from_bytes(sample, cp_isolation=[*KNOWN, *WESTERN], preemptive_behaviour=False)
    best = matches.best()
    if best is None:
        return "latin-1"
    alike = [match.encoding for match in matches if _order(match) <= _order(best)]
    if len(alike) > MOST_ALIKE or not set(alike).isdisjoint(WESTERN):
        return "latin-1"
    return KNOWN.get(best.encoding, "latin-1")


def _order(match: Any) -> tuple[float, float]:
    """Return a sort key: the better a guess, the smaller."""
    return match.percent_chaos, -match.percent_coherence


Encoding = Literal["utf-8", "utf-16-le", "utf-16-be"] | LegacyEncoding
BINARY_PROBE_BYTES = 8192
_BOMS: tuple[tuple[bytes, Encoding], ...] = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
UTF_16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_UTF_32_BOMS = (b"\xff\xfe\0\0", b"\0\0\xfe\xff")
_LINE_END = pattern(r"\r\n|\r|\n")


class Content(msgspec.Struct, frozen=True):
    """A text file taken apart. `raw` is the decoded text without byte order mark; `text` the same with
    newlines only; `line_end` the most common line end ("\\n" when there is none), `uniform` whether there is
    no other. `crlf`: where line ends are mixed, the positions in `text` of newlines that are two characters
    in `raw`."""

    raw: str
    text: str
    crlf: tuple[int, ...]
    line_end: str
    uniform: bool
    encoding: Encoding
    bom: bytes

    def raw_offset(self, offset: int) -> int:
        """Return the position in `raw` of a position in `text`."""
        if self.uniform:
            return offset + self.text.count("\n", 0, offset) if self.line_end == "\r\n" else offset
        return offset + bisect_left(self.crlf, offset)

    def encode(self, raw: str) -> bytes:
        """Encode text as this file's kind. Raises `ToolError` when the encoding lacks a character or the file
        would become binary."""
        if "\0" in raw and "\0" not in self.raw:
            raise ToolError(
                "the new text has a NUL character (U+0000): the file would be binary and could not be edited "
                'any more. Where the two characters \\0 are meant, the arguments need "\\\\0". Nothing was '
                "changed."
            )
        try:
            return self.bom + raw.encode(self.encoding)
        except UnicodeEncodeError as error:
            found = raw[error.start]
            raise ToolError(
                f"the file is {self.encoding}, which cannot hold {found!r} (U+{ord(found):04X}); "
                "use characters the file's encoding has, or convert the file first"
            ) from error


EMPTY = Content("", "", (), "\n", uniform=True, encoding="utf-8", bom=b"")
"""A file that does not exist yet."""


def is_binary(data: bytes) -> bool:
    """Tell whether the bytes are binary: a NUL near the start and no UTF-16 byte-order mark, or UTF-32."""
    head = data[:BINARY_PROBE_BYTES]
    if head.startswith(_UTF_32_BOMS):
        return True
    return b"\0" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff"))


def decode(data: bytes) -> Content | None:
    """Return the content of a text file, None when it is binary. Invalid UTF-8 is read in a way that keeps
    every byte: in a legacy encoding, or as latin-1."""
    if is_binary(data):
        return None
    bom, encoding = _mark(data)
    body = data[len(bom) :] if bom else data
    try:
        return from_text(body.decode(encoding), encoding, bom)
    except UnicodeDecodeError:
        if encoding != "utf-8":
            return None
        legacy = legacy_encoding(data)
        return from_text(data.decode(legacy), legacy, b"")


def _mark(data: bytes) -> tuple[bytes, Encoding]:
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return mark, encoding
    return b"", "utf-8"


def from_text(raw: str, encoding: Encoding = "utf-8", bom: bytes = b"") -> Content:
    """Build the content from decoded text and detect its line ends."""
    if "\r" not in raw:
        return Content(raw, raw, (), "\n", uniform=True, encoding=encoding, bom=bom)
    counts = {"\r\n": raw.count("\r\n")}
    counts["\n"] = raw.count("\n") - counts["\r\n"]
    counts["\r"] = raw.count("\r") - counts["\r\n"]
    line_end = max(counts, key=counts.__getitem__)
    uniform = counts[line_end] == sum(counts.values())
    crlf = () if uniform else tuple(at - n for n, at in enumerate(_places(raw, "\r\n")))
    text = with_line_ends(raw, "\n")
    return Content(raw, text, crlf, line_end, uniform=uniform, encoding=encoding, bom=bom)


def _places(text: str, wanted: str) -> list[int]:
    return [match.start() for match in re.finditer(wanted, text)]


def with_line_ends(text: str, line_end: str) -> str:
    """Return the text with every line end replaced."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
    return plain if line_end == "\n" else plain.replace("\n", line_end)


def split_ends(raw: str) -> list[tuple[str, str]]:
    """Return lines with their line ends; the last one has "" (and is "" itself after a final line end)."""
    lines: list[tuple[str, str]] = []
    at = 0
    for match in _LINE_END().finditer(raw):
        lines.append((raw[at : match.start()], match.group()))
        at = match.end()
    lines.append((raw[at:], ""))
    return lines


def line_count(text: str) -> int:
    """Return the number of lines of a text; a final line end does not start another one."""
    return text.count("\n") + (not text.endswith("\n") and text != "")
