"""git: subcommands that only read, and repositories whose own configuration would start programs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from buddy.safety.git_configuration import executing_keys
from buddy.safety.git_repository import may_be_tracked, submodules, tracked_paths
from tests.support.shell_project import ShellProject, shell_project


@pytest.fixture
def project(tmp_path: Path) -> ShellProject:
    made = shell_project(tmp_path)
    made.git("init", "-q", "-b", "main", ".")
    return made


GIT_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}


def keys(project: ShellProject, folder: str = ".") -> list[str]:
    found = executing_keys(str((project.root / folder).resolve()), str(project.root))
    return [key.rpartition(": ")[2] for key in found]


def configure(project: ShellProject, text: str, file: str = ".git/config") -> None:
    path = project.root / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


READS = """
git -C src log
git --no-pager log -3 --oneline
git -P diff
git --version
git version
git remote
git remote get-url origin
git tag
git tag -l 'v*'
git tag -n5
git tag --contains HEAD
git branch --list 'f*'
git branch --merged main
git stash list -3
git stash show
git stash show stash@{1}
git stash show -p
git stash show -w
git stash show --stat --text
git stash show --name-only
git stash show --no-patch -a
git reflog
git reflog show HEAD
git config --get --global user.name
git config get user.name
git worktree list
git submodule status
git notes list
git bisect log
git symbolic-ref HEAD
git grep -e x -e y
git grep -n x -- src
git show HEAD:src/main.py
git show :0:a
git diff -- ':(exclude)src' ':!b'
git log --format='%h %an' -- .
git rev-parse HEAD
git ls-files -z | xargs -0 wc -l
git diff --name-only -z | xargs -0 grep -n x
git grep -l x | xargs cat
"""

ASKS = """
git
git -C
git -C .. log
git -C /tmp log
git -C nosuch log
git --bare log
git remote prune origin
git remote get-url --x
git remote get-url 'a b'
git stash
git stash drop
git stash show .env
git stash show --text
git stash show -a
git stash show --text stash@{0}
git stash show -R --text
git stash show -wa
git stash show --no-color --text
git stash show --full-index -a
git stash show --minimal --text
git stash show --ignore-space-change --text
git stash show --text --no-renames
git stash show --src-prefix=x/ --text
git stash show --exit-code -a
git stash show --stat --text -p
git stash show --binary
git reflog expire
git reflog -- .env
git config user.name x
git config --get http.extraheader
git config --get remote.origin.pushurl.token
git config --get
git config nokey
git config --unset a.b
git worktree add x
git submodule update
git lfs pull
git notes add
git bisect start
git symbolic-ref HEAD x
git grep
git grep x .env
git show HEAD:.env
git show :.env
git show ':(top).env'
git diff /etc/passwd a
git log --format=%G?
git log --pretty='%GK'
git stash list --format=%GK
git reflog --format=%GK
git for-each-ref --format='%(signature)'
git branch -l x
git tag x
git rev-parse /etc/passwd
git unknown
git log --output=x
git ls-files | xargs rm
"""


def test_subcommands_that_only_read_run_without_a_question(project: ShellProject) -> None:
    asked = {
        line: project.reason(line)
        for line in READS.splitlines()
        if line and line not in project.allowed(line)
    }

    assert asked == {}


@pytest.mark.parametrize(
    ("configuration", "command"),
    [
        ("", "git stash show -w"),
        ("", "git stash show -R stash@{0}"),
        ("", "git stash show --no-renames"),
        ("[stash]\n\tshowPatch = true\n", "git stash show"),
        ("[stash]\n\tSHOWPATCH\n", "git stash show stash@{0}"),
    ],
)
def test_a_stash_is_shown_as_a_patch_by_any_option_or_by_configuration(
    project: ShellProject, configuration: str, command: str
) -> None:
    """Attributes that switch the diffs of secret files on count for it as they do for git diff."""
    configure(project, configuration, ".git/config")
    assert project.allowed(command) == [command]
    configure(project, ".env diff\n", ".gitattributes")
    assert project.allowed(f"{command}\ngit stash list") == ["git stash list"]
    if configuration:
        configure(project, "", ".git/config")
        assert project.allowed(command) == [command]  # numbers only


def test_subcommands_that_may_do_more_are_asked_about(project: ShellProject) -> None:
    assert project.allowed(ASKS) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[core]\n\tfsmonitor = ./x\n", ["core.fsmonitor"]),
        ("[core] pager = ./x\n", ["core.pager"]),
        ("[CORE]\nFSMONITOR\n", ["core.fsmonitor"]),
        ('[filter "x"]\n\tclean = ./x\n\tsmudge = y\n', ["filter.x.clean", "filter.x.smudge"]),
        ('[diff "x"]\n\ttextconv = ./x\n', ["diff.x.textconv"]),
        ("[diff]\n\texternal = ./x\n", ["diff.external"]),
        ("[alias]\n\tst = !./x\n", ["alias.st"]),
        ("[include]\n\tpath = ../x\n", ["include.path"]),
        ('[includeIf "gitdir:/"]\n\tpath = ../x\n', ["includeif.gitdir:/.path"]),
        ('[remote "o"]\n\tuploadpack = ./x\n\turl = y\n', ["remote.o.uploadpack"]),
        ("[gpg]\n\tprogram = ./x\n\tformat = ssh\n", ["gpg.program"]),
        ("[co\\\nre]\nfsmonitor = x\n", ["[co\\", "re]"]),
        ("what is this\n", ["what is this"]),
        ("x" * 200_001, ["too long to look through"]),
        ('[core]\n\tbare = false # x\n; y\n\n[user]\n\tname = x\n[remote "a b"]\n\turl = ssh://x\n', []),
    ],
)
def test_SEC_051_a_configuration_that_starts_programs_is_seen(
    project: ShellProject, text: str, found: list[str]
) -> None:
    configure(project, text)

    assert keys(project) == found
    assert keys(project, "src/sub") == found
    assert project.analyse("git status").read_only is not bool(found)
    assert project.analyse("git version").read_only


def test_SEC_051_the_keys_are_shown(project: ShellProject) -> None:
    configure(project, "[core]\nfsmonitor = ./x\n")

    assert project.reason("git status") == (
        f"the repository's configuration may start programs: {project.root}/.git/config: core.fsmonitor"
    )


def test_a_nested_repository_is_looked_at_where_the_command_runs(project: ShellProject) -> None:
    configure(project, "[core]\nfsmonitor = ./x\n", "src/.git/config")

    assert project.analyse("git log").read_only
    assert not project.analyse("git -C src log").read_only
    assert not project.analyse("cd src && git log").read_only


def test_a_folder_that_looks_like_a_bare_repository_is_asked(project: ShellProject) -> None:
    (project.root / "src/objects").mkdir()
    (project.root / "src/HEAD").write_text("ref: x")

    assert "a repository without a work tree" in project.reason("git -C src log")


def test_no_repository_has_no_keys(tmp_path: Path) -> None:
    assert executing_keys(str(tmp_path), str(tmp_path)) == ()


def test_the_configuration_behind_a_git_file_is_looked_at(project: ShellProject) -> None:
    configure(project, "gitdir: ../.git/modules/sub\n", "src/.git")
    configure(project, "[core]\npager = x\n", ".git/modules/sub/config")
    configure(project, "[core]\nhooksPath = x\n", ".git/modules/sub/config.worktree")

    assert keys(project, "src") == ["core.pager", "core.hookspath"]


def test_a_worktree_shares_the_configuration_of_its_repository(project: ShellProject) -> None:
    configure(project, "gitdir: ../.git/worktrees/w\n", "src/.git")
    configure(project, "../..\n", ".git/worktrees/w/commondir")
    configure(project, "[core]\npager = x\n")

    assert keys(project, "src") == ["core.pager"]


@pytest.mark.parametrize(
    "before",
    [
        "# x \\\n",
        "; x \\\r\n",
        "a = b # \\\n",
        "a = b ; \\\n",
        'a = "b" # \\\n',
        "a = b \\\n # \\\n",
        'a = "b # \\\n" # \\\n',
        "a = \\\\\n",
        'a = "\\\\" # " \\\n',
        'a = \\" # \\\n',
        "[core] # \\\n",
        '[x "\\"]#"] # \\\n[core]\n',
        '# \x0b[x "y"]\n',
        'a = \\\n\u2028[x "y"]\n',
        '# \r[x "y"]\n',
    ],
)
def test_no_line_before_it_hides_a_key(project: ShellProject, before: str) -> None:
    configure(project, f"[core]\n{before}\tfsmonitor = ./x\n")

    assert "core.fsmonitor" in listed(project)
    assert keys(project) == ["core.fsmonitor"]


@pytest.mark.parametrize("before", ["a = b \\\n", 'a = "b # \\\n', "a = b \\\n c \\\n", "[core] a = b \\\n"])
def test_what_a_value_goes_on_with_is_no_key(project: ShellProject, before: str) -> None:
    end = '"' if before.count('"') % 2 else ""
    configure(project, f"[core]\n{before}\tfsmonitor = ./x{end}\n")

    assert "core.a" in listed(project)
    assert "core.fsmonitor" not in listed(project)
    assert keys(project) == []


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.sampled_from(
            (
                *'\\\\\\\\""##;;=[]\n\n\n\n \t\rab',
                "[core]\n",
                '[core "x"]',
                "\r\n",
                " = ",
                "a = ",
                " fsmonitor = x\n",
            )
        ),
        max_size=14,
    ).map("".join)
)
def test_a_key_git_finds_is_found_whatever_stands_around_it(project: ShellProject, text: str) -> None:
    configure(project, f"[core]\n{text}\tfsmonitor = x\n")

    assert "core.fsmonitor" not in listed(project) or keys(project)


def listed(project: ShellProject) -> list[str]:
    """The names of the settings git itself finds in the repository's file; none where it can't read it."""
    asked = ["git", "config", "--file", ".git/config", "--name-only", "--list"]
    done = subprocess.run(asked, cwd=project.root, capture_output=True, check=False, env=GIT_ENVIRONMENT)
    return done.stdout.decode("utf-8", "replace").splitlines() if done.returncode == 0 else []


def odd_repository(project: ShellProject, name: bytes) -> bytes:
    """A repository in src whose configuration starts a program, with its data in a folder of that name."""
    src = os.fsencode(project.root / "src")
    project.git("init", "-q", "src")
    project.git("-C", "src", "config", "core.fsmonitor", "./x")
    os.rename(src + b"/.git", src + b"/" + name)
    return src


def git_finds_the_program(project: ShellProject) -> bool:
    asked = ["git", "-C", "src", "config", "core.fsmonitor"]
    done = subprocess.run(asked, cwd=project.root, capture_output=True, check=False, env=GIT_ENVIRONMENT)
    return done.stdout == b"./x\n"


ODD_NAMES = (b"kept\xff", b" kept", b"kept ", b"kept\t", b"\nkept", b"k\re\npt")


@pytest.mark.parametrize("name", ODD_NAMES, ids=ascii)
@pytest.mark.parametrize("behind", [b"", b"\n", b"\r\n\n", b"\0junk", b"\0junk\n"], ids=ascii)
def test_where_a_git_file_leads_is_read_to_the_letter(
    project: ShellProject, name: bytes, behind: bytes
) -> None:
    src = odd_repository(project, name)
    with open(src + b"/.git", "wb") as file:
        file.write(b"gitdir: " + name + behind)

    assert git_finds_the_program(project)
    assert keys(project, "src") == ["core.fsmonitor"]


@pytest.mark.parametrize("name", ODD_NAMES, ids=ascii)
@pytest.mark.parametrize("behind", [b"", b"\n", b"\0junk"], ids=ascii)
def test_where_the_shared_folder_is_is_read_to_the_letter(
    project: ShellProject, name: bytes, behind: bytes
) -> None:
    src = odd_repository(project, name)
    os.mkdir(src + b"/.git")
    (project.root / "src" / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    with open(src + b"/.git/commondir", "wb") as file:
        file.write(b"../" + name + behind)

    assert git_finds_the_program(project)
    assert keys(project, "src") == ["core.fsmonitor"]


def test_a_submodule_that_shares_another_configuration_is_looked_at(project: ShellProject) -> None:
    src = odd_repository(project, b"kept")
    project.git("init", "-q", "src")
    project.git("-C", "src", "commit", "-q", "--allow-empty", "-m", "x")
    project.git("add", "src")
    with open(src + b"/.git/commondir", "wb") as file:
        file.write(b"../kept\n")

    assert git_finds_the_program(project)
    assert keys(project) == ["core.fsmonitor"]


def test_a_git_file_that_leads_out_of_the_workspace_is_asked(project: ShellProject) -> None:
    configure(project, "gitdir: ../../other\n", "src/.git")

    assert keys(project, "src") == ["a repository whose data lies elsewhere"]


def test_the_workspace_itself_may_be_a_worktree_of_a_repository_elsewhere(tmp_path: Path) -> None:
    project = shell_project(tmp_path)
    configure(project, "gitdir: ../other\n", ".git")

    assert keys(project) == []


def test_submodules_are_found_in_the_index_and_looked_at(project: ShellProject) -> None:
    sub = project.root / "src" / "sub"
    project.git("init", "-q", "src/sub")
    project.git("-C", "src/sub", "commit", "-q", "--allow-empty", "-m", "x")
    project.git("add", "src/sub", "a")
    assert submodules(str(project.root / ".git")) == ("src/sub",)
    assert keys(project) == []

    (sub / ".git/config").write_text("[core]\nfsmonitor = ./x\n")
    assert keys(project) == ["core.fsmonitor"]

    (sub / ".git").rename(project.root / ".git" / "moved")
    (sub / ".git").write_text("gitdir: ../../.git/moved")
    assert keys(project) == ["core.fsmonitor"]
    (sub / ".git").unlink()
    assert keys(project) == []


@pytest.mark.parametrize("kind", ["version 2", "version 3", "version 4", "in parts", "sha256"])
def test_submodules_of_submodules_are_found_whatever_the_index_is_like(tmp_path: Path, kind: str) -> None:
    project = shell_project(tmp_path)
    for folder in (".", "src/one", "src/one/two"):
        project.git("init", "-q", *(["--object-format=sha256"] if kind == "sha256" else []), folder)
    for folder in ("src/one/two", "src/one", "."):
        (project.root / folder / "file").write_text("")
        project.git("-C", folder, "add", ".")
        if kind.startswith("version"):
            project.git("-C", folder, "update-index", "--index-version", kind[-1])
        elif kind == "in parts":
            project.git("-C", folder, "update-index", "--split-index")
        project.git("-C", folder, "commit", "-q", "-m", "x")
    inner = project.root / "src" / "one" / "two" / ".git" / "config"
    inner.write_text(inner.read_text() + "[core]\nfsmonitor = ./x\n")

    is_told = kind.startswith("version")
    assert keys(project) == (["core.fsmonitor"] if is_told else ["which submodules there are can't be told"])
    assert submodules(str(project.root / ".git")) == (("src/one",) if is_told else None)


def test_an_index_that_is_missing_or_empty_has_no_submodules_and_an_odd_one_does_not_tell(
    tmp_path: Path,
) -> None:
    index = tmp_path / "index"
    assert submodules(str(tmp_path / "gone")) == ()
    assert submodules(str(tmp_path)) == ()
    index.write_bytes(b"")
    assert submodules(str(tmp_path)) == ()
    os.mkfifo(tmp_path / "sharedindex.0")
    (tmp_path / "sharedindex.1").mkdir()
    assert submodules(str(tmp_path)) == ()
    index.write_bytes(b"x" * 24 + b"\x00\x00\xe0\x00" + b"y" * 5)
    assert submodules(str(tmp_path)) is None
    with index.open("wb") as file:
        file.truncate(50_000_001)
    assert submodules(str(tmp_path)) == ()
    with index.open("r+b") as file:
        file.write(b"DIRC" + b"x" * 24 + b"\x00\x00\xe0\x00")
    assert submodules(str(tmp_path)) is None


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_tracked_files_are_read_from_every_version_of_the_index(project: ShellProject, version: str) -> None:
    project.git("config", "index.version", version)
    project.git("add", "a", "src", "docs")
    if version == "3":
        project.git("add", "--intent-to-add", "b")
    project.git("update-index", "--index-version", version)
    expected = {"a", "src/main.py", "src/sub/deep.py", "docs/one two.md"} | (
        {"b"} if version == "3" else set()
    )

    assert tracked_paths(str(project.root)) == {str(project.root / name) for name in expected}


def test_an_index_that_cannot_be_read_tells_nothing(project: ShellProject) -> None:
    index = project.root / ".git/index"
    assert tracked_paths(str(project.root)) is None
    os.mkfifo(index)
    assert tracked_paths(str(project.root)) is None
    index.unlink()
    for odd in (
        b"",
        b"DIRC",
        b"XXXX" + b"\0" * 20,
        b"DIRC\0\0\0\x09\0\0\0\0",
        b"DIRC\0\0\0\x02\0\0\0\x01" + b"x" * 9,
        b"DIRC\0\0\0\x02\0\0\0\x01" + b"x" * 70,
        b"DIRC" + b"x" * 50_000_001,
    ):
        index.write_bytes(odd)
        assert tracked_paths(str(project.root)) is None
    index.write_bytes(b"DIRC\0\0\0\x04\0\0\0\x01" + b"\0" * 60 + b"\0\4" + b"\x80\x00name\0")
    assert tracked_paths(str(project.root)) == {str(project.root / "name")}


@pytest.mark.parametrize("kind", ["version 2", "version 3", "version 4", "in parts", "sha256"])
def test_a_name_is_found_in_every_kind_of_index_and_its_neighbours_are_not(tmp_path: Path, kind: str) -> None:
    project = shell_project(tmp_path)
    project.git("init", "-q", *(["--object-format=sha256"] if kind == "sha256" else []), ".")
    long = f"src/{'d' * 200}/{'e' * 200}"
    (project.root / long).parent.mkdir(parents=True)
    for name in (long, "src/.env", "ab", "-dash"):
        (project.root / name).write_text("x")
    project.git("add", "-f", "src", "--", "-dash")
    if kind.startswith("version"):
        if kind == "version 3":
            project.git("add", "--intent-to-add", "ab")
        project.git("update-index", "--index-version", kind[-1])
    elif kind == "in parts":
        project.git("update-index", "--split-index")
    git_dir = str(project.root / ".git")

    tracked = {long, "src/.env", "src/main.py", "-dash", *(["ab"] if kind == "version 3" else [])}
    asked = (*tracked, ".env", "rc/.env", "src", "b", "ab", "dash", "src/main.p", "main.py", f"{long}e")
    assert {name for name in asked if may_be_tracked(git_dir, name)} == tracked


def test_what_no_index_tells_may_be_tracked(project: ShellProject) -> None:
    git_dir = project.root / ".git"
    assert may_be_tracked(str(git_dir), "a")
    project.git("add", "b")
    assert not may_be_tracked(str(git_dir), "a")
    index = (git_dir / "index").read_bytes()
    (git_dir / "index").write_bytes(index[:-20] + b"sdir\0\0\0\0" + index[-20:])
    assert may_be_tracked(str(git_dir), "a"), "a folder may stand for it"
    (git_dir / "index").write_bytes(b"")
    assert may_be_tracked(str(git_dir), "a")


@pytest.mark.parametrize("command", ["git grep colour", "git grep -n colour", "git grep colour -- ."])
def test_a_secret_file_in_an_index_in_parts_is_a_tracked_one(project: ShellProject, command: str) -> None:
    (project.root / ".env").write_text("colour\n")
    assert project.reason(command).startswith("it reads .env")  # without an index nothing is told
    project.git("add", "a")
    assert project.reason(command) == ""
    project.git("add", "-f", ".env")
    project.git("update-index", "--split-index")
    assert project.reason(command).startswith("it reads .env")
