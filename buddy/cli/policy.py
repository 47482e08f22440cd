"""The policy a run begins with: its mode, its rules, and the grants a resumed session remembers."""

from __future__ import annotations

import msgspec

from buddy.cli.arguments import Options, UsageError
from buddy.config.settings import Settings
from buddy.safety.grants import Grant
from buddy.safety.policy_state import Policy
from buddy.safety.policy_table import MODES, Mode, mode_named
from buddy.safety.rules import RuleSet
from buddy.sessions.opened import OpenSession


def policy_of(
    settings: Settings, options: Options, rules: RuleSet, session: OpenSession, *, trusted: bool
) -> Policy:
    """The policy. `trusted`: the person trusts the project. Raises `UsageError` for an unknown mode."""
    policy = Policy(rules, trusted=trusted, yolo_allowed=options.permission_mode == "yolo")
    policy.set_mode(mode_of(options.permission_mode or settings.permissions.mode))
    grants = [change.grant for change in session.loaded.state.grants if change.grant is not None]
    policy.grants = tuple(msgspec.convert(grant, Grant) for grant in grants)
    return policy


def mode_of(name: str) -> Mode:
    """The permission mode of a name. Raises `UsageError`."""
    mode = mode_named(name)
    if mode is None:
        raise UsageError(f"--permission-mode is one of {', '.join(MODES)}; found {name!r}")
    return mode
