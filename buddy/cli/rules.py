"""The person's and the project's rules: read from settings, saved to buddy's own file; and facts for the
policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from buddy.agent.tool import Tool
from buddy.cli.place import Place
from buddy.config import Loaded
from buddy.safety.paths import Boundary
from buddy.safety.policy_facts import Facts, facts_of
from buddy.safety.rules import Rule, RuleSet


class RuleFiles:
    """Where rules come from and go to."""

    def __init__(self, place: Place, loaded: Loaded) -> None:
        self._place = place
        self._loaded = loaded
        self.errors: tuple[str, ...] = ()

    def load(self, allowed: Sequence[str]) -> RuleSet:
        """All rules in force."""
        return RuleSet()

    def save(self, rules: Sequence[Rule]) -> None:
        """Keep rules for good."""


class Judge:
    """Facts about calls, for the policy."""

    def __init__(self, boundary: Boundary) -> None:
        self._boundary = boundary

    def facts(self, tool: Tool, arguments: Any) -> Facts:
        """What the policy needs to know about a call. Raises `ToolError` for a path that can be none."""
        return facts_of(tool, arguments, self._boundary)
