"""Result of a person's answer about trust in the folder."""

from __future__ import annotations

from typing import Literal

import msgspec


class TrustAnswer(msgspec.Struct, frozen=True):
    """Result of an answer about trust in the folder: the text for the user, and whether the settings in force
    change: for this run only, as remembered now, or not at all."""

    said: str
    changes: Literal["no", "once", "remembered"]
