"""OpenRouter's `reasoning_details`: fragments of structured reasoning, joined so they can be sent back.

Neighbouring fragments with the same `type`, `index` and `id` are one detail; their texts are concatenated,
other fields take the last value given. None of it is shown: readable text comes in its own field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from buddy.llm.loose_json import items, mapping, string

GROWING = frozenset({"text", "summary", "data"})


class ReasoningDetails:
    """Fragments in, whole details out."""

    def __init__(self) -> None:
        self._details: list[tuple[dict[str, Any], dict[str, list[str]]]] = []

    def add(self, fragments: Any) -> None:
        """Take the list one chunk carries."""
        for item in items(fragments):
            fragment = mapping(item)
            if fragment:
                self._add(fragment)

    def whole(self) -> list[dict[str, Any]]:
        """Every detail so far, as the provider wants it back."""
        return [
            {**fields, **{key: "".join(pieces) for key, pieces in growing.items()}}
            for fields, growing in self._details
        ]

    def _add(self, fragment: Mapping[str, Any]) -> None:
        if not (self._details and _same(self._details[-1][0], fragment)):
            self._details.append(({}, {}))
        fields, growing = self._details[-1]
        for key, value in fragment.items():
            if key in GROWING and isinstance(value, str):
                growing.setdefault(key, []).append(value)
                fields.setdefault(key, "")
            elif value is not None or key not in fields:
                fields[key] = value


def _same(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    if first.get("type") != second.get("type") or first.get("index") != second.get("index"):
        return False
    ids = {string(first.get("id")), string(second.get("id"))} - {""}
    return len(ids) < 2
