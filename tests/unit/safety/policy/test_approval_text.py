"""The ways named to let a call run that lacked an approval: each one works, and covers nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from buddy.agent.events import MissingApproval
from buddy.headless.formats import skipped_line
from buddy.safety.policy.approval_text import missing_approval
from buddy.safety.policy.facts import Facts
from buddy.safety.policy.rules import RuleSet
from buddy.safety.policy.rules_loading import rules_of_claude
from buddy.safety.policy.session import Policy
from tests.support.shell_project import ShellProject, shell_project


@pytest.fixture
def project(tmp_path: Path) -> ShellProject:
    return shell_project(tmp_path)


def command(project: ShellProject, text: str) -> Facts:
    return Facts(
        tool="run_shell",
        risk="high",
        root=str(project.root),
        home=str(project.home),
        anything=True,
        shell=project.analyse(text),
    )


def named(project: ShellProject, text: str) -> tuple[str, ...]:
    facts, policy = command(project, text), Policy(RuleSet())
    return missing_approval(facts, policy.consider(facts, 0.0), policy, 0.0).rules


def runs(project: ShellProject, text: str, entries: tuple[str, ...]) -> bool:
    policy = Policy(rules_of_claude({"allow": list(entries)}, "user", "--allow"))
    return policy.consider(command(project, text), 0.0).decision == "allow"


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("touch z", ("Bash(touch z)",)),
        ("ls && touch z", ("Bash(touch z)",)),
        ("touch z; ls; touch z", ("Bash(touch z)",)),
        ("touch a && mkdir b", ("Bash(touch a)", "Bash(mkdir b)")),
        ("ls && touch 'two words'", ("Bash(touch 'two words')",)),
    ],
)
def test_WALK_8_a_line_of_commands_is_allowed_by_a_rule_for_each(
    project: ShellProject, text: str, entries: tuple[str, ...]
) -> None:
    assert named(project, text) == entries
    assert runs(project, text, entries)
    assert not runs(project, f"{text} && rm z", entries)
    assert not runs(project, "touch other", entries)


@pytest.mark.parametrize(
    "text",
    ["ls && touch $X", "touch z > ~/.bashrc", "rm -rf / && touch z", "ls && touch '*'", "if touch z; then"],
)
def test_WALK_8_no_rule_is_named_where_none_would_be_exact(project: ShellProject, text: str) -> None:
    assert named(project, text) == ()


def test_tests_that_were_skipped_name_the_way_that_saves_a_rule(project: ShellProject) -> None:
    tests = Facts(
        tool="run_tests",
        risk="high",
        root=str(project.root),
        home=str(project.home),
        anything=True,
        argv=("python3", "-m", "pytest"),
        effect="it runs the project's tests",
    )
    policy = Policy(RuleSet())
    verdict = policy.consider(tests, 0.0)
    said = skipped_line(missing_approval(tests, verdict, policy, 0.0))
    assert said.startswith("Skipped, needs approval: it runs the project's tests. Run buddy in this folder")
    policy.learn(verdict.rules_to_save)
    assert policy.consider(tests, 0.0).decision == "allow"


def test_a_call_that_no_rule_covers_says_so(project: ShellProject) -> None:
    missing = MissingApproval("it does odd things", "", ())
    assert skipped_line(missing).endswith("it does odd things. Only buddy in a terminal can ask.")
