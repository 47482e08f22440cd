"""The pane that settings name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from buddy.workspace.targets.pane_address import PaneAddress
from buddy.workspace.targets.transport import DestinationError


def test_the_defaults_name_a_session_of_buddys_own_server() -> None:
    address = PaneAddress("my.pane")
    address.check("/work")
    assert address.shown == "tmux -L buddy attach -t my_pane"
    assert address.server_words == ("-L", "buddy")
    assert address.pane_target == "=my_pane:"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"name": "-x"}, "expected a name"),
        ({"name": "local"}, "expected a name"),
        ({"socket": ""}, "socket"),
        ({"socket": "-x"}, "socket"),
        ({"socket": "../x"}, "socket"),
        ({"socket": "/tmp/a b"}, "socket"),
        ({"socket": "/work/.s"}, "outside of the workspace"),
        ({"socket": "/work/../work/s"}, "outside of the workspace"),
        ({"session": "a:b"}, "session"),
        ({"session": "=a"}, "session"),
        ({"session": "-d"}, "session"),
        ({"session": "#{pane_id}"}, "session"),
        ({"pane": "1.2.3"}, "pane"),
        ({"pane": "{last}"}, "pane"),
        ({"width": -1}, "width"),
        ({"height": 5000}, "height"),
    ],
)
def test_nothing_becomes_an_option_or_another_target(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(DestinationError, match=told):
        PaneAddress(**{"name": "box", **changes}).check("/work")


def test_a_link_into_the_workspace_is_no_place_for_a_socket(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    os.symlink(tmp_path / "work", tmp_path / "link")
    with pytest.raises(DestinationError, match="outside of the workspace"):
        PaneAddress("box", socket=f"{tmp_path}/link/s").check(f"{tmp_path}/work")
