"""The result of the user's answer about trust in the folder."""

from __future__ import annotations

from typing import Literal

import msgspec


class TrustAnswer(msgspec.Struct, frozen=True):
    """The result of an answer about trust: the text for the user, and whether the settings in force change
    for this run only, permanently, or not at all."""

    text: str
    changes: Literal["no", "once", "remembered"]
