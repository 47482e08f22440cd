"""The default model: that of the first provider with a key in the environment, else of the first with a key
saved by `buddy login`.

Every start without a chosen model needs it, so it reads no catalogue; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping

import msgspec


class FirstModel(msgspec.Struct, frozen=True):
    """A provider's default model and the variable with its key."""

    key_env: str
    model: str


IN_ORDER = (
    FirstModel("ANTHROPIC_API_KEY", "anthropic/claude-sonnet-5-5"),
    FirstModel("OPENAI_API_KEY", "openai/gpt-6.1-sol"),
    FirstModel("GEMINI_API_KEY", "gemini/gemini-pro-latest"),
    FirstModel("OPENROUTER_API_KEY", "openrouter/anthropic/claude-sonnet-5.5"),
    FirstModel("XAI_API_KEY", "xai/grok-4.7"),
    FirstModel("DEEPSEEK_API_KEY", "deepseek/deepseek-v4-pro"),
    FirstModel("MISTRAL_API_KEY", "mistral/mistral-large-latest"),
    FirstModel("ZAI_API_KEY", "zai/glm-5.3"),
    FirstModel("MOONSHOT_API_KEY", "moonshot/kimi-k3"),
    FirstModel("DASHSCOPE_API_KEY", "dashscope/qwen3-coder-plus"),
    FirstModel("GROQ_API_KEY", "groq/openai/gpt-oss-120b"),
)
"""The providers by precedence."""


def first_model(
    environment: Mapping[str, str], saved: Callable[[], Container[str]] = tuple
) -> FirstModel | None:
    """Return the model of the first key found; None without any. `saved` names the providers with a saved
    key, asked only where the environment has none."""
    found = next((one for one in IN_ORDER if environment.get(one.key_env, "").strip()), None)
    if found is not None:
        return found
    kept = saved()
    return next((one for one in IN_ORDER if one.model.partition("/")[0] in kept), None)
