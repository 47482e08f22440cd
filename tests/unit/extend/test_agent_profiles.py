"""Profiles of subagents: the tools they may use, those of MCP servers among them."""

from pathlib import Path

import pytest

from buddy.extend.agent_profiles import AgentProfile, profile_of
from buddy.extend.catalogue import ExtensionCatalogue
from buddy.extend.definitions import MAX_OWN_SERVERS
from buddy.extend.search_folders import ExtensionPlaces, PluginFolder

KNOWN = ("grep", "read_file", "mcp__db__query", "mcp__db__drop", "mcp__db2__query", "mcp__plugin_p_db__query")


@pytest.mark.parametrize(
    ("tools", "without", "servers", "allowed"),
    [
        (None, (), (), None),
        (None, (), ("db",), None),
        (("read_file",), (), (), {"read_file"}),
        (("read_file",), (), ("db",), {"read_file", "mcp__db__query", "mcp__db__drop"}),
        ((), (), ("db2",), {"mcp__db2__query"}),
        (("mcp__db",), (), (), {"mcp__db__query", "mcp__db__drop"}),
        (("mcp__db__*",), ("mcp__db__drop",), (), {"mcp__db__query"}),
        (("mcp__db__query",), (), (), {"mcp__db__query"}),
        (None, ("mcp__db", "mcp__db2__*"), (), {"grep", "read_file", "mcp__plugin_p_db__query"}),
        (("mcp__",), (), (), set()),
        (("mcp__d*", "*"), (), (), set()),
    ],
)
def test_a_list_names_tools_and_servers(
    tools: tuple[str, ...] | None,
    without: tuple[str, ...],
    servers: tuple[str, ...],
    allowed: set[str] | None,
) -> None:
    profile = AgentProfile("a", "You help.", tools=tools, without=without, servers=servers)
    assert profile.allowed_tools(KNOWN) == allowed


def profile(folder: Path, front: str, *, plugin: str = "") -> tuple[AgentProfile, str]:
    """The profile of a subagent file with this front matter, and the note of /agents."""
    path = (folder / "p/agents" if plugin else folder / "home/.claude/agents") / "one.md"
    path.parent.mkdir(parents=True)
    path.write_text(f"---\nname: one\ntools: Read\n{front}\n---\nYou help.")
    plugins = (PluginFolder(plugin, str(folder / "p")),) if plugin else ()
    places = ExtensionPlaces(str(folder / "r"), str(folder / "r"), str(folder / "home"), str(folder), plugins)
    catalogue = ExtensionCatalogue(lambda: places, trusted=False, hooks_changed=lambda _hooks: None)
    catalogue.refresh()
    (found,) = catalogue.of_kind("agent")
    return profile_of(catalogue, found.name), found.warning


@pytest.mark.parametrize(
    ("front", "servers", "own"),
    [
        ("mcpServers: db", ("db",), ()),
        ("mcpServers: db, files", ("db", "files"), ()),
        ("mcpServers: [db, files]", ("db", "files"), ()),
        ("mcpServers:\n  - db\n  - files", ("db", "files"), ()),
        ("mcpServers:\n  db: {command: x}\n  files: true", ("files",), ("db",)),
        ("mcpServers:\n  - files\n  - db:\n      command: evil", ("files",), ("db",)),
        ("mcpServers: [db, {db: {command: x}}, {db: {command: y}}]", (), ("db",)),
        ("mcpServers:", (), ()),
        ("mcpServers: 5", ("5",), ()),
        ("mcpServers: {5: {}, null: null}", ("None",), ("5",)),
    ],
)
def test_a_file_names_servers_and_defines_some(
    tmp_path: Path, front: str, servers: tuple[str, ...], own: tuple[str, ...]
) -> None:
    found, note = profile(tmp_path, front)
    assert (found.servers, found.own_servers, note) == (servers, own, "")


def test_of_too_many_servers_of_one_file_the_rest_is_left_out(tmp_path: Path) -> None:
    rows = "".join(f"\n  s{at}: {{command: x}}" for at in range(MAX_OWN_SERVERS + 1))
    found, note = profile(tmp_path, f"mcpServers:{rows}")
    assert len(found.own_servers) == MAX_OWN_SERVERS
    assert note == f"it defines more than {MAX_OWN_SERVERS} MCP servers; the rest is left out"


def test_a_plug_ins_subagent_names_the_plug_ins_servers(tmp_path: Path) -> None:
    found, _note = profile(tmp_path, "mcpServers: [db]", plugin="p")
    assert "mcp__plugin_p_db__query" in (found.allowed_tools(KNOWN) or ())
