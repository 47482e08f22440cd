"""The file that a revision leads to, read as git reads it: colons within braces, hashes at the end of a name,
and pathspecs that stand for other files than they name."""

from __future__ import annotations

from pathlib import Path

import pytest

from buddy.agent.tool import ToolError
from buddy.safety.shell.git_objects import paths_within, split_path
from buddy.tools.git import file_of_ref, git_show
from tests.security.test_git_hostile import git, repository
from tests.support.shell_project import ShellProject, shell_project
from tests.support.tool_project import tool_project


@pytest.fixture
def project(tmp_path: Path) -> ShellProject:
    """A repository with tracked secret files, and one that only the history holds."""
    project = shell_project(tmp_path)
    for name in ("id_rsa", "credentials.json", "src/secrets.yml", "gone.pem"):
        (project.root / name).write_text(f"hunter in {name}\n")
    project.git("init", "-q", "-b", "main")
    project.git("add", "-A", "-f")
    project.git("commit", "-q", "-m", "feat: keys")
    project.git("rm", "-q", "gone.pem")
    project.git("commit", "-q", "-m", "remove")
    return project


def _hash(project: ShellProject, name: str) -> str:
    """The hash of a tracked file or folder."""
    return git(project.root, "rev-parse", f"HEAD:{name}").strip()


BRACES = (
    "git show 'HEAD^{/feat:}:id_rsa'",
    "git show HEAD^{/feat:}:credentials.json",
    "git show HEAD^{/feat:}:src/secrets.yml",
    "git show HEAD@{12:00}:id_rsa",
    "git show main@{12:00}:credentials.json",
    "git show 'HEAD@{2026-01-01 10:00:00}:id_rsa'",
    "git show -s HEAD@{12:00}:id_rsa",
    "git show --stat HEAD@{12:00}:id_rsa",
    "git show HEAD HEAD@{12:00}:id_rsa",
    "git cat-file -p HEAD@{12:00}:id_rsa",
    "git cat-file -p HEAD^{/feat:}:id_rsa",
    "git diff HEAD@{12:00}:id_rsa HEAD:a",
    "git diff HEAD:a HEAD@{12:00}:id_rsa",
    "git diff HEAD:a..HEAD:id_rsa",
    "git diff HEAD:a...HEAD:credentials.json",
    "git diff HEAD:id_rsa..HEAD:a",
    "git show HEAD:a..HEAD:id_rsa",
    "git show HEAD:a^..HEAD:id_rsa",
    "git show ^HEAD@{12:00}:id_rsa",
    "git show HEAD..HEAD@{12:00}:id_rsa",
    "git stash show stash@{12:00}:id_rsa",
)


@pytest.mark.parametrize("command", BRACES)
def test_ATTACK10_a_colon_in_braces_hides_no_secret_file(project: ShellProject, command: str) -> None:
    assert not project.analyse(command).read_only


DESCRIBED = (
    "git show HEAD:x-g{}",
    "git show :x-g{}",
    "git show :/x-g{}",
    "git show :0:x-g{}",
    "git show HEAD:src/x-g{}",
    "git show HEAD:x:y-g{}",
    "git show HEAD@{{0}}:x-g{}",
    "git show HEAD@{{12:00}}:x-g{}",
    "git show main~0:x-g{}",
    "git show HEAD:x-g{}^{{}}",
    "git show HEAD:x-g{}^{{blob}}",
    "git show HEAD..HEAD:x-g{}",
    "git show 'x⏎-g{}'",
    "git show 'x⏎y-g{}'",
    "git show 'HEAD:x y-g{}'",
    "git cat-file -p HEAD:x-g{}",
    "git cat-file -p 'x⏎-g{}'",
    "git cat-file -p x-g{}",
    "git diff HEAD:x-g{} HEAD:a",
    "git diff HEAD:a HEAD:x-g{}",
    "git diff-tree -p HEAD:x-g{} HEAD:a",
)


@pytest.mark.parametrize("form", ["{}", "short", "upper"])
@pytest.mark.parametrize("command", DESCRIBED)
def test_ATTACK10_a_hash_at_the_end_of_a_name_shows_no_file(
    project: ShellProject, command: str, form: str
) -> None:
    blob = _hash(project, "id_rsa")
    text = {"{}": blob, "short": blob[:7], "upper": blob[:12].upper()}[form]
    assert not project.analyse(command.format(text).replace("⏎", "\n")).read_only


@pytest.mark.parametrize("command", ["git diff HEAD:x-g{} HEAD:docs", "git grep hunter HEAD:x-g{}"])
def test_ATTACK10_a_hash_at_the_end_of_a_name_shows_no_folder(project: ShellProject, command: str) -> None:
    assert not project.analyse(command.format(_hash(project, "src"))).read_only


