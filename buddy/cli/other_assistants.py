"""The command lines of other assistants: Codex's options in buddy's own, and options that buddy refuses, each
with the reason and what to do instead."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any

from buddy.app.options import UsageError

MARK = "--experimental-json"
"""The option that only Codex's SDK gives."""
_MODES = {"read-only": "plan", "workspace-write": "auto", "danger-full-access": "yolo"}
_APPROVALS = ("never", "on-request", "on-failure", "untrusted")
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


def translate(words: Sequence[str]) -> list[str]:
    """Return the command line with Codex's options as buddy's. Raises `UsageError`."""
    result: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        match word:
            case "--experimental-json":
                result += ["--output-format", "codex-json"]
            case "--skip-git-repo-check":
                pass  # buddy works in any folder
            case "--thread-source":
                _value(rest, word)
            case "--sandbox" | "-s":
                mode = _value(rest, word)
                if mode not in _MODES:
                    raise UsageError(f"--sandbox is one of {', '.join(_MODES)}; found {mode!r}")
                result += ["--permission-mode", _MODES[mode]]
            case "--config" | "-c":
                result += _override(_value(rest, word))
            case "resume" if "exec" in result:
                result += ["--resume", _value(rest, word)]
            case "-m" | "--model" | "--cd" | "-C" | "--add-dir" | "--output-schema" | "--image" | "-i":
                result += [word, _value(rest, word)]
            case _:
                result.append(word)
    return result


def _value(rest: list[str], option: str) -> str:
    if not rest:
        raise UsageError(f"{option} needs a value")
    return rest.pop(0)


def _override(text: str) -> list[str]:
    """Return the options for `key=value`."""
    key, _, raw = text.partition("=")
    value = _toml(raw)
    match key.strip(), value:
        case "model_reasoning_effort", str(effort):
            return ["--effort", effort]
        case "approval_policy", str(policy) if policy in _APPROVALS:
            return []  # nobody is asked either way
        case "sandbox_workspace_write.network_access", False:
            return []
        case "web_search", "disabled":
            return ["--disallowedTools", "WebSearch"]
        case "web_search", "live" | "cached":
            return []
        case "openai_base_url", _:
            raise UsageError("--config openai_base_url is not supported: set [api] base_url in buddy.toml")
        case name, _:
            raise UsageError(f"--config {name[:100]} is not supported: set it in buddy.toml")


def _toml(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text.strip()


def refusal(option: str) -> str:
    """Return the sentence for an option of another assistant, "" for one nobody knows."""
    name = option.partition("=")[0]
    return f"{name} is not supported: {REFUSED[name]}" if name in REFUSED else ""
