"""Trust: asked once per folder, kept outside of it, asked again when something changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from buddy.safety.trust import Folder, TrustChange, TrustStanding, TrustStore, folder_of, not_storable
from buddy.safety.trusted_files import MAX_THINGS, trusted_things
from tests.support.hostile_repositories.repositories import REPOSITORIES, Trap, git, write

NEW = TrustStanding(trusted=False, asked=False, reason="the folder is new")
TRUSTED = TrustStanding(trusted=True, asked=True, reason="")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path.resolve()


@pytest.fixture
def store(place: Path) -> TrustStore:
    return TrustStore(f"{place}/state/buddy/trust.json", home=f"{place}/home", temporary=f"{place}/tmp")


@pytest.fixture
def repo(place: Path) -> Path:
    repo = place / "home" / "repo"
    repo.mkdir(parents=True)
    git(repo, "init", "-q")
    return repo


def test_a_new_folder_is_not_trusted_until_the_person_says_so(store: TrustStore, repo: Path) -> None:
    folder = folder_of(str(repo / "src"))
    assert folder.root == str(repo)
    assert store.standing(folder) == NEW
    assert store.remember(folder, {}, trusted=True, now=1.0) == ""
    assert store.standing(folder) == TRUSTED
    assert store.remember(folder, {}, trusted=False, now=2.0) == ""
    assert store.standing(folder) == TrustStanding(
        trusted=False, asked=True, reason="the person does not trust it"
    )


def test_the_store_is_its_owners_alone(store: TrustStore, repo: Path, place: Path) -> None:
    store.remember(folder_of(str(repo)), {}, trusted=True, now=1.0)
    state = place / "state" / "buddy"
    assert state.stat().st_mode & 0o777 == 0o700
    assert sorted((file.name, file.stat().st_mode & 0o777) for file in state.iterdir()) == [
        ("trust.json", 0o600),
        ("trust.json.lock", 0o600),
    ]


def test_another_repository_in_the_same_place_is_asked_about(store: TrustStore, repo: Path) -> None:
    store.remember(folder_of(str(repo)), {}, trusted=True, now=1.0)
    os.rename(repo / ".git", repo / "old-git")
    git(repo, "init", "-q")
    assert store.standing(folder_of(str(repo))).reason == "another repository stands in the same place now"


def test_a_no_is_about_exactly_what_was_shown(store: TrustStore, repo: Path) -> None:
    folder = folder_of(str(repo))
    assert not store.is_refused(folder, {"a": "1"})
    store.remember(folder, {"a": "1"}, trusted=False, now=1.0)
    assert store.is_refused(folder, {"a": "1"})
    assert not store.is_refused(folder, {"a": "2"})
    assert not store.is_refused(folder, {"a": "1", "b": ""})
    os.rename(repo / ".git", repo / "old-git")
    git(repo, "init", "-q")
    assert not store.is_refused(folder_of(str(repo)), {"a": "1"})
    store.remember(folder, {"a": "1"}, trusted=True, now=2.0)
    assert not store.is_refused(folder, {"a": "1"})


def test_a_folder_without_git_is_trusted_alone(store: TrustStore, place: Path) -> None:
    (place / "plain" / "sub").mkdir(parents=True)
    plain = folder_of(f"{place}/plain")
    assert plain == Folder(f"{place}/plain", "")
    store.remember(plain, {}, trusted=True, now=1.0)
    assert store.standing(plain) == TRUSTED
    assert store.standing(folder_of(f"{place}/plain/sub")) == NEW


def test_a_link_to_a_trusted_folder_is_that_folder(store: TrustStore, repo: Path, place: Path) -> None:
    (place / "link").symlink_to(repo)
    assert folder_of(f"{place}/link") == folder_of(str(repo))


def test_SEC_048_a_changed_tool_is_shown_and_asked_about(store: TrustStore, repo: Path) -> None:
    folder = folder_of(str(repo))
    write(repo, ".buddyx/ext/x.py", "one = 1\n")
    write(repo, "buddy.toml", "x = 1\n")
    assert [change.kind for change in store.changes(folder, trusted_things(str(repo)))] == ["new", "new"]
    store.remember(folder, trusted_things(str(repo)), trusted=True, now=1.0)
    assert store.changes(folder, trusted_things(str(repo))) == ()
    write(repo, ".buddyx/ext/x.py", "two = 2\n")
    write(repo, ".buddyx/ext/a.py", "id\n")
    (repo / "buddy.toml").unlink()
    assert store.changes(folder, trusted_things(str(repo))) == (
        TrustChange(".buddyx/ext/a.py", "new", "--- trusted\n+++ now\n@@ -0,0 +1 @@\n+id"),
        TrustChange(
            ".buddyx/ext/x.py",
            "changed",
            "--- trusted\n+++ now\n@@ -1 +1 @@\n-one = 1\n+two = 2",
        ),
    )


def test_a_change_of_a_big_or_odd_thing_is_noticed_without_a_difference(
    store: TrustStore, repo: Path
) -> None:
    folder = folder_of(str(repo))
    store.remember(folder, {"big": "x" * 100_000, "odd": "\ud800"}, trusted=True, now=1.0)
    assert store.changes(folder, {"big": "x" * 100_000, "odd": "\ud800"}) == ()
    assert store.changes(folder, {"big": "x" * 100_001, "odd": "\ud801"}) == (
        TrustChange("big", "changed", ""),
        TrustChange("odd", "changed", ""),
    )


def test_SEC_049_a_repository_inside_is_asked_about_on_its_own(
    store: TrustStore, repo: Path, place: Path
) -> None:
    REPOSITORIES["nested"](repo, Trap(place / "alarm", "http://127.0.0.1:1"))
    store.remember(folder_of(str(repo)), {}, trusted=True, now=1.0)
    assert store.standing(folder_of(f"{repo}/vendor")) == TRUSTED
    assert store.standing(folder_of(f"{repo}/vendor/lib/src")) == NEW


def test_SEC_050_home_and_temporary_folders_are_never_remembered(store: TrustStore, place: Path) -> None:
    (place / "tmp").mkdir()
    for path, reason in [
        (f"{place}/home", "a home folder, or one above it, is never remembered as trusted"),
        (str(place), "a home folder, or one above it, is never remembered as trusted"),
        (f"{place}/tmp", "the folder for temporary files is never remembered as trusted"),
        ("/", "the whole file system is never remembered as trusted"),
    ]:
        folder = Folder(path, "")
        assert store.remember(folder, {}, trusted=True, now=1.0) == reason
        assert store.standing(folder) == NEW
    assert not_storable("/tmp", "/home/ann", "/elsewhere") != ""
    assert not_storable("/tmp/work", "/home/ann", "/tmp") == ""
    assert store.remember(Folder(f"{place}/home", ""), {}, trusted=False, now=1.0) == ""


def test_a_store_inside_the_folder_is_not_believed(repo: Path, place: Path) -> None:
    store = TrustStore(f"{repo}/trust.json", home=f"{place}/home", temporary="/tmp")
    assert "lies in the folder itself" in store.remember(folder_of(str(repo)), {}, trusted=True, now=1.0)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "it is not what buddy wrote there"),
        ('{"version": 2, "folders": {}}', "it is not what buddy wrote there"),
        ('{"version": 1, "folders": {"x": 1}}', "it is not what buddy wrote there"),
    ],
)
def test_a_store_that_cannot_be_read_trusts_nobody_and_says_so(
    store: TrustStore, repo: Path, place: Path, content: str, problem: str
) -> None:
    folder = folder_of(str(repo))
    store.remember(folder, {"a": "b"}, trusted=True, now=1.0)
    file = place / "state/buddy/trust.json"
    file.write_text(content)
    standing = store.standing(folder)
    assert (standing.trusted, problem in standing.reason) == (False, True)
    assert store.changes(folder, {"a": "b"})[0].kind == "new"
    assert problem in store.remember(folder, {}, trusted=True, now=2.0)
    assert file.read_text() == content


def test_a_store_others_could_have_written_trusts_nobody(store: TrustStore, repo: Path, place: Path) -> None:
    folder = folder_of(str(repo))
    store.remember(folder, {}, trusted=True, now=1.0)
    file = place / "state/buddy/trust.json"
    file.chmod(0o666)
    assert "somebody else could have written it" in store.standing(folder).reason
    file.chmod(0o600)
    file.rename(place / "elsewhere.json")
    file.symlink_to(place / "elsewhere.json")
    assert "somebody else could have written it" in store.standing(folder).reason
    file.unlink()
    os.mkfifo(file)
    assert "named pipe" in store.standing(folder).reason


def test_a_store_that_cannot_be_written_is_said(repo: Path, place: Path) -> None:
    (place / "file").touch()
    store = TrustStore(f"{place}/file/trust.json", home="/home/x", temporary="/tmp")
    assert "cannot be written" in store.remember(folder_of(str(repo)), {}, trusted=True, now=1.0)


def test_two_programs_do_not_lose_each_others_answers(place: Path) -> None:
    script = (
        "import sys\nfrom buddy.safety.trust import *\n"
        f"store = TrustStore('{place}/trust.json', home='/home/x', temporary='/tmp')\n"
        "for n in range(20):\n"
        "    folder = Folder(f'/srv/{sys.argv[1]}/{n}', '')\n"
        "    assert store.remember(folder, {}, trusted=True, now=1) == ''\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", script, name]) for name in ("a", "b", "c")]
    assert [process.wait(50) for process in running] == [0, 0, 0]
    assert len(json.loads((place / "trust.json").read_text())["folders"]) == 60


def test_RU_A18_only_what_this_version_uses_is_asked_about(repo: Path, place: Path) -> None:
    trap = Trap(place / "alarm", "http://127.0.0.1:1")
    REPOSITORIES["tool_servers"](repo, trap)
    REPOSITORIES["letter_case"](repo, trap)
    REPOSITORIES["commands"](repo, trap)
    write(repo, ".buddyx/ext/deep/helper.py", "x")
    names = sorted(trusted_things(str(repo)))
    folders = [".claude/commands", ".gemini/commands"]
    assert names == [
        ".buddyx/commands",
        ".buddyx/ext/deep/helper.py",
        *folders,
        "BUDDY.TOML",
        "Buddy.toml",
        "buddy.toml",
    ]
    assert trusted_things(f"{repo}/none") == {}


def test_odd_things_are_named_and_never_waited_for(repo: Path, place: Path) -> None:
    REPOSITORIES["pipes"](repo, Trap(place / "alarm", ""))
    REPOSITORIES["linked_state"](place / "two", Trap(place / "alarm", ""))
    (repo / ".buddyx" / "ext").mkdir(parents=True, exist_ok=True)
    (repo / ".buddyx/ext/out").symlink_to("/etc")
    os.mkfifo(repo / "pipe")
    (repo / ".buddyx/ext/pipe.py").symlink_to(repo / "pipe")
    (repo / ".buddyx/ext/large.py").write_bytes(b"x" * 300_000)
    things = trusted_things(str(repo))
    assert things[".buddyx/ext/out"] == "(a link to /etc)"
    assert things[".buddyx/ext/pipe.py"] == f"(a link to {repo}/pipe)"
    assert "named pipe" in things["buddy.toml"]
    assert things[".buddyx/ext/large.py"].startswith("(300000 bytes, SHA-256 ")


def test_RU_H13_what_a_link_leads_to_is_what_is_trusted(store: TrustStore, repo: Path, place: Path) -> None:
    write(repo, "conf/b.toml", "one = 1\n")
    write(repo, "src/tool.py", "x = 1\n")
    (place / "outside.toml").write_text("token = 'secret'\n")
    (repo / "buddy.toml").symlink_to("conf/b.toml")
    (repo / ".buddyx" / "ext").mkdir(parents=True)
    (repo / ".buddyx/ext/x.py").symlink_to("../../src/tool.py")
    (repo / ".buddyx/ext/y.py").symlink_to(place / "outside.toml")
    folder, things = folder_of(str(repo)), trusted_things(str(repo))
    assert things["buddy.toml"] == "(a link to conf/b.toml)\none = 1\n"
    assert things[".buddyx/ext/x.py"] == "(a link to ../../src/tool.py)\nx = 1\n"
    assert "secret" not in things[".buddyx/ext/y.py"]
    assert "(17 bytes outside this folder, SHA-256 " in things[".buddyx/ext/y.py"]
    store.remember(folder, things, trusted=True, now=1.0)
    for name, link in (("conf/b.toml", "buddy.toml"), ("src/tool.py", ".buddyx/ext/x.py")):
        write(repo, name, "two = 2\n")
        assert link in [change.name for change in store.changes(folder, trusted_things(str(repo)))]
    (place / "outside.toml").write_text("token = 'secre2'\n")
    assert len(store.changes(folder, trusted_things(str(repo)))) == 3


def test_more_things_than_can_be_read_are_asked_about_every_time(store: TrustStore, repo: Path) -> None:
    for number in range(MAX_THINGS + 5):
        write(repo, f".buddyx/ext/{number:04}.py", "x")
    folder = folder_of(str(repo))
    store.remember(folder, trusted_things(str(repo)), trusted=True, now=1.0)
    assert [change.name for change in store.changes(folder, trusted_things(str(repo)))] == [
        "(more than 500 files; the rest was not read)"
    ]


@pytest.mark.parametrize("name", REPOSITORIES)
def test_reading_what_a_hostile_repository_holds_runs_nothing(name: str, place: Path) -> None:
    (place / "alarm").mkdir()
    root = place / "repository"
    REPOSITORIES[name](root, Trap(place / "alarm", "http://127.0.0.1:1"))
    assert folder_of(str(root)).identity
    trusted_things(str(root))
    assert list((place / "alarm").iterdir()) == []


def test_there_are_twenty_of_them() -> None:
    assert len(REPOSITORIES) >= 20
