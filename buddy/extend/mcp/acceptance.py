"""The words of a server that models read, its tools' and its own, as the person accepted them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from buddy.extend.mcp.records import ToolInfo
from buddy.safety.sanitise import one_line


class AcceptedWords:
    """The accepted digests of one server: of its tools by name, and of its instructions, None before they
    were ever heard."""

    def __init__(self, tools: Mapping[str, str] | None = None, instructions: str | None = None) -> None:
        self.tools = dict(tools or {})
        self.instructions = instructions

    def accept(self, tools: Sequence[ToolInfo], instructions: str) -> None:
        """Accept everything as it is now, and nothing else."""
        self.tools = {info.name: info.digest() for info in tools}
        self.instructions = instructions

    def admit_new(self, tools: Sequence[ToolInfo], instructions: str) -> bool:
        """Accept what is heard for the first time: new tools, unless an accepted one is gone, and the first
        instructions. Return whether there was anything."""
        new = {info.name: info.digest() for info in tools if info.name not in self.tools}
        if self._gone(tools):
            new = {}
        is_first = self.instructions is None
        if is_first:
            self.instructions = instructions
        self.tools.update(new)
        return bool(new) or is_first

    def refuse_tool(self, info: ToolInfo, tools: Sequence[ToolInfo]) -> str:
        """Return why a tool is not offered, "" for one that is as it was accepted."""
        if self.tools.get(info.name) == info.digest():
            return ""
        if info.name in self.tools:
            return "its description changed"
        names = one_line(", ".join(sorted(self._gone(tools))), 100)
        return f"it is new, and {names} is gone: it may be the same under another name"

    def has_changed(self, instructions: str) -> bool:
        """Tell whether instructions are not those that were accepted."""
        return self.instructions != instructions

    def _gone(self, tools: Sequence[ToolInfo]) -> frozenset[str]:
        return frozenset(self.tools.keys() - {info.name for info in tools})
