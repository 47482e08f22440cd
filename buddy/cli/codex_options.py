"""The command line of Codex's SDK in buddy's own options."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any

from buddy.app.options import UsageError

MARK = "--experimental-json"
"""The option that only Codex's SDK gives."""
_MODES = {"read-only": "plan", "workspace-write": "auto", "danger-full-access": "yolo"}
_APPROVALS = ("never", "on-request", "on-failure", "untrusted")


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
