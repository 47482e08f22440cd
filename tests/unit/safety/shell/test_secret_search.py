"""Searches for secrets are asked about whether or not a secret lies there: a folder may be empty now."""

from __future__ import annotations

from pathlib import Path

import pytest

from buddy.safety.shell.secret_search import hunts
from tests.support.shell_project import ShellProject, lines_of, shell_project

HUNTING = r"""
grep -rn API_KEY .
grep -rni "api[_-]key" .
grep -rn 'api.?key' .
grep -r "BEGIN RSA PRIVATE KEY" .
grep -rE "AKIA[0-9A-Z]{16}" .
grep -rn "password\s*=" .
grep -Rn secret .
grep -r --include='*' -i passwd .
grep -r --include='*.yml' password .
grep -r --include=credentials.json -i secret
grep -rn "ghp_" .
grep -rE 'sk-[A-Za-z0-9]{20,}' .
grep -rn OPENAI_API_KEY
grep -rn token .
grep -rn 'token:' .
grep -rn '[Pp]assword' .
grep -rn 'passwor.' .
grep -rE 'K[E]Y=' .
grep -rE 'pass(word|wd)' .
grep -rn KEY "$PWD"
grep -rn API_KEY ./*
grep -rn API_KEY *
grep -rn password config
grep -rh . .
grep -rn '' .
grep -rv foo .
grep -r = .
grep -rE '[A-Z_]+=' .
rg -. KEY
rg --hidden --no-ignore .
rg -uuu .
rg -uu TOKEN
rg --hidden password
rg --hidden token
rg -i 'secret|token|password'
rg AKIA
rg -l 'client_secret'
rg --no-ignore --hidden -l 'PRIVATE KEY'
rg . --no-ignore -.
rg -v zzz -.
find . -execdir cat {} +
find . -name '*.py' -execdir cat {} +
find . -execdir echo {} \;
find . -type f | xargs cat
find . -type f -exec cat {} +
find . -type f -print0 | xargs -0 grep -l SECRET
find . -type f -exec grep -H password {} +
find . -type f -exec grep '' {} +
fd -H . | xargs cat
rg --hidden --files | xargs head
git ls-files -o | xargs cat
git ls-files | xargs grep -n password
git grep -n API_KEY
git grep -i password
git grep -e private_key -- .
git grep API_KEY HEAD~3
git log -p -S'API_KEY'
git log -p -G'AKIA[0-9A-Z]+'
git log -S password -p --all
"""
PLAIN = r"""
grep -rn TODO .
grep -rn "def main" .
grep -rnE "TODO|FIXME" .
grep -rn tokenizer .
grep -rn 'class Tokenizer' .
grep -rn monkey .
grep -rn keyboard .
grep -rn 'keys()' .
grep -rn key .
grep -rn author .
grep -rn "import os" .
grep -rn "import secrets" .
grep -rn reset_password .
grep -rn "hash_password(" .
grep -rn PRIMARY_KEY .
grep -rn API_KEY src
grep -rn password --include=*.py .
grep -rn password --include='*.ts' --include='*.tsx'
grep -n password src/main.py
cat f | grep -i password
rg token
rg TODO
rg authenticate
rg -tpy API_KEY
rg -uu foo
rg --hidden -g '*.py' token
rg --hidden TODO
rg API_KEY src
rg .
rg --files --hidden
grep -rl foo . | xargs head
rg -l foo | xargs cat
find . -name '*.py' -exec cat {} +
find . -type f -name '*.md' | xargs cat
find . -type f -exec grep -l foo {} +
find src -type f -exec cat {} +
find . -type f | xargs wc -l
git ls-files | xargs cat
git grep -n TODO
git grep -n 'def main'
git grep API_KEY -- src
git grep API_KEY -- '*.py'
git log -S 'def main' --oneline
git log -G TODO -p
"""


@pytest.fixture(params=["populated", "empty"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> ShellProject:
    """A folder with files but without secrets, and one with nothing at all; both repositories."""
    made = shell_project(tmp_path)
    made.git("init", "-q", "-b", "main", ".")
    (made.root / ".env").unlink()
    if request.param == "empty":
        for path in sorted(made.root.rglob("*"), reverse=True):
            if ".git" not in path.parts:
                path.rmdir() if path.is_dir() else path.unlink()
    else:
        made.git("add", "-A")
    return made


def test_what_hunts_for_secrets_is_asked_about(project: ShellProject) -> None:
    assert project.allowed(HUNTING) == []


def test_what_looks_for_anything_else_runs(project: ShellProject) -> None:
    assert project.allowed(PLAIN) == lines_of(PLAIN)


def test_the_reasons_are_told(project: ShellProject) -> None:
    assert [project.reason(line) for line in ("rg AKIA", "grep -r token .", "grep -r '' .")] == [
        "it searches the whole folder for secrets",
        "it searches hidden files for secrets",
        "it shows every line of hidden files, which may hold secrets",
    ]
    assert project.reason("find . | xargs cat") == "it shows every file of the folder, hidden ones too"
    assert project.reason("git log -S password") == "it searches the history for secrets"


def test_a_search_through_a_secret_folder_is_as_wide_as_one_of_all(tmp_path: Path) -> None:
    project = shell_project(tmp_path)
    assert [project.analyse(f"rg password {name}").read_only for name in ("src", "secrets", "Config/")] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("text", ["secret_x" * 490, "api_" * 900, "[a]" * 1200, "A_" * 1900 + "x"])
def test_long_patterns_take_no_longer_than_others(text: str) -> None:
    assert hunts(text) is False
