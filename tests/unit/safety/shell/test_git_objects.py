"""Secret files in what git keeps: blobs without their path, folders without theirs, attributes that switch
diffs on, and files of ignored names that lead elsewhere."""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from buddy.safety.git_repository import tracked_by_name
from buddy.safety.shell.git_objects import Objects, revisions
from buddy.safety.shell.result import READ_ONLY_ENVIRONMENT
from tests.support.shell_project import ShellProject, opened_project, shell_project


@functools.cache
def template(packed: bool) -> tempfile.TemporaryDirectory[str]:
    """Make the history once; tests get copies."""
    folder = tempfile.TemporaryDirectory(prefix="buddy-history-")
    record_history(shell_project(Path(folder.name)), packed=packed)
    return folder


def make_history(tmp_path: Path, *, packed: bool) -> ShellProject:
    shutil.copytree(template(packed).name, tmp_path, symlinks=True, dirs_exist_ok=True)
    return opened_project(tmp_path)


def record_history(project: ShellProject, *, packed: bool) -> None:
    project.git("init", "-q", "-b", "main", ".")
    (project.root / ".aws").mkdir()
    (project.root / ".aws" / "notes").write_text("KEY\n")
    project.git("add", "-f", "-A")
    project.git("commit", "-qm", "one")
    (project.root / ".env").write_text("TOKEN=another\n" * 50)
    project.git("commit", "-qam", "two")
    (project.root / ".env").write_text("TOKEN=another\n" * 50 + "LAST=1\n")
    project.git("commit", "-qam", "three")
    project.git("tag", "blobtag", "HEAD:.env")
    project.git("tag", "-a", "-m", "x", "annotated", "HEAD:.env")
    project.git("tag", "-a", "-m", "x", "twice", "annotated")
    project.git("tag", "-a", "-m", "x", "v1", "HEAD")
    project.git("tag", "awstree", "HEAD:.aws")
    project.git("update-ref", "refs/odd/blob", "HEAD~1:.env")
    if packed:
        project.git("repack", "-adfq", "--depth=50")
        project.git("pack-refs", "--all")
        project.git("prune-packed")


@pytest.fixture(params=[False, True], ids=["loose", "packed"])
def project(tmp_path: Path, request: pytest.FixtureRequest) -> ShellProject:
    return make_history(tmp_path, packed=request.param)


def hash_of(project: ShellProject, revision: str) -> str:
    found = subprocess.run(
        ["git", "rev-parse", revision], cwd=project.root, capture_output=True, text=True, check=True
    )
    return found.stdout.strip()


def filled(project: ShellProject, command: str) -> str:
    """A command with hashes for its marks."""
    marks = {"BLOB": "HEAD~1:.env", "DELTA": "HEAD:.env", "COMMIT": "HEAD", "TREE": "HEAD:.aws"}
    if "UPPER" in command:
        command = command.replace("UPPER", hash_of(project, marks["BLOB"])[:12].upper())
    for mark, revision in marks.items():
        if mark in command:
            found = hash_of(project, revision)
            command = command.replace(f"{mark}9", found[:9]).replace(mark, found)
    return command


