"""A task in a worktree: what is inside, what is protected, which rules hold, whose programs are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from buddy.safety.paths import Boundary, locate
from buddy.safety.policy.decide import ASK, Mode, judge
from buddy.safety.policy.facts import Facts
from buddy.safety.policy.rules import Rule, RuleSet, rules_to_save
from buddy.safety.shell.analysis import Analyser
from buddy.safety.shell.context import CommandPlace


@pytest.fixture
def main(tmp_path: Path) -> Path:
    main = tmp_path / "repo"
    (main / ".buddyx/worktrees/fix/src").mkdir(parents=True)
    (main / "src").mkdir()
    return main


@pytest.fixture
def boundary(main: Path, tmp_path: Path) -> Boundary:
    tree = str(main / ".buddyx/worktrees/fix")
    return Boundary(tree, tree, str(tmp_path / "home"), main=str(main))


def decided(boundary: Boundary, path: str, *rules: Rule, mode: Mode = "ask", tool: str = "edit_file") -> str:
    facts = _facts(boundary, path, tool)
    return judge(facts, mode, RuleSet(rules), (), ASK, trusted=True, now=0).decision


def _facts(boundary: Boundary, path: str, tool: str = "edit_file") -> Facts:
    located = (locate(boundary, path),)
    is_read = tool == "read_file"
    return Facts(
        tool,
        "low" if is_read else "medium",
        boundary.root,
        boundary.home,
        reads=located,
        writes=() if is_read else located,
        main=boundary.main,
    )


def test_a_file_of_the_worktree_is_inside_and_not_protected_by_where_worktrees_lie(
    boundary: Boundary,
) -> None:
    located = locate(boundary, "src/a.py")

    assert (located.inside, located.protected, located.secret, located.shown) == (True, "", "", "src/a.py")
    assert decided(boundary, "src/a.py", mode="edit") == "allow"


@pytest.mark.parametrize(
    "name",
    [
        ".git",
        ".git/config",
        ".buddyx/ext/a.py",
        "buddy.toml",
        ".vscode/settings.json",
        "sub/.git/hooks/x",
        ".ENV",
    ],
)
def test_what_is_protected_or_secret_in_a_project_is_so_in_its_worktree(
    boundary: Boundary, name: str
) -> None:
    located = locate(boundary, name)

    assert located.protected or located.secret
    assert decided(boundary, name, mode="yolo" if located.protected else "ask") == "ask"


@pytest.mark.parametrize("mode", ["ask", "edit", "auto"])
def test_the_main_tree_is_outside_of_a_worktree(boundary: Boundary, main: Path, mode: Mode) -> None:
    for path in (str(main / "src/a.py"), "../../../src/a.py"):
        assert not locate(boundary, path).inside
        assert decided(boundary, path, mode=mode) == "ask"
        assert decided(boundary, path, mode=mode, tool="read_file") == "ask"


def test_another_worktree_is_outside_and_protected(boundary: Boundary, main: Path) -> None:
    (main / ".buddyx/worktrees/fix-2").mkdir()
    located = locate(boundary, "../fix-2/a.py")

    assert (located.inside, bool(located.protected)) == (False, True)


def test_a_link_that_leads_into_the_main_tree_is_outside(boundary: Boundary, main: Path) -> None:
    (main / ".buddyx/worktrees/fix/out").symlink_to(main / "src")

    assert not locate(boundary, "out/a.py").inside
    assert decided(boundary, "out/a.py", mode="edit") == "ask"


def test_for_the_main_tree_a_worktree_is_protected(main: Path, tmp_path: Path) -> None:
    boundary = Boundary(str(main), str(main), str(tmp_path / "home"))

    assert decided(boundary, ".buddyx/worktrees/fix/src/a.py", mode="yolo") == "ask"


def test_a_rule_that_tightens_holds_in_the_worktree_by_the_name_in_the_main_tree(
    boundary: Boundary, main: Path
) -> None:
    for path in (f"{main}/src/**", "src/**"):
        assert decided(boundary, "src/a.py", Rule("edit", "deny", "user", path=path), mode="edit") == "deny"
        assert decided(boundary, "src/a.py", Rule("edit", "ask", "user", path=path), mode="edit") == "ask"


def test_a_rule_that_tightens_holds_for_a_link_in_the_worktree(boundary: Boundary, main: Path) -> None:
    (main / ".buddyx/worktrees/fix/src/link").symlink_to("../other")
    rule = Rule("edit", "deny", "user", path=f"{main}/src/**")

    assert decided(boundary, "src/link", rule, mode="edit") == "deny"


def test_a_rule_saved_in_the_project_allows_the_same_in_its_worktree(boundary: Boundary, main: Path) -> None:
    rule = Rule("edit", "allow", "user", path=f"{main}/src/**")

    assert decided(boundary, "src/a.py", rule) == "allow"
    assert decided(boundary, "other/a.py", rule) == "ask"


def test_an_answer_given_in_a_worktree_never_holds_in_the_main_tree(boundary: Boundary, main: Path) -> None:
    (rule,) = rules_to_save(_facts(boundary, "src/a.py"))
    inside = Boundary(str(main), str(main), boundary.home)

    assert decided(boundary, "src/b.py", rule) == "allow"
    assert decided(inside, "src/b.py", rule) == "ask"


def test_a_rule_for_the_main_tree_opens_no_way_out_of_the_worktree(boundary: Boundary, main: Path) -> None:
    relative = Rule("edit", "allow", "user", path="src/**")

    assert decided(boundary, str(main / "src/a.py"), relative) == "ask"


def test_a_program_of_the_main_tree_is_not_trusted_in_the_worktree(boundary: Boundary, main: Path) -> None:
    folder = main / "bin"
    folder.mkdir()
    (folder / "cat").write_text("#!/bin/sh\n")
    (folder / "cat").chmod(0o755)
    place = CommandPlace(boundary, f"{folder}:/usr/bin:/bin")

    assert not Analyser().analyse("cat src/a.py", place).read_only
    assert Analyser().analyse("cat src/a.py", CommandPlace(boundary, "/usr/bin:/bin")).read_only


@pytest.mark.parametrize("target", ["{main}", "{main}/.git", ".git", ".", ".."])
def test_deleting_the_main_tree_or_its_repository_is_a_catastrophe_from_a_worktree(
    boundary: Boundary, main: Path, target: str
) -> None:
    command = f"rm -rf {target.format(main=main)}"
    analysis = Analyser().analyse(command, CommandPlace(boundary, "/usr/bin:/bin"))

    assert analysis.catastrophic
