"""The direct lanes: OpenAI and Anthropic without litellm."""
