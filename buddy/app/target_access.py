"""A session's way to its targets; what they need is imported when one is used."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from buddy.agent.tool import ToolError
from buddy.app.launch import LaunchContext
from buddy.app.options import Options
from buddy.app.target_states import SessionTargets
from buddy.config.settings import ConfigError, Settings, TargetSettings
from buddy.extend.system_prompt import render_template, template_text
from buddy.safety.seal import Seal
from buddy.tasks.dependencies import Workspace
from buddy.tools.builtin import BUILTIN_TOOLS
from buddy.workspace.processes.pool import ChildProcesses


async def use_target(targets: Callable[[], SessionTargets], settings: Settings, options: Options) -> None:
    """Connect to the target of the command line. Raises `ConfigError`."""
    name, known = options.target, settings.targets
    if name not in known:
        names = ", ".join(known) or "none"
        raise ConfigError(f"--target {name}: not in your buddy.toml; [targets.NAME] there: {names}")
    if options.in_worktree:
        raise ConfigError("--target and --worktree: a worktree is made on this machine; give one of them")
    try:
        await targets().connect(name)
    except ToolError as error:
        raise ConfigError(f"--target {name}: {error}") from error


def open_targets(
    *,
    settings: Mapping[str, TargetSettings],
    local: Workspace,
    children: ChildProcesses,
    launch: LaunchContext,
    directory: str,
    seal: Seal,
) -> SessionTargets:
    """Return the targets of a session. `local` is the workspace of this machine; undo logs go into
    `directory`."""
    # Imported here: only with a target. ssh, sftp and what they need cost a start nothing.
    from buddy.app.policy import load_analysis
    from buddy.app.remote_workspace import TargetParts
    from buddy.app.targets import TargetClients, Targets
    from buddy.workspace.undo.log import UndoLog

    def prompt(name: str, shown: str) -> str:
        without = ", ".join(tool.name for tool in BUILTIN_TOOLS if not tool.anywhere)
        values = {"name": name, "shown": shown, "without": without}
        return f"{local.system}\n{render_template(template_text('target_prompt.md'), values)}"

    return Targets(
        settings,
        TargetClients(children.environment, launch.environment, launch.boundary.root),
        TargetParts(
            local=local,
            children=children,
            undo=lambda name, switch: UndoLog(
                os.path.join(directory, f"undo-{name}"), seal=seal.derive(f"undo-{name}"), elsewhere=switch
            ),
            analyse=load_analysis(launch.environment.get("PATH", "")),
            prompt=prompt,
        ),
    )
