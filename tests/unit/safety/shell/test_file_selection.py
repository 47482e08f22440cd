"""Secret files selected by a list of names or a search, and programs that span lines."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from buddy.safety.shell import secret_search as walk
from buddy.safety.shell.file_selection import (
    Candidate,
    content_filter,
    glob_filter,
    line_filter,
    no_hidden,
    search_expression,
)
from tests.support.shell_project import ShellProject, shell_project

TAKES_SECRETS = r"""
find . -name '.*' -type f -exec cat {} +
find . -name '*' -type f -exec cat {} +
find . -type f -name '*e*' -exec cat {} +
find . -type f -path './*' -exec cat {} +
find . -type f -regex '.*' -exec cat {} +
find . -type f ! \( -name zzz \) -exec cat {} +
find . -type f -exec cat {} + -name '*.py'
find . -type f -exec env cat {} +
find . -type f -exec timeout 5 cat {} \;
find . -name '*.py' -o -type f -exec cat {} +
find . \( -name '*.py' -o -type f \) -exec cat {} +
find . -type f -exec grep . {} +
find . -type f -exec grep -H '' {} \;
find . -type f -exec grep TOKEN {} +
find . -type f -print -name '*.py' | xargs cat
find . -type f | grep e | xargs cat
find . -type f | grep '' | xargs cat
find . -type f | grep -v zzz | xargs cat
find . -type f | xargs grep .
find . -type f | xargs grep TOKEN
find . -type f -print0 | xargs -0 grep -h TOK
rg --files -uu | xargs cat
rg --files --hidden -g '*' | xargs cat
rg -uuu -l TOK | xargs cat
fd -H . | xargs cat
fd -u | xargs cat
git ls-files -o | xargs cat
git ls-files -co | xargs head
git ls-files --others --ignored --exclude-standard | xargs cat
grep -rL zzz . | xargs cat
grep -rlv zzz . | xargs cat
grep -r --include='*' TOKEN .
grep -r --include='.*' TOK .
grep -rE '[A-Z_]+=' .
grep -rn 'TOK' .
grep -rzi 'tok' .
grep -r -e zzz -e TOK .
grep -rE '(x|T)OKEN' .
grep -rP '(?i)tok' .
rg --hidden -e TOK
rg --hidden -g '*' TOK
rg -. -g '!zzz' TOK
rg --hidden -t all TOK
rg -v zzz --hidden
rg ked
git grep --untracked TOK
git grep lock
git grep -l . | xargs cat
git ls-files | xargs cat
git ls-files '*.key' | xargs cat
git ls-files ':(top)' | xargs cat
git ls-files '*.key' | xargs cat
find . \( -name '*.key' | xargs cat
git stash show -p --include-untracked
diff -r . src
diff -ruN src .
"""

TAKES_NONE = r"""
find . -type f -name '*.py' -exec cat {} +
find . -type f \( -name '*.py' -o -name '*.json' \) -exec cat {} +
find . -path './src/*' -type f -exec head {} +
find . -name build -prune -o -name '*.py' -type f -print | xargs cat
find . -type f -exec wc -l {} +
find . -type f -exec basename {} \;
find . -type f -exec grep -n hello {} +
find . -type f | grep '\.py$' | xargs cat
find . -type f | xargs grep -n hello
git ls-files '*.py' | xargs cat
git ls-files src | xargs cat
rg --files src | xargs cat
rg --files -t py | xargs cat
rg -l hello | xargs cat
grep -rl hello . | xargs cat
grep -rn hello .
grep -rn 'import\|def ' .
grep -rE '^(import|from) ' .
grep -rn --include='*.py' password .
rg -uu hello
rg password -t py
rg -n 'class \w+'
diff -rq . src
git grep hello
"""

GOES_ON = """
awk '{print "x",⏎"y" > "OWNED"}' f
awk 'BEGIN{print("a",⏎⏎"b") > "OWNED"}'
awk 'BEGIN{print 1 &&⏎ 1 > "OWNED"}'
awk 'BEGIN{print 1 || # why⏎ 1 > "OWNED"}'
awk '{print ⏎> "OWNED"}' f
git log -L1,5:.env
git log -L 1,+3:src/../.env
git reflog -L1,5:.env
jq -n '$ ENV'
jq -n '$#⏎ENV'
cat /dev/zero
tail /dev/zero
sort -u /dev/urandom
head -c -5 /dev/zero
grep x /dev/random
"""

STILL_READS = """
awk '{print $1⏎if ($2 > 3) print $2}' f
git log -L1,2:src/main.py
git branch --points-at HEAD
git tag --points-at HEAD
jq .ENV f.json
head -c 16 /dev/urandom | xxd -p
od -An -N4 -tu4 /dev/urandom
find src | xargs --max-args=2 ls
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> ShellProject:
    project = shell_project(tmp_path_factory.mktemp("picks"))
    (project.root / "deploy.key").write_text("locked\n")
    project.git("init", "-q")
    project.git("add", "a", "b", "f", "f.json", "src", "docs", "package.json", "deploy.key")
    project.git("commit", "-qm", "one")
    return project


def test_what_may_show_a_secret_file_is_asked(project: ShellProject) -> None:
    assert project.allowed(TAKES_SECRETS) == []


def test_what_passes_by_all_secret_files_runs(project: ShellProject) -> None:
    lines = TAKES_NONE.strip().split("\n")
    assert {line: project.reason(line) for line in lines if not project.analyse(line).read_only} == {}


def test_what_goes_on_in_the_next_line_or_for_ever_is_asked(project: ShellProject) -> None:
    assert project.allowed(GOES_ON) == []


def test_its_ordinary_neighbours_run(project: ShellProject) -> None:
    lines = [line.replace("⏎", "\n") for line in STILL_READS.strip().split("\n")]
    assert {line: project.reason(line) for line in lines if not project.analyse(line).read_only} == {}


def test_a_link_is_followed_where_the_test_for_files_comes_too_late(project: ShellProject) -> None:
    outside = project.home / "outside"
    outside.write_text("x")
    (project.root / "away").symlink_to(outside)
    late = "find . -exec cat {} + -type f -name '*.py'"
    assert "away" in project.reason(late) or "outside" in project.reason(late)
    assert project.analyse("find . -name '*.py' -exec wc -l {} +").read_only
    (project.root / "away").unlink()


@pytest.mark.parametrize(
    ("pattern", "dialect"),
    [
        ("(a+)+", "extended"),
        ("a**", "basic"),
        (r"\d", "basic"),
        (r"[\w]", "extended"),
        (r"a\1", "basic"),
        ("a^b", "basic"),
        ("a$b", "basic"),
        ("(?=x)", "perl"),
        (r"\pL", "perl"),
        ("[[:alpha:][:digit:]]", "extended"),
        ("(", "extended"),
    ],
)
def test_a_pattern_that_may_be_read_differently_is_not_trusted(pattern: str, dialect: str) -> None:
    assert search_expression((pattern,), dialect) is None


@pytest.mark.parametrize(
    ("pattern", "dialect", "text"),
    [
        ("a.b", "fixed", "xa.bx"),
        (r"\(a\|b\)c", "basic", "bc"),
        ("(a|b)c", "extended", "BC"),
        ("a+b", "basic", "a+b"),
        (r"\<def\>", "basic", "def"),
        ("[[:alpha:]]=", "extended", "k="),
        ("one\ntwo", "fixed", "two"),
        (r"^x\|^y", "basic", "y"),
    ],
)
def test_other_patterns_find_at_least_what_grep_finds(pattern: str, dialect: str, text: str) -> None:
    found = search_expression((pattern,), dialect)
    assert found is not None
    assert found.search(text)


def test_files_that_cannot_be_looked_through_may_hold_anything(tmp_path: Path) -> None:
    long_line, large, missing = (tmp_path / name for name in ("long", "large", "missing"))
    long_line.write_text("k" * 600)
    large.write_text("k\n" * 40_000)
    finds_z = content_filter(re.compile("z.*"))
    assert finds_z is not None
    assert [finds_z(Candidate(str(path), path.name)) for path in (long_line, large, missing)] == [True] * 3
    assert content_filter(None) is None
    assert search_expression((), "basic") is None
    assert line_filter(None) is None


def test_names_are_compared_as_find_and_rg_do() -> None:
    hidden, plain = Candidate("/w/a/.env", "a/.env"), Candidate("/w/a/b.PY", "a/b.PY")
    by_name, by_path = glob_filter("*.py"), glob_filter("./a/*", on_path=True)
    assert by_name is not None
    assert by_path is not None
    assert [by_name(hidden), by_name(plain), by_path(plain)] == [False, True, True]
    assert [no_hidden(hidden), no_hidden(plain)] == [False, True]
    assert glob_filter("[ab]*") is None


def test_a_search_in_a_tree_too_large_to_look_at_is_asked_when_it_hunts(tmp_path: Path) -> None:
    project = shell_project(tmp_path)
    for number in range(walk.MAX_ENTRIES):
        (project.root / "build" / f"{number}").touch()
    (project.root / ".env").unlink()
    assert project.analyse("grep -rn hello .").read_only
    assert "too many files" in project.reason("grep -rn password .")


def test_a_link_that_goes_round_in_circles_is_no_folder(project: ShellProject) -> None:
    ring = project.root / "ring"
    ring.mkdir()
    (ring / "secrets.env").symlink_to("secrets.env")
    assert project.reason("find ring -type f -exec cat {} +")
    assert project.analyse("find ring -type f -name '*.py' -exec cat {} +").read_only
    shutil.rmtree(ring)
