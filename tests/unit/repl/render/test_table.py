"""Tables in a narrow terminal: which columns give way."""

from __future__ import annotations

from buddy.repl.render.painter import Painter
from buddy.repl.render.style import UNICODE, Look
from buddy.repl.view.blocks import TableBlock


def test_figures_stay_in_one_line_where_a_name_can_give_way() -> None:
    head = ("#", "task", "model", "state", "time", "tokens", "cost", "files ±", "tests")
    row = ("1", "2", "claude sonnet 4.5 of may", "done", "0.5 s", "30", "no price", "1 +1 −1", "none")
    lines = Painter(Look("mono", UNICODE, ansi=False)).ansi(TableBlock(head, (row,)), 80).splitlines()
    assert lines == [
        "# │ task │ model          │ state │  time │ tokens │ cost     │ files ± │ tests",
        "──┼──────┼────────────────┼───────┼───────┼────────┼──────────┼─────────┼──────",
        "1 │    2 │ claude sonnet  │ done  │ 0.5 s │     30 │ no price │ 1 +1 −1 │ none",
        "  │      │ 4.5 of may     │       │       │        │          │         │",
    ]
