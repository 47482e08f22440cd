"""The tools of one agent, by name: the model's, its aliases, and what to say to a name nobody has."""

from __future__ import annotations

from collections.abc import Iterable

from buddy.agent.provider import ToolDefinition
from buddy.agent.tool import Category, Tool


class ToolRegistry:
    """Tools by name. Names are unique; the first registration of a name or alias wins."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self._aliases: dict[str, str] = {}
        self._definitions: tuple[ToolDefinition, ...] | None = None
        for tool in tools:
            self.register(tool)

    def register(self, tool: Tool) -> None:
        """Add a tool. Raises `ValueError` when its name is taken."""
        if tool.name in self._tools:
            raise ValueError(f"two tools are named {tool.name!r}; give one another name")
        self._tools[tool.name] = tool
        self._definitions = None
        for alias in tool.aliases:
            self._aliases.setdefault(alias, tool.name)

    def remove(self, name: str) -> None:
        """Take a tool and its aliases out, if it is there."""
        if self._tools.pop(name, None) is not None:
            self._definitions = None
            self._aliases = {alias: target for alias, target in self._aliases.items() if target != name}

    def get(self, name: str) -> Tool | None:
        """The tool of this name or alias."""
        return self._tools.get(name) or self._tools.get(self._aliases.get(name, ""))

    def list_all(self) -> tuple[Tool, ...]:
        """All tools, sorted by name, so that the request prefix stays the same."""
        return tuple(self._tools[name] for name in sorted(self._tools))

    def list_by_category(self, category: Category) -> tuple[Tool, ...]:
        """The tools of one category, sorted by name."""
        return tuple(tool for tool in self.list_all() if tool.category == category)

    def list_definitions(self) -> tuple[ToolDefinition, ...]:
        """Return the tools' declarations, sorted by name: the same tuple until a tool comes or goes, so that
        whoever encoded it need not compare schemas."""
        if self._definitions is None:
            self._definitions = tuple(tool.definition() for tool in self.list_all())
        return self._definitions

    def unknown(self, name: str) -> str:
        """Return the error text for a call of a tool that is not there."""
        import difflib  # here: 1 ms that a start need not pay

        near = difflib.get_close_matches(name[:80], [*self._tools, *self._aliases], n=1)
        hint = f" Did you mean {self._aliases.get(near[0], near[0])}?" if near else ""
        return f"there is no tool named {name[:80]!r}.{hint} Available: {', '.join(sorted(self._tools))}"
