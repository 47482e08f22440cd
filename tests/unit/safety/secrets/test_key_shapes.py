"""The quick look for shapes misses nothing that a slow one finds."""

from __future__ import annotations

import random
import re

import pytest

from buddy.safety.secrets.key_shapes import SHAPES, UNMARKED, find_shapes
from tests.support.secrets_for_tests import SHAPED
from tests.support.secrets_published import WHOLE

SECRETS = (*SHAPED.values(), *WHOLE.values())
JOINTS = (
    " ",
    "\n",
    "\\n",
    "\\r",
    "\\t",
    "\\\\n",
    "\\",
    "n",
    "r",
    "_",
    "-",
    ".",
    "=",
    '"',
    "é",
    "\udc80",
    "0",
    "",
)


def slowly(text: str) -> set[tuple[int, int, str]]:
    """Every shape looked for at every place."""
    found: set[tuple[int, int, str]] = set()
    for shape in SHAPES:
        before = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))" if shape.prefix[0].isalnum() else ""
        whole = f"{before}{re.escape(shape.prefix)}(?:{shape.rest})(?![A-Za-z0-9])"
        found |= {(one.start(), one.end(), shape.kind) for one in re.finditer(whole, text, re.ASCII)}
    for kind, _needle, _hint, whole in UNMARKED:
        found |= {(one.start(), one.end(), kind) for one in re.finditer(whole, text, re.ASCII)}
    return found


@pytest.mark.parametrize("seed", range(20))
def test_shapes_are_found_whatever_stands_around_them(seed: int) -> None:
    seeded = random.Random(seed)
    pieces: list[str] = []
    for secret in seeded.sample(SECRETS, 40):
        pieces += [seeded.choice(JOINTS), seeded.choice(JOINTS), secret]
        pieces += ["".join(seeded.choices("abcXYZ019_-. \n\\ntr", k=seeded.randrange(30)))]
    text = "".join(pieces)
    assert set(find_shapes(text)) == slowly(text)


@pytest.mark.parametrize("secret", SECRETS, ids=range(len(SECRETS)))
def test_a_shape_is_found_behind_every_joint(secret: str) -> None:
    for joint in JOINTS:
        text = f"word{joint}{secret}\nlast"
        assert set(find_shapes(text)) == slowly(text), joint


@pytest.mark.parametrize("seed", range(20))
def test_shapes_are_found_among_nothing_but_beginnings_of_others(seed: int) -> None:
    seeded = random.Random(seed)
    pieces = [seeded.choice(SHAPES).prefix + seeded.choice(JOINTS) for _ in range(200)]
    for secret in seeded.sample(SECRETS, 10):
        pieces.insert(seeded.randrange(200), secret[: seeded.choice((None, -1, 20))])
    text = "".join(pieces)

    assert set(find_shapes(text)) == slowly(text)
