"""Hundreds of strings from the manuals of terminals, and of characters that lie: inert at every split."""

from __future__ import annotations

import pytest

from buddy.safety.sanitise import clean, one_line
from tests.support.hostile_text import harm, sanitised
from tests.support.terminal_bytes import FRESH, text_forms

PARTS = 8


@pytest.mark.parametrize("part", range(PARTS))
def test_SEC_079_strings_of_the_manuals_come_out_inert(part: int) -> None:
    for data in FRESH[part::PARTS]:
        assert harm(sanitised((data,))) == "", data[:60]
        for form in (*text_forms(data), data.decode("utf-8", "surrogateescape")):
            assert harm(clean(form)) == harm(one_line(form)) == "", data[:60]


@pytest.mark.parametrize("part", range(PARTS))
def test_SEC_080_strings_of_the_manuals_are_inert_at_every_split(part: int) -> None:
    for data in FRESH[part::PARTS]:
        whole = sanitised((data,))
        for cut in range(1, len(data), max(1, len(data) // 120)):
            assert sanitised((data[:cut], data[cut:])) == whole, (data[:60], cut)
        if len(data) < 500:
            assert sanitised(data[at : at + 1] for at in range(len(data))) == whole, data[:60]
