"""Searches whose match in a secret file another dialect, case or encoding than Python's decides."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from buddy.safety.shell.file_selection import search_expression
from tests.support.shell_project import ShellProject, shell_project

NESTED_CLASSES = r"""
rg -uu '[a[T]]OK'
rg -uu '[[T]O]KEN'
rg -uu '[a[^a]]OKEN'
rg -uu '[^[^T]]OKEN'
rg -uu '[T&&[^a]]OKEN'
rg -uu '[A-Z&&S-U]OKEN'
rg -uu '[A-Z--[A]]OKEN'
rg -uu '[A-Z~~A-C]OKEN'
rg -uu '[\w--a]OKEN'
rg -uu '[]T[x]]OKEN'
rg --hidden --files-with-matches '[a[T]]OK'
rg --hidden '[[:alpha:][T]]OKEN'
"""

NEWER_RIPGREP = r"""
rg -uu '\<TOKEN'
rg -uu 'TOKEN\>'
rg -uu '\b{start}TOKEN'
rg -uu '\b{start-half}TOKEN'
rg -uu 'T{ 1 }OKEN'
rg -uu 'T{1, 2}OKEN'
"""

NEGATED_LETTERS = r"""
rg -uu '^[^t]OK'
rg -uu '^[^a-z]OK'
rg -uu '^[^s-u_]OK'
grep -r '^[^a-z]OK' .
grep -rE '^[^t]OK' .
grep -rP '^[^a-z]OK' .
egrep -r '^[^a-z0-9_]OK' .
find . -type f -exec grep '^[^a-z]OK' {} +
find . -type f | xargs grep '^[^a-z]OK'
find . -type f | grep '/\.[^A-Z]nv' | xargs cat
git grep --untracked '^[^a-z]OK'
"""

REPEATED_AGAIN = r"""
grep -rE '@+?$' .
grep -rE 'x{2}?TOK' .
grep -rE 'T?+TOKEN' .
grep -r 'x\+\?TOK' .
egrep -r '(x)+?TOK' .
rg -uu 'T?+TOKEN'
git grep --untracked -E 'x+?TOK'
"""

READS_NONE = r"""
rg -uu '[\[]hello'
rg -uu 'x[^"]*y'
rg -uu 'import [^a-z]'
rg -uu 'a\[[0-9]\]'
rg -uu 'd{2,3}x'
rg -uu '[a-z_-]+\(\)'
grep -rn '[[]hello' .
grep -rE 'x[^)]*y[^a-z]z' .
grep -rn 'a--b' .
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> ShellProject:
    """A workspace that git tracks, with TOKEN=secret in its .env."""
    project = shell_project(tmp_path_factory.mktemp("dialects"))
    project.git("init", "-q")
    project.git("add", "a")
    project.git("commit", "-qm", "one")
    return project


@pytest.mark.parametrize(
    "commands",
    [
        pytest.param(NESTED_CLASSES, id="nested classes"),
        pytest.param(NEWER_RIPGREP, id="newer ripgrep"),
        pytest.param(NEGATED_LETTERS, id="negated letters"),
        pytest.param(REPEATED_AGAIN, id="repeated again"),
    ],
)
def test_a_pattern_that_matches_in_its_own_dialect_is_asked_about(
    project: ShellProject, commands: str
) -> None:
    assert project.allowed(commands) == []


def test_a_pattern_that_matches_in_no_dialect_only_reads(project: ShellProject) -> None:
    assert project.allowed(READS_NONE) == READS_NONE.strip().splitlines()


@pytest.mark.parametrize(
    ("content", "command"),
    [
        (b"\xef\xbb\xbfTOKEN=x\n", "rg -uu '^TOK'"),
        ("\ufeffTOKEN=x\n".encode("utf-16-le"), "rg -uu '^TOK'"),
        ("\ufeffTOKEN=x\n".encode("utf-16-be"), "rg -uu 'TOKEN=x'"),
        (b"TOKEN=x\r\nB=y\r\n", "rg -uu --crlf 'x$'"),
        (b"\xef\xbb\xbfTOKEN=x\r\n", "rg -uu '^TOKEN=x\\r$'"),
    ],
    ids=[
        "a mark before UTF-8",
        "UTF-16 little",
        "UTF-16 big",
        "lines of Windows",
        "a mark, lines of Windows",
    ],
)
def test_what_ripgrep_decodes_is_asked_about(tmp_path: Path, content: bytes, command: str) -> None:
    project = shell_project(tmp_path)
    (project.root / ".env").write_bytes(content)

    assert not project.analyse(command).read_only


@pytest.mark.parametrize(
    "settings",
    [
        "[grep]\n\tpatternType = extended\n",
        "[GREP]\n\tPATTERNTYPE = perl\n",
        "[grep] patternType = perl\n",
        "[grep]\n\textendedRegexp = true\n",
        "[grep]\n\textendedRegexp\n",
    ],
)
@pytest.mark.parametrize("whose", ["repository", "worktree", "person", "person, in .config"])
def test_settings_may_choose_the_dialect_of_git_grep(tmp_path: Path, settings: str, whose: str) -> None:
    project = shell_project(tmp_path)
    project.git("init", "-q")
    path = {
        "repository": project.root / ".git" / "config",
        "worktree": project.root / ".git" / "config.worktree",
        "person": project.home / ".gitconfig",
        "person, in .config": project.home / ".config" / "git" / "config",
    }[whose]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(settings)

    assert not project.analyse("git grep --untracked 'zzz|TOK'").read_only


@pytest.mark.parametrize("option", ["-G", "-F", "--basic-regexp", "--fixed-strings"])
def test_an_option_goes_before_the_settings_of_git_grep(tmp_path: Path, option: str) -> None:
    project = shell_project(tmp_path)
    project.git("init", "-q")
    project.git("config", "grep.patternType", "extended")

    assert project.analyse(f"git grep --untracked {option} 'zzz|TOK'").read_only


@pytest.mark.parametrize("pattern", ["[[a]", "[a&&b]", "[a--b]", "[a||b]", "[a~~b]", "[&&]", "[+--]"])
@pytest.mark.parametrize("dialect", ["basic", "extended", "perl", "rust"])
def test_no_pattern_makes_python_warn(pattern: str, dialect: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search_expression((pattern,), dialect)
