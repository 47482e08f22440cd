"""Claude's names for buddy's tools and their arguments: files made for Claude Code use those names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

CLAUDE_TOOLS: Mapping[str, tuple[str, ...]] = {
    "run_shell": ("Bash",),
    "read_job": ("BashOutput", "TaskOutput"),
    "stop_job": ("KillShell", "TaskStop"),
    "read_file": ("Read", "NotebookRead"),
    "edit_file": ("Edit", "MultiEdit", "NotebookEdit"),
    "apply_patch": ("Edit", "MultiEdit", "Write"),
    "write_file": ("Write",),
    "grep": ("Grep",),
    "find_files": ("Glob",),
    "list_files": ("LS",),
    "web_fetch": ("WebFetch",),
    "web_search": ("WebSearch",),
    "delegate": ("Task", "Agent"),
    "todo": ("TodoWrite",),
    "ask_user": ("AskUserQuestion",),
    "skill": ("Skill",),
}
"""By buddy's name. The first one stands for the tool in what a hook reads; a matcher may use any."""

_ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "read_file": {"path": "file_path"},
    "edit_file": {"path": "file_path", "old": "old_string", "new": "new_string", "all": "replace_all"},
    "write_file": {"path": "file_path"},
    "delegate": {"task": "prompt", "agent": "subagent_type", "background": "run_in_background"},
    "run_shell": {"background": "run_in_background"},
}


def claude_names(tool: str) -> tuple[str, ...]:
    """Return the names a matcher may use for a tool: Claude's first, then buddy's own."""
    return (*CLAUDE_TOOLS.get(tool, ()), tool)


def buddy_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return buddy's tools for a list of names, Claude's or its own; a rule in parentheses is left out."""
    found: dict[str, None] = {}
    for name in names:
        bare = name.split("(", 1)[0].strip()
        own = [tool for tool, others in CLAUDE_TOOLS.items() if bare in others]
        found.update(dict.fromkeys(own or [bare] if bare else ()))
    return tuple(found)


def claude_input(tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call under Claude's names. They may be as the model wrote them, unchecked."""
    renamed = _ARGUMENTS.get(tool, {})
    values = {renamed.get(name, name): value for name, value in arguments.items() if value is not None}
    if isinstance(edits := values.get("edits"), list):
        values["edits"] = [
            {renamed.get(name, name): value for name, value in cast("dict[str, Any]", edit).items()}
            if isinstance(edit, dict)
            else edit
            for edit in cast("list[object]", edits)
        ]
    return values


def claude_call(name: str, values: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return a call in Claude's words. A patch keeps its own: it may change several files, and as an edit it
    would hide all but one."""
    if name not in CLAUDE_TOOLS or name == "apply_patch":
        return name, dict(values)
    return CLAUDE_TOOLS[name][0], claude_input(name, values)


def claude_name(tool: str) -> str:
    """Return the name that stands for a tool in messages to programs for Claude."""
    return claude_call(tool, {})[0]


def buddy_call(name: str, values: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return buddy's tool and arguments for a call in Claude's words; another name stays as it is."""
    tool = next((tool for tool, names in CLAUDE_TOOLS.items() if name in names), name)
    own = {theirs: ours for ours, theirs in _ARGUMENTS.get(tool, {}).items()}
    return tool, {own.get(key, key): value for key, value in values.items()}
