"""Plug-in folders: added from a folder or a repository, listed, removed; what is wrong with one is said."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from buddy.extend.catalogue import CHANGED_PLUGIN, ExtensionCatalogue
from buddy.extend.hooks.protocol import Hook
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
