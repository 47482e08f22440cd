"""The analysis of shell commands behind one import: the parsers load with the first command, not at
start-up."""

from __future__ import annotations

from buddy.safety.paths import Boundary
from buddy.safety.shell.analysis import Analyser
from buddy.safety.shell.context import TRUSTED_PATH, CommandPlace
from buddy.safety.shell.result import Analysis


class ShellJudge:
    """Analyses command lines in a folder; program names are looked up in a PATH."""

    def __init__(self, search_path: str) -> None:
        self._analyser = Analyser()
        self._search_path = search_path or TRUSTED_PATH

    def analyse(self, command: str, boundary: Boundary) -> Analysis:
        """Analyse the effects of a command started in the boundary's working directory."""
        return self._analyser.analyse(command, CommandPlace(boundary, self._search_path))
