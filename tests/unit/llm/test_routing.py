"""The route of a model name: provider, lane, address, and the name sent there."""

from __future__ import annotations

from pathlib import Path

import pytest

from buddy.llm.catalog import Catalogue, read_catalogue
from buddy.llm.routing import UnknownModelError, route

SHIPPED = Path(__file__).resolve().parents[3] / "templates" / "models.toml"
OWN = "http://127.0.0.1:9/v1"


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return read_catalogue(SHIPPED)


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        # name, profile → provider, lane, wire, api, model, base_url, key_env
        (
            "openai/gpt-5.2",
            {},
            ("openai", "direct", "chat", "chat", "gpt-5.2", "https://api.openai.com/v1", "OPENAI_API_KEY"),
        ),
        (
            "gpt-5.2",
            {},
            ("openai", "direct", "chat", "chat", "gpt-5.2", "https://api.openai.com/v1", "OPENAI_API_KEY"),
        ),
        (
            "gpt-5.2-2030-01-01",
            {},
            (
                "openai",
                "direct",
                "chat",
                "chat",
                "gpt-5.2-2030-01-01",
                "https://api.openai.com/v1",
                "OPENAI_API_KEY",
            ),
        ),
        # Only the responses API has it: through litellm.
        (
            "openai/gpt-5.2-pro",
            {},
            ("openai", "litellm", "", "responses", "openai/gpt-5.2-pro", "", "OPENAI_API_KEY"),
        ),
        (
            "openai/responses/gpt-5.2",
            {},
            ("openai", "litellm", "", "responses", "openai/gpt-5.2", "", "OPENAI_API_KEY"),
        ),
        (
            "anthropic/claude-sonnet-4-5",
            {},
            (
                "anthropic",
                "direct",
                "anthropic",
                "chat",
                "claude-sonnet-4-5",
                "https://api.anthropic.com",
                "ANTHROPIC_API_KEY",
            ),
        ),
        (
            "claude-sonnet-4.5",
            {},
            (
                "anthropic",
                "direct",
                "anthropic",
                "chat",
                "claude-sonnet-4-5",
                "https://api.anthropic.com",
                "ANTHROPIC_API_KEY",
            ),
        ),
        (
            "openrouter/anthropic/claude-sonnet-4.5:free",
            {},
            (
                "openrouter",
                "direct",
                "chat",
                "chat",
                "anthropic/claude-sonnet-4.5:free",
                "https://openrouter.ai/api/v1",
                "OPENROUTER_API_KEY",
            ),
        ),
        (
            "fireworks/kimi-k3",
            {},
            (
                "fireworks_ai",
                "direct",
                "chat",
                "chat",
                "accounts/fireworks/models/kimi-k3",
                "https://api.fireworks.ai/inference/v1",
                "FIREWORKS_API_KEY",
            ),
        ),
        (
            "ollama/llama3.1:8b",
            {},
            ("ollama", "direct", "chat", "chat", "llama3.1:8b", "http://127.0.0.1:11434/v1", ""),
        ),
        (
            "vllm/my/own-model",
            {},
            ("hosted_vllm", "direct", "chat", "chat", "my/own-model", "http://127.0.0.1:8000/v1", ""),
        ),
        (
            "gemini/gemini-2.5-pro",
            {},
            ("gemini", "litellm", "", "chat", "gemini/gemini-2.5-pro", "", "GEMINI_API_KEY"),
        ),
        (
            "gemini-2.5-pro",
            {},
            ("gemini", "litellm", "", "chat", "gemini/gemini-2.5-pro", "", "GEMINI_API_KEY"),
        ),
        (
            "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            {},
            (
                "bedrock",
                "litellm",
                "",
                "chat",
                "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
                "",
                "",
            ),
        ),
        # The profile decides.
        (
            "openai/gpt-5.2",
            {"lane": "litellm"},
            ("openai", "litellm", "", "chat", "openai/gpt-5.2", "", "OPENAI_API_KEY"),
        ),
        (
            "openai/gpt-5.2-pro",
            {"lane": "direct"},
            (
                "openai",
                "direct",
                "chat",
                "chat",
                "gpt-5.2-pro",
                "https://api.openai.com/v1",
                "OPENAI_API_KEY",
            ),
        ),
        (
            "openai/mock",
            {"base_url": OWN},
            ("openai", "direct", "chat", "chat", "mock", OWN, "OPENAI_API_KEY"),
        ),
        (
            "anthropic/mock",
            {"base_url": OWN},
            ("anthropic", "direct", "anthropic", "chat", "mock", OWN, "ANTHROPIC_API_KEY"),
        ),
        ("company/model/7b", {"base_url": OWN}, ("company", "direct", "chat", "chat", "model/7b", OWN, "")),
        ("just-a-name", {"base_url": OWN}, ("just-a-name", "direct", "chat", "chat", "just-a-name", OWN, "")),
        (
            "gemini/gemini-2.5-pro",
            {"base_url": OWN, "lane": "litellm"},
            ("gemini", "litellm", "", "chat", "gemini/gemini-2.5-pro", OWN, "GEMINI_API_KEY"),
        ),
    ],
)
def test_names_lead_where_they_should(
    catalogue: Catalogue, name: str, options: dict[str, str], expected: tuple[str, ...]
) -> None:
    way = route(catalogue, name, **options)
    assert (way.provider, way.lane, way.wire, way.api, way.model, way.base_url, way.key_env) == expected