@pytest.mark.parametrize(
    "command",
    [
        "git show BLOB",
        "git show BLOB9",
        "git show DELTA",
        "git show HEAD BLOB",
        "git show --stat BLOB",
        "git show -s --format=%B BLOB",
        "git show --format= BLOB -- a",
        "git show blobtag",
        "git show annotated",
        "git show twice",
        "git show 'twice^{}'",
        "git show 'HEAD^{blob}'",
        "git show refs/odd/blob",
        "git show odd/blob",
        "git show v1-0-gBLOB9",
        "git -C src show BLOB",
        "cd src && git show BLOB9",
        "git show UPPER",
        "git cat-file -p UPPER",
        "git show v1-0-gUPPER",
        "git show --tags",
        "git show --all",
        "git show --glob=refs/odd/*",
        "git show -g odd/blob",
        "git show 'annotated^{tag}'",
        "git show 'twice^{tag}^{}'",
        "git show main-worktree/refs/odd/blob",
        "git show worktrees/x/refs/odd/blob",
        "git diff 'awstree^{tree}' HEAD",
        "git diff BLOB HEAD:a",
        "git diff BLOB9..DELTA9",
        "git diff HEAD:a BLOB",
        "git diff BLOB a",
        "git diff HEAD:a...BLOB",
        "git grep -h = BLOB",
        "git grep = blobtag",
        "git cat-file -p blobtag",
        "git cat-file -p twice",
        "git show TREE:notes",
        "git show awstree:notes",
        "git diff TREE HEAD",
        "git diff awstree",
        "git diff-tree -p awstree HEAD",
        "git grep K awstree",
        "echo awstree HEAD | git diff-tree --stdin -p",
        "git grep -a = HEAD~1",
        "git grep two HEAD~1",
        "git grep --text = HEAD~1 -- a",
        "git for-each-ref --format='%(raw)'",
        "git for-each-ref --format='%(*raw)' refs/tags",
        "git for-each-ref --format='%(if)x%(then)%(raw)%(end)'",
        "git tag --format='%(raw)'",
        "git branch --format='%(raw)'",
    ],
)
def test_ATTACK3_a_blob_without_its_path_asks(project: ShellProject, command: str) -> None:
    assert not project.analyse(filled(project, command)).read_only


@pytest.mark.parametrize(
    "command",
    [
        "git show",
        "git show COMMIT",
        "git show COMMIT9",
        "git show HEAD~1",
        "git show 'HEAD^{tree}'",
        "git show 'HEAD^{/two}'",
        "git show 'v1^{}'",
        "git show main-worktree/HEAD",
        "git diff 'HEAD^{tree}' 'HEAD~1^{tree}'",
        "git log -p --tags",
        "git show main@{0}",
        "git show v1",
        "git show v1-0-gCOMMIT9",
        "git show ':/two'",
        "git show HEAD:a",
        "git show COMMIT9:a",
        "git show v1:src/main.py",
        "git show awstree",
        "git diff",
        "git diff COMMIT9 HEAD",
        "git diff HEAD~2..HEAD",
        "git diff main...v1 -- a",
        "git diff HEAD:a HEAD~1:a",
        "git diff nothing",
        "git log -p v1",
        "git log blobtag",
        "git cat-file -t BLOB",
        "git cat-file -p HEAD",
        "git grep two",
        "git grep two HEAD~1 -- a",
        "git for-each-ref --format='%(raw:size) %(refname)'",
        "git tag --format='%(refname)'",
        "git ls-tree -r HEAD",
        "git ls-tree awstree",
    ],
)
def test_ATTACK3_revisions_are_still_shown_unasked(project: ShellProject, command: str) -> None:
    project.git("rm", "-q", "--cached", ".env")
    (project.root / ".env").unlink()
    assert project.reason(filled(project, command)) == ""


def test_ATTACK3_the_kind_of_every_object_is_known(project: ShellProject) -> None:
    listed = subprocess.run(
        ["git", "cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)"],
        cwd=project.root,
        capture_output=True,
        text=True,
        check=True,
    )
    objects = Objects(str(project.root / ".git"))
    lines = [line.split() for line in listed.stdout.splitlines()]

    assert len(lines) > 15
    for name, kind in lines:
        found = objects.kinds(name) - ({"commit", "blob", "tag"} if kind == "tag" else set())
        assert found == ({kind} if kind != "tag" else set())


def test_ATTACK3_borrowed_and_broken_objects_count(tmp_path: Path) -> None:
    project = make_history(tmp_path, packed=True)
    blob = hash_of(project, "HEAD:.env")
    borrower = shell_project(tmp_path / "borrower")
    borrower.git("init", "-q", ".")
    info = borrower.root / ".git" / "objects" / "info"
    info.mkdir(exist_ok=True)
    (info / "alternates").write_text(f"{project.root}/.git/objects\n")
    assert Objects(str(borrower.root / ".git")).kinds(blob) == {"blob"}
    (index,) = (project.root / ".git" / "objects" / "pack").glob("*.idx")
    index.chmod(0o644)
    index.write_bytes(b"no index")
    assert Objects(str(project.root / ".git")).kinds(blob) == {"unknown"}
    assert not project.analyse(f"git show {blob}").read_only


