"""Readers of the settings of Claude Code, Codex, Gemini CLI, opencode and aider.

Files of the person's home folder may give rules, MCP servers and models; files of a project only rules, and
rules that allow only once the folder is trusted.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import cast

from buddy.extend.imports.codex_settings import read_codex
from buddy.extend.imports.findings import (
    Findings,
    Place,
    Table,
    home_folder,
    parse_json,
    parse_yaml,
    read_table,
    section,
)
from buddy.safety.policy.rules import Decision


def find_settings(place: Place) -> tuple[Findings, ...]:
    """Read the settings of every program. Blocks. Those without a file are not among them."""
    readers: tuple[Callable[[Place], Findings], ...] = (
        read_claude,
        read_codex,
        read_gemini,
        read_opencode,
        read_aider,
    )
    return tuple(
        findings for findings in (reader(place) for reader in readers) if findings.files or findings.left_out
    )


def read_claude(place: Place) -> Findings:
    """Read Claude Code's settings: permissions, MCP servers, the model."""
    findings = Findings("Claude Code")
    folder = home_folder(place.environment, "CLAUDE_CONFIG_DIR", ".claude")
    own = read_table(os.path.join(folder, "settings.json"), findings, parse_json)
    _add_claude_permissions(findings, own, "", is_trusted=True)
    model = own.get("model")
    if isinstance(model, str) and model.startswith("claude-"):
        findings.add_model("claude", {"model": f"anthropic/{model.partition('[')[0]}"})
    elif model:
        findings.leave_out(
            f"model {model}", "a short name of Claude Code; buddy models claude lists full ones"
        )
    for key, why in (
        ("apiKeyHelper", "set api_key_command in buddy.toml"),
        ("env", "set them in your shell"),
    ):
        if own.get(key):
            findings.leave_out(key, why)
    if section(own, "permissions").get("defaultMode"):
        findings.leave_out("permissions.defaultMode", "[permissions] mode in buddy.toml is the same")
    state = "CLAUDE_CONFIG_DIR" in place.environment
    memory = read_table(os.path.join(folder if state else place.home, ".claude.json"), findings, parse_json)
    here = section(memory, "projects", place.root)
    for name, entry in section(memory, "mcpServers").items():
        findings.add_server(name, section({name: entry}, name))
    for name in section(here, "mcpServers"):
        findings.leave_out(f"MCP server {name}", "only of this project: buddy mcp add-json -s local")
    findings.add_entries("allow", here.get("allowedTools"), place.root, is_trusted=True)
    for name in ("settings.json", "settings.local.json"):
        path = os.path.join(place.root, ".claude", name)
        if os.path.realpath(path) != os.path.realpath(os.path.join(folder, name)):
            table = read_table(path, findings, parse_json)
            _add_claude_permissions(findings, table, place.root, is_trusted=place.is_trusted)
    return findings


def _add_claude_permissions(findings: Findings, table: Table, project: str, *, is_trusted: bool) -> None:
    permissions = section(table, "permissions")
    decisions: tuple[Decision, ...] = ("allow", "ask", "deny")
    for decision in decisions:
        findings.add_entries(decision, permissions.get(decision), project, is_trusted=is_trusted)


_GEMINI_TOOLS = {
    "run_shell_command": "Bash",
    "read_file": "Read",
    "read_many_files": "Read",
    "list_directory": "Read",
    "glob": "Read",
    "search_file_content": "Read",
    "write_file": "Write",
    "replace": "Edit",
    "web_fetch": "WebFetch",
    "google_web_search": "WebSearch",
}


def read_gemini(place: Place) -> Findings:
    """Read Gemini CLI's settings, in the form of today and in the flat one before it."""
    findings = Findings("Gemini CLI")
    folder = home_folder(place.environment, "GEMINI_CLI_HOME", "")
    own = read_table(os.path.join(folder, ".gemini", "settings.json"), findings, parse_json)
    model = own.get("model")
    name = section(own, "model").get("name") if isinstance(model, dict) else model
    if isinstance(name, str) and name:
        findings.add_model("gemini", {"model": f"gemini/{name}"})
    for server, entry in section(own, "mcpServers").items():
        findings.add_server(server, _gemini_server(section({server: entry}, server)))
    _add_gemini_tools(findings, own, "", is_trusted=True)
    path = os.path.join(place.root, ".gemini", "settings.json")
    if os.path.realpath(path) not in map(os.path.realpath, findings.files):
        table = read_table(path, findings, parse_json)
        _add_gemini_tools(findings, table, place.root, is_trusted=place.is_trusted)
        for server in section(table, "mcpServers"):
            findings.leave_out(f"MCP server {server}", "it is the project's: put it into .mcp.json")
    return findings


def _gemini_server(entry: Table) -> Table:
    keys = ("command", "args", "env", "cwd", "headers", "includeTools", "excludeTools")
    taken = {key: value for key, value in entry.items() if key in keys}
    if address := entry.get("httpUrl"):
        taken |= {"type": "http", "url": address}
    elif address := entry.get("url"):
        taken |= {"type": "sse", "url": address}
    if timeout := entry.get("timeout"):
        taken["timeout"] = timeout
    return taken


def _add_gemini_tools(findings: Findings, table: Table, project: str, *, is_trusted: bool) -> None:
    tools = section(table, "tools")
    lists: tuple[tuple[Decision, tuple[object, ...]], ...] = (
        ("allow", (tools.get("allowed"), table.get("allowedTools"))),
        ("deny", (tools.get("exclude"), table.get("excludeTools"))),
    )
    for decision, several in lists:
        for entries in several:
            for entry in cast("list[object]", entries) if isinstance(entries, list) else []:
                words = _claude_words(str(entry))
                findings.add_entries(decision, [words], project, is_trusted=is_trusted)
    if tools.get("core") or table.get("coreTools"):
        findings.leave_out("the list of core tools", "[tools] disabled in buddy.toml switches tools off")


