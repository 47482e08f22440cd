"""The security cases of the shell, by their ids."""

from __future__ import annotations

import time

import pytest

from buddy.safety.shell.context import CommandPlace
from tests.support.shell_project import ShellProject, shell_project


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> ShellProject:
    made = shell_project(tmp_path_factory.mktemp("project"))
    made.git("init", "-q", ".")
    return made


def test_SEC_001_each_part_of_a_list_must_only_read(project: ShellProject) -> None:
    assert project.reason("echo hi && touch OWNED") == "touch is not known to only read"


def test_SEC_003_a_line_continuation_inside_a_word_is_asked(project: ShellProject) -> None:
    assert project.reason("find . -ex\\\nec touch OWNED \\;") == "a line continuation inside a word"


def test_SEC_004_backticks_are_asked(project: ShellProject) -> None:
    assert project.reason("grep x `touch OWNED`") == "a command substitution"


def test_SEC_005_a_here_document_that_expands_is_asked(project: ShellProject) -> None:
    assert project.reason("cat <<X\n$(touch OWNED)\nX") == "a here-document with expansions"


def test_SEC_006_a_quoted_here_document_is_inert(project: ShellProject) -> None:
    assert project.analyse("cat <<'X'\n$(touch OWNED)\nX").read_only


def test_SEC_007_a_gnu_abbreviation_is_asked(project: ShellProject) -> None:
    assert project.reason("sort --ou=OWNED f") == "sort --ou=OWNED is not known to only read"


def test_SEC_008_a_second_operand_of_uniq_is_asked(project: ShellProject) -> None:
    assert project.reason("uniq f OWNED") == "uniq with 2 operands is not known to only read"


def test_SEC_009_a_preprocessor_for_ripgrep_is_asked(project: ShellProject) -> None:
    assert project.reason("rg --pre=./x p") == "rg --pre=./x is not known to only read"


def test_SEC_010_a_sed_program_that_writes_is_asked(project: ShellProject) -> None:
    assert project.reason("sed -n '1w OWNED' f") == "the sed command w is not known to only print"


def test_SEC_011_a_sed_program_that_executes_is_asked(project: ShellProject) -> None:
    assert project.reason("sed 's/a/b/e' f") == "a sed program with an odd e after a command"


def test_SEC_012_an_awk_program_that_writes_is_asked(project: ShellProject) -> None:
    assert project.reason("awk '{print > $1}' f") == "awk > may write or start something"


def test_SEC_013_git_with_a_configuration_of_its_own_is_asked(project: ShellProject) -> None:
    assert project.reason("git -c core.pager=./x log") == "git -c is not known to only read"


def test_SEC_014_git_writing_a_file_is_asked(project: ShellProject) -> None:
    assert project.reason("git diff --output OWNED") == "git diff --output is not known to only read"


def test_SEC_015_making_a_branch_is_asked(project: ShellProject) -> None:
    assert project.reason("git branch feature-x") == "git branch with a name makes a branch"


def test_SEC_017_a_variable_for_the_loader_is_asked(project: ShellProject) -> None:
    assert project.reason("LD_AUDIT=./x.so ls") == "it sets LD_AUDIT"


def test_SEC_020_words_split_by_a_variable_are_asked(project: ShellProject) -> None:
    assert project.reason("cat$IFS./f") == "the value of $IFS is not known"


def test_SEC_021_an_expansion_that_executes_is_asked(project: ShellProject) -> None:
    assert project.reason("echo ${v@P}") == "a parameter expansion"


def test_SEC_022_a_subscript_is_asked(project: ShellProject) -> None:
    assert (
        project.reason("[[ -v 'a[$(touch OWNED)]' ]]")
        == "a [[ ]] test: buddy can't tell what it does, so it asks"
    )


def test_SEC_024_time_with_an_output_file_is_asked(project: ShellProject) -> None:
    assert project.reason("time -o OWNED ls") == "time -o"


def test_SEC_025_opening_for_reading_and_writing_is_asked(project: ShellProject) -> None:
    assert project.reason("ls 9<>OWNED") == "the grammar finds a syntax error"