def test_an_unknown_bare_name_gets_near_names(catalogue: Catalogue) -> None:
    with pytest.raises(
        UnknownModelError, match=r"unknown model 'claude-sonet-45': expected .* near names: .*claude-sonnet"
    ):
        route(catalogue, "claude-sonet-45")
    with pytest.raises(UnknownModelError, match="`buddy models` lists"):
        route(catalogue, "§§§")


def test_a_provider_nobody_knows_is_refused_unless_the_profile_has_an_address(catalogue: Catalogue) -> None:
    refused = r"unknown provider '{}' in '{}': expected provider/model, .* a profile with a base_url; "
    for name, hint in (
        ("nosuch/thing", "`buddy models` lists"),
        ("antropic/claude", "near names: anthropic"),
    ):
        with pytest.raises(UnknownModelError, match=refused.format(name.split("/")[0], name) + hint):
            route(catalogue, name)
    assert route(catalogue, "nosuch/thing", base_url=OWN).model == "thing"
    assert route(catalogue, "watsonx/thing").model == "watsonx/thing"


def test_what_has_no_direct_lane_cannot_be_forced_onto_one(catalogue: Catalogue) -> None:
    with pytest.raises(UnknownModelError, match="has no direct lane: set base_url"):
        route(catalogue, "gemini/gemini-2.5-pro", lane="direct")


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("openai/responses/gpt-5.2", "openai/gpt-5.2"),
        ("openai/responses/own", "openai/own"),
        ("openai/gpt-5.2-pro", "openai/gpt-5.2-pro"),
        ("gpt-5.2-pro", "openai/gpt-5.2-pro"),
        ("company/responses/own", "company/responses/own"),
        ("responses/own", "openai/own"),
    ],
)
def test_RU_P4_7_the_responses_protocol_is_kept_with_a_base_url(
    catalogue: Catalogue, name: str, sent: str
) -> None:
    way = route(catalogue, name, base_url=OWN)
    assert (way.lane, way.api, way.model, way.base_url) == ("litellm", "responses", sent, OWN)


def test_RU_P4_7_the_direct_lane_refuses_the_responses_protocol(catalogue: Catalogue) -> None:
    with pytest.raises(UnknownModelError, match=r'set lane = "auto", or write openai/gpt-5\.2$'):
        route(catalogue, "openai/responses/gpt-5.2", base_url=OWN, lane="direct")
    # The catalogue's word alone does not bind a server of one's own.
    assert route(catalogue, "openai/gpt-5.2-pro", base_url=OWN, lane="direct").api == "chat"
