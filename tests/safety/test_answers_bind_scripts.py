"""A session answer to a command that names a script holds while the script is the one that was shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from buddy.safety.grants import ASK, Grant
from buddy.safety.paths import locate
from buddy.safety.policy import judge
from buddy.safety.policy_facts import Facts
from buddy.safety.policy_table import Decision
from buddy.safety.rules import Rule, RuleSet
from buddy.safety.rules_save import rules_for_session, rules_to_save
from buddy.safety.rules_words import coverage
from tests.shell_desk import ShellDesk, make_desk, shell_facts


@pytest.fixture
def desk(tmp_path: Path) -> ShellDesk:
    found = make_desk(tmp_path)
    (found.root / "s.sh").write_text("echo shown\n")
    return found


def decide(facts: Facts, granted: tuple[Rule, ...]) -> Decision:
    grants = tuple(Grant(rule, None) for rule in granted)
    return judge(facts, "edit", RuleSet(), grants, ASK, trusted=True, now=0.0).decision


@pytest.mark.parametrize(
    "command",
    [
        "bash s.sh",
        "./s.sh",
        "sh -x s.sh",
        "bash -e s.sh a",
        "timeout 5 bash s.sh",
        "env bash s.sh",
        "bash ./s.sh > log",
        "A=b bash s.sh",
        "bash src/../s.sh",
        "cd src && bash ../s.sh",
        "make && bash s.sh",
        "source s.sh",
        ". ./s.sh",
        "python3 s.sh",
        "node s.sh",
    ],
)
def test_ATTACK_F6_a_session_answer_ends_when_the_script_changes(desk: ShellDesk, command: str) -> None:
    facts = shell_facts(desk, command)
    granted = rules_for_session(facts)

    assert granted
    assert decide(facts, granted) == "allow"
    assert "while s.sh is unchanged" in coverage(granted, facts)
    (desk.root / "s.sh").write_text("echo another\n")
    assert decide(shell_facts(desk, command), granted) == "ask"
    (desk.root / "s.sh").write_text("echo shown\n")
    assert decide(shell_facts(desk, command), granted) == "allow"


@pytest.mark.parametrize(
    "command", ["bash new.sh", "./new.sh", "python3 -W ignore new.sh", "bash new.sh > log"]
)
def test_ATTACK_F6_an_answer_given_before_a_script_is_there_allows_no_script(
    desk: ShellDesk, command: str
) -> None:
    facts = shell_facts(desk, command)
    session, saved = rules_for_session(facts), rules_to_save(facts)

    assert (decide(facts, session), decide(facts, saved)) == ("allow", "allow")
    (desk.root / "new.sh").write_text("echo written afterwards\n")
    later = shell_facts(desk, command)
    assert (decide(later, session), decide(later, saved)) == ("ask", "ask")


@pytest.mark.parametrize("command", ["bash s.sh", "bash s.sh > log"])
def test_ATTACK_F6_in_a_sandbox_a_script_may_change_and_stays_in_the_sandbox(
    desk: ShellDesk, command: str
) -> None:
    facts = shell_facts(desk, command, sandboxed=True)
    granted = rules_for_session(facts)

    assert "unchanged" not in coverage(granted, facts)
    assert coverage(granted, facts).endswith(", in the sandbox")
    (desk.root / "s.sh").write_text("echo another\n")
    assert decide(shell_facts(desk, command, sandboxed=True), granted) == "allow"
    assert decide(shell_facts(desk, command), granted) == "ask"
    assert rules_to_save(facts)[0].files


def test_ATTACK_F6_an_answer_to_run_tests_says_that_it_covers_every_run(desk: ShellDesk) -> None:
    place = locate(desk.boundary, ".")
    argv = ("pytest",)
    facts = Facts(
        "run_tests", "high", str(desk.root), str(desk.home), category="shell", folder=place, argv=argv
    )
    granted = rules_for_session(facts)

    for rules in (granted, rules_to_save(facts)):
        assert coverage(rules, facts) == "every run of `pytest` in this project, whatever the tests are then"
    assert decide(facts, granted) == "allow"
