"""Options of other assistants that buddy refuses, each with the reason and what to do instead."""

from __future__ import annotations

REFUSED = {
    "--betas": "buddy chooses what it sends to a provider by itself",
    "--fallback-model": "buddy has no second model to fall back to; --model chooses the one",
    "--include-hook-events": "buddy writes no events of hooks",
    "--resume-session-at": "sessions resume at their end; --fork-session continues in a copy",
    "--resume-drops-turn": "sessions resume with all their turns",
    "--session-mirror": "buddy keeps its sessions itself; `buddy sessions` lists them",
    "--task-budget": "--max-budget-usd and --max-turns limit a run",
    "--thinking-display": "thinking is always written as the provider sends it",
    "--plugin-dir-no-mcp": "--plugin-dir loads a plug-in",
    "--managed-settings": "managed settings are not part of buddy; --settings adds permissions",
    "--agent": "name a subagent in the prompt, or give --agents",
    "--cyber-access-program": "it belongs to another service",
    "--dangerously-bypass-approvals-and-sandbox": "give --permission-mode yolo",
    "--full-auto": "give --permission-mode auto",
}


def refusal(option: str) -> str:
    """Return the sentence for an option of another assistant, "" for one nobody knows."""
    name = option.partition("=")[0]
    return f"{name} is not supported: {REFUSED[name]}" if name in REFUSED else ""
