"""The MCP servers that subagent files define: the names they get, and whose definition counts."""

from typing import Any

import pytest

from buddy.extend.definitions import ExtensionFile
from buddy.extend.mcp.agent_servers import find_agent_servers
from buddy.extend.mcp.names import agent_server_name
from buddy.extend.search_folders import Scope


def file(name: str, scope: Scope = "user", state: Any = "active", /, **servers: Any) -> ExtensionFile:
    path = f"/{scope}/{name}.md"
    return ExtensionFile(
        "agent", name, path, path, scope, inside=f"/{scope}", state=state, own_servers=dict(servers)
    )


def commands(*files: ExtensionFile) -> dict[str, str]:
    return {one.name: one.command for one in find_agent_servers(files).servers}


def test_a_server_is_called_by_its_subagent_and_its_name() -> None:
    found = find_agent_servers(
        [file("rev", db={"command": "x"}), file("fix", "project", db={"url": "https://a"})]
    )
    assert [(one.name, one.agent, one.scope, one.source) for one in found.servers] == [
        ("agent_rev_db", "rev", "user", "/user/rev.md"),
        ("agent_fix_db", "fix", "project", "/project/fix.md"),
    ]
    assert found.problems == {"rev": (), "fix": ()}


def test_a_server_of_a_plug_in_gets_its_folder() -> None:
    (one,) = find_agent_servers([file("p:rev", "plug-in", db={"command": "${CLAUDE_PLUGIN_ROOT}/x"})]).servers
    assert (one.command, one.scope, one.folder) == ("/plug-in/x", "plugin", "/plug-in")
    assert one.name.startswith("agent_p-rev_db-")


def test_a_projects_file_never_takes_the_name_of_a_server_of_the_persons_file() -> None:
    mine = file("rev", "user", "shadowed", db={"command": "mine"})
    theirs = file("rev", "project", db={"command": "theirs"}, more={"command": "theirs"})
    found = find_agent_servers([theirs, mine])
    assert [one.name for one in found.servers] == ["agent_rev_more"]
    assert found.problems["rev"] == (
        "MCP server agent_rev_db of /project/rev.md is not used: a file of yours has that name",
    )


@pytest.mark.parametrize("state", ["untrusted", "malformed", "shadowed", "disabled"])
def test_a_file_that_is_not_active_starts_nothing(state: str) -> None:
    assert commands(file("rev", "project", state, db={"command": "x"})) == {}


def test_what_cannot_be_used_is_told_and_costs_nothing_else() -> None:
    found = find_agent_servers(
        [file("rev", bad={"command": 5}, good={"command": "x"}, **{"": {"command": "y"}})]
    )
    assert {one.command for one in found.servers} == {"x", "y"}
    assert [problem.partition(": ")[2] for problem in found.problems["rev"]] == [
        "MCP server agent_rev_bad: command: expected text, found a number"
    ]


NAMES = ["db", "a_b", "b", "", "_", "a b", "a/b", "ü", "\x1b[2J", "x" * 200, "x" * 201, "mcp__db", "a.", "-"]


def test_no_two_servers_get_the_same_name() -> None:
    pairs = [(agent, server) for agent in [*NAMES, "rev", "p:rev", "p-rev"] for server in NAMES]
    names = {agent_server_name(*pair) for pair in pairs}
    assert len(names) == len(pairs)
    assert all(len(commands(file(agent, **{server: {"command": "x"}}))) == 1 for agent, server in pairs)
