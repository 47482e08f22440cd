"""The workspace of a task on a tmux target: files and tools are those of this machine, commands are typed
into a shared pane. Imported when such a target is used.

Two tools look at the pane and type into it, in place of those of the same names for jobs.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from buddy.agent.display import Plain
from buddy.agent.formatting import format_count
from buddy.agent.lazy_regex import pattern
from buddy.agent.tool import Tool, ToolContext, ToolError, ToolResult, any_access, no_access, tool
from buddy.app.remote_workspace import TargetParts, as_unknown
from buddy.extend.system_prompt import render_template, template_text
from buddy.safety.paths import is_beneath
from buddy.safety.policy.facts import Facts
from buddy.safety.sanitise import visible
from buddy.safety.shell.scripts import script_digests
from buddy.tasks.dependencies import TaskServices, Workspace
from buddy.tools.jobs import capture_pane, send_keys
from buddy.workspace.elsewhere import TargetShell
from buddy.workspace.targets.pane_connection import PaneConnection
from buddy.workspace.targets.pane_keys import tmux_key
from buddy.workspace.targets.pane_shell import PaneShell
from buddy.workspace.targets.shared_pane import SharedPane
from buddy.workspace.targets.transport import ConnectionState

_CONTROL = pattern("([\x00-\x1f\x7f])")
CONTROL_NAMES = {"\r": "Enter", "\n": "Enter", "\t": "Tab", "\x1b": "Escape", "\x7f": "BSpace"}


class PaneTarget:
    """One tmux target: its pane, and the workspaces of the tasks on it. `root` is the workspace."""

    def __init__(self, connection: PaneConnection, root: str) -> None:
        self._connection, self._root = connection, root
        self.shown = connection.address.shown

    @property
    def state(self) -> ConnectionState:
        """Return the state of the pane when it was used last."""
        return self._connection.state

    def explain_loss(self) -> str:
        """Return why the pane was lost or could not be opened, "" when it was not."""
        return self._connection.reason

    def connect(self) -> None:
        """Find the pane, or make it. Blocks; raises `ToolError`."""
        self._connection.ensure()

    def try_out(self) -> None:
        """Check that the pane can be reached, without making it. Blocks; raises `ToolError`."""
        self._connection.check_program()

    def close(self) -> None:
        """Do nothing: the pane is the person's, and stays."""

    def workspace(self, parts: TargetParts) -> Workspace:
        """Return the workspace of this machine with commands in the pane."""
        name = self._connection.address.name
        shell = PaneShell(self._connection, parts.children, private_folder(self._root))
        pane = SharedPane(self._connection)
        prompt = render_template(template_text("pane_prompt.md"), {"name": name, "shown": self.shown})
        return replace(
            parts.local,
            system=f"{parts.local.system}\n{prompt}",
            facts=_PaneJudge(name, parts).facts,
            services=_services(parts.local.services, shell, pane),
            target=name,
            target_shown=shell.shown,
            fit=_fit,
        )


def _fit(tool: Tool) -> Tool:
    """Return the tool of this name for the pane, the tool itself where there is none."""
    return _PANE_TOOLS.get(tool.name, tool) if tool.source == "built-in" else tool


def private_folder(root: str) -> str:
    """Return the folder for the files of commands. Commands in the sandbox may write into the workspace:
    there they could exchange what the pane's shell is about to read."""
    usual = tempfile.gettempdir()
    return "/tmp" if is_beneath(os.path.realpath(usual), root) else usual  # noqa: S108 - a private folder in it


def _services(
    local: Callable[[int], TaskServices], shell: TargetShell, pane: SharedPane
) -> Callable[[int], TaskServices]:
    """Return a function that makes the services of a task: those of this machine, and the pane."""

    def with_pane(services: TaskServices) -> TaskServices:
        def copy(task_id: int) -> TaskServices:
            return with_pane(services.copy(task_id))

        return replace(
            services, services={**services.services, TargetShell: shell, SharedPane: pane}, copy=copy
        )

    return lambda task_id: with_pane(local(task_id))


