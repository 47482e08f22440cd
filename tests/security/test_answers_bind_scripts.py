"""A session answer to a command that names a script holds while the script is the one that was shown."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from buddy.safety.paths import locate
from buddy.safety.policy.approval_text import coverage
from buddy.safety.policy.decide import ASK, Decision, Grant, judge
from buddy.safety.policy.facts import Facts
from buddy.safety.policy.rules import Rule, RuleSet, rules_for_session, rules_to_save
from buddy.safety.policy.session import Policy
from tests.support.shell_project import ShellProject, shell_facts, shell_project


@pytest.fixture
def project(tmp_path: Path) -> ShellProject:
    found = shell_project(tmp_path)
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
def test_ATTACK_F6_a_session_answer_ends_when_the_script_changes(project: ShellProject, command: str) -> None:
    facts = shell_facts(project, command)
    granted = rules_for_session(facts)

    assert granted
    assert decide(facts, granted) == "allow"
    assert "while s.sh is unchanged" in coverage(granted, facts)
    (project.root / "s.sh").write_text("echo another\n")
    assert decide(shell_facts(project, command), granted) == "ask"
    (project.root / "s.sh").write_text("echo shown\n")
    assert decide(shell_facts(project, command), granted) == "allow"


@pytest.mark.parametrize(
    "command", ["bash new.sh", "./new.sh", "python3 -W ignore new.sh", "bash new.sh > log"]
)
def test_ATTACK_F6_an_answer_given_before_a_script_is_there_allows_no_script(
    project: ShellProject, command: str
) -> None:
    facts = shell_facts(project, command)
    session, saved = rules_for_session(facts), rules_to_save(facts)

    assert (decide(facts, session), decide(facts, saved)) == ("allow", "allow")
    (project.root / "new.sh").write_text("echo written afterwards\n")
    later = shell_facts(project, command)
    assert (decide(later, session), decide(later, saved)) == ("ask", "ask")


@pytest.mark.parametrize("command", ["bash s.sh", "bash s.sh > log"])
def test_ATTACK_F6_in_a_sandbox_a_script_may_change_and_stays_in_the_sandbox(
    project: ShellProject, command: str
) -> None:
    facts = shell_facts(project, command, sandboxed=True)
    granted = rules_for_session(facts)

    assert "unchanged" not in coverage(granted, facts)
    assert coverage(granted, facts).endswith(", in the sandbox")
    (project.root / "s.sh").write_text("echo another\n")
    assert decide(shell_facts(project, command, sandboxed=True), granted) == "allow"
    assert decide(shell_facts(project, command), granted) == "ask"
    assert rules_to_save(facts)[0].files


def test_ATTACK_F6_an_answer_to_run_tests_says_that_it_covers_every_run(project: ShellProject) -> None:
    place = locate(project.boundary, ".")
    facts = Facts(
        tool="run_tests",
        risk="high",
        root=str(project.root),
        home=str(project.home),
        category="shell",
        folder=place,
        argv=("pytest",),
        runs_tests=True,
    )
    granted = rules_for_session(facts)

    for rules in (granted, rules_to_save(facts)):
        assert coverage(rules, facts) == "every run of `pytest` in this project, whatever the tests are then"
    assert decide(facts, granted) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "nice ./s.sh",
        "timeout 5 ./s.sh",
        "time ./s.sh",
        "command ./s.sh",
        "env FOO=1 ./s.sh",
        "env -i ./s.sh",
        "nohup ./s.sh",
        "setsid ./s.sh",
        "stdbuf -oL ./s.sh",
        "strace -f ./s.sh",
        "flock lock ./s.sh",
        "sh -c ./s.sh",
        "bash -c 'source s.sh'",
        "bash -c 'make; ./s.sh a'",
        "script -c ./s.sh",
        "exec ./s.sh",
        "find . -name '*.py' -exec ./s.sh {} +",
        "node -r ./s.sh a",
        "node --import ./s.sh a",
        "go run s.sh",
        "uv run s.sh",
        "npx tsx s.sh",
        "awk -f s.sh a",
        "make -f s.sh",
        "poetry run ./s.sh",
        "bundle exec ./s.sh",
        "git bisect run ./s.sh",
        "docker run -v .:/w image ./s.sh",
        "tclsh s.sh",
        "pwsh s.sh",
        "swift s.sh",
        "xvfb-run -a ./s.sh",
    ],
)
def test_ATTACK3_an_answer_binds_the_script_behind_a_wrapper(project: ShellProject, command: str) -> None:
    (project.root / "s.sh").chmod(0o755)
    facts = shell_facts(project, command)
    granted = rules_to_save(facts)

    assert granted
    assert decide(facts, granted) == "allow"
    assert "s.sh" in coverage(granted, facts).rpartition("while ")[2]
    (project.root / "s.sh").write_text("echo another\n")
    assert decide(shell_facts(project, command), granted) == "ask"


def test_ATTACK3_an_answer_binds_a_module_of_the_folder(project: ShellProject) -> None:
    (project.root / "mod.py").write_text("print(1)\n")
    facts = shell_facts(project, "python3 -m mod")
    granted = rules_to_save(facts)

    assert decide(facts, granted) == "allow"
    (project.root / "mod.py").write_text("print(2)\n")
    assert decide(shell_facts(project, "python3 -m mod"), granted) == "ask"
    assert not rules_to_save(shell_facts(project, "python3 -m pytest"))[0].files


@pytest.mark.parametrize(
    ("command", "path"), [("python3 -m pytest", "pytest.py"), ("python3 -m http.server", "http/server.py")]
)
def test_ATTACK3_an_answer_covers_no_module_that_came_since(
    project: ShellProject, command: str, path: str
) -> None:
    granted = rules_to_save(shell_facts(project, command))

    assert decide(shell_facts(project, command), granted) == "allow"
    (project.root / path).parent.mkdir(exist_ok=True)
    (project.root / path).write_text("evil\n")
    assert decide(shell_facts(project, command), granted) == "ask"


@pytest.mark.parametrize("command", ["nice ./s.sh", "X=1 nice ./s.sh"])
def test_ATTACK3_an_answer_of_an_older_version_covers_no_script(project: ShellProject, command: str) -> None:
    (project.root / "s.sh").chmod(0o755)
    facts = shell_facts(project, command)
    unbound = tuple(msgspec.structs.replace(rule, files=()) for rule in rules_to_save(facts))

    assert unbound
    assert decide(facts, unbound) == "ask"


@pytest.mark.parametrize("command", ["pushd src; ../s.sh", "pushd src; bash ../s.sh", "popd; nice ./s.sh"])
def test_ATTACK3_no_answer_for_a_script_in_an_unknown_folder_is_kept(
    project: ShellProject, command: str
) -> None:
    assert rules_to_save(shell_facts(project, command)) == ()


@pytest.mark.parametrize(
    "command", ["pytest a", "make", "ruff check src/main.py", "cp a c", "python3 s.sh a"]
)
def test_ATTACK3_an_answer_binds_no_data(project: ShellProject, command: str) -> None:
    granted = rules_to_save(shell_facts(project, command))

    for path in ("a", "src/main.py"):
        (project.root / path).write_text("other\n")
    assert decide(shell_facts(project, command), granted) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "echo '.shell id' | sqlite3 x.db",
        "cat b | sqlite3 x.db",
        "sqlite3 x.db < b",
        "sqlite3 x.db <<< '.shell id'",
        "sqlite3 x.db <<'E'\n.shell id\nE",
        "sqlite3 x.db 0< b",
        "sqlite3 x.db <&3",
        "ls | sort | sqlite3 x.db",
        "make; cat b | sqlite3 x.db",
    ],
)
@pytest.mark.parametrize("answered", ["sqlite3 x.db", "sqlite3 x.db < a", "cat a | sqlite3 x.db", "make"])
def test_ATTACK3_an_answer_covers_no_other_input(project: ShellProject, command: str, answered: str) -> None:
    facts = shell_facts(project, answered)
    for_session, for_good = Policy(RuleSet()), Policy(RuleSet())
    for_session.grant(rules_for_session(facts))
    for_good.learn(rules_to_save(facts))
    for state in (for_session, for_good):
        decisions = [
            judge(one, "ask", state.rules, state.grants, ASK, trusted=True, now=0.0).decision
            for one in (facts, shell_facts(project, command))
        ]
        assert decisions == ["allow", "ask"]


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("git apply < a", "exactly `git apply < a`, in this project, while a is unchanged"),
        ("cat a | patch -p1", "exactly `cat a | patch -p1`, in this project, while a is unchanged"),
        ("sort a b | ssh host", "exactly `sort a b | ssh host`, in this project, while a, b is unchanged"),
        ("echo yes | make", "exactly `echo yes | make`, in this project"),
        ("make | tee log", "exactly `make | tee log`, in this project"),
        ("make 2>&1 | tail -5", "exactly `make`, in this project"),
    ],
)
def test_ATTACK3_an_answer_to_a_command_with_input_holds_for_the_whole_line(
    project: ShellProject, command: str, shown: str
) -> None:
    facts = shell_facts(project, command)
    granted = rules_to_save(facts)

    assert coverage(granted, facts) == shown
    assert decide(facts, granted) == "allow"
    (project.root / "a").write_text("another\n")
    assert decide(shell_facts(project, command), granted) == ("ask" if "unchanged" in shown else "allow")


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("node ./mod", "mod.js"),
        ("node mod", "mod.cjs"),
        ("node ./mod a", "mod.mjs"),
        ("node ./pkg", "pkg/index.js"),
        ("node pkg", "pkg/package.json"),
        ("tsx ./mod", "mod.ts"),
        ("python3 pkg", "pkg/__main__.py"),
        ("python3 -B pkg a", "pkg/__main__.py"),
        ("python3 -mmod", "mod.py"),
        ("python3 -um mod", "mod.py"),
        ("python3 -Im pkg.mod", "pkg/mod.py"),
        ("node --require=./mod.js -p 1", "mod.js"),
        ("uv run --script mod.py", "mod.py"),
        ("gdb -x mod.sh", "mod.sh"),
        ("vim -S mod.sh notes", "mod.sh"),
        ("node -r./mod.js a", "mod.js"),
        ("bash --rcfile mod.sh -i -c true", "mod.sh"),
        ("bash --init-file=mod.sh -i -c true", "mod.sh"),
        ("BASH_ENV=mod.sh bash -c true", "mod.sh"),
        ("ENV=./mod.sh sh -i -c true", "mod.sh"),
        ("PYTHONSTARTUP=mod.py python3 -i -c 1", "mod.py"),
        ("LD_PRELOAD=./mod.so make", "mod.so"),
        ("NODE_OPTIONS='--require ./mod.js' npm test", "mod.js"),
        ("GIT_EXTERNAL_DIFF=./run git diff", "run"),
        ("GIT_SSH_COMMAND='sh mod.sh' git fetch", "mod.sh"),
        ("CC=./run make", "run"),
        ("CC='sh mod.sh' make", "mod.sh"),
        ("make CC=./run", "run"),
        ("make -fmod.mk", "mod.mk"),
        ("make --file=mod.mk", "mod.mk"),
        ("awk -fmod.awk a", "mod.awk"),
        ("gawk -i mod.awk 1 a", "mod.awk"),
        ("git -c core.pager=./run -p log -1", "run"),
        ("git -c core.pager='sh mod.sh' -p log -1", "mod.sh"),
        ("git -c alias.x='!./run' x", "run"),
        ("git difftool -y -x ./run", "run"),
        ("git fetch --upload-pack=./run src", "run"),
        ("tar xf a.tar --to-command=./run", "run"),
        ("tar -I ./run -xf a.tar", "run"),
        ("tar -I 'sh mod.sh' -xf a.tar", "mod.sh"),
        ("rsync -e ./run a host:b", "run"),
        ("ssh -o ProxyCommand=./run host", "run"),
        ("env BASH_ENV=./run bash -c true", "run"),
    ],
)
def test_ATTACK_8_5_an_answer_binds_every_script_that_the_command_names(
    project: ShellProject, command: str, path: str
) -> None:
    script = project.root / path
    script.parent.mkdir(exist_ok=True)
    script.write_text("shown\n")
    script.chmod(0o755 if path == "run" else 0o644)
    facts = shell_facts(project, command)
    granted, saved = rules_for_session(facts), rules_to_save(facts)

    assert path in coverage(granted, facts).rpartition("while ")[2]
    assert (decide(facts, granted), decide(facts, saved)) == ("allow", "allow")
    script.write_text("another\n")
    later = shell_facts(project, command)
    assert (decide(later, granted), decide(later, saved)) == ("ask", "ask")


@pytest.mark.parametrize(
    ("command", "path"),
    [("node ./mod", "mod.js"), ("node pkg", "pkg.js"), ("python3 src", "src/__main__.py")],
)
def test_ATTACK_8_4_an_answer_covers_no_file_that_the_interpreter_finds_since(
    project: ShellProject, command: str, path: str
) -> None:
    facts = shell_facts(project, command)
    granted = rules_for_session(facts)
    (project.root / path).write_text("written afterwards\n")

    assert decide(shell_facts(project, command), granted) == "ask"


@pytest.mark.parametrize("command", ["NAME=a make", "make NAME=a", "tool --input=a", "DATA=./b.csv make"])
def test_what_a_command_is_given_as_data_is_not_bound(project: ShellProject, command: str) -> None:
    (project.root / "b.csv").write_text("1,2\n")
    assert "while" not in coverage(
        rules_for_session(shell_facts(project, command)), shell_facts(project, command)
    )


@pytest.mark.parametrize(
    "command", ["> new", "2> new", "< a", "ls; > new", "> new | cat", "> new < a", ">> a"]
)
def test_ATTACK_8_2_a_redirection_without_a_command_is_asked_about(
    project: ShellProject, command: str
) -> None:
    facts = shell_facts(project, command)

    assert decide(facts, ()) == "ask"
    assert rules_for_session(facts) == rules_to_save(facts) == ()


@pytest.mark.parametrize(
    "command", ["pushd src; BASH_ENV=../s.sh bash -c true", "pushd src; make CC=../s.sh"]
)
def test_ATTACK_8_5_no_answer_for_a_named_script_in_an_unknown_folder_is_kept(
    project: ShellProject, command: str
) -> None:
    assert rules_to_save(shell_facts(project, command)) == ()
