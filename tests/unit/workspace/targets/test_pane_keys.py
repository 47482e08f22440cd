"""Names of keys for a pane."""

from __future__ import annotations

import pytest

from buddy.agent.tool import ToolError
from buddy.workspace.targets.pane_keys import tmux_key


@pytest.mark.parametrize(
    ("name", "key"),
    [
        *(
            ("Enter", "Enter"),
            ("return", "Enter"),
            ("esc", "Escape"),
            ("Backspace", "BSpace"),
            ("F12", "F12"),
        ),
        *(("C-c", "C-c"), ("ctrl-C", "C-c"), ("^D", "C-d"), ("Ctrl+Alt+x", "C-M-x"), ("M-x", "M-x")),
        *(
            ("S-Up", "S-Up"),
            ("x", "x"),
            (";", ";"),
            (" ", "Space"),
            ("é", "é"),
            ("-", "-"),
            ("C-Left", "C-Left"),
        ),
    ],
)
def test_a_key_has_its_name_for_tmux(name: str, key: str) -> None:
    assert tmux_key(name) == key


@pytest.mark.parametrize("name", ["Retrun", "", "ls -la", "F13", "C-", "\x1b", "C-\x03", "-X"])
def test_what_tmux_would_type_or_take_for_an_option_is_refused(name: str) -> None:
    with pytest.raises(ToolError, match="expected a key"):
        tmux_key(name)