def test_SEC_016_asking_for_the_current_branch_runs(project: ShellProject) -> None:
    assert project.analyse("git branch --show-current").read_only


def test_SEC_018_a_harmless_assignment_runs(project: ShellProject) -> None:
    assert project.analyse("LC_ALL=C sort f").read_only


def test_SEC_019_leaving_the_workspace_is_asked(project: ShellProject) -> None:
    assert (
        project.reason("cd ../other && git status")
        == f"it changes to {project.root.parent}/other, outside the workspace"
    )


def test_SEC_023_xargs_with_a_shell_is_asked(project: ShellProject) -> None:
    assert project.reason("xargs -I{} sh -c {} < f").startswith("xargs takes words that are not known")


def test_SEC_026_output_to_nowhere_runs(project: ShellProject) -> None:
    assert project.analyse("ls > /dev/null 2>&1").read_only


def test_SEC_027_a_command_of_ten_thousand_characters_is_asked_at_once(project: ShellProject) -> None:
    began = time.perf_counter()
    analysis = project.analyse("ls " + "a" * 9998)
    seconds = time.perf_counter() - began

    assert (analysis.level, analysis.parsed) == ("ask", False)
    assert analysis.reason == "10001 characters are too many to judge; at most 4000"
    assert seconds < 5  # a bound against hanging; the figure is measured by tests/bench/shell_latency.py


@pytest.mark.parametrize("times", [1300, 20_000])
def test_SEC_028_what_takes_the_grammar_seconds_never_reaches_it(project: ShellProject, times: int) -> None:
    analysis = project.analyse("a=( " * times)

    assert analysis.level == "ask"


def test_SEC_029_quoted_text_is_inert(project: ShellProject) -> None:
    analysis = project.analyse("echo 'rm -rf /'")

    assert (analysis.read_only, analysis.catastrophic) == (True, "")


@pytest.mark.parametrize(
    "command", ["ls 'a", 'ls "a', "ls &&", "ls | ", "ls <<E\nx", "&& ls", "ls >", "ls ;;", "ls )", ""]
)
def test_SEC_030_what_does_not_parse_is_asked_and_shown_as_unparsed(
    project: ShellProject, command: str
) -> None:
    analysis = project.analyse(command)

    assert analysis.level == "ask"
    assert analysis.reason
    assert analysis.parsed is (command in ("ls ;;", "ls )"))


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("ls\x1b[2J", "U+001B"),
        ("ls\r", "U+000D"),
        ("ls\N{NO-BREAK SPACE}-l", "U+00A0"),
        ("l\N{RIGHT-TO-LEFT OVERRIDE}s", "U+202E"),
        ("ls \N{TAG LATIN SMALL LETTER A}", "U+E0061"),
        ("ls \ud800", "U+D800"),
        ("ls\x7f", "U+007F"),
    ],
)
def test_invisible_characters_are_refused_before_parsing(
    project: ShellProject, command: str, shown: str
) -> None:
    analysis = project.analyse(command)

    assert (analysis.parsed, shown in analysis.reason) == (False, True)


def test_a_program_of_the_workspace_never_passes_for_a_trusted_one(project: ShellProject) -> None:
    fake = project.root / "bin" / "ls"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\n")
    fake.chmod(0o755)

    first = project.analyser.analyse("ls", CommandPlace(project.boundary, f"{fake.parent}:/usr/bin:/bin"))
    relative = project.analyser.analyse("ls", CommandPlace(project.boundary, "bin:/usr/bin"))
    last = project.analyser.analyse("ls", CommandPlace(project.boundary, f"/usr/bin:/bin:{fake.parent}"))

    assert first.reason == f"ls would be the workspace's own {fake}"
    assert relative.reason == f"ls would be the workspace's own {fake}"
    assert last.read_only


def test_more_than_twenty_commands_are_asked(project: ShellProject) -> None:
    assert project.analyse("; ".join(["ls"] * 20)).read_only
    assert project.reason("; ".join(["ls"] * 21)) == "more than 20 commands"