class _PaneJudge:
    """Collects facts about calls. Nothing confines what is typed into the pane, and aliases and functions of
    its shell change what a command means: none is taken for one that only reads."""

    def __init__(self, name: str, parts: TargetParts) -> None:
        self._name, self._local = name, parts.local

    def facts(self, tool: Tool, arguments: Any) -> Facts:
        """Collect what the policy needs to know about a call. Raises `ToolError`."""
        facts = self._local.facts(tool, arguments)
        if tool.command is None and _PANE_TOOLS.get(tool.name) is not tool:
            return facts
        shell, scripts = facts.shell, facts.scripts
        if shell is not None and facts.folder is not None:
            shell = as_unknown(shell)
            scripts = script_digests(shell, replace(self._local.boundary, cwd=facts.folder.real))
        return replace(
            facts,
            risk=tool.risk,
            shell=shell,
            scripts=scripts,
            sandboxed=False,
            read_only_sandbox=False,
            own_programs=(),
            target=self._name,
        )


def _written_out(text: str) -> str:
    """Return text with its control characters as the names of their keys. The brackets around them are shown
    as something else where the text itself holds some."""
    return "".join(
        f"⟨{CONTROL_NAMES.get(piece) or 'C-' + chr(ord(piece) | 96)}⟩" if place % 2 else visible(piece)
        for place, piece in enumerate(_CONTROL().split(text))
    )


def _in_words(text: str, enter: bool, keys: tuple[str, ...]) -> str:
    pieces = [_written_out(text), "⟨Enter⟩" if enter else "", *(f"⟨{visible(key)}⟩" for key in keys)]
    return " ".join(piece for piece in pieces if piece)


def _preview(ctx: ToolContext, arguments: Any) -> Plain:
    if not arguments.text and not arguments.keys and not arguments.enter:
        raise ToolError("there is nothing to type; give text, keys or enter")
    for key in arguments.keys:
        tmux_key(key)
    return Plain(
        f"type into {ctx.service(SharedPane).shown}",
        _in_words(arguments.text, arguments.enter, arguments.keys),
    )


@tool(
    name=send_keys.name,
    anywhere=True,
    risk="high",
    core=True,
    category="shell",
    access=any_access,
    preview=_preview,
    effect="it types into the shared pane",
    argument_aliases={"key": "keys", "input": "text", "chars": "text", "data": "text"},
)
async def send_pane_keys(
    ctx: ToolContext, keys: tuple[str, ...] = (), text: str = "", enter: bool = False
) -> ToolResult:
    """Type into the shared pane, for a program that runs there: `text` as it is, then Enter with `enter`,
    then `keys`: names like "Enter", "Up", "C-c", "M-x", "F5", or single characters. Commands go through
    run_shell, which knows their end."""
    if not text and not keys and not enter:
        raise ToolError("there is nothing to type; give text, keys or enter")
    names = tuple(tmux_key(key) for key in keys)
    pane = ctx.service(SharedPane)
    if text or enter:
        await pane.type(text, enter=enter)
    if names:
        await pane.press(names)
    count = format_count(len(text) + enter + len(names), "key")
    return ToolResult(
        f"typed {count} into the pane; capture_pane shows what came of it",
        Plain(f"typed into {pane.name}", _in_words(text, enter, keys)),
    )


@tool(name=capture_pane.name, anywhere=True, risk="low", core=True, category="shell", access=no_access)
async def capture_shared_pane(ctx: ToolContext, lines: int = 0) -> ToolResult:
    """Show the shared pane as it is now; with `lines` so many of its last lines, also those that scrolled
    away."""
    pane = ctx.service(SharedPane)
    screen = await pane.capture(max(0, lines))
    return ToolResult(f"{screen.text}\n[{screen.state}]", Plain(f"screen of {pane.name}", screen.text))


_PANE_TOOLS: dict[str, Tool] = {tool.name: tool for tool in (send_pane_keys, capture_shared_pane)}
