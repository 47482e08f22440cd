"""The settings of other programs, as their documentation writes them, become rules, servers and models."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from buddy.extend.imports.codex_settings import read_codex
from buddy.extend.imports.findings import MAX_FILE_BYTES, Findings, Place, parse_json
from buddy.extend.imports.programs import (
    find_settings,
    read_aider,
    read_claude,
    read_gemini,
    read_opencode,
)

WORD = "".join(("hunter2", "Real", "Abc123"))
KEY = "-".join(("sk", "ant", "api03", "A1b2C3d4" * 5))


def write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    root = tmp_path / "shop"
    root.mkdir()
    return Place({"HOME": str(tmp_path)}, str(root), is_trusted=False)


def home(place: Place) -> Path:
    return Path(place.home)


def rules(findings: Findings) -> list[str]:
    return [rule.shown for rule in findings.rules]


def left_out(findings: Findings) -> list[str]:
    return [one.what for one in findings.left_out]


@pytest.mark.parametrize(
    ("decision", "entry", "shown"),
    [
        ("allow", "Bash(npm run test:*)", "allow shell: npm run test *"),
        ("allow", "Bash(git diff *)", "allow shell: git diff *"),
        ("allow", "Edit(src/**)", "allow edit: src/**"),
        ("allow", "Read(~/.zshrc)", "allow read: ~/.zshrc"),
        ("allow", "WebFetch(domain:docs.python.org)", "allow fetch: docs.python.org"),
        ("allow", "mcp__github", "allow mcp:github/*: *"),
        ("ask", "Bash(git push:*)", "ask shell: git push *"),
        ("deny", "Read(./.env)", "deny read: .env"),
        ("deny", "Bash", "deny shell: *"),
        ("deny", "WebFetch", "deny fetch: *"),
    ],
)
def test_a_permission_of_claude_code_becomes_the_same_rule(
    place: Place, decision: str, entry: str, shown: str
) -> None:
    write(home(place) / ".claude/settings.json", {"permissions": {decision: [entry]}})
    assert rules(read_claude(place)) == [shown]


@pytest.mark.parametrize(
    "entry",
    [
        *("Bash", "Bash(*)", "Edit", "Write", "Read", "WebFetch", "WebFetch(domain:*)", "Bash(npm * build)"),
        *("Teleport", f"Bash(curl -H 'x-api-key: {KEY}' https://api.example.org)", "Bash(echo 'open)"),
    ],
)
def test_what_would_allow_everything_or_holds_a_key_is_left_out(place: Place, entry: str) -> None:
    write(home(place) / ".claude/settings.json", {"permissions": {"allow": [entry]}})
    findings = read_claude(place)
    assert findings.rules == []
    assert len(findings.left_out) == 1
    assert KEY not in str(findings)


@pytest.mark.parametrize(
    "entry",
    [
        *("Edit(/**)", "Edit(**/*)", "Edit(//**)", "Edit(~/**)", "Edit(*.*)", "Edit(./**)", "Edit(../**)"),
        *("Read(//**)", "Read(~/*)", "WebFetch(domain:*.*)", "WebFetch(domain:*.com)"),
        *("Bash(bash:*)", "Bash(bash -c:*)", "Bash(/bin/sh -lc *)", "Bash(zsh:*)", "Bash(env:*)"),
        *("Bash(env -i A=1:*)", "Bash(xargs -n 1:*)", "Bash(sudo:*)", "Bash(sudo -u root:*)"),
        *("Bash(sudo bash -c:*)", "Bash(nohup:*)", "Bash(time:*)", "Bash(nice -n 5:*)"),
        *("Bash(timeout 30s:*)", "Bash(timeout -s KILL 5 sh:*)", "Bash(python -c:*)", "Bash(python3.12:*)"),
        *("Bash(node -e:*)", "Bash(A=1:*)", "Bash(eval:*)", "Bash(npx -y:*)", "Bash(command env:*)"),
    ],
)
def test_an_allowing_rule_that_lets_anything_follow_is_left_out(place: Place, entry: str) -> None:
    write(home(place) / ".claude/settings.json", {"permissions": {"allow": [entry]}})
    findings = read_claude(place)
    assert findings.rules == []
    assert len(findings.left_out) == 1
    assert findings.left_out[0].why
    write(home(place) / ".claude/settings.json", {"permissions": {"deny": [entry]}})
    assert len(read_claude(place).rules) == 1


@pytest.mark.parametrize(
    "entry",
    [
        *("Edit(src/**)", "Edit(*.py)", "Read(//etc/hosts)", "WebFetch(domain:*.example.com)"),
        *("WebFetch(domain:127.0.0.1)", "Bash(bash run.sh:*)", "Bash(python -m pytest:*)"),
        *("Bash(sudo -u me ls:*)", "Bash(time make test:*)", "Bash(npx prettier:*)", "Bash(env)"),
        *("Bash(timeout 30 make test:*)", "Bash(python -u run.py:*)"),
    ],
)
def test_an_allowing_rule_with_a_limit_is_taken(place: Place, entry: str) -> None:
    write(home(place) / ".claude/settings.json", {"permissions": {"allow": [entry]}})
    assert len(read_claude(place).rules) == 1


WIDE = (
    *(
        "git:*",
        "git -C x:*",
        "git -c:*",
        "/usr/bin/git:*",
        "find:*",
        "find . -name:*",
        "sed -n:*",
        "tar -tf:*",
    ),
    *(
        "uv run:*",
        "uv run python:*",
        "uv run --with x:*",
        "poetry run bash:*",
        "uv run find:*",
        "make:*",
        "make -j:*",
    ),
    *("docker run alpine:*", "kubectl exec pod:*", "ssh host:*", "npm:*", "npm exec:*", "pip install:*"),
    *("python -m pip install:*", "npm install:*", "cat:*", "head -5:*", "grep -r:*", "rm -rf:*", "tee:*"),
    *("curl -s:*", "wget:*", "gh api:*", "aws:*", "sudo rm:*", "timeout 5 git:*", "time make:*", "vim:*"),
)


@pytest.mark.parametrize("command", WIDE)
def test_ATTACK_8_6_a_rule_that_allows_more_than_its_words_say_is_taken_only_when_asked_for(
    place: Place, command: str
) -> None:
    write(home(place) / ".claude/settings.json", {"permissions": {"allow": [f"Bash({command})"]}})
    findings = read_claude(place)

    assert findings.rules == findings.left_out == []
    assert [bool(one.meaning) for one in findings.wide] == [True]
    findings.take_wide()
    assert findings.rules == [findings.wide[0].rule]
    assert findings.wide[0].meaning in findings.rules[0].why
    for decision in ("ask", "deny"):
        write(home(place) / ".claude/settings.json", {"permissions": {decision: [f"Bash({command})"]}})
        assert len(read_claude(place).rules) == 1


@pytest.mark.parametrize(
    "command",
    [
        *("git log:*", "git commit -m:*", "git status", "find . -name x", "uv run pytest:*", "uv sync:*"),
        *(
            "poetry run ruff check:*",
            "make test:*",
            "npm run:*",
            "npm test:*",
            "docker ps:*",
            "cat README.md",
        ),
        *(
            "kubectl get:*",
            "cargo test:*",
            "go test:*",
            "pytest:*",
            "ls:*",
            "rm build",
            "aws s3 ls:*",
            "gh pr:*",
        ),
    ],
)
def test_a_rule_that_means_what_it_says_is_taken(place: Place, command: str) -> None:
    write(home(place) / ".claude/settings.json", {"permissions": {"allow": [f"Bash({command})"]}})
    findings = read_claude(place)

    assert len(findings.rules) == 1
    assert findings.wide == []


@pytest.mark.parametrize(
    "limit",
    [
        *({"enabled_tools": ["a"]}, {"enabled_tools": []}, {"disabled_tools": ["a"]}),
        *({"includeTools": ["a"]}, {"excludeTools": ["a"]}),
    ],
)
def test_a_server_with_a_limit_of_its_tools_is_left_out(place: Place, limit: dict[str, list[str]]) -> None:
    ((name, tools),) = limit.items()
    text = f'[mcp_servers.s]\ncommand = "run"\n{name} = {json.dumps(tools)}\n'
    write(home(place) / ".codex/config.toml", text)
    write(home(place) / ".gemini/settings.json", {"mcpServers": {"s": {"command": "run", **limit}}})
    program = read_gemini(place) if name.endswith("Tools") else read_codex(place)
    assert program.servers == []
    assert name in program.left_out[0].why


def test_a_project_gives_rules_for_itself_and_its_allowing_ones_wait_for_trust(place: Place) -> None:
    write(
        Path(place.root) / ".claude/settings.json",
        {
            "permissions": {"allow": ["Bash(make test:*)"], "deny": ["Bash(sudo:*)"]},
            "model": "claude-opus-4-5",
        },
    )
    waiting = read_claude(place)
    assert rules(waiting) == [f"deny shell: sudo *, in {place.root}"]
    assert left_out(waiting) == ["allow shell: make test *"]
    assert waiting.models == []
    trusted = read_claude(Place(place.environment, place.root, is_trusted=True))
    assert rules(trusted) == [
        f"allow shell: make test *, in {place.root}",
        f"deny shell: sudo *, in {place.root}",
    ]


def test_the_home_folder_as_project_is_read_once(tmp_path: Path) -> None:
    write(tmp_path / ".claude/settings.json", {"permissions": {"deny": ["Bash(sudo:*)"]}})
    findings = read_claude(Place({"HOME": str(tmp_path)}, str(tmp_path), is_trusted=False))
    assert rules(findings) == ["deny shell: sudo *"]


def test_servers_and_allowed_tools_of_claude_codes_own_file(place: Place) -> None:
    local = {"allowedTools": ["Bash(make test:*)"], "mcpServers": {"local": {"command": "here"}}}
    servers = {"github": {"type": "http", "url": "https://api.example.org/mcp"}}
    write(home(place) / ".claude.json", {"mcpServers": servers, "projects": {place.root: local}})
    findings = read_claude(place)
    assert {one.name: one.entry for one in findings.servers} == servers
    assert left_out(findings) == ["MCP server local"]
    assert "buddy mcp add-json -s local" in findings.left_out[0].why
    assert rules(findings) == [f"allow shell: make test *, in {place.root}"]


@pytest.mark.parametrize(
    ("entry", "taken", "variables"),
    [
        ({"env": {"API_KEY": "abc"}}, {"env": {"API_KEY": "${API_KEY}"}}, ("API_KEY",)),
        ({"env": {"DEBUG": "1"}}, {"env": {"DEBUG": "1"}}, ()),
        ({"env": {"PLAIN": KEY}}, {"env": {"PLAIN": "${PLAIN}"}}, ("PLAIN",)),
        ({"env": {"TOKEN": "${MINE}"}}, {"env": {"TOKEN": "${MINE}"}}, ()),
        ({"env": {"TOKEN": "$MINE"}}, {"env": {"TOKEN": "${MINE}"}}, ()),
        ({"env": {"TOKEN": "{env:MINE}"}}, {"env": {"TOKEN": "${MINE}"}}, ()),
        ({"env": {"API_KEY": f"${{API_KEY:-{WORD}}}"}}, {"env": {"API_KEY": "${API_KEY}"}}, ("API_KEY",)),
        ({"env": {"API_KEY": f"{WORD}${{X}}"}}, {"env": {"API_KEY": "${API_KEY}"}}, ("API_KEY",)),
        ({"env": {"API_KEY": f"${{A:-${{B:-{WORD}}}}}"}}, {"env": {"API_KEY": "${API_KEY}"}}, ("API_KEY",)),
        ({"env": {"HOST": "${HOST:-localhost}"}}, {"env": {"HOST": "${HOST:-localhost}"}}, ()),
        ({"env": {"DB_PASS": WORD}}, {"env": {"DB_PASS": "${DB_PASS}"}}, ("DB_PASS",)),
        ({"env": {"PGPASS": WORD}}, {"env": {"PGPASS": "${PGPASS}"}}, ("PGPASS",)),
        ({"env": {"PAT": WORD}}, {"env": {"PAT": "${PAT}"}}, ("PAT",)),
        ({"env": {"GITHUB_PAT": WORD}}, {"env": {"GITHUB_PAT": "${GITHUB_PAT}"}}, ("GITHUB_PAT",)),
        ({"env": {"MYSQL_PWD": WORD}}, {"env": {"MYSQL_PWD": "${MYSQL_PWD}"}}, ("MYSQL_PWD",)),
        ({"env": {"SENTRY_DSN": WORD}}, {"env": {"SENTRY_DSN": "${SENTRY_DSN}"}}, ("SENTRY_DSN",)),
        ({"env": {"DB": f"db://me:{WORD}@host/x"}}, {"env": {"DB": "${DB}"}}, ("DB",)),
        ({"env": {"PATH": "/bin", "GIT_AUTHOR": "me"}}, {"env": {"PATH": "/bin", "GIT_AUTHOR": "me"}}, ()),
        (
            {"headers": {"X-Pass": WORD}},
            {"headers": {"X-Pass": "${MY_SERVER_X_PASS}"}},
            ("MY_SERVER_X_PASS",),
        ),
        (
            {"http_headers": {"X-Pass": WORD}},
            {"http_headers": {"X-Pass": "${MY_SERVER_X_PASS}"}},
            ("MY_SERVER_X_PASS",),
        ),
        (
            {"headers": {"Authorization": f"Bearer {WORD}${{X}}"}},
            {"headers": {"Authorization": "Bearer ${MY_SERVER_AUTHORIZATION}"}},
            ("MY_SERVER_AUTHORIZATION",),
        ),
        (
            {"headers": {"Authorization": "Bearer ${MINE}"}},
            {"headers": {"Authorization": "Bearer ${MINE}"}},
            (),
        ),
        ({"sandbox": False, "network": True, "apiKey": WORD}, {}, ()),
        ({"args": ["--port", "80", "--key-file=${F}", "--token", "${T}"]}, {"args": ANY}, ()),
        ({"args": ["-y", "@auth/mcp:latest", "token-server:1.2", "auth"]}, {"args": ANY}, ()),
        (
            {"headers": {"Authorization": "Bearer abc"}},
            {"headers": {"Authorization": "Bearer ${MY_SERVER_AUTHORIZATION}"}},
            ("MY_SERVER_AUTHORIZATION",),
        ),
        (
            {"headers": {"X-Api-Key": "abc"}},
            {"headers": {"X-Api-Key": "${MY_SERVER_X_API_KEY}"}},
            ("MY_SERVER_X_API_KEY",),
        ),
    ],
)
def test_secrets_of_servers_become_references(
    entry: dict[str, Any], taken: dict[str, Any], variables: tuple[str, ...]
) -> None:
    findings = Findings("test")
    findings.add_server("my-server", {"command": "run", **entry})
    (server,) = findings.servers
    assert server.entry == {"command": "run", **taken}
    assert server.variables == variables


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "run", "args": ["--api-key", KEY]},
        {"type": "http", "url": f"https://example.org/mcp?key={KEY}"},
        {"type": "http", "url": "https://me:password@example.org/mcp"},
        {"type": "http", "url": f"https://{WORD}@example.org/mcp"},
        {"type": "http", "url": f"https://example.org/mcp?api-key={WORD}"},
        {"type": "http", "url": f"https://example.org/mcp?api-key=${{X:-{WORD}}}"},
        {"type": "http", "url": f"https://example.org/s/{WORD}{WORD}/mcp"},
        {"command": "run", "args": ["--api-key", WORD]},
        {"command": "run", "args": ["--apiToken", f"${{X:-{WORD}}}"]},
        {"command": "run", "args": [f"--x-key={WORD}"]},
        {"command": "run", "args": ["--db-pass", WORD, "--verbose"]},
        {"command": "docker", "args": ["run", "-e", f"API_KEY={WORD}", "image"]},
        {"command": "npx", "args": ["mcp-remote", "https://x.org", "--header", f"X-Api-Key:{WORD}"]},
        {"command": "npx", "args": ["mcp-remote", "--header", f"Authorization: Bearer {WORD}"]},
        {"command": "npx", "args": ["mcp-remote", f"--header=Authorization:{WORD}"]},
        {"command": "sh", "args": ["-c", f"TOKEN={WORD} exec server"]},
        {"command": f"TOKEN={WORD} server"},
        {"command": "run", "args": [f"https://me:{WORD}@example.org"]},
        {"type": "http", "url": "https://example.org", "oauth": {"clientId": "a", "clientSecret": WORD}},
        {"command": "run", "description": KEY},
    ],
)
def test_a_server_with_a_key_in_its_words_is_left_out(entry: dict[str, Any]) -> None:
    findings = Findings("test")
    findings.add_server("s", entry)
    assert findings.servers == []
    assert left_out(findings) == ["MCP server s"]
    assert WORD not in str(findings)


@pytest.mark.parametrize(
    "address", ["https://me:{}@host/v1", "https://host/v1?api-key={}", "https://{}@host/v1"]
)
def test_an_address_of_a_model_with_a_key_is_left_out(place: Place, address: str) -> None:
    url = address.format(WORD)
    write(
        home(place) / ".codex/config.toml",
        f'model = "m"\nmodel_provider = "p"\n[model_providers.p]\nbase_url = "{url}"\n',
    )
    write(
        home(place) / ".config/opencode/opencode.json",
        {"model": "p/m", "provider": {"p": {"options": {"baseURL": url}}}},
    )
    write(home(place) / ".aider.conf.yml", f"model: openai/m\nopenai-api-base: {url}\n")
    several = (read_codex(place), read_opencode(place), read_aider(place))
    assert [findings.models for findings in several] == [[], [], []]
    assert [len(findings.left_out) for findings in several] == [1, 1, 1]
    assert WORD not in str(several)


def test_a_key_in_the_place_of_a_variables_name_is_left_out(place: Place) -> None:
    text = f'model = "m"\nmodel_provider = "p"\n[model_providers.p]\nenv_key = "{KEY}"\n'
    write(home(place) / ".codex/config.toml", text)
    findings = read_codex(place)
    assert findings.models == []
    assert KEY not in str(findings)


@pytest.mark.parametrize("decision", ["allow", "deny"])
@pytest.mark.parametrize(
    "entry",
    [
        "Bash(curl -H 'X-Api-Key: {}' https://example.org)",
        "Bash(psql --password={} *)",
        "Bash(PGPASSWORD={} psql:*)",
        "Bash(TOKEN={} npm * build)",
        "Teleport(token={})",
    ],
)
def test_a_rule_with_a_key_in_its_words_is_left_out(place: Place, decision: str, entry: str) -> None:
    write(home(place) / ".claude/settings.json", {"permissions": {decision: [entry.format(WORD)]}})
    findings = read_claude(place)
    assert findings.rules == []
    assert len(findings.left_out) == 1
    assert WORD not in str(findings)


@pytest.mark.parametrize(
    "entry", ["Bash(npm run auth:test)", "Bash(gh auth token:*)", "Bash(git log --author me)"]
)
def test_words_that_only_look_like_names_of_keys_are_no_keys(place: Place, entry: str) -> None:
    write(home(place) / ".claude/settings.json", {"permissions": {"allow": [entry]}})
    assert len(read_claude(place).rules) == 1


def test_codex_models_servers_and_rules(place: Place) -> None:
    write(
        home(place) / ".codex/config.toml",
        """
        model = "gpt-5-codex"
        approval_policy = "on-request"
        [model_providers.local]
        base_url = "http://127.0.0.1:8000/v1"
        env_key = "LOCAL_KEY"
        [profiles.oss]
        model = "qwen3"
        model_provider = "local"
        [mcp_servers.docs]
        command = "docs-server"
        args = ["--port", "4000"]
        startup_timeout_sec = 20
        [mcp_servers.far]
        url = "https://example.org/mcp"
        bearer_token_env_var = "FAR_TOKEN"
        """,
    )
    write(
        home(place) / ".codex/rules/default.rules",
        'prefix_rule(pattern=["git", ["status", "log"]], decision="allow")\n'
        'prefix_rule(pattern=["rm"], decision="forbidden")\n'
        'prefix_rule(pattern=["push"], decision="prompt")\n'
        'host_executable(name="git")\n'
        "prefix_rule(pattern=words())\n",
    )
    findings = read_codex(place)
    assert rules(findings) == ["allow shell: git status|log *", "deny shell: rm *", "ask shell: push *"]
    assert {one.name: one.table for one in findings.models} == {
        "codex": {"model": "openai/gpt-5-codex"},
        "oss": {"model": "openai/qwen3", "base_url": "http://127.0.0.1:8000/v1", "api_key_env": "LOCAL_KEY"},
    }
    assert [one.entry for one in findings.servers] == [
        {"command": "docs-server", "args": ["--port", "4000"]},
        {"url": "https://example.org/mcp", "headers": {"Authorization": "Bearer ${FAR_TOKEN}"}},
    ]
    assert len(findings.left_out) == 3


def codex_settings(place: Place, text: str) -> Findings:
    write(home(place) / ".codex/config.toml", text)
    return read_codex(place)


def test_variables_and_headers_that_codex_hands_a_server_by_name(place: Place) -> None:
    findings = codex_settings(
        place,
        """
        [mcp_servers.near]
        command = "near"
        env_vars = ["NEAR_API_KEY", "NEAR_MODE", {name = "NEAR_HOST", source = "local"}]
        env = {NEAR_MODE = "fast"}
        [mcp_servers.far]
        url = "https://example.org/mcp"
        http_headers = {"X-Region" = "eu"}
        env_http_headers = {"X-Tools" = "FAR_TOOLS", "X-Api-Key" = "FAR_KEY"}
        """,
    )
    near, far = findings.servers
    assert near.entry["env"] == {
        "NEAR_API_KEY": "${NEAR_API_KEY}",
        "NEAR_MODE": "fast",
        "NEAR_HOST": "${NEAR_HOST:-}",
    }
    assert far.entry["headers"] == {
        "X-Region": "eu",
        "X-Tools": "${FAR_TOOLS:-}",
        "X-Api-Key": "${FAR_KEY}",
    }
    assert (near.variables, far.variables) == (("NEAR_API_KEY",), ("FAR_KEY",))


@pytest.mark.parametrize("value", [WORD, KEY, "a b", "${X}"])
@pytest.mark.parametrize(
    "field", ['env_vars = ["{}"]', 'env_http_headers = {{"A" = "{}"}}', 'bearer_token_env_var = "{}"']
)
def test_a_key_in_the_place_of_a_servers_variable_is_left_out(place: Place, field: str, value: str) -> None:
    text = f'[mcp_servers.s]\nurl = "https://example.org"\n{field.format(value)}\n'
    findings = codex_settings(place, text)
    assert (findings.servers, left_out(findings)) == ([], ["MCP server s"])
    assert value not in str(findings)


def test_approvals_of_a_servers_tools_become_rules(place: Place) -> None:
    findings = codex_settings(
        place,
        """
        [mcp_servers.tracker]
        command = "tracker"
        default_tools_approval_mode = "approve"
        [mcp_servers.tracker.tools.find]
        approval_mode = "approve"
        [mcp_servers.tracker.tools.close]
        approval_mode = "prompt"
        [mcp_servers.tracker.tools.list]
        approval_mode = "auto"
        [mcp_servers.limited]
        command = "limited"
        tools = {find = {enabled = false}}
        """,
    )
    assert rules(findings) == ["allow mcp:tracker/find: *", "ask mcp:tracker/close: *"]
    assert [server.name for server in findings.servers] == ["tracker"]
    assert left_out(findings) == ["default_tools_approval_mode = approve of tracker", "MCP server limited"]


def test_the_address_that_codex_has_in_place_of_openais(place: Place) -> None:
    findings = codex_settings(place, 'model = "m"\nopenai_base_url = "https://example.org/v1"\n')
    assert [one.table for one in findings.models] == [
        {"model": "openai/m", "base_url": "https://example.org/v1"}
    ]


def test_settings_of_codex_that_somebody_would_miss_are_named(place: Place) -> None:
    findings = codex_settings(
        place,
        """
        default_permissions = "project"
        web_search = "disabled"
        model_reasoning_effort = "high"
        notify = ["notify-send"]
        hide_agent_reasoning = true
        [shell_environment_policy]
        inherit = "core"
        [sandbox_workspace_write]
        """,
    )
    assert left_out(findings) == [
        "default_permissions = project",
        "shell_environment_policy",
        "web_search = disabled",
        "model_reasoning_effort = high",
        "notify",
    ]


def test_a_search_that_codex_allows_is_not_named(place: Place) -> None:
    assert codex_settings(place, 'web_search = "live"').left_out == []


def test_a_project_gives_codexs_rules_for_itself_and_no_servers(place: Place) -> None:
    write(Path(place.root) / ".codex/config.toml", '[mcp_servers.s]\ncommand = "run"\n')
    write(
        Path(place.root) / ".codex/rules/default.rules",
        'prefix_rule(pattern=["make", "test"])\nprefix_rule(pattern=["sudo"], decision="forbidden")\n',
    )
    waiting = read_codex(place)
    assert rules(waiting) == [f"deny shell: sudo *, in {place.root}"]
    assert left_out(waiting) == ["MCP server s", "allow shell: make test *"]
    trusted = read_codex(Place(place.environment, place.root, is_trusted=True))
    assert rules(trusted)[0] == f"allow shell: make test *, in {place.root}"
    at_home = read_codex(
        Place({**place.environment, "CODEX_HOME": f"{place.root}/.codex"}, place.root, is_trusted=False)
    )
    assert [server.name for server in at_home.servers] == ["s"]
    assert "allow shell: make test *" in rules(at_home)


@pytest.mark.parametrize(
    "words",
    [
        ["powershell.exe", "-Command", "git fetch"],
        ["C:\\\\Windows\\\\powershell.exe", "-NoProfile", "-Command", "git fetch"],
        ["pwsh", "-c", "git fetch"],
        ["cmd.exe", "/c", "git fetch"],
        ["sudo", "eval", "git fetch"],
        ["watch", "git fetch"],
    ],
)
def test_ATTACK_8_6_words_behind_a_script_that_a_program_joins_to_it(place: Place, words: list[str]) -> None:
    quoted = ", ".join(f'"{word}"' for word in words)
    write(home(place) / ".codex/rules/default.rules", f"prefix_rule(pattern=[{quoted}])\n")
    findings = read_codex(place)
    assert (findings.rules, len(findings.wide)) == ([], 1)


def test_the_line_of_a_mistake_in_a_settings_file_is_named(place: Place) -> None:
    findings = codex_settings(place, "model = 'm'\n{{ template }}\n")
    assert "line 2" in findings.left_out[0].why


@pytest.mark.parametrize(
    "settings",
    [
        {"model": {"name": "gemini-2.5-pro"}, "tools": {"allowed": ["run_shell_command(git status)"]}},
        {"model": "gemini-2.5-pro", "allowedTools": ["run_shell_command(git status)"]},
    ],
)
def test_gemini_settings_of_both_forms(place: Place, settings: dict[str, Any]) -> None:
    server = {"httpUrl": "https://example.org/mcp", "headers": {"X-Api-Key": "$MY_KEY"}, "trust": True}
    text = "// mine\n" + json.dumps({**settings, "mcpServers": {"s": server}}).replace('"}}', '"},}')
    write(home(place) / ".gemini/settings.json", text)
    findings = read_gemini(place)
    assert rules(findings) == ["allow shell: git status *"]
    assert [one.table for one in findings.models] == [{"model": "gemini/gemini-2.5-pro"}]
    assert [one.entry for one in findings.servers] == [
        {"headers": {"X-Api-Key": "${MY_KEY}"}, "type": "http", "url": "https://example.org/mcp"}
    ]


def test_opencode_permissions_models_and_servers(place: Place) -> None:
    write(
        home(place) / ".config/opencode/opencode.json",
        {
            "model": "local/qwen",
            "small_model": "google/gemini-2.5-flash",
            "permission": {
                "edit": "allow",
                "webfetch": "deny",
                "bash": {"git push": "ask", "npm test *": "allow", "*": "ask"},
                "external_directory": "ask",
            },
            "mcp": {"c7": {"type": "local", "command": ["npx", "c7"], "environment": {"K": "{env:K}"}}},
            "provider": {"local": {"options": {"baseURL": "http://localhost:1/v1", "apiKey": "{env:LOCAL}"}}},
        },
    )
    findings = read_opencode(place)
    assert rules(findings) == ["deny fetch: *", "ask shell: git push", "allow shell: npm test *"]
    assert left_out(findings) == ["allow edit", "permission external_directory"]
    assert {one.name: one.table for one in findings.models} == {
        "opencode": {
            "model": "openai/qwen",
            "base_url": "http://localhost:1/v1",
            "api_key_env": "LOCAL",
        },
        "opencode-small": {"model": "gemini/gemini-2.5-flash"},
    }
    assert [one.entry for one in findings.servers] == [
        {"command": "npx", "args": ["c7"], "env": {"K": "${K}"}}
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": "http://x/y", // of "mine"\n "b": [1, /* , */ 2,],}', {"a": "http://x/y", "b": [1, 2]}),
        ('{"a": [\n "x",\n // "y",\n ],\n}', {"a": ["x"]}),
        ('{"a": "\\"//,]"}', {"a": '"//,]'}),
        ("", {}),
        ("// nothing", {}),
    ],
)
def test_json_may_have_comments_and_last_commas(text: str, value: object) -> None:
    assert parse_json(text) == value


def test_aider_models_without_keys(place: Place) -> None:
    write(home(place) / ".aider.conf.yml", f"model: openai/gpt-4o\nopenai-api-key: {KEY}\nread: [A.md]\n")
    findings = read_aider(place)
    assert [one.table for one in findings.models] == [{"model": "openai/gpt-4o"}]
    assert left_out(findings) == ["openai-api-key", "read"]
    assert KEY not in str(findings)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".claude/settings.json", '{"permissions": '),
        (".claude/settings.json", "[1, 2]"),
        (".claude/settings.json", '{"permissions": [], "model": 7, "env": null}'),
        (".claude.json", '{"mcpServers": [], "projects": 3}'),
        (".codex/config.toml", "model = "),
        (".codex/config.toml", 'model = 7\nmcp_servers = 3\nprofiles = "x"'),
        (".codex/rules/a.rules", "prefix_rule("),
        (".gemini/settings.json", '{"tools": {"allowed": "x"}, "mcpServers": {"s": 3}}'),
        (".gemini/settings.json", "[" * 100_000),
        (".config/opencode/opencode.json", '{"permission": {"bash": 3}, "mcp": {"s": {"command": 4}}}'),
        (".config/opencode/opencode.json", '{"permission": {"bash": {"git": ["allow"]}}}'),
        (".claude/settings.json", '{"permissions": {"allow": ["Bash(a\\ud800)", "Teleport(\\udfff)"]}}'),
        (".claude.json", '{"mcpServers": {"s": {"command": "run", "args": 5}}}'),
        (".aider.conf.yml", "7: x\n2026-01-01: y"),
        (".aider.conf.yml", "model: [unclosed"),
        (".aider.conf.yml", "- a\n- b"),
        (".aider.conf.yml", "a: &a [*a]"),
    ],
)
def test_files_with_other_contents_cost_only_themselves(place: Place, name: str, text: str) -> None:
    write(home(place) / name, text)
    write(home(place) / ".claude/settings.local.json", "{}")
    assert [rule for findings in find_settings(place) for rule in findings.rules] == []


def test_a_pipe_in_the_place_of_a_file_is_named(place: Place) -> None:
    import os

    (Path(place.root) / ".claude").mkdir()
    os.mkfifo(Path(place.root) / ".claude/settings.json")
    write(home(place) / ".claude/settings.json", {"permissions": {"deny": ["Bash(sudo:*)"]}})
    findings = read_claude(place)
    assert rules(findings) == ["deny shell: sudo *"]
    assert left_out(findings) == [str(Path(place.root) / ".claude/settings.json")]


@pytest.mark.parametrize(
    "entry",
    [
        *({"args": 5}, {"args": {"a": "b"}}, {"args": ["\ud800"]}, {"env": {"A": "\udfff"}}),
        *({"cwd": datetime.date(2026, 1, 1)}, {"timeout": float("nan")}),
    ],
)
def test_a_server_that_no_file_can_hold_is_left_out(entry: dict[str, Any]) -> None:
    findings = Findings("test")
    findings.add_server("s", {"command": "run", **entry})
    assert findings.servers == []
    assert left_out(findings) == ["MCP server s"]


def test_what_is_left_out_can_be_printed(place: Place) -> None:
    write(
        home(place) / ".claude/settings.json", '{"permissions": {"deny": ["\\ud800("]}, "model": "\\ud800"}'
    )
    findings = read_claude(place)
    assert findings.left_out
    assert all(f"{one.what}{one.why}".encode() for one in findings.left_out)


def test_a_program_with_a_pipe_alone_is_named(place: Place) -> None:
    import os

    os.mkfifo(home(place) / ".aider.conf.yml")
    (findings,) = find_settings(place)
    assert left_out(findings) == [str(home(place) / ".aider.conf.yml")]


def test_a_file_that_is_too_long_is_not_read_in_part(place: Place) -> None:
    entry = {"permissions": {"deny": ["Bash(sudo:*)"]}}
    write(home(place) / ".claude/settings.json", json.dumps(entry) + " " * MAX_FILE_BYTES)
    findings = read_claude(place)
    assert findings.rules == []
    assert [one.why for one in findings.left_out] == [f"more than {MAX_FILE_BYTES:,} bytes"]


def test_programs_without_a_file_are_not_named(place: Place) -> None:
    assert find_settings(place) == ()
