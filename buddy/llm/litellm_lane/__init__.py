"""The litellm lane: every other provider."""