PATHSPECS = (
    "git grep -l hunter -- ':!x'",
    "git grep -c hunter -- ':^x'",
    "git grep hunter -- ':(exclude)x'",
    "git grep hunter -- ':/'",
    "git grep hunter -- ':'",
    "git grep hunter -- ':(top)'",
    "git grep hunter -- ':(glob)**'",
    "git grep hunter -- ':(attr:!x)'",
    "git grep hunter -- ':/*'",
    "git grep hunter -- '*'",
    "git grep hunter -- '**/*'",
    "git grep hunter -- src ':!x'",
    "git grep hunter -- 'i*'",
    "git grep hunter -- 's*'",
    "git grep --untracked hunter -- ':!x'",
    "git grep --cached hunter -- ':!x'",
    "git grep hunter HEAD -- ':!x'",
    "git -C src grep hunter -- ':/'",
    "git -C docs grep hunter -- '../*'",
    "git -C docs grep hunter -- ':!x'",
    "git -C docs grep hunter ':/'",
    "git -C docs grep hunter ..",
    "git -C docs grep hunter ../src",
    "cd docs && git grep hunter ..",
    "git --icase-pathspecs grep hunter -- SRC",
    "git --icase-pathspecs log --oneline -S hunter -- SRC",
    "git grep 'in gone' :/feat:",
    "git grep 'in gone' HEAD^{/feat:}",
    "git grep 'in gone' HEAD@{12:00}",
    "git grep 'in gone' HEAD@{1}",
    "git grep 'in gone' @{1}",
    "git grep 'in gone' HEAD~1:",
)


@pytest.mark.parametrize("command", PATHSPECS)
def test_ATTACK10_a_search_by_pathspec_looks_into_no_secret_file(project: ShellProject, command: str) -> None:
    assert not project.analyse(command).read_only


EVERYDAY = (
    "git show HEAD:a",
    "git show HEAD@{0}:src/main.py",
    "git show 'HEAD@{2026-01-01 10:00:00}:src/main.py'",
    "git show ':/feat: keys'",
    "git show HEAD^{/feat:}",
    "git show v1.2-3-gabcdef0:src/main.py",
    "git log --oneline v1-2-gabcdef0..HEAD",
    "git diff HEAD:a HEAD~1:a",
    "git diff -- :/src",
    "git log --oneline -- ':!docs'",
    "git log -- ':(top)src'",
    "git grep -n TODO",
    "git grep -n TODO -- '*.py'",
    "git grep -n TODO -- ':!docs'",
    "git grep -n password -- '*.py'",
    "git grep -n hunter -- docs",
    "git grep -n hunter -- docs/ 'src/*.py'",
    "git grep -n words HEAD~1 -- docs",
    "git -C src grep -n TODO ..",
    "git ls-files ':!docs'",
)


@pytest.mark.parametrize("command", EVERYDAY)
def test_ATTACK10_everyday_revisions_and_pathspecs_run_unasked(project: ShellProject, command: str) -> None:
    assert project.analyse(command).level == "core", project.reason(command)


def test_split_path_reads_braces_as_git_does() -> None:
    assert split_path("HEAD:a:b") == ("HEAD", "a:b")
    assert split_path("HEAD@{12:00}") == ("HEAD@{12:00}", None)
    assert split_path("HEAD@{12:00}:a") == ("HEAD@{12:00}", "a")
    assert split_path("HEAD^{/a}:b}:c") == ("HEAD^{/a}", "b}:c")
    assert split_path("a}:b") == ("a}", "b")
    assert set(paths_within("HEAD:a..@{1:2}:b")) == {"a..@{1:2}:b", "2}:b", "b", "a"}


@pytest.mark.parametrize(
    ("ref", "path"),
    [("HEAD@{12:00}", ""), ("HEAD@{12:00}:id_rsa", "id_rsa"), ("HEAD^{/fix:}:x/.env", "x/.env")],
)
def test_ATTACK10_the_file_behind_braces_is_judged(ref: str, path: str) -> None:
    assert file_of_ref(ref) == path
    assert git_show.access(git_show.decode(f'{{"ref": "{ref}"}}')).reads == (path or ".",)


async def test_ATTACK10_git_show_shows_no_secret_without_its_name(tmp_path: Path) -> None:
    async with tool_project(tmp_path) as project:
        folder = repository(project.root)
        (folder / "id_rsa").write_text("hunter2hunter2\n")
        git(folder, "add", "-f", "id_rsa")
        git(folder, "commit", "-qm", "feat: keys")
        blob = git(folder, "rev-parse", "HEAD:id_rsa").strip()
        for ref in (f"HEAD:x-g{blob}", f":x-g{blob[:7]}", f"HEAD:src/x-g{blob[:9].upper()}^{{}}"):
            with pytest.raises(ToolError, match="without its name"):
                await project.call(git_show, ref=ref)
        for ref in ("HEAD^{/feat:}", "HEAD@{0}", ":/feat:"):
            assert "hunter2" not in (await project.call(git_show, ref=ref)).text
        assert (await project.call(git_show, ref="HEAD^{/feat:}:a.txt")).text == "one\n"
