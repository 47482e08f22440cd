"""Rules and grants hold for the program, arguments, folder and project they were shown with; a folder
outside the workspace is a read outside for the whole call."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from buddy.agent.tool import ToolError
from buddy.safety.paths import hash_regular, locate
from buddy.safety.policy.approval_text import coverage
from buddy.safety.policy.decide import ASK, MODES, Grant, Mode, Verdict, judge
from buddy.safety.policy.facts import Facts
from buddy.safety.policy.rules import Rule, RuleSet, rules_for_session, rules_to_save
from buddy.safety.policy.rules_loading import as_table, rules_of_tables
from buddy.safety.shell.scripts import MAX_SCRIPT_BYTES
from tests.support.shell_project import ShellProject, shell_facts, shell_project


@pytest.fixture
def project(tmp_path: Path) -> ShellProject:
    return shell_project(tmp_path)


def decide(facts: Facts, *rules: Rule, mode: Mode = "ask", grants: tuple[Rule, ...] = ()) -> Verdict:
    remembered = tuple(Grant(rule, None) for rule in grants)
    return judge(facts, mode, RuleSet(rules), remembered, ASK, trusted=True, now=0.0)


def edit(project: ShellProject, *names: str, **more: Any) -> Facts:
    writes = tuple(locate(project.boundary, name) for name in names)
    return Facts("edit_file", "medium", str(project.root), str(project.home), writes=writes, **more)


@pytest.mark.parametrize(
    "command",
    [
        "rg -a --max-depth 1 DEPLOY",
        "ls",
        "git log -p",
        "cat x",
        "du -a",
        "find .",
        "pwd",
        "grep -r x .",
        "wc *",
    ],
)
@pytest.mark.parametrize("mode", ["plan", "ask", "edit", "auto"])
def test_RU_H8_a_command_that_starts_outside_the_workspace_asks(
    project: ShellProject, command: str, mode: Mode
) -> None:
    verdict = decide(shell_facts(project, command, cwd="../other"), mode=mode)

    assert verdict.decision == ("deny" if mode == "plan" and verdict.column == "high" else "ask")


def test_RU_H8_the_reason_names_the_folder(project: ShellProject) -> None:
    verdict = decide(shell_facts(project, "ls", cwd="../other"))

    assert verdict.reason.endswith(f"it runs in {project.root.parent}/other")


@pytest.mark.parametrize("cwd", ["/proc/1", "/proc/self", "/sys", "/dev/shm", "../home/.ssh", "../home/.aws"])
def test_RU_H8_a_folder_of_secrets_or_processes_asks_whatever_rules_say(
    project: ShellProject, cwd: str
) -> None:
    facts = shell_facts(project, "ls", cwd=cwd)
    rules = (Rule("shell", "allow", "user"), Rule("shell", "allow", "user", folder=facts.folder.real))  # pyright: ignore[reportOptionalMemberAccess]
    verdict = decide(facts, *rules)

    assert (verdict.decision, verdict.decided_by) == ("ask", "place")
    assert (verdict.rules_to_save, verdict.rules_for_session) == ((), ())


def test_RU_H8_links_and_the_home_sign_lead_outside_too(project: ShellProject) -> None:
    (project.root / "way").symlink_to(project.root.parent / "other")

    for cwd in ("way", "~", "src/../..", "/", "/tmp", "way/."):
        assert decide(shell_facts(project, "ls", cwd=cwd)).decision == "ask", cwd
    for cwd in ("", ".", "src", "src/sub", "src/.."):
        assert decide(shell_facts(project, "ls", cwd=cwd)).decision == "allow", cwd


def test_RU_H8_what_the_sandbox_would_run_asks_outside(project: ShellProject) -> None:
    inside = shell_facts(project, "make", sandboxed=True)
    outside = shell_facts(project, "make", cwd="../other", sandboxed=True)

    assert (decide(inside, mode="auto").decision, decide(outside, mode="auto").decision) == ("allow", "ask")


@pytest.mark.parametrize(
    "command", ["make", "./build.sh", "python3 x.py", "bash x.sh", "echo x > f", "A=b make"]
)
def test_RU_H10_an_answer_holds_in_its_folder_alone(project: ShellProject, command: str) -> None:
    rules = rules_to_save(shell_facts(project, command))

    assert decide(shell_facts(project, command), *rules).decision == "allow"
    assert decide(shell_facts(project, f"{command} "), *rules).decision == "allow"
    for cwd in ("src", "../other", "/tmp", "~"):
        assert decide(shell_facts(project, command, cwd=cwd), *rules).decision == "ask", cwd


def test_RU_H10_a_cd_counts_as_the_folder(project: ShellProject) -> None:
    rules = rules_to_save(shell_facts(project, "cd src && make"))

    assert [rule.folder for rule in rules] == [f"{project.root}/src"]
    assert decide(shell_facts(project, "make", cwd="src"), *rules).decision == "allow"
    assert decide(shell_facts(project, "cd build && make"), *rules).decision == "ask"
    assert decide(shell_facts(project, "make"), *rules).decision == "ask"


def test_RU_H10_an_answer_for_a_folder_outside_names_it(project: ShellProject) -> None:
    outside = shell_facts(project, "make", cwd="../other")
    rules = rules_to_save(outside)

    assert decide(outside, *rules).decision == "allow"
    assert decide(shell_facts(project, "make"), *rules).decision == "ask"
    assert coverage(rules, outside) == f"exactly `make`, in this project run in {project.root.parent}/other"


def test_RU_H10_a_rule_without_a_folder_holds_inside_the_workspace_only(project: ShellProject) -> None:
    rule = Rule("shell", "allow", "user", argv=(("make",),))

    assert decide(shell_facts(project, "make", cwd="src"), rule).decision == "allow"
    assert decide(shell_facts(project, "make", cwd="../other"), rule).decision == "ask"
    assert (
        decide(shell_facts(project, "make", cwd="../other"), Rule("shell", "deny", "user")).decision == "deny"
    )


@pytest.mark.parametrize("command", ["make", "./build.sh", "echo x > f", "pytest -q", "cd src && make"])
def test_RU_H11_a_saved_rule_never_holds_in_another_project(tmp_path: Path, command: str) -> None:
    one, two = shell_project(tmp_path / "one"), shell_project(tmp_path / "two")
    rules = rules_to_save(shell_facts(one, command))

    assert decide(shell_facts(one, command), *rules).decision == "allow"
    assert decide(shell_facts(two, command), *rules).decision == "ask"


def test_RU_H11_tools_that_are_allowed_by_name_belong_to_their_project(tmp_path: Path) -> None:
    one, two = shell_project(tmp_path / "one"), shell_project(tmp_path / "two")
    for name, risk in (("delegate", "medium"), ("mcp__git__push", "high")):
        here, there = (
            Facts(name, risk, str(project.root), str(project.home), anything=risk == "high")  # pyright: ignore[reportArgumentType]
            for project in (one, two)
        )
        rules = rules_to_save(here)
        assert (decide(here, *rules).decision, decide(there, *rules).decision) == ("allow", "ask"), name


def test_RU_H11_a_rule_of_a_project_holds_in_its_worktrees_and_not_the_other_way(
    project: ShellProject,
) -> None:
    tree = project.root.parent / "tree"
    for top in (project.root, tree):
        (top / "src").mkdir(parents=True, exist_ok=True)
        (top / "src" / "x.sh").write_text("echo 1\n")
    here = shell_facts(project, "bash x.sh", cwd="src")
    moved = msgspec.structs.replace(project, root=tree)
    there = msgspec.structs.replace(shell_facts(moved, "bash x.sh", cwd="src"), main=str(project.root))

    assert rules_to_save(here)[0].files
    assert decide(there, *rules_to_save(here)).decision == "allow"
    assert decide(there, *rules_to_save(there)).decision == "allow"
    assert decide(here, *rules_to_save(there)).decision == "ask"


def test_RU_H11_a_written_rule_may_name_a_project_and_a_folder(project: ShellProject, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(project.root)
    tables = [
        {"tool": "shell", "argv": ["make", "*"], "decision": "allow", "project": str(tmp_path / "link")},
        {"tool": "shell", "argv": ["tox"], "decision": "allow", "folder": "src"},
    ]
    found = rules_of_tables(tables, "user", "rules")
    other = shell_project(tmp_path / "other-project")

    assert (found.errors, found.rules[0].project) == ((), str(project.root))
    assert decide(shell_facts(project, "make all", cwd="src"), *found.rules).decision == "allow"
    assert decide(shell_facts(other, "make all"), *found.rules).decision == "ask"
    assert decide(shell_facts(other, "tox", cwd="src"), *found.rules).decision == "allow"
    assert decide(shell_facts(other, "tox"), *found.rules).decision == "ask"


def test_RU_H11_a_rule_that_denies_in_a_folder_holds_where_the_folder_is_unknown(
    project: ShellProject,
) -> None:
    deny = Rule("shell", "deny", "user", argv=(("make",),), folder=f"{project.root}/src")

    assert decide(shell_facts(project, "make", cwd="src"), deny).decision == "deny"
    assert decide(shell_facts(project, "make"), deny).decision == "ask"
    assert decide(shell_facts(project, "cd $X && make"), deny).decision == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "python3 -m pytest",
        "python3 x.py",
        "bash x.sh",
        "node x.js",
        "echo x > f",
        "make 2>&1",
        "X=1 make",
    ],
)
def test_RU_A1_daily_commands_can_be_remembered_exactly(project: ShellProject, command: str) -> None:
    facts = shell_facts(project, command)
    always, session = rules_to_save(facts), rules_for_session(facts)
    saved = rules_of_tables([as_table(rule) for rule in always], "saved", "settings")

    assert saved.errors == ()
    assert decide(facts, *saved.rules).decision == "allow"
    assert decide(facts, grants=session).decision == "allow"
    assert coverage(always, facts).startswith("exactly `")
    for other in (f"{command} x", f"{command}; rm -rf src", f"{command} > g", f"FOO=1 {command}"):
        assert decide(shell_facts(project, other), *always).decision == "ask", other


def test_RU_A1_a_script_of_the_workspace_is_remembered_with_its_content(project: ShellProject) -> None:
    (project.root / "x.py").write_text("print(1)\n")
    first = shell_facts(project, "python3 x.py")
    rules = rules_to_save(first)
    (project.root / "x.py").write_text("print(2)\n")
    second = shell_facts(project, "python3 x.py")

    assert rules[0].files == ((f"{project.root}/x.py", hashlib.sha256(b"print(1)\n").hexdigest()),)
    assert coverage(rules, first) == "exactly `python3 x.py`, in this project, while x.py is unchanged"
    assert (decide(first, *rules).decision, decide(second, *rules).decision) == ("allow", "ask")


@pytest.mark.parametrize(
    "command", ["./x.sh", "bash x.sh a", "bash -e x.sh", "bash x.sh > log", "sh src/../x.sh"]
)
def test_RU_A1_every_way_to_run_a_script_is_noticed(project: ShellProject, command: str) -> None:
    script = project.root / "x.sh"
    script.write_text("echo 1\n")
    rules = rules_to_save(shell_facts(project, command))
    assert decide(shell_facts(project, command), *rules).decision == "allow"
    script.write_text("echo 2\n")

    assert decide(shell_facts(project, command), *rules).decision == "ask"


def test_RU_A1_a_session_covers_the_edits_of_the_workspace(project: ShellProject) -> None:
    facts = edit(project, "top.py")
    grants = rules_for_session(facts)

    assert coverage(grants, facts) == "edits of files in this project (Shift+Tab: mode edit)"
    for name in ("top.py", "src/main.py", "new/x"):
        assert decide(edit(project, name), grants=grants).decision == "allow", name
    for name in (".env", "../other/x", ".git/config", "buddy.toml", "src/.env", "~/x"):
        assert decide(edit(project, name), grants=grants).decision == "ask", name


@pytest.mark.parametrize("name", ["git_commit", "git_checkout", "git_stash", "git_add"])
def test_RU_A1_edits_of_a_session_are_no_git_command(project: ShellProject, name: str) -> None:
    grants = rules_for_session(edit(project, "top.py"))
    call = msgspec.structs.replace(edit(project, "."), tool=name, category="git")

    assert decide(call, grants=grants).decision == "ask"
    assert decide(call, grants=rules_for_session(call)).decision == "allow"


@pytest.mark.parametrize("mode", MODES)
def test_RU_H9_run_tests_is_a_high_risk_without_a_sandbox(project: ShellProject, mode: Mode) -> None:
    place, argv = locate(project.boundary, "."), ("make", "test")
    facts = Facts(
        "run_tests", "high", str(project.root), str(project.home), category="shell", folder=place, argv=argv
    )

    assert decide(facts, mode=mode).decision == {"plan": "deny", "yolo": "allow"}.get(mode, "ask")


def test_RU_H9_tests_are_remembered_with_their_command_and_folder(project: ShellProject) -> None:
    def run(*argv: str, cwd: str = ".") -> Facts:
        place = locate(project.boundary, cwd)
        return Facts(
            tool="run_tests",
            risk="high",
            root=str(project.root),
            home=str(project.home),
            category="shell",
            folder=place,
            argv=argv,
            runs_tests=True,
        )

    rules = rules_to_save(run("pytest", "-rfE"))
    covered = "every run of `pytest -rfE` in this project, whatever the tests are then"
    assert coverage(rules, run("pytest", "-rfE")) == covered
    assert decide(run("pytest", "-rfE"), *rules).decision == "allow"
    assert decide(run("pytest", "-rfE", "--", "x"), *rules).decision == "ask"
    assert decide(run("make", "install"), *rules).decision == "ask"
    assert decide(run("pytest", "-rfE", cwd="src"), *rules).decision == "ask"
    saved = rules_of_tables([as_table(rule) for rule in rules], "saved", "s").rules
    assert decide(run("pytest", "-rfE"), *saved).decision == "allow"
    assert decide(run("pytest", "-rfE"), Rule("run_tests", "allow", "user")).decision == "allow"


@pytest.mark.parametrize("size", [5_000_000, 60_000_000])
def test_the_end_of_a_long_script_counts_too(tmp_path: Path, size: int) -> None:
    script = tmp_path / "long.sh"
    script.write_bytes(b"#" * size)
    before = hash_regular(str(script), MAX_SCRIPT_BYTES)
    with script.open("ab") as file:
        file.write(b"\ntouch OWNED\n")
    assert hash_regular(str(script), MAX_SCRIPT_BYTES) != before


def test_a_script_over_the_limit_has_no_digest(tmp_path: Path) -> None:
    script = tmp_path / "long.sh"
    with script.open("wb") as file:
        file.truncate(MAX_SCRIPT_BYTES + 1)
    with pytest.raises(ToolError, match="over"):
        hash_regular(str(script), MAX_SCRIPT_BYTES)
    assert len(hash_regular(str(script), MAX_SCRIPT_BYTES + 1)) == 64
