"""The rectangle of a sheet's cells, measured before it is held: by the events of an XML parser. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

_REFERENCE = re.compile(r"\$?([A-Za-z]{1,4})\$?(\d{1,9})")


class Extent:
    """The cells from the first row and column to the last value, of the largest sheet; of xlsx and of ods."""

    def __init__(self) -> None:
        self.cells = 0
        self._row = self._column = self._rows = self._columns = 0
        self._row_count = self._count = 1
        self._filled = False

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Take the start of an element."""
        match tag.rpartition(":")[2]:
            case "worksheet" | "table":
                self._row = self._column = self._rows = self._columns = 0
            case "row":
                self._row = _number(attributes.get("r"), self._row + 1)
                self._column = 0
            case "c":
                found = _REFERENCE.fullmatch(attributes.get("r", ""))
                self._column = _column_of(found[1]) if found else self._column + 1
                self._row = int(found[2]) if found else self._row
            case "v" | "is":
                self._reach(self._row, self._column)
            case "table-row":
                self._column = 0
                self._filled = False
                self._row_count = _number(_repeat_count(attributes, "rows"), 1)
            case "table-cell" | "covered-table-cell":
                self._count = _number(_repeat_count(attributes, "columns"), 1)
                self._column += self._count
                if any(name.endswith(":value-type") for name in attributes):
                    self._fill()
            case "p":
                self._fill()
            case _:
                pass

    def end(self, tag: str) -> None:
        """Take the end of an element."""
        if tag.rpartition(":")[2] == "table-row":
            self._row += self._row_count
            if self._filled:
                self._reach(self._row, 0)

    def _fill(self) -> None:
        self._filled = True
        self._reach(0, self._column)

    def _reach(self, row: int, column: int) -> None:
        self._rows, self._columns = max(self._rows, row), max(self._columns, column)
        self.cells = max(self.cells, self._rows * self._columns)


def _repeat_count(attributes: Mapping[str, str], what: str) -> str | None:
    return next(
        (value for name, value in attributes.items() if name.endswith(f":number-{what}-repeated")), None
    )


def _number(text: str | None, otherwise: int) -> int:
    return int(text) if text and text.isdecimal() and len(text) < 10 else otherwise


def _column_of(letters: str) -> int:
    column = 0
    for letter in letters.upper():
        column = column * 26 + ord(letter) - 64
    return column
