"""Letters that only look like the Latin ones a command seems to be written with."""

from __future__ import annotations

import re
import unicodedata

_WORD = re.compile(r"[^\W\d_]+")
_OPERATORS = re.compile(r"[\s;&|()<>\"'`=/]+")
_ALIKE = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "FULLWIDTH", "MATHEMATICAL")


def lookalike(command: str) -> str:
    """Return the first letter of a foreign alphabet beside Latin ones in a word, or in the name of a program,
    for people; "" when there is none."""
    if command.isascii():
        return ""
    for word in _WORD.findall(command):
        if not word.isascii() and any(char.isascii() for char in word):
            found = next((char for char in word if _name(char).startswith(_ALIKE)), "")
            if found:
                return f"the word {word[:40]} holds U+{ord(found):04X}, {_name(found).lower()}"
    for part in re.split(r"[;&|(\n]+", command):
        first = next(filter(None, _OPERATORS.split(part)), "")
        found = next((char for char in first if _name(char).startswith(_ALIKE)), "")
        if found:
            return f"the name {first[:40]} holds U+{ord(found):04X}, {_name(found).lower()}"
    return ""


def _name(char: str) -> str:
    return unicodedata.name(char, "")
