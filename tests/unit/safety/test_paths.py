"""Resolved paths: inside or outside, through links, and in any spelling of a model."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buddy.agent.tool import ToolError
from buddy.safety.paths import Boundary, Located, hides_its_target, is_beneath, locate


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path.resolve() / "home"
    home.mkdir()
    return home


@pytest.fixture
def repo(home: Path) -> Path:
    repo = home / "repo"
    (repo / "src").mkdir(parents=True)
    (repo / "src" / "a.py").write_text("a")
    return repo


@pytest.fixture
def boundary(home: Path, repo: Path) -> Boundary:
    return Boundary(str(repo), str(repo), str(home))


def test_a_relative_path_starts_at_the_working_directory(boundary: Boundary, repo: Path) -> None:
    path = f"{repo}/src/a.py"
    assert locate(boundary, "src/a.py") == Located("src/a.py", path, path, True, "src/a.py", "", "")


@pytest.mark.parametrize(
    ("given_path", "expected"),
    [
        (".", "."),
        ("src/./a.py", "src/a.py"),
        ("src//a.py", "src/a.py"),
        ("src/a.py/", "src/a.py"),
        ("./src/../src/a.py", "src/a.py"),
        ("new/deep/file.txt", "new/deep/file.txt"),
        ("src/a.py/below-a-file", "src/a.py/below-a-file"),
        ("a\nb", "a⟨U+000A⟩b"),
        ("\u202ex", "⟨U+202E⟩x"),
        ("~x", "~x"),
        ("-rf", "-rf"),
        ("a" * 255, "a" * 255),
        ("é" * 100, "é" * 100),
    ],
)
def test_SEC_060_odd_spellings_are_canonical_and_shown(
    boundary: Boundary, given_path: str, expected: str
) -> None:
    found = locate(boundary, given_path)
    assert (found.inside, found.shown) == (True, expected)


@pytest.mark.parametrize(
    ("given_path", "message"),
    [
        ("", "the path is empty"),
        (" \n", "the path is empty"),
        ("a\0b", "NUL"),
        ("x" * 5000, "5000 bytes"),
        ("x" * 256, "longer than 255 bytes"),
        ("é" * 128, "longer than 255 bytes"),
        ("dir/" * 1024, "4096 bytes"),
        ("d" * 250 + "/" + "e/" * 1920, "more than 4095 bytes"),
        ("\ud800", "lone surrogate"),
        ("file:///etc/passwd", "found an address"),
        ("FILE:/etc/passwd", "found an address"),
        ("https://example.org/x", "found an address"),
    ],
)
def test_SEC_060_what_cannot_be_a_path_is_refused(boundary: Boundary, given_path: str, message: str) -> None:
    with pytest.raises(ToolError, match=message):
        locate(boundary, given_path)


def test_SEC_057_a_sibling_with_the_same_beginning_is_outside(boundary: Boundary, repo: Path) -> None:
    (repo.parent / "repo-evil").mkdir()
    for spelling in (f"{repo}-evil/f", "../repo-evil/f", f"{repo}/../repo-evil/f"):
        found = locate(boundary, spelling)
        assert (found.real, found.inside, found.shown) == (f"{repo}-evil/f", False, "~/repo-evil/f")


def test_SEC_058_a_link_is_judged_by_where_it_leads(boundary: Boundary, repo: Path) -> None:
    (repo / "link").symlink_to("/etc/passwd")
    found = locate(boundary, "link")
    assert found.real == os.path.realpath("/etc/passwd")
    assert not found.inside
    assert found.shown == f"link → {found.real}"
    assert found.protected == "belongs to the system"


def test_SEC_059_a_new_file_behind_a_linked_folder_is_outside(
    boundary: Boundary, repo: Path, tmp_path: Path
) -> None:
    outside = tmp_path.resolve() / "outside"
    outside.mkdir()
    (repo / "dir").symlink_to(outside)
    found = locate(boundary, "dir/new/file.txt")
    assert found == Located(
        "dir/new/file.txt",
        f"{repo}/dir/new/file.txt",
        f"{outside}/new/file.txt",
        False,
        f"dir/new/file.txt → {outside}/new/file.txt",
        "",
        "",
    )


def test_SEC_111_a_link_left_in_the_workspace_leads_out_and_to_protected_places(
    boundary: Boundary, repo: Path, home: Path
) -> None:
    (home / ".ssh").mkdir()
    (repo / "out").symlink_to("../.ssh")
    found = locate(boundary, "out/x")
    assert (found.real, found.inside, found.protected) == (f"{home}/.ssh/x", False, "credentials")


def test_links_inside_the_workspace_stay_inside(boundary: Boundary, repo: Path) -> None:
    (repo / "one").symlink_to("two")
    (repo / "two").symlink_to(f"{repo}/./src/../src")
    (repo / "dangling").symlink_to("not-there/yet")
    assert locate(boundary, "one/a.py").real == f"{repo}/src/a.py"
    assert locate(boundary, "one/a.py").inside
    assert locate(boundary, "dangling").real == f"{repo}/not-there/yet"


def test_dotdot_behind_a_link_is_the_parent_of_its_target(
    boundary: Boundary, repo: Path, tmp_path: Path
) -> None:
    deep = tmp_path.resolve() / "deep" / "er"
    deep.mkdir(parents=True)
    (repo / "link").symlink_to(deep)
    found = locate(boundary, "link/../x")
    assert (found.path, found.real, found.inside) == (f"{deep.parent}/x",) * 2 + (False,)
    assert os.path.realpath(f"{repo}/link/../x") == found.real
    assert locate(boundary, "a/../../x").real == f"{repo.parent}/x"
    assert locate(boundary, "/../../..").real == "/"


def test_links_in_a_circle_are_refused(boundary: Boundary, repo: Path) -> None:
    (repo / "a").symlink_to("b")
    (repo / "b").symlink_to("a")
    with pytest.raises(ToolError, match=r"links in a circle: .*/repo/a$"):
        locate(boundary, "a/x")


def test_links_that_make_a_path_too_long_are_refused(boundary: Boundary, repo: Path) -> None:
    (repo / "long").symlink_to("n" * 300)
    with pytest.raises(ToolError, match="longer than 255 bytes"):
        locate(boundary, "long")


def test_a_folder_that_may_not_be_looked_into_is_an_error_not_a_crash(boundary: Boundary, repo: Path) -> None:
    (repo / "locked").mkdir(mode=0)
    person = os.geteuid()
    if person == 0:
        os.seteuid(65534)  # root may look everywhere
    try:
        with pytest.raises(ToolError, match=r"cannot look at .*: Permission denied"):
            locate(boundary, "locked/x")
    finally:
        os.seteuid(person)


def test_the_home_folder_expands(boundary: Boundary, home: Path, repo: Path) -> None:
    assert locate(boundary, "~").shown == str(home)
    assert locate(boundary, "~/notes.txt").shown == "~/notes.txt"
    assert locate(boundary, "~/repo/src/a.py").shown == "src/a.py"


def test_extra_folders_count_as_inside(home: Path, repo: Path) -> None:
    (home / "lib").mkdir()
    boundary = Boundary(str(repo), f"{repo}/src", str(home), extra=(f"{home}/lib",))
    assert locate(boundary, "../../lib/x").inside
    assert not locate(boundary, "../../library/x").inside
    assert locate(boundary, "../README.md").shown == "../README.md"
    assert locate(boundary, str(repo)).shown == ".."


def test_a_whole_file_system_can_be_the_workspace(home: Path) -> None:
    boundary = Boundary("/", "/", str(home))
    assert locate(boundary, "/etc/hosts").inside
    assert locate(boundary, "/etc/hosts").protected == "belongs to the system"
    assert locate(boundary, "//x").path == "/x"
    assert is_beneath("/repo", "/repo")
    assert not is_beneath("/repo-evil", "/repo")


def test_the_working_directory_through_proc_is_the_workspace_only_in_truth(
    boundary: Boundary, tmp_path: Path
) -> None:
    found = locate(boundary, "/proc/self/root/etc/hostname")
    assert (found.real, found.inside) == (os.path.realpath("/etc/hostname"), False)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from([*"ab./~-\\ \n\t:*?", "..", "\u202e", "\x1b", "é", "\ud800", "\0", "link", "src"])
    ).map("".join)
)
def test_SEC_060_never_anything_but_a_tool_error(
    tmp_path_factory: pytest.TempPathFactory, spelling: str
) -> None:
    root = tmp_path_factory.getbasetemp().resolve() / "fuzz"
    (root / "src").mkdir(parents=True, exist_ok=True)
    if not (root / "link").is_symlink():
        (root / "link").symlink_to("/usr")
    boundary = Boundary(str(root), str(root), "/nowhere")
    try:
        found = locate(boundary, spelling)
    except ToolError:
        return
    assert found.real == os.path.realpath(found.path)
    assert found.inside == (os.path.commonpath([found.real, str(root)]) == str(root))
    assert os.path.normpath(found.path) == found.path
    assert "\n" not in found.shown
    assert "\x1b" not in found.shown


@pytest.mark.parametrize(
    ("given_path", "hides"),
    [
        ("a.txt", False),
        (".env", False),
        ("missing.txt", False),
        ("same.md", False),
        ("sub/up", False),
        ("~/.ssh/id_rsa", False),
        ("../outside.txt", False),
        ("../other/plain", False),
        ("../alias/a.txt", False),
        ("../alias/.env", False),
        (".env.local", False),
        ("notes.md", True),
        ("./sub/../notes.md", True),
        ("chain.md", True),
        ("out.md", True),
        ("gone.md", True),
        ("docs", True),
        ("docs/outside.txt", True),
        ("docs/../outside.txt", True),
        (".env.production", True),
        ("../alias/notes.md", True),
        ("../alias/out.md", True),
        ("../other/key.md", True),
        ("{repo}/out.md", True),
    ],
)
def test_a_path_hides_its_target_where_only_a_link_makes_it_secret_or_outside(
    boundary: Boundary, home: Path, repo: Path, given_path: str, hides: bool
) -> None:
    for folder in (home / ".ssh", home / "other", repo / "sub"):
        folder.mkdir(exist_ok=True)
    for file in (home / ".ssh" / "id_rsa", home / "outside.txt", repo / "a.txt", repo / ".env"):
        file.write_text("x")
    links = {
        repo / "notes.md": ".env",
        repo / "chain.md": "notes.md",
        repo / "same.md": "a.txt",
        repo / "sub" / "up": "../a.txt",
        repo / "out.md": "../outside.txt",
        repo / "gone.md": "../nothing",
        repo / "docs": "..",
        repo / ".env.local": ".env",
        repo / ".env.production": "../.ssh/id_rsa",
        home / "alias": repo,
        home / "other" / "plain": "../outside.txt",
        home / "other" / "key.md": "../.ssh/id_rsa",
    }
    for link, target in links.items():
        link.symlink_to(target)

    located = locate(boundary, given_path.format(repo=repo))

    assert hides_its_target(boundary, located) is hides