def test_ATTACK3_references_of_another_format_count(tmp_path: Path) -> None:
    project = make_history(tmp_path, packed=False)
    (project.root / ".git" / "reftable").mkdir()
    assert not project.analyse("git show other").read_only
    assert project.reason("git show HEAD") == project.reason("git show HEAD~1") == ""


def test_ATTACK3_replaced_objects_are_not_shown(tmp_path: Path) -> None:
    project = make_history(tmp_path, packed=False)
    project.git("replace", "-f", "HEAD:a", "HEAD:.env")
    assert project.reason("git show HEAD:a") == ""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(project.home), **READ_ONLY_ENVIRONMENT}
    shown = subprocess.run(["git", "show", "HEAD:a"], cwd=project.root, capture_output=True, env=environment)
    assert shown.stdout == (project.root / "a").read_bytes()


@pytest.mark.parametrize("ending", ["local", "staging", "json", "yml", "keystore", "tfstate", "cnf", "prod"])
def test_ATTACK3_attributes_for_an_ending_that_secrets_have_ask(tmp_path: Path, ending: str) -> None:
    project = make_history(tmp_path, packed=False)
    (project.root / ".gitattributes").write_text(f"*.{ending} diff\n")
    assert not project.analyse("git log -p").read_only


def test_ATTACK3_ranges_are_taken_apart() -> None:
    assert list(revisions("^a...b^{}")) == ["a", "b^{}"]
    assert list(revisions("..b")) == ["b"]


ATTRIBUTES = ("src/.gitattributes", "src/sub/.gitattributes", "new/deep/.gitattributes", ".gitattributes")


@pytest.mark.parametrize("path", ATTRIBUTES)
@pytest.mark.parametrize("way", ["untracked", "tracked", "index alone", "index of version 4"])
@pytest.mark.parametrize("command", ["git log -p", "git diff HEAD~1", "git show", "git grep x HEAD"])
def test_ATTACK3_attributes_of_any_folder_count(tmp_path: Path, path: str, way: str, command: str) -> None:
    project = make_history(tmp_path, packed=False)
    assert project.reason("git show") == ""
    file = project.root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("* diff\n")
    if way != "untracked":
        project.git("add", "-f", path)
    if way == "index of version 4":
        project.git("update-index", "--index-version", "4")
    if way.startswith("index"):
        file.unlink()
    assert ".gitattributes" in project.reason(command)


@pytest.mark.parametrize("text", ["*.py diff=python\n", "*.txt text\n", "*.png binary\n", "* text=auto\n"])
def test_ATTACK3_ordinary_attributes_of_a_folder_do_not_ask(tmp_path: Path, text: str) -> None:
    project = make_history(tmp_path, packed=False)
    (project.root / "src" / ".gitattributes").write_text(text)
    project.git("add", "-A")
    assert project.reason("git log -p") == ""
    assert tracked_by_name(str(project.root / ".git"), ".gitattributes") == ("src/.gitattributes",)


def test_ATTACK3_attributes_of_folders_that_stand_for_their_files_are_not_told(tmp_path: Path) -> None:
    project = make_history(tmp_path, packed=False)
    index = project.root / ".git" / "index"
    assert project.reason("git log -p") == ""
    index.write_bytes(index.read_bytes()[:-20] + b"sdir\0\0\0\0" + b"\0" * 20)
    assert "index can't be read for attributes" in project.reason("git log -p")


@pytest.mark.parametrize("flags", ["--assume-unchanged", "--skip-worktree"])
@pytest.mark.parametrize("folder", ["src", "d" * 250, f"{'d' * 200}/{'e' * 200}"])
def test_ATTACK3_attributes_are_found_whatever_their_entry_is_like(
    tmp_path: Path, folder: str, flags: str
) -> None:
    project = make_history(tmp_path, packed=False)
    name = f"{folder}/.gitattributes"
    for path in (name, f"{folder}/x.gitattributes"):
        (project.root / path).parent.mkdir(parents=True, exist_ok=True)
        (project.root / path).write_text("* text=auto\n")
    project.git("add", "-f", "-A")
    project.git("update-index", flags, name)
    assert tracked_by_name(str(project.root / ".git"), ".gitattributes") == (name,)


