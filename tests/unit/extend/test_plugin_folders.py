"""Plug-in folders: added from a folder or a repository, listed, removed; what is wrong with one is said."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from buddy.extend.catalogue import CHANGED_PLUGIN, ExtensionCatalogue
from buddy.extend.hooks.protocol import Hook
from buddy.extend.mcp.digests import definition_digest
from buddy.extend.mcp.sources import Sources, find_servers
from buddy.extend.plugin_folders import PluginError, PluginStore
from buddy.extend.search_folders import ExtensionPlaces


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def hooks_file(command: str) -> str:
    return json.dumps({"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": command}]}]}})


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    folder = tmp_path / "demo-plugin"
    write(folder / ".claude-plugin/plugin.json", '{"name": "demo", "version": "1"}')
    write(folder / "commands/deep/go.md", "go")
    write(folder / "agents/critic.md", "---\nname: critic\n---\nYou are a critic.")
    write(folder / "skills/notes/SKILL.md", "---\nname: notes\ndescription: d\n---\nx")
    write(folder / "hooks/hooks.json", hooks_file("${CLAUDE_PLUGIN_ROOT}/check"))
    write(folder / ".mcp.json", '{"mcpServers": {"files": {"command": "x"}}}')
    return folder


def catalogue_of(store: PluginStore, root: Path, hooks: list[Hook]) -> ExtensionCatalogue:
    def put(found: tuple[Hook, ...]) -> None:
        hooks[:] = found

    def places() -> ExtensionPlaces:
        return ExtensionPlaces(str(root), str(root), str(root / "home"), str(root / "config"), store.all())

    catalogue = ExtensionCatalogue(places, trusted=False, hooks_changed=put)
    catalogue.refresh()
    return catalogue


def test_a_folder_brings_its_parts_under_the_plug_ins_name(tmp_path: Path, plugin: Path) -> None:
    store = PluginStore(str(tmp_path / "data"))
    added, contents = store.add("demo-plugin", cwd=str(tmp_path))
    assert (added.name, added.path) == ("demo", str(plugin))
    assert (contents.skills, contents.commands) == (("demo:notes",), ("demo:deep:go",))
    assert (contents.agents, contents.servers) == (("demo:critic",), ("files",))
    hooks: list[Hook] = []
    catalogue = catalogue_of(store, tmp_path, hooks)
    assert catalogue.invocable("demo:deep:go") is not None
    assert catalogue.find("agent", "demo:critic") is not None
    (hook,) = hooks
    assert (hook.handler.environment, hook.handler.confined) == ({"CLAUDE_PLUGIN_ROOT": str(plugin)}, True)

    write(plugin / "hooks/hooks.json", hooks_file("curl evil"))
    assert catalogue.refresh()
    assert hooks == []
    assert [entry.reason for entry in catalogue.hooks] == [CHANGED_PLUGIN]


def test_a_repository_is_copied_and_its_copy_goes_with_it(tmp_path: Path, plugin: Path) -> None:
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "x"]):
        who = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *who, *words], cwd=plugin, check=True)
    store = PluginStore(str(tmp_path / "data"))
    added, _contents = store.add(f"file://{plugin}", cwd=str(tmp_path))
    assert added.path == str(tmp_path / "data/plugins/demo")
    assert [one.name for one in store.all()] == ["demo"]
    store.remove("demo")
    assert (store.all(), Path(added.path).exists(), plugin.exists()) == ((), False, True)


def test_a_folder_of_the_persons_stays_when_its_plug_in_is_removed(tmp_path: Path, plugin: Path) -> None:
    store = PluginStore(str(tmp_path / "data"))
    store.add(str(plugin), cwd="/")
    store.remove("demo")
    assert plugin.exists()


@pytest.mark.parametrize(
    ("manifest", "problem"),
    [
        ('{"name": "../../etc"}', "expected a name"),
        ('{"name": "a\\u001b[2J"}', "expected a name"),
        ("{", "can't be read"),
        ("[]", "expected a JSON object"),
    ],
)
def test_a_wrong_manifest_says_what_was_expected(tmp_path: Path, manifest: str, problem: str) -> None:
    write(tmp_path / "bad/.claude-plugin/plugin.json", manifest)
    store = PluginStore(str(tmp_path / "data"))
    with pytest.raises(PluginError, match=problem) as raised:
        store.add("bad", cwd=str(tmp_path))
    assert "\x1b" not in str(raised.value)
    assert store.all() == ()


def test_what_is_no_plug_in_is_refused(tmp_path: Path, plugin: Path) -> None:
    store = PluginStore(str(tmp_path / "data"))
    (tmp_path / "empty").mkdir()
    write(tmp_path / "many/.claude-plugin/marketplace.json", '{"plugins": [{"source": "./one"}]}')
    for source, problem in {
        "missing": "expected a folder",
        "empty": "found none",
        "many": r"SOURCE#FOLDER \(./one\)",
        "demo-plugin#../..": "leads out",
        f"file://{tmp_path}/missing": "git clone failed",
    }.items():
        with pytest.raises(PluginError, match=problem):
            store.add(source, cwd=str(tmp_path))
    with pytest.raises(PluginError, match="there is no plug-in named 'x'"):
        store.remove("x")


def test_a_link_out_of_a_plug_in_is_not_read(tmp_path: Path, plugin: Path) -> None:
    write(tmp_path / "secret.md", "the secret")
    (plugin / "commands/leak.md").symlink_to(tmp_path / "secret.md")
    (plugin / "hooks/hooks.json").unlink()
    (plugin / "hooks/hooks.json").symlink_to(tmp_path / "secret.md")
    store = PluginStore(str(tmp_path / "data"))
    _added, contents = store.add(str(plugin), cwd="/")
    assert contents.hooks == ()
    hooks: list[Hook] = []
    catalogue = catalogue_of(store, tmp_path, hooks)
    assert catalogue.invocable("demo:leak") is None
    assert hooks == []


MANIFEST_PARTS = {
    "name": "demo",
    "commands": ["./extra/go.md", "./more", "./commands/usual.md", "./commands/deep/"],
    "agents": ["./team/critic.md", "./agents/deep/judge.md"],
    "skills": ["./skills/", "./lore", "./own"],
    "hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "check"}]}]},
    "mcpServers": {"db": {"command": "${CLAUDE_PLUGIN_ROOT}/db"}},
}


@pytest.fixture
def scattered(tmp_path: Path) -> Path:
    """A plug-in whose parts lie where its manifest says."""
    folder = tmp_path / "scattered"
    write(folder / ".claude-plugin/plugin.json", json.dumps(MANIFEST_PARTS))
    write(folder / "commands/usual.md", "usual")
    write(folder / "extra/go.md", "go")
    write(folder / "extra/unnamed.md", "no")
    write(folder / "more/deep/one.md", "one")
    write(folder / "team/critic.md", "---\nname: critic\n---\nYou are a critic.")
    write(folder / "agents/deep/judge.md", "---\nname: judge\n---\nYou are a judge.")
    write(folder / "lore/notes/SKILL.md", "---\nname: notes\ndescription: d\n---\nx")
    write(folder / "own/SKILL.md", "---\nname: own\ndescription: d\n---\nx")
    write(folder / ".mcp.json", '{"mcpServers": {"files": {"command": "x"}}}')
    return folder


def test_a_manifest_names_further_places(tmp_path: Path, scattered: Path) -> None:
    store = PluginStore(str(tmp_path / "data"))
    added, contents = store.add("scattered", cwd=str(tmp_path))
    assert contents.problems == ()
    assert set(contents.commands) == {"demo:usual", "demo:go", "demo:deep:one"}
    assert contents.agents == ("demo:critic", "demo:judge")
    assert set(contents.skills) == {"demo:notes", "demo:own"}
    assert contents.servers == ("files", "db")
    assert [hook.hook.handler.command for hook in contents.hooks if hook.hook is not None] == ["check"]
    hooks: list[Hook] = []
    catalogue = catalogue_of(store, tmp_path, hooks)
    assert catalogue.invocable("demo:go") is not None
    assert catalogue.invocable("demo:unnamed") is None
    assert catalogue.find("skill", "demo:own") is not None
    assert len(hooks) == 1
    assert [one.state for one in catalogue.definitions] == ["active"] * 7

    found = find_servers(Sources(str(tmp_path), str(tmp_path / "none"), plugins=(added,)))
    assert {one.name: one.command for one in found.servers} == {
        "plugin_demo_files": "x",
        "plugin_demo_db": f"{scattered}/db",
    }
    assert {definition_digest(one, str(tmp_path)) for one in found.servers} == found.accepted

    manifest = {**MANIFEST_PARTS, "mcpServers": {"db": {"command": "evil"}}, "hooks": {}}
    write(scattered / ".claude-plugin/plugin.json", json.dumps(manifest))
    changed = find_servers(Sources(str(tmp_path), str(tmp_path / "none"), plugins=store.all()))
    evil = next(one for one in changed.servers if one.name == "plugin_demo_db")
    assert definition_digest(evil, str(tmp_path)) not in changed.accepted
    assert catalogue.refresh()
    assert hooks == []


def test_servers_of_a_manifest_alone_are_looked_for(tmp_path: Path) -> None:
    write(
        tmp_path / "one/.claude-plugin/plugin.json",
        '{"name": "one", "mcpServers": "./config/servers.json"}',
    )
    write(tmp_path / "one/config/servers.json", '{"db": {"url": "https://db.example/mcp"}}')
    store = PluginStore(str(tmp_path / "data"))
    added, contents = store.add("one", cwd=str(tmp_path))
    assert contents.servers == ("db",)
    sources = Sources(str(tmp_path), str(tmp_path / "none"), plugins=(added,))
    assert sources.is_any()
    assert [one.url for one in find_servers(sources).servers] == ["https://db.example/mcp"]


@pytest.mark.parametrize(
    ("part", "value", "said"),
    [
        ("commands", "../elsewhere", "../elsewhere leads out of the plug-in"),
        ("commands", "/etc", "/etc leads out of the plug-in"),
        ("skills", ["./link"], "link leads out of the plug-in"),
        ("agents", ["./gone.md"], "there is no gone.md"),
        ("agents", 5, "expected a path or a list of paths, found 5"),
        ("commands", {"about": {"source": "./README.md"}}, "expected a path or a list of paths, found"),
        ("commands", ["", None], "expected a path or a list of paths, found"),
        ("hooks", "./../../hooks.json", "../../hooks.json leads out of the plug-in"),
        ("hooks", [{"PreToolUse": []}], "expected a path or a list of paths, found"),
        ("mcpServers", "./\x1b]0;owned\x07x.json", "there is no x.json"),
        ("mcpServers", {"bad": {"type": "carrier-pigeon"}}, "type is one of stdio, http, sse"),
        ("mcpServers", {"bad name!": {"command": "x"}}, "expected a name"),
        ("mcpServers", {"bad": "text"}, "expected an object with command or url"),
    ],
)
def test_a_part_that_cannot_be_used_is_told_and_the_rest_loads(
    tmp_path: Path, part: str, value: object, said: str
) -> None:
    folder = tmp_path / "demo"
    write(folder / ".claude-plugin/plugin.json", json.dumps({"name": "demo", part: value}))
    write(folder / "commands/go.md", "go")
    write(tmp_path / "elsewhere/secret.md", "secret")
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    _added, contents = PluginStore(str(tmp_path / "data")).add("demo", cwd=str(tmp_path))
    assert contents.commands == ("demo:go",)
    assert contents.problems
    assert said in contents.problems[0]
    assert "\x1b" not in "".join(contents.problems)
    assert (contents.skills, contents.agents, contents.servers) == ((), (), ())
