"""Hostile strings where lines stand on grounds: nothing arrives but colours and the end of a tinted line."""

from __future__ import annotations

import re

import pytest

from buddy.agent.display import Diff, FileDiff
from buddy.repl.render.painter import Painter
from buddy.repl.render.style import UNICODE, Depth, Look
from buddy.repl.view.blocks import ApprovalAsked, Expanded, Markdown, TableBlock
from tests.support.terminal_bytes import EVERYTHING, foreign, sequences, text_forms

OWN = re.compile(r"\x1b\[(?:[0-9;]*m|K)")


@pytest.mark.parametrize("depth", ["256", "true"])
@pytest.mark.parametrize("theme", ["dark", "light"])
def test_hostile_strings_are_inert_on_a_ground(theme: str, depth: Depth) -> None:
    painter = Painter(Look(theme, UNICODE, ansi=True, depth=depth))
    for text in (form for data in EVERYTHING[::20] for form in text_forms(data)):
        body = f"@@ -1 +1 @@\n-{text}x\n+{text}y\n"
        asked = ApprovalAsked("q", 1, 1, text, "high", text, Diff((FileDiff("a.py", "update", body, 1, 1),)))
        for block in (Markdown(text), TableBlock((text,), ((text, "b"),)), Expanded(asked)):
            written = painter.ansi(block, 80).encode("utf-8", "backslashreplace")
            own = {one for one in sequences(written) if OWN.fullmatch(one)}
            assert foreign(written, own) == [], ascii(text)