@pytest.mark.parametrize(
    "name", [".ENV", ".Env.local", "X.KEY", "a.Pem", "ID_rsa", "serviceAccountKey.json", ".env~", ".SSH/x"]
)
def test_ATTACK3_attributes_know_secret_names_in_any_letter_case(tmp_path: Path, name: str) -> None:
    project = make_history(tmp_path, packed=False)
    (project.root / name).parent.mkdir(exist_ok=True)
    (project.root / name).write_text("SECRET\n")
    project.git("add", "-f", "-A")
    project.git("commit", "-qm", "secret")
    shown = subprocess.run(
        ["git", "show"],
        cwd=project.root,
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(project.home), **READ_ONLY_ENVIRONMENT},
    ).stdout
    assert name in shown
    assert "SECRET" not in shown


@pytest.mark.parametrize(
    "command",
    [
        "zcat OBJECT",
        "cat OBJECT",
        "cat OBJECT | base64",
        "xxd OBJECT",
        "printf x | cat - OBJECT | zcat",
        "strings .git/objects/pack/pack-1.pack",
        "head -c 100 .git/modules/x/objects/pack/pack-1.pack",
    ],
)
def test_ATTACK3_the_files_of_objects_ask(tmp_path: Path, command: str) -> None:
    project = make_history(tmp_path, packed=False)
    blob = hash_of(project, "HEAD:.env")
    path = f".git/objects/{blob[:2]}/{blob[2:]}"
    assert not project.analyse(command.replace("OBJECT", path)).read_only


@pytest.mark.parametrize(
    "command", ["cat .git/HEAD", "ls .git/objects", "du -sh .git/objects", "cat src/objects/pack/x"]
)
def test_ATTACK3_other_files_of_git_do_not_ask(tmp_path: Path, command: str) -> None:
    assert make_history(tmp_path, packed=False).reason(command) == ""


@pytest.mark.parametrize(
    "name",
    [".ignore", ".gitignore", ".rgignore", "src/.ignore", ".git/info/exclude", "src/.git/info/exclude"],
)
@pytest.mark.parametrize("target", ["outside", "secret"])
@pytest.mark.parametrize("command", ["rg two", "rg --files", "rg two src", "cd src && rg two"])
def test_ATTACK3_an_ignore_file_that_leads_away_asks(
    tmp_path: Path, name: str, target: str, command: str
) -> None:
    project = shell_project(tmp_path)
    project.git("init", "-q", ".")
    (project.home / "key").write_text("[SECRET\n")
    (project.root / name).parent.mkdir(parents=True, exist_ok=True)
    (project.root / name).unlink(missing_ok=True)
    (project.root / name).symlink_to(project.home / "key" if target == "outside" else project.root / ".env")
    assert not project.analyse(command).read_only


@pytest.mark.parametrize("command", ["rg two", "rg --files", "fd x"])
def test_ATTACK3_an_ignore_file_that_is_a_link_in_the_workspace_does_not_ask(
    tmp_path: Path, command: str
) -> None:
    project = shell_project(tmp_path)
    (project.root / "ignored").write_text("x\n")
    (project.root / ".ignore").symlink_to("ignored")
    assert project.reason(command) == ""


@pytest.mark.parametrize(
    "command",
    [
        "git log --format=%+G?",
        "git log --format='% GS'",
        "git log --format=%-GK",
        "git show --pretty='tformat:%+GG'",
        "git rev-list --format=%+G? HEAD",
        "git shortlog --group=format:%+G?",
        "git whatchanged --format=%+GS",
        "git branch --format='%(signature:grade)'",
        "git tag --format='%(*signature)'",
        "git tag --sort=signature:grade",
        "git branch --sort=-signature",
    ],
)
def test_ATTACK3_a_signature_in_any_spelling_asks(tmp_path: Path, command: str) -> None:
    project = make_history(tmp_path, packed=False)
    assert not project.analyse(command).read_only
    for plain in ("git log --format='%h %an %+B'", "git log --grep=signature", "git tag --sort=-v:refname"):
        assert project.reason(plain) == ""