def _claude_words(entry: str) -> str:
    """Return an entry such as `run_shell_command(git status)` in Claude's words; a command there is a
    beginning."""
    name, has_command, inside = entry.partition("(")
    claude = _GEMINI_TOOLS.get(name, name)
    command = inside.rstrip(")").strip()
    return f"{claude}({command}:*)" if has_command and command and claude == "Bash" else claude


_OPENCODE_TOOLS = {"edit": "Edit", "webfetch": "WebFetch", "websearch": "WebSearch", "read": "Read"}
_OPENCODE_PROVIDERS = {"google": "gemini", "amazon-bedrock": "bedrock", "azure": "azure"}


def read_opencode(place: Place) -> Findings:
    """Read opencode's settings: permissions, MCP servers, the model and providers with an address."""
    findings = Findings("opencode")
    folder = home_folder(place.environment, "XDG_CONFIG_HOME", ".config")
    for name in ("opencode.json", "opencode.jsonc", "config.json"):
        own = read_table(os.path.join(folder, "opencode", name), findings, parse_json)
        _add_opencode_permissions(findings, own, "", is_trusted=True)
        _leave_out_agents(findings, own)
        _add_opencode_models(findings, own)
        if own.get("tools"):
            findings.leave_out(
                "tools", "[tools] disabled in buddy.toml switches tools off, deny rules those of servers"
            )
        for server, entry in section(own, "mcp").items():
            findings.add_server(server, _opencode_server(section({server: entry}, server)))
    for name in ("opencode.json", "opencode.jsonc"):
        table = read_table(os.path.join(place.root, name), findings, parse_json)
        _add_opencode_permissions(findings, table, place.root, is_trusted=place.is_trusted)
        for server in section(table, "mcp"):
            findings.leave_out(f"MCP server {server}", "it is the project's: put it into .mcp.json")
    return findings


def _add_opencode_permissions(findings: Findings, table: Table, project: str, *, is_trusted: bool) -> None:
    decisions: dict[object, Decision] = {"allow": "allow", "ask": "ask", "deny": "deny"}
    for tool, value in section(table, "permission").items():
        claude = "Bash" if tool == "bash" else _OPENCODE_TOOLS.get(tool)
        entries = cast(Table, value) if isinstance(value, dict) else {"*": value}
        for command, answer in entries.items():
            decision = decisions.get(answer) if isinstance(answer, str) else None
            if claude is None or decision is None:
                findings.leave_out(f"permission {tool}", "buddy has no rule that means the same")
                break
            if command == "*" and decision == "ask":
                continue  # what is not allowed asks anyway
            words = claude if command == "*" else f"{claude}({command})"
            findings.add_entries(decision, [words], project, is_trusted=is_trusted)


def _leave_out_agents(findings: Findings, table: Table) -> None:
    for name in section(table, "agent"):
        if section(table, "agent", name).get("permission"):
            findings.leave_out(f"permissions of the agent {name}", "rules of buddy hold for every agent")


def _add_opencode_models(findings: Findings, table: Table) -> None:
    for profile, key in (("opencode", "model"), ("opencode-small", "small_model")):
        name = table.get(key)
        if not isinstance(name, str) or "/" not in name:
            continue
        provider, _, model = name.partition("/")
        options = section(table, "provider", provider, "options")
        entry = {"model": f"{_OPENCODE_PROVIDERS.get(provider, provider)}/{model}"}
        if url := options.get("baseURL"):
            entry = {"model": f"openai/{model}", "base_url": str(url)}
        key_text = str(options.get("apiKey", ""))
        if key_text.startswith("{env:"):
            entry["api_key_env"] = key_text[5:].rstrip("}")
        elif key_text:
            findings.leave_out(f"the key of {provider}", f"keys are not copied: buddy login {profile}")
        findings.add_model(profile, entry)


def _opencode_server(entry: Table) -> Table:
    if entry.get("type") == "remote":
        taken: Table = {"type": "http", "url": entry.get("url", ""), "headers": entry.get("headers", {})}
    else:
        command = entry.get("command")
        words = [str(word) for word in cast("list[object]", command)] if isinstance(command, list) else [""]
        taken = {"command": words[0], "args": words[1:], "env": entry.get("environment", {})}
    return taken | ({"disabled": True} if entry.get("enabled") is False else {})


def read_aider(place: Place) -> Findings:
    """Read aider's settings: models and the address of a server."""
    findings = Findings("aider")
    table = read_table(os.path.join(place.home, ".aider.conf.yml"), findings, parse_yaml)
    url = str(table.get("openai-api-base") or "")
    for profile, key in (("aider", "model"), ("aider-weak", "weak-model"), ("aider-editor", "editor-model")):
        name = table.get(key)
        if isinstance(name, str) and name:
            address = {"base_url": url} if url and name.startswith("openai/") else {}
            findings.add_model(profile, {"model": name, **address})
    for key in map(str, table):
        if "key" in key:
            findings.leave_out(key, "keys are not copied: buddy login PROVIDER")
    if table.get("read"):
        findings.leave_out("read", "name those files in AGENTS.md, as @path on a line of its own")
    for key in ("lint-cmd", "test-cmd"):
        if table.get(key):
            findings.leave_out(key, "say in AGENTS.md how the project is checked")
    if os.path.exists(os.path.join(place.root, ".aider.conf.yml")) and place.root != place.home:
        project = read_table(os.path.join(place.root, ".aider.conf.yml"), findings, parse_yaml)
        if project:
            findings.leave_out(".aider.conf.yml of this folder", "a project names no models in buddy")
    return findings
