import json
import os
import stat
from pathlib import Path

import pytest

from buddy.extend.mcp.definition_files import DefinitionFile, DefinitionFileError
from buddy.extend.mcp.sources import Sources, find_servers

ENTRY = {"type": "http", "url": "https://mcp.example.com/mcp"}


def user_file(home: Path, folder: str = "") -> DefinitionFile:
    return DefinitionFile(str(home / "mcp.json"), str(home / "state"), folder=folder)


def project_file(folder: Path) -> DefinitionFile:
    return DefinitionFile(str(folder / ".mcp.json"), str(folder / "state"), is_project=True)


def test_what_else_a_file_holds_stays(tmp_path: Path) -> None:
    before = {"other": [1, "ä"], "mcpServers": {"b": {"command": "b"}, "a": {"command": "a"}}, "last": None}
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps(before))
    path.chmod(0o640)
    file = user_file(tmp_path)
    file.add("web", ENTRY)
    file.remove("b")
    found = json.loads(path.read_text())
    assert found == {**before, "mcpServers": {"a": {"command": "a"}, "web": ENTRY}}
    assert list(found) == ["other", "mcpServers", "last"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert sorted(os.listdir(tmp_path)) == ["mcp.json", "state"]


def test_a_new_file_of_the_person_is_private_and_one_of_the_project_is_not(tmp_path: Path) -> None:
    user_file(tmp_path).add("web", ENTRY)
    project_file(tmp_path).add("web", ENTRY)
    modes = {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("mcp.json", ".mcp.json")}
    assert modes == {"mcp.json": 0o600, ".mcp.json": 0o644}


@pytest.mark.parametrize("key", ["mcpServers", "servers", "mcp_servers"])
def test_the_key_that_is_there_is_used(tmp_path: Path, key: str) -> None:
    (tmp_path / "mcp.json").write_text(json.dumps({key: {}}))
    user_file(tmp_path).add("web", ENTRY)
    assert json.loads((tmp_path / "mcp.json").read_text()) == {key: {"web": ENTRY}}


def test_a_local_server_counts_in_its_folder_only_and_first(tmp_path: Path) -> None:
    here, elsewhere = str(tmp_path / "here"), str(tmp_path / "elsewhere")
    user_file(tmp_path, folder=here).add("web", {**ENTRY, "url": "https://local.example/"})
    user_file(tmp_path).add("web", ENTRY)

    def found(root: str) -> tuple[list[str], int, tuple[str, ...]]:
        servers = find_servers(Sources(root, str(tmp_path)))
        return [one.url for one in servers.servers], len(servers.hidden), servers.problems

    assert found(here) == (["https://local.example/"], 1, ())
    assert found(elsewhere) == ([ENTRY["url"]], 0, ())
    user_file(tmp_path).remove("web")
    assert user_file(tmp_path).names() == ()
    assert user_file(tmp_path, folder=here).names() == ("web",)


def test_a_file_with_local_servers_alone_is_no_problem(tmp_path: Path) -> None:
    user_file(tmp_path, folder="/somewhere").add("web", ENTRY)
    assert find_servers(Sources("/elsewhere", str(tmp_path))).problems == ()


@pytest.mark.parametrize(
    "content",
    [b"{", b"// comment\n{}", b"[]", b'"x"', b'{"mcpServers": []}', b"\xff\xfe{}", b"[" * 100_000],
)
def test_a_file_that_is_not_understood_is_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "mcp.json"
    path.write_bytes(content)
    with pytest.raises(DefinitionFileError, match=r"mcp\.json"):
        user_file(tmp_path).add("web", ENTRY)
    assert path.read_bytes() == content


def test_a_name_that_is_taken_or_missing_is_told(tmp_path: Path) -> None:
    file = user_file(tmp_path)
    file.add("web", ENTRY)
    with pytest.raises(DefinitionFileError, match="already has a server web"):
        file.add("web", {"command": "x"})
    with pytest.raises(DefinitionFileError, match="has no server other"):
        file.remove("other")
    assert json.loads((tmp_path / "mcp.json").read_text()) == {"mcpServers": {"web": ENTRY}}


def test_a_link_of_the_person_is_followed_and_one_of_a_project_refused(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere.json"
    target.write_text("{}")
    (tmp_path / "mcp.json").symlink_to(target)
    (tmp_path / ".mcp.json").symlink_to(target)
    user_file(tmp_path).add("web", ENTRY)
    assert (tmp_path / "mcp.json").is_symlink()
    assert "web" in target.read_text()
    with pytest.raises(DefinitionFileError, match="is a link"):
        project_file(tmp_path).add("evil", ENTRY)
    assert "evil" not in target.read_text()


@pytest.mark.parametrize("kind", ["fifo", "folder"])
def test_what_is_no_file_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / ".mcp.json"
    if kind == "fifo":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(DefinitionFileError):
        project_file(tmp_path).add("web", ENTRY)
