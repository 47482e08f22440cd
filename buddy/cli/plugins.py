"""`buddy plugin add|list|remove`: plug-in folders of the person."""

from __future__ import annotations

import os
from collections.abc import Mapping

from buddy.agent.formatting import format_count
from buddy.app.options import Options, UsageError
from buddy.app.stderr import tell
from buddy.config.loading import directories
from buddy.extend.plugin_folders import PluginContents, PluginError, PluginStore
from buddy.headless.exit_codes import CONFIGURATION
from buddy.safety.sanitise import one_line

USAGE_TEXT = (
    "expected: buddy plugin add FOLDER|GIT-ADDRESS[#FOLDER], buddy plugin list, buddy plugin remove NAME"
)


def plugin(options: Options, environment: Mapping[str, str]) -> int:
    """Carry out the subcommand. Returns the exit code; raises `UsageError`."""
    store = PluginStore(directories(environment).data)
    try:
        match tuple(options.words):
            case ("add", source):
                before = {one.name: one.source for one in store.all()}
                added, contents = store.add(source, cwd=os.getcwd())
                print(f"added {added.name} ({added.path})")  # noqa: T201 - the command's answer
                if (replaced := before.get(added.name, source)) != source:  # its author chose the name
                    print(f"  in place of {added.name} from {one_line(replaced, 200)}")  # noqa: T201 - as above
                print("\n".join(_lines(contents)))  # noqa: T201 - the command's answer
            case () | ("list",):
                found = store.all()
                rows = [f"{one.name}  {one_line(one.source, 100)}  {one.path}" for one in found]
                print("\n".join(rows) or "no plug-ins")  # noqa: T201 - the command's answer
            case ("remove", name):
                removed = store.remove(name)
                print(f"removed {removed.name}")  # noqa: T201 - the command's answer
            case _:
                raise UsageError(USAGE_TEXT)
    except PluginError as error:
        tell(f"buddy: {error}\n")
        return CONFIGURATION
    return 0


def _lines(contents: PluginContents) -> list[str]:
    """Describe what a plug-in brings; each hook by itself, since it runs without a question."""
    lines = [
        f"  {format_count(len(names), word)}: {', '.join(names)}"
        for word, names in (
            ("skill", contents.skills),
            ("command", contents.commands),
            ("subagent", contents.agents),
            ("MCP server", contents.servers),
        )
        if names
    ]
    for hook in contents.hooks:
        title = hook.hook.title if hook.hook is not None else f"not active: {hook.problem}"
        lines.append(f"  hook {one_line(hook.label, 60)}: {one_line(title, 200)}")
    if any(hook.hook is not None for hook in contents.hooks):
        lines.append("  its hooks run in the sandbox; after a change they wait until you add it again")
    lines += [f"  {one_line(problem, 300)}" for problem in contents.problems]
    return lines or ["  it brings nothing that buddy uses"]
