"""The state a server begins in: those of others wait for an approval of their definition as it is now."""

import pytest

from buddy.extend.mcp.approvals import Approval, standing
from buddy.extend.mcp.definitions import Scope, read_server

YES, NO, OLD = Approval("now", trusted=True), Approval("now", trusted=False), Approval("before", trusted=True)


@pytest.mark.parametrize(
    ("scope", "approval", "accepted", "trust_all", "state"),
    [
        ("user", None, (), False, "waiting"),
        ("arguments", NO, (), False, "waiting"),
        ("project", None, (), False, "untrusted"),
        ("project", None, (), True, "waiting"),
        ("project", YES, (), False, "waiting"),
        ("project", OLD, (), False, "untrusted"),
        ("plugin", None, (), False, "untrusted"),
        ("plugin", None, (), True, "untrusted"),  # --trust is about the folder
        ("plugin", None, ("now",), False, "waiting"),
        ("plugin", None, ("before",), False, "untrusted"),
        ("plugin", NO, ("now",), False, "untrusted"),
        ("plugin", OLD, ("now",), False, "waiting"),
        ("plugin", OLD, ("before",), False, "untrusted"),
    ],
)
def test_a_server_of_others_waits_until_it_is_approved_as_it_is_now(
    scope: Scope, approval: Approval | None, accepted: tuple[str, ...], trust_all: bool, state: str
) -> None:
    definition = read_server("s", {"command": "x"}, scope, "file")
    assert standing(definition, "now", approval, accepted, trust_all=trust_all) == state
    disabled = read_server("s", {"command": "x", "disabled": True}, scope, "file")
    assert standing(disabled, "now", approval, accepted, trust_all=trust_all) == "disabled"
