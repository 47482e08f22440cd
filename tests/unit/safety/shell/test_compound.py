"""Subshells, groups, ifs and loops: approved when all of it reads, else judged as before."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from buddy.safety.paths import Boundary
from buddy.safety.shell.compound import read_sequence
from buddy.safety.shell.context import CommandPlace
from buddy.safety.shell.expansion import expand
from buddy.safety.shell.result import UnclearError
from buddy.safety.shell.tree_sitter import Grammar
from tests.bench.shell_fuzz import Bash
from tests.support.shell_project import ShellProject, shell_project

READS = """
(cd src && ls)
(cd src && git log -1) && ls
(cd src; ls) | wc -l
ls | (cat; pwd)
{ ls; pwd; }
{ ls src; cat a; } | head -3
for f in *.json; do wc -l "$f"; done
for f in src/*.py a; do echo "== $f"; head -3 "$f"; done
for f in a b; do cat $f | wc -l; done | sort
for d in src docs; do (cd "$d" && ls); done
for i in 1 2 3; do echo $i; done
for a in a b; do for s in x y; do grep -c "$s" "$a"; done; done
for f in a; do [ -f "$f" ] && cat "$f"; done
for f in a⏎do⏎  cat "$f" # why⏎done
if [ -f a ]; then cat a; fi
if [ -f a ]; then cat a; elif [ -f b ]; then cat b; else echo no; fi
if grep -q x f; then echo yes; fi && ls
ls | while read f; do echo "$f"; done
git log --oneline | while IFS= read -r line; do printf '%s\\n' "$line"; done
ls | while read -r f; do if [ -d "$f" ]; then echo "$f"; fi; done
cd src && for f in *.py; do wc -l "$f"; done
for f in a; do cat <<'X'⏎text⏎X⏎done
who -b
"""

MORE = r"""
(cd src && ls); cat ../secret
(cd ..; ls)
(cd src); cd ..; ls
{ cd src; }; ls
{ cd src; ls; }
for d in src ..; do ls "$d"; done
for f in .env; do cat "$f"; done
for f in .*; do cat "$f"; done
for f in a b; do rm "$f"; done
for f in a b; do sort "$f" -o "$f"; done
for f in -o; do sort a "$f" b; done
for f in a b; do uniq "$f" b; done
for f in -delete; do find . "$f"; done
for f in 'a b'; do cat $f; done
for f in '*'; do cat $f; done
for f in ''; do cat a $f; done
for f in a; do echo x > "$f"; done
for f in ./x; do $f; done
for f in a; do f=b; cat "$f"; done
for f in $X; do cat "$f"; done
for f in $(ls); do cat "$f"; done
for f; do cat "$f"; done
for f in a b > x; do cat "$f"; done
for PATH in .; do ls; done
for IFS in x; do ls; done
for _ in x; do ls; done
for f in a; do cat "$f"; done > x
for f in a; do cat "$f"; done 2> x
for f in a; do cd src; done
for f in a; do cat "$f"; done; cat "$f"
for ((i=0;i<3;i++)); do ls; done
for f in a; do cat "$f" & done
while true; do ls; done
while read f; do cat "$f"; done
while read f; do rm "$f"; done
ls | while read f; do printf "$f" .; ls; done
ls | while read f; do [ "$f" 'a[$(id)]' ]; done
ls | while read f; do [ ! "$f" x ]; done
ls | while read f; do test "$f" "$f"; done
ls | while read f g; do echo "$f"; done
ls | while read -a f; do echo "$f"; done
ls | while read -u 3 f; do echo "$f"; done
ls | while IFS=x read f; do echo "$f"; done
ls | while read f < b; do echo "$f"; done
ls | while read PATH; do ls; done
ls | while read f; do $f; done
ls | while read f && rm x; do echo "$f"; done
until false; do ls; done
if rm x; then ls; fi
if ls; then rm x; fi
if ls; then ls; else rm x; fi
if ls; then ls; elif rm x; then ls; fi
(ls; rm x)
(ls) > x
(ls) &
((1))
( (rm x) )
{ ls; rm x; }
((((((ls))))))
( ( ( ( ( ( ls ) ) ) ) ) )
ls | (rm x)
(find . ; echo .env) | xargs cat
{ find . -name '*.py'; echo .env; } | xargs cat
f() { ls; }
case x in x) ls;; esac
select f in a; do ls; done
(ls
(ls))
{ ls;
for f in a; do ls
for f in a; ls; done
for f in { {a,b} {; do ls; done
(cat <<X)
if ls; fi
if ls; then fi
()
{ }
ls && (
for f in a do ls; done
bash -c '(ls)'
pip install x
cd .. && ls
cd src | ls; cd ..; ls
(ls; cd ..)
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> ShellProject:
    return shell_project(tmp_path_factory.mktemp("compound"))


def test_compounds_that_only_read_run_without_a_question(project: ShellProject) -> None:
    lines = [line.replace("⏎", "\n") for line in READS.strip().split("\n")]
    assert {line: project.reason(line) for line in lines if not project.analyse(line).read_only} == {}


def test_compounds_that_may_do_more_are_asked_about(project: ShellProject) -> None:
    assert project.allowed(MORE) == []


def test_a_loop_over_too_much_is_asked_about(project: ShellProject) -> None:
    numbers = " ".join(str(number) for number in range(250))
    assert not project.analyse(f"for i in {numbers}; do echo $i; echo $i; done").read_only
    assert project.analyse("for i in 1 2 3; do for j in 1 2 3; do echo $i$j; done; done").read_only


def test_what_a_loop_deletes_is_still_seen_by_the_floor(project: ShellProject) -> None:
    assert project.analyse("for d in a; do rm -rf /; done").catastrophic
    assert project.analyse("(echo x > .git/hooks/pre-commit)").protected
    assert project.analyse("if true; then tee ~/.bashrc; fi").protected


@pytest.mark.parametrize(
    "command",
    [
        "echo $(id) > .git/hooks/x",
        'echo "$(id)" >> ~/.bashrc',
        "for f in $(ls); do echo x > .git/hooks/$f; done",
        "cat <(ls) >| .git/config",
        "[[ -f a ]] && echo x >.git/hooks/pre-commit",
        "echo x &> '.git/config' &",
        "echo $(id) >.git/config>x",
        "while :; do echo x >> ~/.ssh/authorized_keys; done",
        "bash -c 'echo x > .git/hooks/x'",
        "sh -c \"sh -c 'echo x > .git/config'\"",
        "eval 'echo x >.git/config'",
        "timeout 3 bash -c 'echo $(id) > .git/config'",
    ],
)
def test_a_protected_file_is_seen_behind_every_sign_that_writes(command: str, project: ShellProject) -> None:
    assert "is protected" in project.analyse(command).protected


@pytest.mark.parametrize(
    "command", ["echo $(id) > out", "[[ a > b ]] && ls > x", "echo $(cat < .git/config)"]
)
def test_other_files_are_not_taken_for_protected(command: str, project: ShellProject) -> None:
    assert project.analyse(command).protected == ""


@pytest.mark.parametrize(
    "command",
    [
        "(one a; two 'b c') | three",
        '{ one; two "$HOME"; }; three',
        "if one; then two; else three 1 2; fi; four",
        "for f in a b\ndo\n one x; done; two",
        "(one; (two; { three; }; ); )",
    ],
)
def test_both_parsers_see_what_bash_starts(command: str, tmp_path: Path) -> None:
    sequence = tuple(read_sequence(command).commands())
    assert Grammar().commands(command, compounds=True) == sequence
    project = shell_project(tmp_path / "project")
    seen = {expand(one.words, project.place).argv for one in sequence if one.words[0].plain != "for"}
    started = set(Bash(tmp_path).started(command.replace("$HOME", str(project.home))))
    assert started <= seen
    assert len(seen - started) <= 1  # the branch that was not taken


def test_a_compound_that_is_not_closed_says_so() -> None:
    for command in ("(ls", "{ ls; ", "for f in a; do ls", "if ls; then ls", "ls &&"):
        with pytest.raises(UnclearError):
            read_sequence(command)


def test_the_grammar_refuses_a_redirection_of_a_compound_by_itself() -> None:
    with pytest.raises(UnclearError):
        Grammar().commands("(ls) > x", compounds=True)


@pytest.mark.parametrize("command", ['ls "$((x))"', 'ls "$((a[0]))"', "ls $((x=1))"])
def test_the_grammar_refuses_arithmetic_with_names_by_itself(command: str) -> None:
    """A name in arithmetic may be a subscript, and a subscript a command."""
    with pytest.raises(UnclearError, match=r"^arithmetic$"):
        Grammar().commands(command)


WORDS = [
    "for",
    "in",
    "do",
    "done",
    "if",
    "then",
    "fi",
    "else",
    "one",
    "two",
    "f",
    "(",
    ")",
    "{",
    "}",
    ";",
    "\n",
]
WORDS += ["&&", "||", "|", "#c", "!", "2>/dev/null", "-r", "{a,b}", "*", "]", '"done"', "\\\n", "'fi'"]
FRAMES = [
    "for f in a; do {} ; done",
    "( {} )",
    "{{ {} ; }}",
    "if {} ; then {} ; fi",
    "for f in {} ; do one; done",
]


def test_a_seeded_sample_of_odd_compounds_starts_in_bash_what_was_read(tmp_path: Path) -> None:
    bash, grammar, chance = Bash(tmp_path), Grammar(), random.Random(11)
    place = CommandPlace(Boundary(str(bash.folder), str(bash.folder), bash.home))
    compared = 0
    while compared < 60:
        parts = [" ".join(chance.choices(WORDS, k=chance.randint(1, 6))) for _ in range(2)]
        text = chance.choice(FRAMES).format(*parts)
        try:
            read = tuple(read_sequence(text).commands())
            if grammar.commands(text, compounds=True) != read:
                continue
            seen = {expand(one.words[one.words[0].plain == "!" :], place).argv for one in read if one.words}
        except UnclearError:
            continue
        compared += 1
        assert set(bash.started(text)) <= seen, text
