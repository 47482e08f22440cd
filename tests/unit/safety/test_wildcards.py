"""Wildcards from files, models and the command line cannot make a match take for ever."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buddy.repl.render.code import highlight
from buddy.safety.policy.rules import Rule, matches_path
from buddy.safety.shell.context import glob_expression
from buddy.safety.shell.file_selection import Candidate, glob_filter
from buddy.safety.wildcards import FOLDERS, STAR, wildcard
from buddy.workspace.search.ignore import NEVER, IgnoreTree, parse_rule
from buddy.workspace.search.walk import glob_matcher
from tests.support.shell_project import ShellProject, shell_project

NAIVE = {STAR: "[^/]*", FOLDERS: "(?:.*/)?"}
PIECES = st.sampled_from(
    [["a"], ["b"], ["[^/]"], ["[ab]"], ["/"], [STAR], ["/", FOLDERS], [FOLDERS, STAR], ["/", FOLDERS, STAR]]
)


@settings(max_examples=400, deadline=None)
@given(
    begins=st.booleans(),
    pieces=st.lists(PIECES, max_size=8).map(lambda many: [piece for one in many for piece in one]),
    texts=st.lists(st.text("ab/\n", max_size=12), min_size=1, max_size=20),
)
def test_a_bounded_expression_matches_what_the_plain_one_does(
    begins: bool, pieces: list[str], texts: list[str]
) -> None:
    pieces = [FOLDERS] * begins + pieces
    plain = re.compile("".join(NAIVE.get(piece, piece) for piece in pieces), re.DOTALL)
    bounded = re.compile(wildcard(pieces, "[^/]"), re.DOTALL)

    for text in texts:
        assert bool(bounded.fullmatch(text)) is bool(plain.fullmatch(text)), (pieces, text)


@settings(max_examples=600, deadline=None)
@given(
    pieces=st.lists(st.sampled_from(["a", "b", "[^/]", "/", STAR, FOLDERS]), max_size=7),
    texts=st.lists(st.text("ab/", max_size=9), min_size=1, max_size=30),
)
def test_an_expression_is_right_or_refused(pieces: list[str], texts: list[str]) -> None:
    try:
        bounded = re.compile(wildcard(pieces, "[^/]"), re.DOTALL)
    except ValueError:
        assert FOLDERS in pieces
        return
    plain = re.compile("".join(NAIVE.get(piece, piece) for piece in pieces), re.DOTALL)

    for text in texts:
        assert bool(bounded.fullmatch(text)) is bool(plain.fullmatch(text)), (pieces, text)


@pytest.mark.parametrize("pieces", [["a", STAR, FOLDERS, "b"], [FOLDERS, "b", FOLDERS, "c"], [STAR, FOLDERS]])
def test_folders_behind_an_open_end_are_refused(pieces: list[str]) -> None:
    with pytest.raises(ValueError, match="FOLDERS"):
        wildcard(pieces, "[^/]")


@pytest.mark.parametrize(
    "pattern", ["a**b**/c", "***/a", "a***/b/**/c", "**/**/a", "a*/**", "?**/x", "**a**/"]
)
def test_every_rule_and_ignore_pattern_places_folders_well(pattern: str) -> None:
    rule = parse_rule(pattern.encode())
    assert rule is not None
    by_edit_rule(pattern)("x")
    glob_matcher(pattern)("x")


Ask = Callable[[str], object]


def by_ignore_file(pattern: str) -> Ask:
    rule = parse_rule(pattern.encode())
    assert rule is not None
    return lambda text: rule.regex.fullmatch(text.encode())


def by_edit_rule(pattern: str) -> Ask:
    rule = Rule(tool="edit", decision="allow", origin="user", path=pattern)
    return lambda text: matches_path(rule, "/w", "/home/ada", f"/w/{text}")


def by_picks(pattern: str) -> Ask:
    found = glob_filter(pattern, on_path="/" in pattern)
    assert found is not None
    return lambda text: found(Candidate(f"/w/{text}", text))


def by_shell(pattern: str) -> Ask:
    return glob_expression(pattern).fullmatch


def cpu_s(ask: Ask, text: str) -> float:
    def once() -> float:
        start = time.process_time()
        for _ in range(20):
            assert not ask(text)
        return time.process_time() - start

    return min(once() for _ in range(5))


@pytest.mark.parametrize("matcher", [by_ignore_file, glob_matcher, by_edit_rule, by_picks, by_shell])
@pytest.mark.parametrize("repeated", ["a*", "*a", "*?"])
def test_twice_as_many_stars_and_letters_take_no_thousandfold_time(
    matcher: Callable[[str], Ask], repeated: str
) -> None:
    # What tries every division takes C(22, 11) / C(11, 5), more than a thousand times as long.
    short, long = (cpu_s(matcher(repeated * (n // 2) + "b"), "a" * n) for n in (11, 22))

    assert long / short < 100


@pytest.mark.parametrize("matcher", [by_ignore_file, glob_matcher, by_edit_rule])
@pytest.mark.parametrize("repeated", ["**/a/", "**/*/", "**/a*/", "**/*a*a*/"])
def test_twice_as_many_folders_take_no_thousandfold_time(
    matcher: Callable[[str], Ask], repeated: str
) -> None:
    short, long = (cpu_s(matcher(repeated * (n // 2) + "b"), "a/" * n + "a") for n in (11, 22))

    assert long / short < 100


@pytest.fixture
def project(tmp_path: Path) -> ShellProject:
    return shell_project(tmp_path)


@pytest.mark.parametrize("command", ["ls {}", "cat {}", "rm {}", "for f in {}; do echo $f; done"])
def test_a_command_with_many_stars_is_judged(project: ShellProject, command: str) -> None:
    (project.root / "a_perfectly_ordinary_file_name_for_tests.py").write_text("x = 1\n")
    (project.root / ("a" * 200)).write_text("x")

    for pattern in ("a*" * 40 + "b", "*?" * 40 + "Z"):
        assert project.analyse(command.format(pattern)).read_only is command.startswith(("ls", "cat"))


def test_an_ignore_file_with_many_stars_ignores_what_it_matches_alone(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("a*" * 40 + "b\n" + "**/*a" * 40 + "c\n")
    tree = IgnoreTree(str(tmp_path.resolve()))
    ignored = [
        tree.is_ignored(f"{tmp_path.resolve()}/{name}", False) for name in ("a" * 200, "a" * 200 + "b")
    ]

    assert ignored == [False, True]


@pytest.mark.parametrize(("piece", "count"), [(b"a*", 4096), (b"a*", 400_000), (b"[ab]*/", 100_000)])
def test_a_pattern_longer_than_any_path_matches_nothing(piece: bytes, count: int) -> None:
    rule = parse_rule(piece * count + b"?")

    assert rule is not None
    assert rule.regex is NEVER()


def test_repeated_folders_are_one_piece() -> None:
    rule = parse_rule(b"**/" * 100_000 + b"a*b")

    assert rule is not None
    assert rule.regex.pattern == b"(?:.*/)?a[^/]*b"


def test_the_last_line_of_a_diff_is_read_at_once_and_has_its_colour() -> None:
    line = "+" + "a" * 200

    assert highlight(f"-b\n{line}", "diff") == [[("removed", "-b")], [("added", line)]]
