"""Rules and modes for calls on another machine: what holds here does not hold there."""

from __future__ import annotations

from typing import Any

import pytest

from buddy.safety.paths import Located
from buddy.safety.policy.decide import ASK, MODES, Mode, judge
from buddy.safety.policy.facts import Facts
from buddy.safety.policy.rules import Rule, RuleSet, holds_in, rules_for_session, rules_to_save
from buddy.safety.policy.rules_loading import as_table, rules_of_tables
from buddy.safety.shell.result import Analysis, Subcommand

ROOT = "/srv/app"


def located(path: str, *, inside: bool = True, secret: str = "", protected: str = "") -> Located:
    return Located(path, path, path, inside, path, protected, secret)


def command(text: str = "make test", **more: Any) -> Facts:
    part = Subcommand(tuple(text.split()), True, "make runs things", folder=ROOT)
    shell = Analysis(text, "ask", "make runs things", True, (part,), **more)
    return Facts(
        "run_shell",
        "high",
        ROOT,
        "/home/me",
        anything=True,
        shell=shell,
        category="shell",
        folder=located(ROOT),
        target="box",
    )


def edit(path: str = f"{ROOT}/a.py", **more: Any) -> Facts:
    return Facts("edit_file", "medium", ROOT, "/home/me", writes=(located(path, **more),), target="box")


def read(path: str = f"{ROOT}/a.py", **more: Any) -> Facts:
    return Facts("read_file", "low", ROOT, "/home/me", reads=(located(path, **more),), target="box")


def decide(facts: Facts, mode: Mode = "ask", *rules: Rule) -> str:
    return judge(facts, mode, RuleSet(rules), (), ASK, trusted=True, now=0).decision


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode not in ("plan", "yolo")])
def test_commands_and_edits_ask_in_every_mode_but_yolo(mode: Mode) -> None:
    assert decide(command(), mode) == "ask"
    assert decide(edit(), mode) == "ask"
    assert decide(read(), mode) == "allow"
    assert decide(read("/etc/x", inside=False), mode) == "ask"
    assert decide(read(f"{ROOT}/.env", secret="secret"), mode) == "ask"


def test_plan_mode_denies_them_and_yolo_runs_them() -> None:
    assert [decide(facts, "plan") for facts in (command(), edit(), read())] == ["deny", "deny", "allow"]
    assert [decide(facts, "yolo") for facts in (command(), edit())] == ["allow", "allow"]


def test_the_floor_holds_over_there_too() -> None:
    assert decide(command("rm -rf /", catastrophic="it deletes everything"), "yolo") == "ask"
    assert decide(edit(f"{ROOT}/.git/hooks/x", protected="git runs it"), "yolo") == "ask"


@pytest.mark.parametrize("origin", ["user", "saved", "session"])
def test_an_allow_rule_without_a_target_holds_on_this_machine_only(origin: Any) -> None:
    make = Rule("shell", "allow", origin, argv=(("make",),), open_end=True)
    edits = Rule("edit", "allow", origin, path="**")
    assert decide(command(), "ask", make) == "ask"
    assert decide(edit(), "ask", edits) == "ask"


@pytest.mark.parametrize(("target", "answer"), [("box", "allow"), ("*", "allow"), ("other", "ask")])
def test_an_allow_rule_holds_on_its_target(target: str, answer: str) -> None:
    make = Rule("shell", "allow", "user", argv=(("make",),), open_end=True, target=target)
    assert decide(command(), "ask", make) == answer


def test_a_rule_for_a_target_allows_nothing_here() -> None:
    here = Facts("edit_file", "medium", ROOT, "/home/me", writes=(located(f"{ROOT}/a.py"),))
    assert decide(here, "ask", Rule("edit", "allow", "user", path="**", target="box")) == "ask"


@pytest.mark.parametrize("decision", ["deny", "ask"])
def test_a_rule_that_tightens_holds_everywhere(decision: Any) -> None:
    rule = Rule("shell", decision, "user", argv=(("make",),), open_end=True)
    assert decide(command(), "yolo", rule) == decision
    assert holds_in(Rule("shell", decision, "user", target="other"), command()) is False


def test_a_project_allows_nothing_over_there() -> None:
    rule = Rule("shell", "allow", "project", argv=(("make",),), open_end=True, target="box")
    assert decide(command(), "ask", rule) == "ask"


def test_remembered_answers_name_their_target() -> None:
    for rules in (rules_for_session(edit()), rules_for_session(command()), rules_to_save(command())):
        assert rules
        assert {rule.target for rule in rules} == {"box"}
        assert all("on box" in rule.shown for rule in rules)


def test_a_rule_with_a_target_is_saved_and_read_again() -> None:
    rule = Rule("shell", "allow", "saved", argv=(("make",),), project=ROOT, folder=ROOT, target="box")
    loaded = rules_of_tables([as_table(rule)], "saved", "settings.toml")
    assert loaded.errors == ()
    assert loaded.rules == (Rule(**{**_fields(rule), "source": loaded.rules[0].source}),)


@pytest.mark.parametrize(
    "table",
    [
        {"tool": "fetch", "host": "example.org"},
        {"tool": "sandbox", "host": "example.org"},
        {"tool": "shell", "argv": ["make"], "sandbox": "off"},
    ],
)
def test_a_target_of_a_rule_that_has_none_is_an_error(table: dict[str, Any]) -> None:
    loaded = rules_of_tables([{**table, "decision": "allow", "target": "box"}], "user", "r.toml")
    assert loaded.rules == ()
    assert "target means nothing here" in loaded.errors[0]


def _fields(rule: Rule) -> dict[str, Any]:
    return {name: getattr(rule, name) for name in rule.__struct_fields__}
