"""Pictures in the format of chat completions, shared by the direct lane and litellm's."""

from __future__ import annotations

from typing import Any

from buddy.agent.messages import Image

PICTURES_FOLLOW = "Pictures of the tool results above:"
"""Stands before pictures of tool results, which go into a user message: a tool message holds only text."""


def picture_part(image: Image) -> dict[str, Any]:
    """Return the content part of a picture."""
    return {"type": "image_url", "image_url": {"url": f"data:{image.media_type};base64,{image.data}"}}
