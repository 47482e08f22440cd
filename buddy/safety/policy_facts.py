"""Facts about one call: all a decision depends on besides the mode, the rules and the person's answers."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from buddy.agent.tool import Risk, Tool
from buddy.safety.paths import Boundary, Located, locate
from buddy.safety.shell.verdict import Analysis


class HookOpinion(msgspec.Struct, frozen=True):
    """What a hook said. It can make a decision stricter, never looser."""

    decision: Literal["ask", "deny"]
    reason: str


class Facts(msgspec.Struct, frozen=True):
    """What is known about one call. `tool` is its registered name (`mcp__server__tool` for MCP); `root` and
    `home` are what rule patterns are relative to; `main` is the main tree where `root` is a worktree of it
    ("" otherwise): rules for that hold too; `anything`: it may change whatever it likes; `shell` is the
    analysis of a shell command; `host` is where a fetch goes, "" when nowhere; `sandboxed`: it would run in a
    working sandbox; `leaves_sandbox`: it asks not to."""

    tool: str
    risk: Risk
    root: str
    home: str
    reads: tuple[Located, ...] = ()
    writes: tuple[Located, ...] = ()
    anything: bool = False
    shell: Analysis | None = None
    host: str = ""
    sandboxed: bool = False
    leaves_sandbox: bool = False
    hook: HookOpinion | None = None
    main: str = ""


def facts_of(
    tool: Tool,
    arguments: Any,
    boundary: Boundary,
    *,
    shell: Analysis | None = None,
    host: str = "",
    sandboxed: bool = False,
    leaves_sandbox: bool = False,
    hook: HookOpinion | None = None,
) -> Facts:
    """The facts of a call of a declared tool. Raises `ToolError` when a path of it cannot be one."""
    access = tool.access(arguments)
    return Facts(
        tool=tool.name,
        risk=tool.risk,
        root=boundary.root,
        home=boundary.home,
        reads=tuple(locate(boundary, path) for path in access.reads),
        writes=tuple(locate(boundary, path) for path in access.writes),
        anything=access.anything,
        shell=shell,
        host=host,
        sandboxed=sandboxed,
        leaves_sandbox=leaves_sandbox,
        hook=hook,
        main=boundary.main,
    )
