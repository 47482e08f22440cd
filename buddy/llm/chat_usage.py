"""Token counts of OpenAI-compatible servers, under every name they go by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from buddy.agent.messages import Usage
from buddy.llm.loose_json import count, dollars, items, mapping


def usage_of(chunk: Mapping[str, Any]) -> Usage | None:
    """The counts a chunk carries: in its place, under a vendor's key (`x_groq`), or inside the choice."""
    for holder in (chunk, *(mapping(value) for key, value in chunk.items() if key.startswith("x_"))):
        found = mapping(holder.get("usage"))
        if found:
            return _usage(found)
    choices = items(chunk.get("choices"))
    found = mapping(mapping(choices[0] if choices else None).get("usage"))
    return _usage(found) if found else None


def _usage(counts: Mapping[str, Any]) -> Usage:
    prompt = mapping(counts.get("prompt_tokens_details")) or mapping(counts.get("input_tokens_details"))
    output = mapping(counts.get("completion_tokens_details")) or mapping(counts.get("output_tokens_details"))
    input_tokens = count(counts.get("prompt_tokens", counts.get("input_tokens")))
    output_tokens = count(counts.get("completion_tokens", counts.get("output_tokens")))
    reasoning = count(output.get("reasoning_tokens") or counts.get("reasoning_tokens"))
    # xAI counts reasoning beside the completion; the total tells.
    if reasoning and count(counts.get("total_tokens")) == input_tokens + output_tokens + reasoning:
        output_tokens += reasoning
    return Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cache_read_tokens=_first(
            prompt.get("cached_tokens"), counts.get("prompt_cache_hit_tokens"), counts.get("cached_tokens")
        ),
        cache_write_tokens=_first(
            prompt.get("cache_write_tokens"), counts.get("cache_creation_input_tokens")
        ),
        reasoning_tokens=reasoning,
        estimated=False,
        cost_usd=_cost(counts),
    )


def _cost(counts: Mapping[str, Any]) -> float | None:
    """Return the billed cost, as LiteLLM and OpenRouter state it. With a provider key of the user's own,
    OpenRouter states its fee and, separately, the provider's bill."""
    cost = dollars(counts.get("cost"))
    if cost is None or counts.get("is_byok") is not True:
        return cost
    return cost + (dollars(mapping(counts.get("cost_details")).get("upstream_inference_cost")) or 0)


def _first(*values: Any) -> int:
    return next((count(value) for value in values if count(value)), 0)
