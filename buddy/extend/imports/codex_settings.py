"""The reader of Codex's settings: models, MCP servers, rules."""

from __future__ import annotations

import ast
import os
from typing import cast

from buddy.extend.imports.findings import (
    Findings,
    Place,
    Table,
    home_folder,
    parse_toml,
    read_table,
    read_text,
    section,
)
from buddy.extend.imports.keys import is_variable
from buddy.safety.policy.rules import Decision
from buddy.safety.policy.rules_loading import rules_of_tables


def read_codex(place: Place) -> Findings:
    """Read Codex's `config.toml` and the rules beside it; of a project's, only the rules."""
    findings = Findings("Codex")
    folder = home_folder(place.environment, "CODEX_HOME", ".codex")
    table = read_table(os.path.join(folder, "config.toml"), findings, parse_toml)
    providers = section(table, "model_providers")
    if url := table.get("openai_base_url"):
        providers["openai"] = {"base_url": url, **section(providers, "openai")}
    profiles = {"codex": table, **section(table, "profiles")}
    for name, profile in profiles.items():
        chosen = section({name: profile}, name)
        model = chosen.get("model")
        if isinstance(model, str) and model:
            provider = str(chosen.get("model_provider") or table.get("model_provider") or "openai")
            findings.add_model(name, _codex_model(model, provider, section(providers, provider)))
    for name, entry in section(table, "mcp_servers").items():
        _add_codex_server(findings, name, section({name: entry}, name))
    for key, why in _CODEX_LEFT_OUT.items():
        value = table.get(key)
        if value not in (None, "", [], {}, "live", "cached"):
            what = key if isinstance(value, dict | list) else f"{key} = {value}"
            findings.leave_out(what, why)
    _add_codex_rules(findings, folder, "", is_trusted=True)
    project = os.path.join(place.root, ".codex")
    if os.path.realpath(project) != os.path.realpath(folder):
        own = read_table(os.path.join(project, "config.toml"), findings, parse_toml)
        for server in section(own, "mcp_servers"):
            findings.leave_out(f"MCP server {server}", "it is the project's: put it into .mcp.json")
        _add_codex_rules(findings, project, place.root, is_trusted=place.is_trusted)
    return findings


_CODEX_LEFT_OUT = {
    "approval_policy": "[permissions] mode in buddy.toml takes its place",
    "sandbox_mode": "the [sandbox] table of buddy.toml takes its place",
    "sandbox_workspace_write": "the [sandbox] table of buddy.toml takes its place",
    "default_permissions": "[permissions] mode and the [sandbox] table of buddy.toml take its place",
    "shell_environment_policy": "commands of buddy get no variables that may hold keys",
    "web_search": "[tools] disabled in buddy.toml switches tools off",
    "model_reasoning_effort": "effort beside the model in buddy.toml is the same",
    "notify": "a hook for the end of a turn does the same: buddy help hooks",
    "hooks": "write them as buddy reads them: buddy help hooks",
}
"""Settings of Codex that are named because somebody who moves would miss them, and what stands for them."""

_CODEX_APPROVALS: dict[object, Decision] = {"approve": "allow", "prompt": "ask"}


def _add_codex_server(findings: Findings, name: str, server: Table) -> None:
    """Take an MCP server, with the variables that Codex hands it by name and the approvals of its tools."""
    headers, env = section(server, "http_headers"), section(server, "env")
    listed = server.pop("env_vars", None)
    variables = [
        str(section({"": one}, "").get("name", one))
        for one in cast("list[object]", listed if isinstance(listed, list) else [])
    ]
    by_header = {header: str(variable) for header, variable in section(server, "env_http_headers").items()}
    server.pop("env_http_headers", None)
    token = str(server.pop("bearer_token_env_var", "") or "")
    if not all(
        is_variable(variable) for variable in (*variables, *by_header.values(), *([token] if token else []))
    ):
        findings.leave_out(
            f"MCP server {name}", "the variable of a key has no valid name; add it with buddy mcp add"
        )
        return
    server["env"] = {variable: f"${{{variable}:-}}" for variable in variables} | env
    headers |= {header: f"${{{variable}:-}}" for header, variable in by_header.items()}
    if token:
        headers["Authorization"] = f"Bearer ${{{token}}}"
    server.pop("http_headers", None)
    server["headers"] = headers
    approvals = section(server, "tools")
    if all(section(approvals, tool).keys() <= {"approval_mode"} for tool in approvals):
        server.pop("tools", None)
        for tool in approvals:
            if decision := _CODEX_APPROVALS.get(section(approvals, tool).get("approval_mode")):
                findings.add_entries(decision, [f"mcp__{name}__{tool}"], "", is_trusted=True)
    if default := server.get("default_tools_approval_mode"):
        findings.leave_out(f"default_tools_approval_mode = {default} of {name}", "buddy asks about its tools")
    findings.add_server(name, server)


def _codex_model(model: str, provider: str, server: Table) -> dict[str, str]:
    table = {"model": f"{provider}/{model}"}
    if url := server.get("base_url"):
        table = {"model": f"openai/{model}", "base_url": str(url)}
    if key := server.get("env_key"):
        table["api_key_env"] = str(key)
    return table


_CODEX_DECISIONS: dict[str, Decision] = {"allow": "allow", "prompt": "ask", "forbidden": "deny"}


def _add_codex_rules(findings: Findings, folder: str, project: str, *, is_trusted: bool) -> None:
    """Take `prefix_rule(pattern=[...], decision="...")` of a folder's rules, which Codex writes in Starlark;
    its literals are those of Python."""
    rules = os.path.join(folder, "rules")
    names = sorted(os.listdir(rules)) if os.path.isdir(rules) else []
    for path in (os.path.join(rules, name) for name in names if name.endswith(".rules")):
        text = read_text(path, findings)
        try:
            tree = ast.parse(text or "")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            findings.leave_out(path, "not readable as rules")
            continue
        for node in tree.body:
            match node:
                case ast.Expr(value=ast.Call(func=ast.Name(id="prefix_rule"), args=[], keywords=keywords)):
                    _add_codex_rule(findings, keywords, project, is_trusted=is_trusted)
                case _:
                    findings.leave_out(f"{path}, line {node.lineno}", "not a prefix_rule")


def _add_codex_rule(
    findings: Findings, keywords: list[ast.keyword], project: str, *, is_trusted: bool
) -> None:
    try:
        fields: Table = {one.arg: ast.literal_eval(one.value) for one in keywords if one.arg}
    except (ValueError, RecursionError):
        findings.leave_out("prefix_rule", "its values are not literals")
        return
    words, decision = fields.get("pattern"), _CODEX_DECISIONS.get(str(fields.get("decision", "allow")))
    tables: list[Table] = []
    if isinstance(words, list):
        tables = [{"tool": "shell", "argv": [*cast("list[object]", words), "*"], "decision": decision}]
    rules = rules_of_tables(tables, "user", findings.program)
    if not rules.rules or rules.errors:
        findings.leave_out(f"prefix_rule {words}", "buddy has no rule that means the same")
    for rule in rules.rules:
        findings.add_rule(rule, project, is_trusted=is_trusted)
