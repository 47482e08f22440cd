"""A call that writes several files touches none that it was not judged with."""

from __future__ import annotations

import pytest

from buddy.agent.tool import ToolError
from buddy.workspace.files.approved_versions import Approved


def test_a_path_that_was_not_judged_is_refused_and_named() -> None:
    approved = Approved()
    approved.remember("c1", "a/x", "/w/a/x")
    approved.demand_judged("c1", ["a/x"])
    with pytest.raises(ToolError, match="would write a/y, which was not part of it when it was judged"):
        approved.demand_judged("c1", ["a/x", "a/y"])
    with pytest.raises(ToolError, match="would write a/x"):
        approved.demand_judged("c2", ["a/x"])
