"""The encoding of text that is not UTF-8. Each answer decodes the bytes, and encodes them to the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from buddy.agent.lazy_regex import pattern

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
