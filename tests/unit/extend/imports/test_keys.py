"""Keys in commands of other programs' settings."""

from __future__ import annotations

import pytest

from buddy.extend.imports.keys import holds_key


@pytest.mark.parametrize(
    "line",
    [
        "srv -k hunter22",
        "srv -t abc123XYZ",
        "srv -kS3cr3tV4lue",
        "srv -k=S3cr3t99",
        "npx -y some-server 8f14e45fceea167a5a36dedd4bea2543",
        "npx x AbCdEfGhIjKlMnOpQrSt",
        "srv -P p4ssw0rd",
        "srv -w Tr0ub4dor",
        "srv 4f3e-11ab-9c2d-77aa1",
        "srv -a deadbeef01",
        "srv --id=8f14e45fceea167a5a36dedd4bea2543",
        "srv -s correct-horse-battery-staple",
        "srv -k correcthorsebattery",
        "srv qWxhZGRpbjpvcGVuIHNlc2FtZQ",
        "srv -T xoxq-1-2",
        "srv -A user:pass1",
        "srv 9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d",
    ],
)
def test_a_key_behind_a_letter_or_alone_is_one(line: str) -> None:
    assert holds_key(line.split())


@pytest.mark.parametrize(
    "line",
    [
        "npx -y @modelcontextprotocol/server-github",
        "python3 -m mcp_server_git --repository /home/me/x",
        "uvx mcp-server-fetch",
        "docker run -i --rm -e GITHUB_PERSONAL_ACCESS_TOKEN ghcr.io/github/github-mcp-server",
        "node /opt/a/index.js -p 8080",
        "srv -t stdio",
        "srv -t streamable-http",
        "srv -a 127.0.0.1:8080",
        "npx mcp-remote https://mcp.example.com/sse",
        "uv --directory /x run server.py",
        "npx -y mcp-server-2024-11-05",
        "srv --model claude-3-5-sonnet-20241022",
        "srv -s user",
        "srv -k ${API_KEY}",
        "npx -y tavily-mcp@0.1.4",
        "docker run -v /a:/b mcp/filesystem",
        "deno run -A npm:@x/y",
        "deno run -A server.ts",
        "npx -y figma-developer-mcp --stdio",
        "java -jar /x/server-1.0.jar",
        "srv --model gpt-4o-mini-2024-07-18",
        "uvx --from git+https://github.com/x/y y",
        "npx -y supergateway --sse x",
        "bash -s",
        "cmd /c npx -y foo",
        "sh -c ls",
        "srv -t 30s",
        "npx -y @playwright/mcp@latest --browser chromium",
        "srv -P 3000",
        "xcrun simctl -s iphone",
        "srv -k 10",
        "npx -y @upstash/context7-mcp",
    ],
)
def test_everyday_words_of_servers_are_no_keys(line: str) -> None:
    assert not holds_key(line.split())
