"""The analysis of shell commands behind one import: the parsers load with the first command, not at start."""

from __future__ import annotations

from buddy.safety.paths import Boundary
from buddy.safety.shell.analysis import Analyser
from buddy.safety.shell.place import TRUSTED_PATH, Place
from buddy.safety.shell.verdict import Analysis


class ShellJudge:
    """Judges command lines at a place."""

    def __init__(self) -> None:
        self._analyser = Analyser()

    def analyse(self, command: str, boundary: Boundary) -> Analysis:
        """What a command would do when it starts in the boundary's working directory."""
        return self._analyser.analyse(command, Place(boundary, TRUSTED_PATH))
